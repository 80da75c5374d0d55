//! Turns: from an accepted question to the end of its answer, whatever happens in between.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Mesh;
use super::orders::Asker;
use super::outgoing::Unsubmitted;
use crate::assistant::{ChatContext, ChatReply, ChatStatus, ModelPlace, PeerId, TurnId};
use crate::clock::Now;
use crate::mesh::airtime::law::Use;
use crate::mesh::budget::NoticeKind;
use crate::mesh::identity::Peer;
use crate::mesh::inbox::{Envelope, Ignored, Letter};
use crate::mesh::journal::{MAX_AGE_MS, MAX_RESTARTS, Question};
use crate::mesh::outbox::ReplyKind;
use crate::mesh::queue::{Admission, MAX_RUNNING};
use crate::mesh::reply::plain;
use crate::mesh::seen::{Outcome, Words};
use crate::mesh::view::MeshEvent;
use crate::mesh::{commands, policy};
use crate::node::PacketId;

/// How long a turn is taken to be before one has ended, milliseconds.
pub(super) const FIRST_GUESS_MS: u64 = 30_000;
/// After so long without an answer a reaction says that it is being worked on, milliseconds.
const REACT_AFTER_MS: u64 = 15_000;
/// By then the request is on its way to the model, milliseconds.
const PREPARE_AFTER_MS: u64 = 5;
/// The reaction.
const WORKING: &str = "⏳";
/// A turn that takes longer is ended. The assistant's own limits are shorter.
const TURN_LIMIT: Duration = Duration::from_secs(900);
/// How long a stopped turn may take to notice.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Of a text budget, bytes that are left free for a number mark.
pub(super) const MARK_BYTES: usize = 5;

/// What a model is to be asked.
pub(super) struct Asked {
    pub(super) text: String,
    /// The turn whose answer the text repeats.
    pub(super) quotes: Option<TurnId>,
}

/// An accepted question that has not ended.
pub(super) struct Turn {
    pub(super) question: Question,
    pub(super) peer: PeerId,
    words: Words,
    accepted_ms: u64,
    started_ms: Option<u64>,
    reacted: bool,
    prepared: bool,
    pub(super) cancel: CancellationToken,
}

/// What a task reports to the service.
#[derive(Debug)]
pub(super) enum Report {
    /// A turn has ended.
    Turn(Finished),
    /// Where the model is, for a `status`; `None` when nobody said in time.
    Model(Asker, Option<ModelPlace>),
    /// What is to be said about a call that waited for a confirmation.
    Decided(Asker, Option<String>),
}

/// A turn's task has ended.
#[derive(Debug)]
pub(super) struct Finished {
    turn: TurnId,
    reply: ChatReply,
}

impl Mesh {
    /// Takes a question in: a place in the queue, then the disk.
    pub(super) fn admit(
        &mut self,
        letter: &Letter,
        peer: &Peer,
        turn: TurnId,
        question: Asked,
        words: Words,
        now: Now,
    ) -> Result<(), Ignored> {
        let displaced = match self.queue.push(&peer.id, &turn) {
            Admission::Accepted => None,
            Admission::Displaced(other) => Some(other),
            Admission::Refused => return Err(Ignored::Busy),
        };
        if let Some(other) = displaced {
            self.refuse_accepted(&other, Ignored::Busy, now);
        }
        let question = Question {
            version: 1,
            turn: turn.clone(),
            envelope: letter.envelope.clone(),
            text: question.text,
            quotes: question.quotes,
            accepted_at: now.unix_ms,
            order: self.questions.next_order(),
            restarts: 0,
        };
        match self.questions.write(&question) {
            Ok(path) => self.unsynced.mark(path, now),
            Err(error) => {
                tracing::error!(error = %error, "a question could not be stored, so it is not asked");
                self.queue.remove(&turn);
                return Err(Ignored::Storage);
            }
        }
        let new = self.new_turn(question, peer.id.clone(), words, now);
        self.turns.insert(turn, new);
        Ok(())
    }

    /// Takes up what an earlier run accepted: what has an answer is only tidied away, the rest is asked again.
    pub(super) fn take_up(&mut self, questions: Vec<Question>, now: Now) {
        for mut question in questions {
            let turn = question.turn.clone();
            let peer = self.identify(&question.envelope);
            let words = Words::of(&question.text, question.envelope.channel.as_ref());
            if self.seen.contains(&turn) {
                self.forget(&turn);
                continue;
            }
            if self.outbox.knows(&turn) {
                self.end(&turn, &peer.id, Some(words), Outcome::Answered, now);
                continue;
            }
            if now.unix_ms.saturating_sub(question.accepted_at) > MAX_AGE_MS {
                self.end(&turn, &peer.id, None, refused(Ignored::TooOld), now);
                continue;
            }
            question.restarts = question.restarts.saturating_add(1);
            let tired = question.restarts > MAX_RESTARTS;
            if let Err(error) = self.questions.write(&question) {
                tracing::error!(error = %error, "a question could not be stored again");
            }
            let new = self.new_turn(question, peer.id.clone(), words, now);
            self.turns.insert(turn.clone(), new);
            if tired {
                self.finished(Finished { turn, reply: failure("") }, now);
            } else {
                self.queue.restore(&peer.id, &turn);
            }
        }
    }

