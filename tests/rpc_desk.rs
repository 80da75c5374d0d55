//! An assistant that does what the question says: `hang` runs until it is stopped, `wait` until it is
//! released, everything else is answered at once.
//!
//! Owns its memory: transcripts by history key, and what it was asked, for the tests to judge.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::{Semaphore, watch};
use tombolo::assistant::{
    CallerScope, ChatContext, ChatReply, ChatStatus, HistoryKey, LegReason, PermissionCategory,
    ToolOutcome, ToolRecord,
};
use tombolo::rpc::desk::{Answer, Desk, HistoryLine, LegView, LegsView, Said, ToolView};
use tombolo::store::StoreError;

/// The assistant of the tests.
pub struct ScriptedDesk {
    transcripts: Mutex<HashMap<HistoryKey, Vec<HistoryLine>>>,
    scopes: Mutex<Vec<CallerScope>>,
    progress: watch::Sender<Progress>,
    release: Semaphore,
}

/// How far the turns are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Begun.
    pub begun: usize,
    /// Ended with an answer.
    pub ended: usize,
    /// Dropped before they had one.
    pub dropped: usize,
}

impl Default for ScriptedDesk {
    fn default() -> ScriptedDesk {
        ScriptedDesk {
            transcripts: Mutex::default(),
            scopes: Mutex::default(),
            progress: watch::Sender::new(Progress::default()),
            release: Semaphore::new(0),
        }
    }
}

impl ScriptedDesk {
    /// Questions that reached it, of any kind but about its legs.
    pub fn asked(&self) -> usize {
        self.scopes.lock().unwrap().len()
    }

    /// Who asked last, and with which authority.
    pub fn last_scope(&self) -> CallerScope {
        self.scopes.lock().unwrap().last().cloned().expect("somebody asked")
    }

    /// How far the turns are.
    pub fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Waits until it is so.
    pub async fn until(&self, is_so: impl FnMut(&Progress) -> bool) {
        self.progress.subscribe().wait_for(is_so).await.unwrap();
    }

    /// Lets one waiting turn end.
    pub fn release(&self) {
        self.release.add_permits(1);
    }

    fn note(&self, scope: &CallerScope) {
        self.scopes.lock().unwrap().push(scope.clone());
    }

    async fn turn(&self, context: ChatContext, text: &str) -> ChatReply {
        self.note(&context.scope);
        self.progress.send_modify(|progress| progress.begun += 1);
        let mut fate = Fate { desk: self, answered: false };
        let status = match text {
            "hang" => {
                context.cancel.cancelled().await;
                ChatStatus::Stopped
            }
            "wait" => {
                self.release.acquire().await.unwrap().forget();
                ChatStatus::Answered
            }
            _ => ChatStatus::Answered,
        };
        let reply = ChatReply {
            status,
            text: format!("You said **{text}** <script>"),
            backend: "scripted".to_owned(),
            tools: vec![
                ToolRecord {
                    name: "system_disk_status".to_owned(),
                    category: Some(PermissionCategory::System),
                    outcome: ToolOutcome::Ran,
                },
                ToolRecord { name: "x".to_owned(), category: None, outcome: ToolOutcome::Unknown },
            ],
            reasons: vec![LegReason { leg: "ollama".to_owned(), reason: "refused".to_owned() }],
        };
        let line =
            |said| HistoryLine { turn_id: context.turn_id.clone(), at: 1_700_000_000_000, said };
        let answer = Said::Answer {
            text: reply.text.clone(),
            status,
            backend: reply.backend.clone(),
            tools: reply.tools.clone(),
        };
        let key = context.scope.history_key().unwrap();
        let lines = [line(Said::Question(text.to_owned())), line(answer)];
        self.transcripts.lock().unwrap().entry(key).or_default().extend(lines);
        fate.answered = true;
        reply
    }
}

struct Fate<'a> {
    desk: &'a ScriptedDesk,
    answered: bool,
}

impl Drop for Fate<'_> {
    fn drop(&mut self) {
        self.desk.progress.send_modify(|progress| match self.answered {
            true => progress.ended += 1,
            false => progress.dropped += 1,
        });
    }
}

impl Desk for ScriptedDesk {
    fn chat<'a>(&'a self, context: ChatContext, text: &'a str) -> Answer<'a, ChatReply> {
        Box::pin(self.turn(context, text))
    }

    fn history(&self, scope: &CallerScope) -> Vec<HistoryLine> {
        self.note(scope);
        let key = scope.history_key().unwrap();
        self.transcripts.lock().unwrap().get(&key).cloned().unwrap_or_default()
    }

    fn clear_history(&self, scope: &CallerScope) -> Result<(), StoreError> {
        self.note(scope);
        self.transcripts.lock().unwrap().remove(&scope.history_key().unwrap());
        Ok(())
    }

    fn list_tools(&self, scope: &CallerScope) -> Vec<ToolView> {
        self.note(scope);
        let granted = scope.granted_categories();
        let tool = |name: &str, category| ToolView {
            name: name.to_owned(),
            description: "Does it.".to_owned(),
            category,
            destructive: false,
            granted: granted.contains(&category),
        };
        vec![
            tool("system_disk_status", PermissionCategory::System),
            tool("wallet_balance", PermissionCategory::Wallet),
        ]
    }

    fn legs(&self) -> Answer<'_, LegsView> {
        let leg = |name: &str, state: &str, reason: Option<&str>| LegView {
            name: name.to_owned(),
            state: state.to_owned(),
            reason: reason.map(str::to_owned),
        };
        let view = LegsView {
            ollama_detected: true,
            models: vec!["toy".to_owned()],
            claude_available: false,
            legs: vec![leg("ollama", "ready", None), leg("claude", "off", Some("no key"))],
        };
        Box::pin(async move { view })
    }
}
