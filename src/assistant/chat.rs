//! `chat`: the one entry for every caller.
//!
//! Owns a turn from the outside: its transcript, its end by cancellation or by time. Sees the caller only
//! as a scope.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info};

use super::backends::claude::Claude;
use super::backends::offline::Offline;
use super::backends::ollama;
use super::backends::{Backend, ToolCall, Turn};
use super::caller::CallerScope;
use super::gate::Closed;
use super::history::{History, StoredTurn};
use super::legs::{LegState, Legs};
use super::loop_::{MAX_TURNS, Outcome, Rules, run_loop};
use super::observer::Observer;
use super::tools::{Executed, ToolDef, ToolRegistry, ToolSource};
use super::{ChatContext, ChatReply, ChatStatus, ModelPlace, ToolRecord, prompt};
use crate::clock;
use crate::config::{AssistantConfig, CloudPolicy};
use crate::secrets::{SecretName, Secrets};
use crate::store::StoreError;

/// A turn may take this long in all.
const TURN: Duration = Duration::from_secs(300);
/// And the operator's: the page gives up after 180 s, and should be told before.
const OPERATOR_TURN: Duration = Duration::from_secs(170);
/// What a caller is told then.
const TOO_LONG: &str = "That took too long, and I gave up. Please ask again later.";
/// What a caller who stopped it is told.
const STOPPED: &str = "Stopped.";
/// A question is cut here; no caller's side lets a longer one through.
const MAX_QUESTION_CHARS: usize = 16_000;

/// The assistant.
pub struct Assistant {
    setup: RwLock<Arc<Setup>>,
    secrets: Option<Secrets>,
    tools: ToolRegistry,
    /// Tools of other programs.
    sources: Vec<Arc<dyn ToolSource>>,
    history: History,
}

/// What a change of the configuration replaces.
struct Setup {
    legs: Legs,
    cloud: CloudPolicy,
    ollama_url: Option<String>,
}

/// The legs, and what they have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LegsReport {
    /// Does Ollama answer?
    pub ollama_detected: bool,
    /// The models that it has.
    pub models: Vec<String>,
    /// Is there a key for Claude?
    pub claude_available: bool,
    /// In the order in which they are tried.
    pub legs: Vec<LegState>,
}

impl Assistant {
    /// With the tools of this node and the legs of the configuration.
    pub fn new(
        config: &AssistantConfig,
        secrets: Secrets,
        data_dir: &Path,
    ) -> Result<Assistant, StoreError> {
        let setup = Setup::of(config, &secrets);
        Ok(Assistant {
            setup: RwLock::new(Arc::new(setup)),
            secrets: Some(secrets),
            tools: crate::tools::registry(data_dir),
            sources: Vec::new(),
            history: History::open(data_dir)?,
        })
    }

    /// With legs and tools of the caller's own.
    pub fn with_legs(
        backends: Vec<Box<dyn Backend>>,
        cloud: CloudPolicy,
        tools: ToolRegistry,
        data_dir: &Path,
    ) -> Result<Assistant, StoreError> {
        let setup = Setup { legs: Legs::new(backends), cloud, ollama_url: None };
        Ok(Assistant {
            setup: RwLock::new(Arc::new(setup)),
            secrets: None,
            tools,
            sources: Vec::new(),
            history: History::open(data_dir)?,
        })
    }

    /// With the tools of other programs beside its own.
    #[must_use]
    pub fn with_source(mut self, source: Arc<dyn ToolSource>) -> Assistant {
        self.sources.push(source);
        self
    }

    /// All tools that there are now.
    fn registry(&self) -> ToolRegistry {
        let more = self.sources.iter().flat_map(|source| source.tools());
        self.tools.clone().with(more)
    }

    /// Takes a configuration that was read again; turns that run go on with the old one.
    pub fn reconfigure(&self, config: &AssistantConfig) {
        let Some(secrets) = &self.secrets else { return };
        let setup = Arc::new(Setup::of(config, secrets));
        *self.setup.write().unwrap_or_else(PoisonError::into_inner) = setup;
    }

    /// One turn. Never fails: what goes wrong ends in a reply with one honest line.
    pub async fn chat(&self, context: ChatContext, text: &str) -> ChatReply {
        let key = context.scope.history_key();
        if let Some(key) = &key
            && let Some(stored) = self.history.answered(key, &context.turn_id)
        {
            return stored.into();
        }
        let question: String = text.chars().take(MAX_QUESTION_CHARS).collect();
        let setup = self.setup.read().unwrap_or_else(PoisonError::into_inner).clone();
        let reply = self.turn(&setup, &context, &question).await;
        info!(
            turn = context.turn_id.0,
            status = ?reply.status,
            backend = reply.backend,
            tools = reply.tools.len(),
            "turn ended"
        );
        if let Some(key) = &key {
            let turn = StoredTurn {
                turn_id: context.turn_id,
                at: clock::unix_ms(),
                question,
                answer: reply.text.clone(),
                status: reply.status,
                backend: reply.backend.clone(),
                tools: reply.tools.clone(),
            };
            if let Err(error) = self.history.add(key, turn) {
                error!(%error, "a turn could not be written to its transcript");
            }
        }
        reply
    }

