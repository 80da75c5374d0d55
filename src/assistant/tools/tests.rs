//! The choke point, whoever calls and whatever the model says.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::assistant::fixture::{self, Runs};
use crate::assistant::gate::{Asking, Closed};
use crate::assistant::{Assurance, CategorySet, PeerId, SessionId};

fn operator(granted: &[PermissionCategory]) -> CallerScope {
    CallerScope::LocalOperator {
        session_id: SessionId("s".to_owned()),
        granted: granted.iter().copied().collect(),
    }
}

fn peer(assurance: Assurance, granted: &[PermissionCategory]) -> CallerScope {
    CallerScope::Mesh {
        peer_id: PeerId("key:x".to_owned()),
        name: "Ana".to_owned(),
        assurance,
        granted: granted.iter().copied().collect(),
    }
}

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments }
}

fn registry(runs: &Runs) -> ToolRegistry {
    ToolRegistry::new(fixture::tools(runs))
}

/// Arguments with that count.
fn counted(count: Value) -> Value {
    json!({"text": "x", "count": count})
}

#[tokio::test]
async fn disk_status_tool_executes() {
    let registry = crate::tools::registry(std::path::Path::new("/"));
    let scope = operator(&[PermissionCategory::System]);
    let executed =
        execute_tool(&registry, &scope, &call("system_disk_status", json!({})), &Closed).await;
    assert_eq!(executed.record.outcome, ToolOutcome::Ran);
    let status = crate::tools::system::Disks::of_node(std::path::Path::new("/")).status().unwrap();
    let total = status.words().split(" of ").nth(1).unwrap().split(',').next().unwrap().to_owned();
    assert!(executed.content.contains(&total), "{} lacks {total}", executed.content);
}

#[tokio::test]
async fn unknown_tool_is_refused_not_ignored() {
    let registry = crate::tools::registry(std::path::Path::new("/"));
    let scope = operator(&[PermissionCategory::System]);
    let executed = execute_tool(&registry, &scope, &call("slugify", json!({})), &Closed).await;
    assert_eq!(executed.record.outcome, ToolOutcome::Unknown);
    assert!(executed.is_error);
    assert!(executed.content.contains("slugify"));
    assert!(executed.content.contains("system_disk_status"), "the valid ones are named");
    // The list names only what the caller could use.
    let executed =
        execute_tool(&registry, &operator(&[]), &call("slugify", json!({})), &Closed).await;
    assert!(!executed.content.contains("system_disk_status"), "{}", executed.content);
    // What the model wrote is shown to people: no control characters, and an end.
    let name = format!("a\u{1b}[2J\n{}", "x".repeat(80));
    let executed = execute_tool(&registry, &scope, &call(&name, json!({})), &Closed).await;
    assert_eq!(executed.record.name, format!("a[2J{}", "x".repeat(60)));
    assert!(!executed.content.contains('\u{1b}'));
}

#[tokio::test]
async fn every_caller_variant_resolves_authority_through_caller_scope() {
    let all: Vec<PermissionCategory> = PermissionCategory::ALL.to_vec();
    // Each variant, with nothing, with one category and with all; the peer at each assurance.
    for granted in [&all[..0], &all[1..2], &all[..]] {
        let set: CategorySet = granted.iter().copied().collect();
        let cases = [
            (operator(granted), set.clone()),
            (peer(Assurance::Verified, granted), set),
            (peer(Assurance::Signed, granted), BTreeSet::new()),
            (peer(Assurance::Unverified, granted), BTreeSet::new()),
        ];
        for (scope, expected) in cases {
            assert_eq!(scope.granted_categories(), expected);
            let runs = Runs::default();
            let registry = registry(&runs);
            let mut ran = BTreeSet::new();
            for tool in registry.all() {
                let executed =
                    execute_tool(&registry, &scope, &call(&tool.name, counted(json!(1))), &Closed)
                        .await;
                if executed.record.outcome == ToolOutcome::Ran {
                    ran.insert(tool.category);
                }
            }
            assert_eq!(ran, expected, "{scope:?}");
            assert_eq!(runs.count(), expected.len());
            let offered = registry.offered_to(&scope);
            assert_eq!(offered.len(), 2 * expected.len(), "the model sees what is granted");
        }
    }
}

#[tokio::test]
async fn what_changes_something_is_not_run_without_a_confirmation() {
    let runs = Runs::default();
    let registry = registry(&runs);
    let scope = operator(&PermissionCategory::ALL);
    let executed =
        execute_tool(&registry, &scope, &call("system_write", counted(json!(1))), &Closed).await;
    assert_eq!(executed.record.outcome, ToolOutcome::NeedsConfirmation);
    assert_eq!(runs.count(), 0);
}

/// Decides always the same, and notes what it was asked.
struct Fixed(Decision, std::sync::Mutex<Vec<(String, Value)>>);

