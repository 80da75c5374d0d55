//! Pairing, carried out: who may try a code, and what a right one does.
//!
//! The code itself is `mesh::pairing`'s, the pin `identity`'s. Strangers learn nothing here: to a wrong code they get what
//! any other text of theirs would get.

use super::Mesh;
use super::accept::verified;
use crate::assistant::{Assurance, TurnId};
use crate::clock::Now;
use crate::mesh::budget::{Cost, NoticeKind};
use crate::mesh::commands;
use crate::mesh::identity::Peer;
use crate::mesh::inbox::{Ignored, Letter};
use crate::mesh::operator::{Opened, Refusal, Wish};
use crate::mesh::outbox::ReplyKind;
use crate::mesh::pairing::{Attempt, Code, OPEN_MS};
use crate::mesh::seen::{self, Outcome};
use crate::mesh::view::MeshEvent;
use crate::mesh::{names, policy};
use crate::node::NodeNum;

/// What a right code was: the contact's name, or why there is no answer.
type Tried = Option<Result<String, Ignored>>;

impl Mesh {
    /// `mesh.pair`: opens a code, or voids the open one.
    pub(super) fn open_pairing(
        &mut self,
        wish: Wish<Option<String>>,
        now: Now,
    ) -> Result<Opened, Refusal> {
        let Some(name) = wish.what else {
            if let Some(open) = self.pairing.view(now) {
                let what = format!("pairing with {} given up", open.name);
                self.note_change(&wish.by, &what, now)?;
            }
            self.pairing.close();
            return Ok(Opened { code: None, expires_in_s: 0, warnings: Vec::new() });
        };
        let name = names::check(&name).map_err(|rule| Refusal::wrong("name", rule))?;
        if self.radio.as_ref().is_some_and(|radio| radio.owner.licensed) {
            let reason =
                "the radio is in licensed mode: it encrypts nothing, so nobody can prove a key";
            return Err(Refusal::state("", reason));
        }
        self.contacts.has_room()?;
        let code = Code::random().map_err(|error| {
            tracing::error!(error = %error, "the system gives no random numbers");
            Refusal::state("", "the system gives no random numbers")
        })?;
        self.note_change(&wish.by, &format!("pairing opened for {name}"), now)?;
        let mut warnings = self.contacts.about_name(&name, None);
        warnings.extend(self.nodes_like(&name, NodeNum::BROADCAST));
        if !self.config.enabled {
            warnings.push("answering is switched off: no code is taken meanwhile".to_owned());
        }
        if self.stopped {
            warnings.push("all answers are stopped: no code is taken meanwhile".to_owned());
        }
        self.pairing.open(code.clone(), name, now);
        Ok(Opened { code: Some(code), expires_in_s: OPEN_MS / 1000, warnings })
    }

    /// A text that is `pair` and a code. Gives why it is not answered, if it is not.
    pub(super) fn pair(&mut self, letter: &Letter, code: &str, now: Now) -> Option<Ignored> {
        let envelope = &letter.envelope;
        let before = self.identify(envelope);
        let turn = seen::turn_id(&before.id, envelope.id, &letter.text);
        if self.seen.contains(&turn) || self.outbox.has_done(&turn) {
            return Some(Ignored::Replay);
        }
        let tried = self.try_code(letter, &before, code, &turn, now);
        if tried.is_none() && !policy::is_denied(&self.config, envelope, &before) {
            self.observe(envelope, true, now);
        }
        let peer = self.identify(envelope);
        let text = match tried {
            Some(Ok(name)) => commands::paired(&name, self.trigger.word()),
            Some(Err(why)) => return Some(why),
            None => match self.not_paired(letter, &peer, &turn, now) {
                Ok(text) => text,
                Err(why) => return Some(why),
            },
        };
        if self.reply(turn.clone(), envelope, &peer, ReplyKind::Command, text, now).is_ok() {
            self.record(&turn, &peer.id, None, Outcome::Command, now);
        }
        None
    }

    /// What a code comes to that was proved to come from a key. `None`: to nothing.
    fn try_code(
        &mut self,
        letter: &Letter,
        peer: &Peer,
        code: &str,
        turn: &TurnId,
        now: Now,
    ) -> Tried {
        let envelope = &letter.envelope;
        // Only a direct message that was decrypted with a key, and came by LoRa all the way, is evidence of one.
        let key = envelope.proven_key.filter(|_| envelope.channel.is_none() && !envelope.mqtt)?;
        if policy::is_denied(&self.config, envelope, peer) {
            return Some(Err(Ignored::Denied));
        }
        let silent = match (self.config.enabled, self.stopped, peer.suspended) {
            (false, _, _) => Some(Ignored::Disabled),
            (_, true, _) => Some(Ignored::Stopped),
            (_, _, true) => Some(Ignored::Suspended),
            _ => None,
        };
        if let Some(why) = silent {
            return Some(Err(why));
        }
        let name = match self.pairing.attempt(&Code::parse(code)?, now) {
            Attempt::NothingOpen => return None,
            Attempt::Wrong(left) => {
                // No try counts twice, however often its packet comes.
                self.record(turn, &peer.id, None, Outcome::Refused("wrong code"), now);
                let detail = match left {
                    0 => "a wrong pairing code; that was the last try, the code is void".to_owned(),
                    left => format!("a wrong pairing code; {left} tries are left"),
                };
                self.security("pairing", envelope.from, &detail, now);
                return None;
            }
            Attempt::Right(name) => name,
        };
        let planned = self.contacts.plan_pairing(key, envelope.from, &name, now);
        let done = planned.and_then(|(planned, called)| {
            self.bring_into_force("pairing", planned, now)?;
            Ok(called)
        });
        let called = match done {
            Ok(called) => called,
            Err(refusal) => {
                // The code stays open: once the disk takes it, the same code is right again.
                tracing::error!(reason = refusal.reason, "a right pairing code could not be used");
                return Some(Err(Ignored::Storage));
            }
        };
        self.pairing.close();
        if called != name {
            let detail =
                format!("the code for {name} was used by {called}, who is a contact already");
            self.security("pairing", envelope.from, &detail, now);
        }
        self.tell(MeshEvent::Paired {
            node: envelope.from,
            name: called.clone(),
            fingerprint: key.fingerprint(),
        });
        Some(Ok(called))
    }

    /// The answer to a code that is none: only whom any text would bring an answer hears one.
    fn not_paired(
        &mut self,
        letter: &Letter,
        peer: &Peer,
        turn: &TurnId,
        now: Now,
    ) -> Result<String, Ignored> {
        policy::scope(&self.config, &letter.envelope, peer)?;
        if self.stopped {
            return Err(Ignored::Stopped);
        }
        let per_hour = self.config.queries_per_hour;
        if !self.budgets.take(verified(peer), Cost::Command, per_hour, now.mono_ms) {
            self.notify(&letter.envelope, peer, turn, NoticeKind::OverBudget, now);
            return Err(Ignored::OverBudget);
        }
        let confirmed = peer.assurance == Assurance::Verified
            && peer
                .key
                .and_then(|key| self.contacts.of_key(key))
                .is_some_and(|c| c.pin.is_confirmed());
        Ok(match confirmed {
            true => commands::paired(&peer.name, self.trigger.word()),
            false => commands::NO_SUCH_CODE.to_owned(),
        })
    }
}
