//! Commands, carried out.
//!
//! What each says is written in `commands`, what it does in the parts that it concerns; here they meet.

use std::sync::Arc;
use std::time::Duration;

use super::accept::verified;
use super::turns::{Asked, MARK_BYTES, Report};
use super::{LoopCheck, Mesh};
use crate::assistant::{Assurance, CallerScope, ModelPlace, TurnId};
use crate::clock::Now;
use crate::mesh::budget::Cost;
use crate::mesh::commands::{self, Command, Job};
use crate::mesh::identity::Peer;
use crate::mesh::inbox::{Envelope, Ignored, Letter};
use crate::mesh::loops::Verdict;
use crate::mesh::outbox::{Again, ReplyKind};
use crate::mesh::seen::{self, Outcome};
use crate::mesh::{policy, reply};

/// The second `forget` must come so soon, milliseconds.
const FORGET_WITHIN_MS: u64 = 120_000;
/// An answer of at most so many bytes is not made shorter.
const SHORT_ENOUGH: usize = 60;
/// `status` does not wait longer to learn which model is there.
const ASK_AROUND: Duration = Duration::from_secs(5);

/// Whom a `status` is for, while the model servers are asked.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) turn: TurnId,
    pub(super) envelope: Envelope,
}

impl Mesh {
    /// Acts, stores the answer, and only then records the packet: a kill in between loses no command. What it leaves
    /// behind tells that the command was carried out: the stored answer has its name, and so have the parts that `more`
    /// and `again` released. `stop`, `new` and `forget` may come twice then, which does no more than once.
    pub(super) fn carry_out(&mut self, command: Command, letter: &Letter, peer: &Peer, now: Now) {
        let turn = seen::turn_id(&peer.id, letter.envelope.id, &letter.text);
        let text = match command {
            Command::Help => Some(commands::help(self.trigger.word())),
            Command::Ping => Some(commands::pong(&letter.signal)),
            Command::Confirmation => self.confirm(letter, peer),
            Command::More => match self.outbox.more(&peer.id, &turn, now) {
                Ok(0) => Some(commands::NOTHING_MORE.to_owned()),
                Ok(_) => None,
                Err(error) => Some(not_done(&error)),
            },
            Command::Again(part) => match self.outbox.recall(&peer.id, part, &turn, now) {
                Ok(Again::Nothing) => Some(commands::NOTHING_KEPT.to_owned()),
                Ok(Again::NoSuchPart(sent)) => Some(commands::no_such_part(sent)),
                Ok(Again::OnItsWay) => Some(commands::ON_ITS_WAY.to_owned()),
                Ok(Again::Going(_)) => None,
                Err(error) => Some(not_done(&error)),
            },
            Command::Short => Some(match self.outbox.last_answer_of(&peer.id) {
                None => commands::NOTHING_KEPT.to_owned(),
                Some(_) => commands::SHORT_ALREADY.to_owned(),
            }),
            Command::Stop => return self.carry_out_stop(turn, letter, peer, now),
            Command::New => Some(self.begin_anew(&letter.envelope, peer)),
            Command::Forget => Some(self.forget_when_sure(&letter.envelope, peer, now)),
            Command::Status => return self.ask_around(turn, &letter.envelope, peer),
            // Never gets here: a distress text is taken before all commands.
            Command::Sos => None,
            Command::Who => Some(self.who(&letter.envelope, peer, now)),
        };
        self.answer_command(turn, &letter.envelope, peer, text, now);
    }

    /// The end of a command: its answer, if it has one, and the record of its packet.
    fn answer_command(
        &mut self,
        turn: TurnId,
        envelope: &Envelope,
        peer: &Peer,
        text: Option<String>,
        now: Now,
    ) {
        if let Some(text) = text
            && self.reply(turn.clone(), envelope, peer, ReplyKind::Command, text, now).is_err()
        {
            // Not recorded: when its sender's radio repeats the packet, it is tried again.
            return;
        }
        self.record(&turn, &peer.id, None, Outcome::Command, now);
    }

    fn carry_out_stop(&mut self, turn: TurnId, letter: &Letter, peer: &Peer, now: Now) {
        let anything = self.stop(&peer.id, now);
        let per_hour = self.config.queries_per_hour;
        let answered = self.budgets.take(verified(peer), Cost::Command, per_hour, now.mono_ms);
        let text = answered.then(|| commands::stopped(anything).to_owned());
        if anything || answered {
            // A replay must not stop a later turn. One that stopped nothing is recorded only when it is answered,
            // so that a flood of them can't fill the memory.
            self.answer_command(turn, &letter.envelope, peer, text, now);
        }
    }

    /// What a model is asked for `short`; `None` when there is nothing to make shorter.
    pub(super) fn wish_for_less(&self, letter: &Letter, peer: &Peer) -> Option<Asked> {
        let (turn, last) = self.outbox.last_answer_of(&peer.id)?;
        if last.len() <= SHORT_ENOUGH {
            return None;
        }
        let most = match letter.envelope.channel {
            None => tombolo_hw::text::DIRECT_BUDGET - MARK_BYTES,
            Some(_) => tombolo_hw::text::CHANNEL_BUDGET,
        };
        let text = commands::shorten(&reply::tidy(last), (last.len() / 2).min(most));
        Some(Asked { text, quotes: Some(turn.clone()) })
    }

