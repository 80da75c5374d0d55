//! Tools: what they are, and the one way to run one.
//!
//! Owns [`execute_tool`], the choke point through which every call passes, whoever the caller and
//! whatever the model says. The model's output is an input to the check, never the check. Holds no
//! tool itself.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tracing::info;

use super::backends::{ToolCall, ToolSpec};
use super::caller::{CallerScope, PermissionCategory};
use super::gate::{Called, Decision, Gate};
use super::grants::{Authority, ToolMode};
use super::{ToolOutcome, ToolRecord, schema};
use crate::invisible;

/// What a tool's run gives: text for the model, or one line on why not.
pub type Run = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// A tool: what the model is told, what it needs, and how it is run.
#[derive(Clone)]
pub struct ToolDef {
    /// `[a-z0-9_-]`, at most 64, unique.
    pub name: Cow<'static, str>,
    /// For the model.
    pub description: Cow<'static, str>,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
    /// Which grant it needs.
    pub category: PermissionCategory,
    /// It changes something.
    pub destructive: bool,
    /// Its results may hold words of somebody else than the caller, the operator and this program: once a turn has
    /// seen them, they may be behind whatever the model does next. So it is unless the tool says otherwise.
    pub foreign_results: bool,
    handler: Arc<dyn Handler>,
}

trait Handler: Send + Sync {
    fn validate(&self, arguments: &Value) -> Result<(), String>;
    fn run(&self, caller: &CallerScope, arguments: Value) -> Run;
}

/// A tool of another program: what its arguments are, only its schema says.
struct Foreign<F> {
    run: F,
}

impl<F> Handler for Foreign<F>
where
    F: Fn(Value) -> Run + Send + Sync,
{
    fn validate(&self, _: &Value) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, _: &CallerScope, arguments: Value) -> Run {
        (self.run)(arguments)
    }
}

struct Typed<A, F> {
    run: F,
    arguments: std::marker::PhantomData<fn() -> A>,
}

impl<A, F> Handler for Typed<A, F>
where
    A: DeserializeOwned + Send + 'static,
    F: Fn(&CallerScope, A) -> Run + Send + Sync,
{
    fn validate(&self, arguments: &Value) -> Result<(), String> {
        A::deserialize(arguments).map(|_| ()).map_err(|e| e.to_string())
    }

    fn run(&self, caller: &CallerScope, arguments: Value) -> Run {
        match serde_json::from_value(arguments) {
            Ok(arguments) => (self.run)(caller, arguments),
            Err(e) => Box::pin(async move { Err(e.to_string()) }),
        }
    }
}

impl std::fmt::Debug for ToolDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ToolDef({}, {}, destructive: {})", self.name, self.category, self.destructive)
    }
}

/// What describes a tool, before it gets its handler.
#[derive(Debug)]
pub struct Description {
    /// See [`ToolDef::name`].
    pub name: &'static str,
    /// See [`ToolDef::description`].
    pub description: &'static str,
    /// See [`ToolDef::parameters`].
    pub parameters: Value,
    /// See [`ToolDef::category`].
    pub category: PermissionCategory,
    /// See [`ToolDef::destructive`].
    pub destructive: bool,
}

impl Description {
    /// A tool that only reads, and takes no arguments.
    pub fn reads(
        category: PermissionCategory,
        name: &'static str,
        description: &'static str,
    ) -> Description {
        let parameters = schema::closed(Value::Object(Map::new()), &[]);
        Description { name, description, parameters, category, destructive: false }
    }

    /// A tool that changes something, and takes no arguments.
    pub fn changes(
        category: PermissionCategory,
        name: &'static str,
        description: &'static str,
    ) -> Description {
        Description { destructive: true, ..Description::reads(category, name, description) }
    }

    /// With these arguments, each by its name with its schema, and no others. The required ones must be given.
    #[must_use]
    pub fn taking(self, properties: Value, required: &[&str]) -> Description {
        Description { parameters: schema::closed(properties, required), ..self }
    }
}

/// The same of a tool whose words are not ours.
#[derive(Debug)]
pub struct ForeignDescription {
    /// See [`ToolDef::name`].
    pub name: String,
    /// See [`ToolDef::description`].
    pub description: String,
    /// See [`ToolDef::parameters`].
    pub parameters: Value,
    /// See [`ToolDef::category`]: the operator's word, never the program's.
    pub category: PermissionCategory,
    /// See [`ToolDef::destructive`]: likewise.
    pub destructive: bool,
}

/// Tools that come and go while the daemon runs. Asked at the begin of each turn; a turn keeps what it got.
pub trait ToolSource: Send + Sync {
    /// Those there are now.
    fn tools(&self) -> Vec<ToolDef>;
}

