//! `chat`: the one entry for every caller.
//!
//! Owns a turn from the outside: its transcript, its end by cancellation or by time. Sees the caller only
//! as a scope.

mod confirmed;
mod setup;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info, warn};

use super::backends::ollama;
use super::backends::{Backend, ToolCall, Turn};
use super::caller::{CallerScope, CategorySet, PermissionCategory};
use super::cloud::{CloudLog, LeftForCloud};
use super::guard::Guard;
use super::history::{Given, History, StoredTurn};
use super::legs::walk::Kept;
use super::legs::{LegState, Legs};
use super::loop_::{MAX_TURNS, Outcome, Rules, run_loop};
use super::models::{self, ChosenModel, ModelChoice, ModelError};
use super::observer::{Both, Observer, Unwatched};
use super::summaries::Summaries;
use super::tools::{Executed, ToolDef, ToolRegistry, ToolSource};
use super::{ChatContext, ChatReply, ChatStatus, ModelPlace, ToolRecord, prompt};
use crate::clock;
use crate::config::{AssistantConfig, CloudPolicy};
use crate::invisible;
use crate::secrets::{SecretName, Secrets};
use crate::store::StoreError;
pub use confirmed::Settled;
use setup::{Setup, kept};

/// A turn may take this long in all, over all legs.
const TURN: Duration = Duration::from_secs(300);
/// And the operator's: the page gives up after 180 s, and should be told before.
const OPERATOR_TURN: Duration = Duration::from_secs(170);
/// What a caller is told then.
const TOO_LONG: &str = "That took too long, and I gave up. Please ask again later.";
/// What a caller who stopped it is told.
const STOPPED: &str = "Stopped.";
/// A question is cut here; no caller's side lets a longer one through.
const MAX_QUESTION_CHARS: usize = 16_000;

/// So often the files of the transcripts are looked through.
const TEND_EVERY: Duration = Duration::from_secs(24 * 3600);