impl Gate for Fixed {
    fn ask<'a>(&'a self, tool: &'a ToolDef, arguments: &'a Value) -> Asking<'a> {
        self.1.lock().unwrap().push((tool.name.to_string(), arguments.clone()));
        Box::pin(async { self.0.clone() })
    }
}

#[tokio::test]
async fn the_gate_decides_what_changes_something_and_is_asked_only_for_what_could_run() {
    let runs = Runs::default();
    let registry = registry(&runs);
    let scope = operator(&[PermissionCategory::System]);
    let denied = Decision::Denied("no".to_owned());
    for (decision, outcome, ran) in [
        (Decision::Approved, ToolOutcome::Ran, 1),
        (denied, ToolOutcome::Denied, 0),
        (Decision::NotNow, ToolOutcome::NeedsConfirmation, 0),
    ] {
        let before = runs.count();
        let gate = Fixed(decision, std::sync::Mutex::default());
        for (name, arguments) in [
            ("slugify", counted(json!(1))),
            ("notes_write", counted(json!(1))),
            ("system_write", counted(json!("1"))),
        ] {
            execute_tool(&registry, &scope, &call(name, arguments), &gate).await;
        }
        assert!(gate.1.lock().unwrap().is_empty(), "asked for what could not run");
        let asked = call("system_write", counted(json!(7)));
        let executed = execute_tool(&registry, &scope, &asked, &gate).await;
        assert_eq!(executed.record.outcome, outcome);
        assert_eq!(runs.count() - before, ran);
        let expected = [("system_write".to_owned(), counted(json!(7)))];
        assert_eq!(*gate.1.lock().unwrap(), expected);
        // What only reads is nobody's question.
        execute_tool(&registry, &scope, &call("system_read", counted(json!(1))), &gate).await;
        assert_eq!(gate.1.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn arguments_are_refused_and_never_coerced() {
    let runs = Runs::default();
    let registry = registry(&runs);
    let scope = operator(&PermissionCategory::ALL);
    for wrong in [
        counted(json!("1")),
        counted(json!(1.5)),
        counted(json!(-1)),
        counted(json!(null)),
        counted(json!([1])),
        json!({"text": "x", "more": 2}),
        json!({}),
        json!([1]),
        json!("{\"count\":1}"),
        json!(null),
    ] {
        let executed =
            execute_tool(&registry, &scope, &call("system_read", wrong.clone()), &Closed).await;
        assert_eq!(executed.record.outcome, ToolOutcome::BadArguments, "{wrong}");
    }
    assert_eq!(runs.count(), 0);
    let executed =
        execute_tool(&registry, &scope, &call("system_read", counted(json!(1))), &Closed).await;
    assert_eq!(executed.record.outcome, ToolOutcome::Ran);
}

/// A value that fits a property of a schema.
fn sample(property: &Value) -> Value {
    if let Some(first) = property["enum"].get(0) {
        return first.clone();
    }
    match property["type"].as_str() {
        Some("string") => json!("x"),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        other => panic!("teach the test to make a {other:?}"),
    }
}

#[test]
fn the_schema_and_the_struct_of_every_tool_agree() {
    let runs = Runs::default();
    let node = crate::tools::registry(std::path::Path::new("/"));
    let noted = registry(&runs);
    let folder = crate::tools::workspace::Workspace::open(std::path::Path::new("/")).unwrap();
    let policy = crate::tools::workspace::ShellPolicy::default();
    let workspace = ToolRegistry::new(crate::tools::workspace::tools(Arc::new(folder), policy));
    assert_eq!(workspace.all().count(), 4);
    for tool in node.all().chain(noted.all()).chain(workspace.all()) {
        schema_and_struct_agree(tool);
    }
}

/// What the schema allows is taken, and what it forbids is not.
pub(crate) fn schema_and_struct_agree(tool: &ToolDef) {
    let schema = &tool.parameters;
    assert_eq!(schema["type"], "object", "{}", tool.name);
    assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
    let properties = schema["properties"].as_object().unwrap();
    let required: Vec<&str> = schema["required"]
        .as_array()
        .map_or_else(Vec::new, |names| names.iter().filter_map(Value::as_str).collect());
    let full: serde_json::Map<String, Value> =
        properties.iter().map(|(name, property)| (name.clone(), sample(property))).collect();
    tool.validate(&Value::Object(full.clone())).unwrap();
    for name in properties.keys() {
        let mut less = full.clone();
        less.remove(name);
        let optional = !required.contains(&name.as_str());
        assert_eq!(tool.validate(&Value::Object(less)).is_ok(), optional, "{} {name}", tool.name);
        let mut wrong = full.clone();
        wrong.insert(name.clone(), json!({"not": "this"}));
        assert!(tool.validate(&Value::Object(wrong)).is_err(), "{} {name}", tool.name);
    }
    let mut more = full;
    more.insert("unheard_of".to_owned(), json!(1));
    assert!(tool.validate(&Value::Object(more)).is_err(), "{}", tool.name);
}