    async fn turn(&self, setup: &Setup, context: &ChatContext, question: &str) -> ChatReply {
        let scope = &context.scope;
        let cloud = setup.may_use_cloud(scope);
        let mut history =
            scope.history_key().map_or_else(Vec::new, |key| self.history.for_model(&key));
        history.push(Turn::User(question.to_owned()));
        let registry = self.registry();
        let tools = !registry.offered_to(scope).is_empty();
        let system = prompt::system(scope, context.answer_bytes, tools);

        let deadline = Instant::now() + if scope.is_operator() { OPERATOR_TURN } else { TURN };
        let ledger = Ledger::default();
        let mut walk = setup.legs.select_backend(cloud);
        walk.deadline = Some(deadline);
        let ended = {
            let rules = Rules {
                registry: &registry,
                scope,
                gate: &Closed,
                observer: &ledger,
                system: &system,
                max_turns: MAX_TURNS,
                needed: None,
            };
            let running = run_loop(&mut walk, &rules, history);
            tokio::select! {
                biased;
                () = context.cancel.cancelled() => Err((ChatStatus::Stopped, STOPPED)),
                () = tokio::time::sleep_until(deadline) => Err((ChatStatus::Failed, TOO_LONG)),
                outcome = running => Ok(outcome),
            }
        };
        let reasons = walk.reasons;
        match ended {
            Ok(Outcome { status, text, backend, tools }) => {
                ChatReply { status, text, backend: backend.to_owned(), tools, reasons }
            }
            Err((status, text)) => ChatReply {
                status,
                text: text.to_owned(),
                backend: String::new(),
                // What had run has run, although the loop came to no end.
                tools: ledger.take(),
                reasons,
            },
        }
    }

    /// The caller's own transcript, oldest first; nothing else can be asked for.
    pub fn history(&self, scope: &CallerScope) -> Vec<StoredTurn> {
        scope.history_key().map_or_else(Vec::new, |key| self.history.turns(&key))
    }

    /// Deletes the caller's own transcript.
    pub fn clear_history(&self, scope: &CallerScope) -> Result<(), StoreError> {
        scope.history_key().map_or(Ok(()), |key| self.history.clear(&key))
    }

    /// Begins a fresh conversation with this caller: models are given nothing of what was said before.
    pub fn new_conversation(&self, scope: &CallerScope) -> Result<(), StoreError> {
        scope.history_key().map_or(Ok(()), |key| self.history.begin_anew(&key))
    }

    /// Where the model runs that would answer this caller now. Asks the model servers, each for a short time only.
    pub async fn model_place(&self, scope: &CallerScope) -> ModelPlace {
        let setup = self.setup.read().unwrap_or_else(PoisonError::into_inner).clone();
        setup.legs.place(setup.may_use_cloud(scope)).await
    }

    /// Every tool, and whether this caller may use it.
    pub fn list_tools(&self, scope: &CallerScope) -> Vec<(ToolDef, bool)> {
        let granted = scope.granted_categories();
        self.registry().all().map(|tool| (tool.clone(), granted.contains(&tool.category))).collect()
    }

    /// The legs. Asks the model servers, each for a short time only.
    pub async fn legs(&self) -> LegsReport {
        let setup = self.setup.read().unwrap_or_else(PoisonError::into_inner).clone();
        let models = match &setup.ollama_url {
            Some(url) => ollama::models(url).await.ok(),
            None => None,
        };
        let key = self.secrets.as_ref().map(|secrets| secrets.read(SecretName::ClaudeApiKey));
        LegsReport {
            ollama_detected: models.is_some(),
            models: models.unwrap_or_default(),
            claude_available: matches!(key, Some(Ok(Some(_)))),
            legs: setup.legs.states().await,
        }
    }
}

/// What ran in a turn; it outlives a loop that is broken off.
#[derive(Default)]
struct Ledger(Mutex<Vec<ToolRecord>>);

impl Ledger {
    fn take(&self) -> Vec<ToolRecord> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Ledger {
    fn called(&self, _: &ToolCall, executed: &Executed) {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        records.push(executed.record.clone());
    }
}

impl Setup {
    fn may_use_cloud(&self, scope: &CallerScope) -> bool {
        match self.cloud {
            CloudPolicy::None => false,
            CloudPolicy::Operator => scope.is_operator(),
            CloudPolicy::All => true,
        }
    }

    fn of(config: &AssistantConfig, secrets: &Secrets) -> Setup {
        let legs: Vec<Box<dyn Backend>> = vec![
            ollama::leg(&config.ollama),
            Box::new(Claude::new(&config.claude, secrets.clone())),
            Box::new(Offline),
        ];
        Setup {
            legs: Legs::new(legs),
            cloud: config.cloud,
            ollama_url: Some(config.ollama.url.clone()),
        }
    }
}

impl From<StoredTurn> for ChatReply {
    fn from(turn: StoredTurn) -> ChatReply {
        ChatReply {
            status: turn.status,
            text: turn.answer,
            backend: turn.backend,
            tools: turn.tools,
            reasons: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