/// The assistant.
pub struct Assistant {
    setup: RwLock<Arc<Setup>>,
    secrets: Option<Secrets>,
    tools: ToolRegistry,
    /// Tools of other programs.
    sources: Vec<Arc<dyn ToolSource>>,
    history: Arc<History>,
    guard: Guard,
    summaries: Summaries,
    cloud_log: CloudLog,
    choice: ModelChoice,
    /// When the transcripts are looked through next.
    tend_at: Mutex<Instant>,
    turn: Option<Duration>,
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
    /// Is an OpenAI-compatible server configured?
    pub openai_configured: bool,
    /// The local leg's model; `None` where no local leg is made from a configuration.
    pub model: Option<ChosenModel>,
    /// What left for a cloud in the last 24 hours.
    pub left: LeftForCloud,
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
        let choice = ModelChoice::of(data_dir);
        let setup = Setup::of(config, choice.read()?, &secrets);
        let tools = crate::tools::registry(data_dir);
        let assistant = Assistant::of(setup, Some(secrets), tools, data_dir)?;
        assistant.history.keep_days(config.history_days);
        assistant.history.tend();
        Ok(assistant)
    }

    /// With legs and tools of the caller's own.
    pub fn with_legs(
        backends: Vec<Box<dyn Backend>>,
        cloud: CloudPolicy,
        tools: ToolRegistry,
        data_dir: &Path,
    ) -> Result<Assistant, StoreError> {
        let kept = kept(&[]);
        let setup =
            Setup { legs: Arc::new(Legs::new(backends)), cloud, kept, config: None, model: None };
        Assistant::of(setup, None, tools, data_dir)
    }

    fn of(
        setup: Setup,
        secrets: Option<Secrets>,
        tools: ToolRegistry,
        data_dir: &Path,
    ) -> Result<Assistant, StoreError> {
        Ok(Assistant {
            setup: RwLock::new(Arc::new(setup)),
            secrets,
            tools,
            sources: Vec::new(),
            history: Arc::new(History::open(data_dir)?),
            guard: Guard::open(data_dir)?,
            summaries: Summaries::default(),
            cloud_log: CloudLog::open(data_dir)?,
            choice: ModelChoice::of(data_dir),
            tend_at: Mutex::new(Instant::now() + TEND_EVERY),
            turn: None,
        })
    }

    /// With so much time for each turn, whoever asks.
    #[must_use]
    pub fn with_turn(mut self, time: Duration) -> Assistant {
        self.turn = Some(time);
        self
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
        self.history.keep_days(config.history_days);
        let chosen = self.choice.read().unwrap_or_else(|error| {
            warn!(%error, source = %error.source, "the configuration's model is used");
            None
        });
        self.replace(Setup::of(config, chosen, secrets));
    }

    fn replace(&self, setup: Setup) {
        *self.setup.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(setup);
    }

    fn setup(&self) -> Arc<Setup> {
        self.setup.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Chooses the local leg's model, over the configuration's and past a restart. Only one that the server has; the
    /// configuration's own takes the choice back. Turns that run go on with the old one.
    pub async fn choose_model(&self, name: &str) -> Result<(), ModelError> {
        let setup = self.setup();
        let unknown = |there: &str| ModelError::Unknown {
            name: invisible::word(name, 64),
            there: there.to_owned(),
        };
        let (Some(config), Some(secrets)) = (&setup.config, &self.secrets) else {
            return Err(unknown("this node's model can't be chosen"));
        };
        let there = ollama::models(&config.ollama.url).await.map_err(ModelError::Server)?;
        if !models::is_name(name) || !there.iter().any(|there| models::is_same(there, name)) {
            return Err(unknown(&match there.as_slice() {
                [] => "the server has none".to_owned(),
                there => format!("the server has {}", there.join(", ")),
            }));
        }
        let choice = (!models::is_same(name, &config.ollama.model)).then_some(name);
        self.choice.write(choice)?;
        self.replace(Setup::of(config, choice.map(str::to_owned), secrets));
        Ok(())
    }

    /// One turn. Never fails: what goes wrong ends in a reply with one honest line.
    pub async fn chat(&self, context: ChatContext, text: &str) -> ChatReply {
        self.chat_watched(context, text, &Unwatched).await
    }

    /// The same, with somebody who watches.
    pub async fn chat_watched(
        &self,
        context: ChatContext,
        text: &str,
        observer: &dyn Observer,
    ) -> ChatReply {
        let key = context.scope.history_key();
        if let Some(key) = &key
            && let Some(stored) = self.history.answered(key, &context.turn_id)
        {
            return stored.into();
        }
        // The model is needed here.
        self.summaries.interrupt();
        let mark = self.history.mark();
        let question: String = text.chars().take(MAX_QUESTION_CHARS).collect();
        let setup = self.setup();
        let (reply, foreign, made_of) = self.turn(&setup, &context, &question, observer).await;
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
                foreign: Some(foreign),
                made_of: Some(made_of),
            };
            if let Err(error) = self.history.add_since(key, mark, turn) {
                error!(%error, "a turn could not be written to its transcript");
            }
            self.summaries.extend(&self.history, key, &setup.legs);
        }
        self.tend();
        reply
    }

    /// Looks through the transcripts once a day, beside the turns.
    fn tend(&self) {
        let mut tend_at = self.tend_at.lock().unwrap_or_else(PoisonError::into_inner);
        if Instant::now() < *tend_at {
            return;
        }
        *tend_at = Instant::now() + TEND_EVERY;
        let history = Arc::clone(&self.history);
        tokio::task::spawn_blocking(move || history.tend());
    }

    /// The reply, whether it may be made of foreign words, and what went into the earlier turns that it may be made of.
    async fn turn(
        &self,
        setup: &Setup,
        context: &ChatContext,
        question: &str,
        observer: &dyn Observer,
    ) -> (ChatReply, bool, CategorySet) {
        let scope = &self.guard.grants.usable(context.scope.clone());
        let registry = self.registry();
        let offered = self.guard.without_never(registry.clone(), scope);
        let key = scope.history_key();
        let Given { turns: mut history, categories, foreign: mut tainted } =
            key.as_ref().map_or_else(Given::default, |key| self.history.given(key));
        // Who has no transcript has no tools, so nothing but words went into an answer.
        let quoted = key.as_ref().zip(context.quotes.as_ref());
        let quoted = quoted.map(|(key, turn)| self.history.went_into(key, turn));
        let quotes_foreign = quoted.as_ref().is_some_and(|quoted| quoted.foreign);
        tainted |= quotes_foreign;
        history.push(Turn::User(question.to_owned()));
        let tools = !offered.offered_to(scope).is_empty();
        let system = prompt::system(scope, context.answer_bytes, tools);

        let usual = if scope.is_operator() { OPERATOR_TURN } else { TURN };
        let deadline = Instant::now() + self.turn.unwrap_or(usual);
        let ledger = Ledger::default();
        let watchers = Both(&ledger, observer);
        let gate = self.guard.turn(scope, &context.turn_id, context.answer_bytes, tainted);
        let mut walk = setup.legs.select_backend(setup.may_use_cloud(scope));
        walk.deadline = Some(deadline);
        walk.kept = kept_of(&registry, &setup.kept, &categories);
        walk.kept.made_of.extend(quoted.into_iter().flat_map(|quoted| quoted.categories));
        walk.record = Some((&self.cloud_log, context.turn_id.clone()));
        let ended = {
            let rules = Rules {
                registry: &offered,
                scope,
                gate: &gate,
                observer: &watchers,
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
        let (reasons, made_of) = (walk.reasons, walk.kept.made_of);
        let (reply, foreign) = match ended {
            Ok(Outcome { status, text, backend, tools, foreign }) => {
                (ChatReply { status, text, backend: backend.to_owned(), tools, reasons }, foreign)
            }
            Err((status, text)) => {
                // What had run has run, although the loop came to no end.
                let (text, tools) = (text.to_owned(), ledger.take());
                (ChatReply { status, text, backend: String::new(), tools, reasons }, false)
            }
        };
        (reply, foreign || quotes_foreign, made_of)
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
        let setup = self.setup();
        setup.legs.place(setup.may_use_cloud(scope)).await
    }

    /// Every tool, and whether this caller may use it.
    pub fn list_tools(&self, scope: &CallerScope) -> Vec<(ToolDef, bool)> {
        let authority = self.guard.grants.authority(scope);
        let may = |tool: &ToolDef| authority.permits(&tool.name, tool.category);
        self.registry().all().map(|tool| (tool.clone(), may(tool))).collect()
    }

    /// The categories without a tool: nothing is configured for them.
    pub fn unconfigured(&self) -> Vec<PermissionCategory> {
        self.registry().unconfigured()
    }

    /// The legs. Asks the model servers, each for a short time only.
    pub async fn legs(&self) -> LegsReport {
        let setup = self.setup();
        let models = async {
            let config = setup.config.as_ref()?;
            ollama::models(&config.ollama.url).await.ok()
        };
        // At once: a server that is silent keeps a page waiting only for its own time.
        let (models, states) = tokio::join!(models, setup.legs.states());
        let key = self.secrets.as_ref().map(|secrets| secrets.read(SecretName::ClaudeApiKey));
        LegsReport {
            ollama_detected: models.is_some(),
            models: models.unwrap_or_default(),
            claude_available: matches!(key, Some(Ok(Some(_)))),
            openai_configured: setup.config.as_ref().is_some_and(|config| config.openai.is_some()),
            model: setup.model.clone(),
            left: self.cloud_log.last_day(clock::unix_ms()),
            legs: states,
        }
    }
}

/// What of a turn no cloud leg is given, with a history of which these categories went into each entry.
fn kept_of(tools: &ToolRegistry, kept: &CategorySet, history: &[CategorySet]) -> Kept {
    let tools = tools.all().filter(|tool| kept.contains(&tool.category));
    let of = |entries: &mut dyn Iterator<Item = &CategorySet>| entries.flatten().copied().collect();
    let past = history.iter().enumerate().filter(|(_, of)| !of.is_disjoint(kept));
    Kept {
        categories: kept.clone(),
        tools: tools.map(|tool| tool.name.to_string()).collect(),
        past: past.map(|(place, _)| place).collect(),
        public_past: of(&mut history.iter().filter(|of| of.is_disjoint(kept))),
        whole_past: of(&mut history.iter()),
        ..Kept::default()
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