impl ToolDef {
    /// `A` is the struct that the parameters describe; it must deny unknown fields.
    pub fn new<A, F>(about: Description, run: F) -> ToolDef
    where
        A: DeserializeOwned + Send + 'static,
        F: Fn(A) -> Run + Send + Sync + 'static,
    {
        ToolDef::for_caller(about, move |_: &CallerScope, arguments| run(arguments))
    }

    /// The same for one that keeps something for each caller. Who calls gives it no authority: that was
    /// decided before it runs.
    pub fn for_caller<A, F>(about: Description, run: F) -> ToolDef
    where
        A: DeserializeOwned + Send + 'static,
        F: Fn(&CallerScope, A) -> Run + Send + Sync + 'static,
    {
        ToolDef {
            name: Cow::Borrowed(about.name),
            description: Cow::Borrowed(about.description),
            parameters: about.parameters,
            category: about.category,
            destructive: about.destructive,
            foreign_results: true,
            handler: Arc::new(Typed { run, arguments: std::marker::PhantomData }),
        }
    }

    /// Its results hold figures and fixed words of ours, names that the operator gave, and nothing else.
    #[must_use]
    pub fn with_own_results(mut self) -> ToolDef {
        self.foreign_results = false;
        self
    }

    /// May what a call gave hold foreign words? A failure may quote whatever it met.
    fn gave_foreign(&self, outcome: ToolOutcome) -> bool {
        match outcome {
            ToolOutcome::Ran => self.foreign_results,
            ToolOutcome::Failed => true,
            _ => false,
        }
    }

    /// A tool that is described at run time: its arguments are checked by that schema alone, and its results
    /// are foreign.
    pub fn foreign<F>(about: ForeignDescription, run: F) -> ToolDef
    where
        F: Fn(Value) -> Run + Send + Sync + 'static,
    {
        ToolDef {
            name: Cow::Owned(about.name),
            description: Cow::Owned(about.description),
            parameters: about.parameters,
            category: about.category,
            destructive: about.destructive,
            foreign_results: true,
            handler: Arc::new(Foreign { run }),
        }
    }

    /// Checks the arguments by the schema, which names the field and what it should be, then deserializes
    /// them. Never coerces: a number in quotes is no number.
    pub fn validate(&self, arguments: &Value) -> Result<(), String> {
        if !arguments.is_object() {
            return Err("the arguments must be one JSON object".to_owned());
        }
        schema::check(&self.parameters, arguments)?;
        self.handler.validate(arguments)
    }

    /// As a model sees it.
    pub fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.clone().into_owned(),
            description: self.description.clone().into_owned(),
            parameters: self.parameters.clone(),
        }
    }
}

/// All tools, by name.
#[derive(Debug, Clone, Default)]
pub struct ToolRegistry {
    tools: BTreeMap<Cow<'static, str>, ToolDef>,
}

impl ToolRegistry {
    /// A registry of these tools; of two with one name the later stays.
    pub fn new(tools: impl IntoIterator<Item = ToolDef>) -> ToolRegistry {
        ToolRegistry { tools: tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect() }
    }

    /// The tool of that name.
    pub fn get(&self, name: &str) -> Option<&ToolDef> {
        self.tools.get(name)
    }

    /// All, in order of name.
    pub fn all(&self) -> impl Iterator<Item = &ToolDef> {
        self.tools.values()
    }

    /// These too. One of ours is never replaced by one of theirs.
    #[must_use]
    pub fn with(mut self, more: impl IntoIterator<Item = ToolDef>) -> ToolRegistry {
        for tool in more {
            self.tools.entry(tool.name.clone()).or_insert(tool);
        }
        self
    }

    /// Without the tools that are not to be kept: they are neither shown to a model nor run.
    #[must_use]
    pub fn only(mut self, keep: impl Fn(&ToolDef) -> bool) -> ToolRegistry {
        self.tools.retain(|_, tool| keep(tool));
        self
    }

    /// What that caller may use, as a model sees it: always in the same order.
    pub fn offered_to(&self, scope: &CallerScope) -> Vec<ToolSpec> {
        let granted = scope.granted_categories();
        self.all().filter(|tool| granted.contains(&tool.category)).map(ToolDef::spec).collect()
    }

    /// The categories without a tool: nothing is configured for them.
    pub fn unconfigured(&self) -> Vec<PermissionCategory> {
        let has = |category| self.all().any(|tool| tool.category == category);
        PermissionCategory::ALL.into_iter().filter(|category| !has(*category)).collect()
    }
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// For the ledger.
    pub record: ToolRecord,
    /// For the model.
    pub content: String,
    /// It did not succeed.
    pub is_error: bool,
    /// It is kept until somebody decides: the turn ends here, with `content` for the caller.
    pub waits: bool,
    /// `content` may hold words of somebody else than the caller, the operator and this program.
    pub foreign: bool,
}

