//! The operator's running turns.
//!
//! Owns that a turn outlives the HTTP request that began it, that a session has one at a time, and that
//! all sessions together have few. Knows no text of an answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::assistant::{ChatReply, SessionId, TurnId};

/// Turns of all sessions together, at most; one more is refused at once.
pub const MAX_RUNNING: usize = 4;

/// Why a turn was not begun.
#[derive(Debug, PartialEq, Eq)]
pub enum NotBegun {
    /// The session has another one, by this name.
    Running(TurnId),
    /// There are as many as may be.
    TooMany,
}

/// A turn that runs.
#[derive(Debug, Clone)]
pub struct Running {
    /// Its name.
    pub turn_id: TurnId,
    /// The question.
    pub text: String,
    cancel: CancellationToken,
    reply: watch::Receiver<Option<Arc<ChatReply>>>,
}

impl Running {
    /// Waits for its end; `None` when it broke without an answer.
    pub async fn ended(mut self) -> Option<Arc<ChatReply>> {
        self.reply.wait_for(Option::is_some).await.ok().and_then(|reply| reply.clone())
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Turns {
    running: Arc<Mutex<HashMap<SessionId, Running>>>,
    tracker: TaskTracker,
}

impl Turns {
    /// Turns run on this tracker, so that a shutdown waits for them.
    pub fn new(tracker: TaskTracker) -> Turns {
        Turns { running: Arc::default(), tracker }
    }

    /// Begins a turn, or joins the running one of the same name and question.
    pub fn begin<F>(
        &self,
        session: &SessionId,
        turn_id: TurnId,
        text: &str,
        run: impl FnOnce(CancellationToken) -> F,
    ) -> Result<Running, NotBegun>
    where
        F: Future<Output = ChatReply> + Send + 'static,
    {
        let mut all = lock(&self.running);
        match all.get(session) {
            Some(running) if running.turn_id == turn_id && running.text == text => {
                return Ok(running.clone());
            }
            Some(running) => return Err(NotBegun::Running(running.turn_id.clone())),
            None if all.len() >= MAX_RUNNING => return Err(NotBegun::TooMany),
            None => {}
        }
        let cancel = CancellationToken::new();
        let (sender, reply) = watch::channel(None);
        let running = Running { turn_id, text: text.to_owned(), cancel: cancel.clone(), reply };
        all.insert(session.clone(), running.clone());
        let place =
            Place { all: Arc::clone(&self.running), session: session.clone(), sender, reply: None };
        let work = run(cancel);
        self.tracker.spawn(async move {
            place.end(work.await);
        });
        Ok(running)
    }

    /// The session's running turn.
    pub fn of(&self, session: &SessionId) -> Option<Running> {
        lock(&self.running).get(session).cloned()
    }

    /// Stops the session's turn of that name; false when it has none.
    pub fn stop(&self, session: &SessionId, turn_id: &TurnId) -> bool {
        let running = self.of(session).filter(|running| running.turn_id == *turn_id);
        running.is_some_and(|running| {
            running.cancel.cancel();
            true
        })
    }

    /// Stops whatever the session runs.
    pub fn stop_session(&self, session: &SessionId) {
        if let Some(running) = self.of(session) {
            running.cancel.cancel();
        }
    }

    /// Stops everything: the daemon is going down.
    pub fn stop_all(&self) {
        for running in lock(&self.running).values() {
            running.cancel.cancel();
        }
    }
}

/// A place among the running turns, given back when the turn ends, breaks or panics.
struct Place {
    all: Arc<Mutex<HashMap<SessionId, Running>>>,
    session: SessionId,
    sender: watch::Sender<Option<Arc<ChatReply>>>,
    reply: Option<Arc<ChatReply>>,
}

impl Place {
    fn end(mut self, reply: ChatReply) {
        self.reply = Some(Arc::new(reply));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The place is free before anybody learns of the end: whoever does may ask again at once.
        lock(&self.all).remove(&self.session);
        if let Some(reply) = self.reply.take() {
            self.sender.send_replace(Some(reply));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assistant::ChatStatus;

    fn reply(text: &str) -> ChatReply {
        ChatReply {
            status: ChatStatus::Answered,
            text: text.to_owned(),
            backend: "scripted".to_owned(),
            tools: Vec::new(),
            reasons: Vec::new(),
        }
    }

    fn session(name: &str) -> SessionId {
        SessionId(name.to_owned())
    }

    fn turn(name: &str) -> TurnId {
        TurnId(name.to_owned())
    }

    /// Begins a turn that runs until it is cancelled.
    fn hang(turns: &Turns, of: &str, name: &str) -> Result<Running, NotBegun> {
        turns.begin(&session(of), turn(name), "q", |cancel| async move {
            cancel.cancelled().await;
            reply("stopped")
        })
    }

    #[tokio::test]
    async fn a_session_has_one_turn_and_the_same_turn_is_joined() {
        let turns = Turns::default();
        let first = hang(&turns, "a", "1").unwrap();
        assert_eq!(hang(&turns, "a", "2").unwrap_err(), NotBegun::Running(turn("1")));
        let joined =
            turns.begin(&session("a"), turn("1"), "q", |_| async { reply("never run") }).unwrap();
        let other = turns.begin(&session("a"), turn("1"), "r", |_| async { reply("never run") });
        assert_eq!(other.unwrap_err(), NotBegun::Running(turn("1")), "another question");
        assert!(!turns.stop(&session("a"), &turn("2")));
        assert!(!turns.stop(&session("b"), &turn("1")), "another session's");
        assert!(turns.stop(&session("a"), &turn("1")));
        assert_eq!(first.ended().await.unwrap().text, "stopped");
        assert_eq!(joined.ended().await.unwrap().text, "stopped");
        assert!(turns.of(&session("a")).is_none());
    }

    #[tokio::test]
    async fn a_turn_goes_on_when_nobody_waits() {
        let turns = Turns::default();
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let running = turns
            .begin(&session("a"), turn("1"), "q", |_| async move {
                let _ = gone.await;
                reply("done")
            })
            .unwrap();
        let again = running.clone();
        drop(running);
        go.send(()).unwrap();
        assert_eq!(again.ended().await.unwrap().text, "done");
    }

    #[tokio::test]
    async fn as_many_as_may_run_and_not_one_more() {
        let turns = Turns::default();
        let all: Vec<Running> =
            (0..MAX_RUNNING).map(|n| hang(&turns, &n.to_string(), "1").unwrap()).collect();
        assert_eq!(hang(&turns, "more", "1").unwrap_err(), NotBegun::TooMany);
        turns.stop_all();
        for running in all {
            assert!(running.ended().await.is_some());
        }
        assert!(hang(&turns, "more", "1").is_ok());
    }

    #[tokio::test]
    async fn a_turn_that_panics_frees_its_place() {
        let turns = Turns::default();
        let running =
            turns.begin(&session("a"), turn("1"), "q", |_| async { panic!("on purpose") }).unwrap();
        assert!(running.ended().await.is_none());
        assert!(turns.of(&session("a")).is_none());
    }
}