    /// Starts as many turns as may run. The caller's scope is resolved here, from the lists as they are now.
    pub(super) fn start_turns(&mut self, now: Now) {
        while let Some(id) = self.queue.start_next() {
            let Some(turn) = self.turns.get(&id) else {
                self.queue.done(&id);
                continue;
            };
            let peer = self.identify(&turn.question.envelope);
            // Of one that an older version accepted, and of a peer's own words of that form, nobody knows which answer.
            let unknown = || TurnId(String::new());
            let wish = commands::is_wish_for_less(&turn.question.text);
            let quotes = turn.question.quotes.clone().or_else(|| wish.then(unknown));
            let scope = match self.scope(&turn.question.envelope, &peer) {
                // It has the words of an earlier answer in it, which may be anybody's: no tools.
                Ok(scope) if quotes.is_some() => scope.without_tools(),
                Ok(scope) => scope,
                Err(reason) => {
                    self.queue.done(&id);
                    self.refuse_accepted(&id, reason, now);
                    continue;
                }
            };
            let Some(turn) = self.turns.get_mut(&id) else { continue };
            turn.started_ms = Some(now.mono_ms);
            let envelope = &turn.question.envelope;
            let context = ChatContext {
                scope,
                turn_id: id.clone(),
                cancel: turn.cancel.clone(),
                answer_bytes: Some(match envelope.channel {
                    None => tombolo_hw::text::DIRECT_BUDGET - MARK_BYTES,
                    Some(_) => tombolo_hw::text::CHANNEL_BUDGET,
                }),
                quotes,
            };
            let text = turn.question.text.clone();
            self.tell(MeshEvent::TurnStarted { turn_id: id, name: peer.name });
            self.spawn_turn(context, text);
        }
    }

    fn new_turn(&self, question: Question, peer: PeerId, words: Words, now: Now) -> Turn {
        Turn {
            question,
            peer,
            words,
            accepted_ms: now.mono_ms,
            started_ms: None,
            reacted: false,
            prepared: false,
            cancel: self.cancel.child_token(),
        }
    }

    fn spawn_turn(&self, context: ChatContext, text: String) {
        let (turn, cancel) = (context.turn_id.clone(), context.cancel.clone());
        let answerer = Arc::clone(&self.answerer);
        let results = self.results.clone();
        // Two tasks, so that whatever happens to the inner one is a result of the outer one.
        let mut inner = tokio::spawn(async move { answerer.chat(context, text).await });
        self.tracker.spawn(async move {
            let too_long = async {
                tokio::select! {
                    () = cancel.cancelled() => {}
                    () = tokio::time::sleep(TURN_LIMIT) => cancel.cancel(),
                }
                tokio::time::sleep(STOP_GRACE).await;
            };
            let ended = tokio::select! {
                ended = &mut inner => ended.ok(),
                () = too_long => None,
            };
            inner.abort();
            let reply = ended.unwrap_or_else(|| failure(""));
            // Only fails when the service is gone: then the question is on disk.
            let _ = results.send(Report::Turn(Finished { turn, reply })).await;
        });
    }

    /// The end of a turn: the answer is stored first, then its packet is recorded, then the question is forgotten. A kill
    /// between any two of them leaves something that a start puts right.
    pub(super) fn finished(&mut self, finished: Finished, now: Now) {
        let Finished { turn: id, reply } = finished;
        self.queue.done(&id);
        self.forget_late(&id);
        if self.cancel.is_cancelled() {
            return;
        }
        let Some(turn) = self.turns.get(&id) else { return };
        let millis = now.mono_ms.saturating_sub(turn.started_ms.unwrap_or(now.mono_ms));
        if turn.started_ms.is_some() {
            self.turn_ms = (self.turn_ms * 3 + millis) / 4;
        }
        // Who lost the right to an answer while it was made does not get it.
        let peer = self.identify(&turn.question.envelope);
        if let Err(reason) = policy::scope(&self.config, &turn.question.envelope, &peer) {
            self.refuse_accepted(&id, reason, now);
            return;
        }
        let Some(turn) = self.turns.remove(&id) else { return };
        let (outcome, text) = match reply.status {
            ChatStatus::Stopped => {
                self.answerer.drop_pending(&turn.peer);
                self.end(&id, &turn.peer, None, Outcome::Stopped, now);
                return;
            }
            ChatStatus::Answered if !plain(&reply.text).is_empty() => {
                (Outcome::Answered, reply.text)
            }
            ChatStatus::Answered | ChatStatus::Failed => (Outcome::Failed, one_line(&reply.text)),
        };
        let envelope = &turn.question.envelope;
        self.wait_for_decision(&id, envelope);
        let (new, outcome) = match self.question_for_code(&id, envelope, &peer) {
            Some(question) => (question, Outcome::AskedBack),
            None => (self.new_reply(id, envelope, &peer, ReplyKind::Answer, text), outcome),
        };
        self.hand_over(
            Unsubmitted {
                reply: new,
                peer: turn.peer,
                words: turn.words,
                outcome,
                backend: reply.backend,
                tools: reply.tools,
                millis,
            },
            now,
        );
    }