    fn begin_anew(&mut self, envelope: &Envelope, peer: &Peer) -> String {
        let Some(scope) = self.remembered(envelope, peer) else {
            return commands::NOTHING_REMEMBERED.to_owned();
        };
        match self.answerer.new_conversation(&scope) {
            Ok(()) => commands::NEW_CONVERSATION.to_owned(),
            Err(error) => not_done(&error),
        }
    }

    fn forget_when_sure(&mut self, envelope: &Envelope, peer: &Peer, now: Now) -> String {
        let Some(scope) = self.remembered(envelope, peer) else {
            return commands::NOTHING_REMEMBERED.to_owned();
        };
        // Bounded: only contacts get here.
        self.forget_until.retain(|_, until| *until > now.mono_ms);
        if self.forget_until.remove(&peer.id).is_none() {
            let until = now.mono_ms.saturating_add(FORGET_WITHIN_MS);
            self.forget_until.insert(peer.id.clone(), until);
            return commands::FORGET_REALLY.to_owned();
        }
        match self.forget_peer(&peer.id, &scope, now) {
            Ok(()) => commands::FORGOTTEN.to_owned(),
            Err(error) => not_done(&error),
        }
    }

    /// The scope of a peer of whom something is remembered under its key.
    pub(super) fn remembered(&self, envelope: &Envelope, peer: &Peer) -> Option<CallerScope> {
        let scope = self.scope(envelope, peer).ok()?;
        scope.history_key().is_some().then_some(scope)
    }

    fn who(&self, envelope: &Envelope, peer: &Peer, now: Now) -> String {
        let granted =
            self.scope(envelope, peer).map(|scope| scope.granted_categories()).unwrap_or_default();
        let per_hour = self.config.queries_per_hour;
        let left = self.budgets.questions_left(verified(peer), per_hour, now.mono_ms);
        let key = peer.key.or(envelope.signed_key.filter(|_| peer.assurance == Assurance::Signed));
        commands::who(envelope.from, key, peer.assurance, &granted, left)
    }

    /// Learns in a task of its own which model is there, for `status`.
    fn ask_around(&mut self, turn: TurnId, envelope: &Envelope, peer: &Peer) {
        let Ok(scope) = self.scope(envelope, peer) else { return };
        self.asking_around.insert(turn.clone());
        let asker = Asker { turn, envelope: envelope.clone() };
        let (answerer, results) = (Arc::clone(&self.answerer), self.results.clone());
        let cancel = self.cancel.clone();
        self.tracker.spawn(async move {
            let place = tokio::select! {
                () = cancel.cancelled() => return,
                place = tokio::time::timeout(ASK_AROUND, answerer.model_place(&scope)) => place.ok(),
            };
            // Only fails when the service is gone.
            let _ = results.send(Report::Model(asker, place)).await;
        });
    }

    pub(super) fn report_status(&mut self, asker: &Asker, place: Option<ModelPlace>, now: Now) {
        self.asking_around.remove(&asker.turn);
        let peer = self.identify(&asker.envelope);
        if self.stopped || policy::scope(&self.config, &asker.envelope, &peer).is_err() {
            return;
        }
        let theirs = self.turns.iter().filter(|(_, turn)| turn.peer == peer.id);
        let job = theirs
            .map(|(id, turn)| match self.queue.place(id) {
                Some(place) if !turn.is_running() => {
                    Job::Waiting { place, minutes: self.minutes_to_wait(now) }
                }
                _ => Job::Running,
            })
            .min_by_key(|job| !matches!(job, Job::Running))
            .unwrap_or(Job::None);
        let text = commands::status(job, place, &self.outbox.airtime(now));
        self.answer_command(asker.turn.clone(), &asker.envelope, &peer, Some(text), now);
    }

    /// Is that one more text of a program that answers each of our answers? What asks for what is kept, or stops
    /// something, is no sign of that.
    pub(super) fn guard_against_loops(
        &mut self,
        letter: &Letter,
        peer: &Peer,
        command: Option<Command>,
        now: Now,
    ) -> LoopCheck {
        if matches!(command, Some(Command::Stop | Command::More | Command::Again(_))) {
            return Ok(());
        }
        // A person needs seconds to read and write; and each way takes a frame's time.
        let quick_ms = 6_000 + 2 * self.outbox.full_frame_ms();
        match self.loops.heard(&peer.id, quick_ms, now.mono_ms) {
            Verdict::Pass => Ok(()),
            Verdict::Paused => Err(Ignored::Loop),
            Verdict::PausedNow(ms) => {
                let detail = format!(
                    "{} answers each of our answers at once: paused for {} min",
                    peer.name,
                    ms / 60_000
                );
                self.security("loop", letter.envelope.from, &detail, now);
                Err(Ignored::Loop)
            }
        }
    }
}

fn not_done(error: &crate::store::StoreError) -> String {
    tracing::error!(error = %error, "a command could not be carried out");
    commands::NOT_DONE.to_owned()
}
