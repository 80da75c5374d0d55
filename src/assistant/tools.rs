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
use serde_json::Value;
use tracing::info;

use super::backends::{ToolCall, ToolSpec};
use super::caller::{CallerScope, PermissionCategory};
use super::gate::{Decision, Gate};
use super::schema;
use super::{ToolOutcome, ToolRecord};

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
    handler: Arc<dyn Handler>,
}

trait Handler: Send + Sync {
    fn validate(&self, arguments: &Value) -> Result<(), String>;
    fn run(&self, arguments: Value) -> Run;
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

    fn run(&self, arguments: Value) -> Run {
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
    F: Fn(A) -> Run + Send + Sync,
{
    fn validate(&self, arguments: &Value) -> Result<(), String> {
        A::deserialize(arguments).map(|_| ()).map_err(|e| e.to_string())
    }

    fn run(&self, arguments: Value) -> Run {
        match serde_json::from_value(arguments) {
            Ok(arguments) => (self.run)(arguments),
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
        ToolDef {
            name: Cow::Borrowed(about.name),
            description: Cow::Borrowed(about.description),
            parameters: about.parameters,
            category: about.category,
            destructive: about.destructive,
            handler: Arc::new(Typed { run, arguments: std::marker::PhantomData }),
        }
    }

    /// A tool that another program describes: its arguments are checked by that schema alone.
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
}

/// The one way to run a tool. The caller's authority is read here, at the time of the call; the gate is
/// asked last, and only for what changes something.
pub async fn execute_tool(
    registry: &ToolRegistry,
    scope: &CallerScope,
    call: &ToolCall,
    gate: &dyn Gate,
) -> Executed {
    let (category, outcome, content) = decide_and_run(registry, scope, call, gate).await;
    // The name is the model's; only a name that we know is logged.
    info!(
        tool = registry.get(&call.name).map_or("(unknown)", |tool| &tool.name),
        ?outcome,
        "tool call"
    );
    Executed {
        record: ToolRecord { name: shown_name(&call.name), category, outcome },
        content,
        is_error: outcome != ToolOutcome::Ran,
    }
}

async fn decide_and_run(
    registry: &ToolRegistry,
    scope: &CallerScope,
    call: &ToolCall,
    gate: &dyn Gate,
) -> (Option<PermissionCategory>, ToolOutcome, String) {
    let Some(tool) = registry.get(&call.name) else {
        let valid: Vec<String> =
            registry.offered_to(scope).into_iter().map(|tool| tool.name).collect();
        let valid = if valid.is_empty() { "none".to_owned() } else { valid.join(", ") };
        let name = shown_name(&call.name);
        let words = format!("There is no tool \"{name}\". The valid tools are: {valid}.");
        return (None, ToolOutcome::Unknown, words);
    };
    let category = Some(tool.category);
    if !scope.granted_categories().contains(&tool.category) {
        let words = format!("Refused: this caller has no grant for \"{}\".", tool.category);
        return (category, ToolOutcome::Denied, words);
    }
    if let Err(why) = tool.validate(&call.arguments) {
        let words = format!("Refused: the arguments of {} are wrong: {why}.", tool.name);
        return (category, ToolOutcome::BadArguments, words);
    }
    if tool.destructive {
        match gate.ask(tool, &call.arguments).await {
            Decision::Approved => {}
            Decision::Denied(why) => {
                return (category, ToolOutcome::Denied, format!("Not done: {why}."));
            }
            Decision::NotNow => {
                let words =
                    format!("Not done: {} changes something and needs a confirmation.", tool.name);
                return (category, ToolOutcome::NeedsConfirmation, words);
            }
        }
    }
    match tool.handler.run(call.arguments.clone()).await {
        Ok(content) => (category, ToolOutcome::Ran, content),
        Err(why) => (category, ToolOutcome::Failed, format!("{} failed: {why}.", tool.name)),
    }
}

/// A name that a model wrote, fit for a ledger, a page and a terminal.
fn shown_name(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests;