    fn refuse_accepted(&mut self, id: &TurnId, reason: Ignored, now: Now) {
        let Some(turn) = self.turns.get(id) else { return };
        let envelope = turn.question.envelope.clone();
        self.drop_turn(id, refused(reason), now);
        if reason == Ignored::Busy {
            let peer = self.identify(&envelope);
            self.notify(&envelope, &peer, id, NoticeKind::Busy, now);
        }
        self.refused_after_all(&envelope, reason);
    }

    fn refused_after_all(&mut self, envelope: &Envelope, reason: Ignored) {
        tracing::info!(from = %envelope.from, packet = %envelope.id, "an accepted question was refused: {reason}");
        self.messages.refused(envelope.from, envelope.id, reason.as_str());
    }

    /// Ends a turn without an answer. A running one keeps its place in the queue until its task has ended.
    pub(super) fn drop_turn(&mut self, id: &TurnId, outcome: Outcome, now: Now) {
        let Some(turn) = self.turns.remove(id) else { return };
        turn.cancel.cancel();
        self.queue.remove(id);
        self.end(id, &turn.peer, None, outcome, now);
    }

    /// Records the end of a turn, then forgets its question.
    pub(super) fn end(
        &mut self,
        id: &TurnId,
        peer: &PeerId,
        words: Option<Words>,
        outcome: Outcome,
        now: Now,
    ) {
        self.record(id, peer, words, outcome, now);
        self.outbox.expect_no_more(id);
        self.forget(id);
    }

    fn forget(&mut self, id: &TurnId) {
        if let Err(error) = self.questions.remove(id) {
            tracing::error!(error = %error, "an ended question could not be removed");
        }
    }

    pub(super) fn is_being_answered(&self, peer: &PeerId, words: Words) -> bool {
        self.turns.values().any(|turn| turn.peer == *peer && turn.words == words)
            || self.unsubmitted.iter().any(|end| end.peer == *peer && end.words == words)
    }

    /// A reaction on each question that has waited so long.
    pub(super) fn react(&mut self, now: Now) {
        let due: Vec<(TurnId, Envelope)> = self
            .turns
            .iter_mut()
            .filter(|(_, turn)| turn.reaction_due_ms().is_some_and(|due| due <= now.mono_ms))
            .map(|(id, turn)| {
                turn.reacted = true;
                (TurnId(format!("{}-w", id.0)), turn.question.envelope.clone())
            })
            .collect();
        for (id, envelope) in due {
            let peer = self.identify(&envelope);
            let _ = self.reply(id, &envelope, &peer, ReplyKind::Reaction, WORKING.to_owned(), now);
        }
    }

    /// Makes ready for the answers to come, while a model thinks; gives the time for the next one.
    pub(super) fn prepare(&mut self, now: Now) -> Option<u64> {
        let mut next: Option<u64> = None;
        for (id, turn) in self.turns.iter_mut().filter(|(_, turn)| !turn.prepared) {
            let Some(due) = turn.started_ms.map(|at| at.saturating_add(PREPARE_AFTER_MS)) else {
                continue;
            };
            if due <= now.mono_ms {
                turn.prepared = true;
                self.outbox.expect(id);
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        next
    }

    pub(super) fn next_reaction_ms(&self) -> Option<u64> {
        self.turns.values().filter_map(Turn::reaction_due_ms).min()
    }

    /// How long a peer should wait before asking again.
    pub(super) fn minutes_to_wait(&self, now: Now) -> u64 {
        let ahead = self.queue.waiting() + self.queue.running();
        let model_ms = self.turn_ms.saturating_mul(ahead as u64) / MAX_RUNNING as u64;
        let ms = model_ms.max(self.outbox.wait_ms(Use::Answer, ahead, now));
        ms.div_ceil(60_000).clamp(1, 60)
    }
}

impl Turn {
    pub(super) fn is_running(&self) -> bool {
        self.started_ms.is_some()
    }

    fn reaction_due_ms(&self) -> Option<u64> {
        let wanted = !self.reacted && self.question.envelope.id != PacketId(0);
        wanted.then(|| self.accepted_ms.saturating_add(REACT_AFTER_MS))
    }
}

pub(super) fn refused(reason: Ignored) -> Outcome {
    Outcome::Refused(reason.as_str())
}

fn failure(text: &str) -> ChatReply {
    ChatReply {
        status: ChatStatus::Failed,
        text: text.to_owned(),
        backend: String::new(),
        tools: Vec::new(),
        reasons: Vec::new(),
    }
}

/// The line that a failure is told in: the assistant's own if it is one short line, else ours.
fn one_line(text: &str) -> String {
    let line = plain(text);
    let is_one = !line.is_empty() && !text.trim().contains('\n');
    if is_one && line.len() <= tombolo_hw::text::CHANNEL_BUDGET {
        line
    } else {
        commands::NO_ANSWER.to_owned()
    }
}