/// What became of a call, and what the model is told.
struct Verdict {
    outcome: ToolOutcome,
    content: String,
    waits: bool,
}

impl Verdict {
    fn new(outcome: ToolOutcome, content: String) -> Verdict {
        Verdict { outcome, content, waits: false }
    }
}

/// The one way to run a tool. The caller's authority is read here, at the time of the call; the gate is
/// asked last, and only for what needs a confirmation.
pub async fn execute_tool(
    registry: &ToolRegistry,
    scope: &CallerScope,
    call: &ToolCall,
    gate: &dyn Gate,
) -> Executed {
    let begun = Instant::now();
    let tool = registry.get(&call.name);
    let verdict = match tool {
        Some(tool) => decide_and_run(tool, scope, call, gate).await,
        None => unknown(registry, scope, call, gate),
    };
    let Verdict { outcome, content, waits } = verdict;
    let millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let foreign = tool.is_some_and(|tool| tool.gave_foreign(outcome));
    let category = tool.map(|tool| tool.category);
    let tool = tool.map(|tool| &*tool.name);
    // The name is the model's; only a name that we know is logged.
    info!(
        turn = gate.turn().map(|turn| turn.0.as_str()),
        tool = tool.unwrap_or("(unknown)"),
        ?outcome,
        millis,
        "tool call"
    );
    gate.called(&Called { tool, category, outcome, foreign, millis });
    Executed {
        record: ToolRecord { name: shown_name(&call.name), category, outcome },
        content,
        is_error: outcome != ToolOutcome::Ran,
        waits,
        foreign,
    }
}

fn unknown(
    registry: &ToolRegistry,
    scope: &CallerScope,
    call: &ToolCall,
    gate: &dyn Gate,
) -> Verdict {
    let authority = gate.authority(scope);
    let valid = registry.all().filter(|tool| authority.permits(&tool.name, tool.category));
    let valid: Vec<&str> = valid.map(|tool| &*tool.name).collect();
    let valid = if valid.is_empty() { "none".to_owned() } else { valid.join(", ") };
    let name = shown_name(&call.name);
    let words = format!("There is no tool \"{name}\". The valid tools are: {valid}.");
    Verdict::new(ToolOutcome::Unknown, words)
}

async fn decide_and_run(
    tool: &ToolDef,
    scope: &CallerScope,
    call: &ToolCall,
    gate: &dyn Gate,
) -> Verdict {
    let authority = gate.authority(scope);
    if !authority.permits(&tool.name, tool.category) {
        return denied(tool, &authority);
    }
    if let Err(why) = tool.validate(&call.arguments) {
        let words = format!("Refused: the arguments of {} are wrong: {why}.", tool.name);
        return Verdict::new(ToolOutcome::BadArguments, words);
    }
    if tool.destructive || authority.mode(&tool.name) == Some(ToolMode::Ask) {
        match gate.ask(tool, &call.arguments).await {
            Decision::Approved => {}
            Decision::Denied(why) => {
                return Verdict::new(ToolOutcome::Denied, format!("Not done: {why}."));
            }
            Decision::NotNow => {
                let words = format!("Not done: {} needs a confirmation.", tool.name);
                return Verdict::new(ToolOutcome::NeedsConfirmation, words);
            }
            Decision::Waits(words) => {
                let outcome = ToolOutcome::NeedsConfirmation;
                return Verdict { outcome, content: words, waits: true };
            }
        }
        // Asking took its time: a grant that was taken back meanwhile counts no more.
        let authority = gate.authority(scope);
        if !authority.permits(&tool.name, tool.category) {
            return denied(tool, &authority);
        }
    }
    if tool.destructive
        && let Err(why) = gate.begins(tool).await
    {
        return Verdict::new(ToolOutcome::Denied, format!("Not done: {why}."));
    }
    match tool.handler.run(scope, call.arguments.clone()).await {
        Ok(content) => Verdict::new(ToolOutcome::Ran, content),
        Err(why) => Verdict::new(ToolOutcome::Failed, format!("{} failed: {why}.", tool.name)),
    }
}

fn denied(tool: &ToolDef, authority: &Authority) -> Verdict {
    let words = if authority.categories().contains(&tool.category) {
        format!("Refused: this caller may not use {}.", tool.name)
    } else {
        format!("Refused: this caller has no grant for \"{}\".", tool.category)
    };
    Verdict::new(ToolOutcome::Denied, words)
}

/// A name that a model wrote, fit for a ledger, a page and a terminal.
fn shown_name(name: &str) -> String {
    invisible::word(name, 64)
}

#[cfg(test)]
pub(crate) mod tests;
