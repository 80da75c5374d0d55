//! The limits of a turn, and a model that obeys whoever attacks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::assistant::backends::scripted::Scripted;
use crate::assistant::backends::{Backend, BackendError};
use crate::assistant::gate::Closed;
use crate::assistant::legs::Legs;
use crate::assistant::observer::Unwatched;
use crate::assistant::tools::{Description, ToolDef};
use crate::assistant::{Assurance, CategorySet, PeerId, PermissionCategory, ToolOutcome};

#[derive(Deserialize)]
struct Anything {}

fn registry(runs: &Arc<AtomicUsize>, result: &str) -> ToolRegistry {
    let (runs, result) = (runs.clone(), result.to_owned());
    let about = Description {
        name: "count",
        description: "counts",
        parameters: json!({"type": "object", "properties": {}}),
        category: PermissionCategory::System,
        destructive: false,
    };
    ToolRegistry::new([ToolDef::new(about, move |_: Anything| {
        runs.fetch_add(1, Ordering::Relaxed);
        let result = result.clone();
        Box::pin(async move { Ok(result) })
    })])
}

fn peer(granted: &[PermissionCategory]) -> CallerScope {
    CallerScope::Mesh {
        peer_id: PeerId("key:a".to_owned()),
        name: "Ana".to_owned(),
        assurance: Assurance::Verified,
        granted: granted.iter().copied().collect::<CategorySet>(),
    }
}

fn calls(calls: Vec<(&str, Value)>) -> Result<BackendTurn, BackendError> {
    let calls = calls
        .into_iter()
        .enumerate()
        .map(|(index, (name, arguments))| ToolCall {
            id: format!("c{index}"),
            name: name.to_owned(),
            arguments,
        })
        .collect();
    Ok(BackendTurn::ToolCalls { text: String::new(), calls, raw: None })
}

async fn run(leg: Scripted, registry: &ToolRegistry, scope: &CallerScope) -> Outcome {
    let legs = Legs::new(vec![Box::new(leg) as Box<dyn Backend>]);
    let mut walk = legs.select_backend(true);
    run_loop(&mut walk, &rules(registry, scope), vec![Turn::User("go".to_owned())]).await
}

fn rules<'a>(registry: &'a ToolRegistry, scope: &'a CallerScope) -> Rules<'a> {
    let (gate, observer) = (&Closed, &Unwatched);
    Rules { registry, scope, gate, observer, system: "", max_turns: MAX_TURNS, needed: None }
}

#[tokio::test]
async fn the_eighth_request_may_answer_and_a_ninth_is_not_made() {
    for (answers_at, answered) in [(MAX_TURNS, true), (MAX_TURNS + 1, false)] {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = asked.clone();
        let leg = Scripted::by("ollama", move |_, _| {
            let request = counter.fetch_add(1, Ordering::Relaxed) + 1;
            if request == answers_at {
                return Ok(BackendTurn::Text("done".to_owned()));
            }
            calls(vec![("count", json!({"step": request}))])
        });
        let runs = Arc::new(AtomicUsize::new(0));
        let outcome = run(leg, &registry(&runs, "ok"), &peer(&[PermissionCategory::System])).await;
        assert_eq!(outcome.status == ChatStatus::Answered, answered);
        assert_eq!(asked.load(Ordering::Relaxed), MAX_TURNS);
        let expected = if answered { MAX_TURNS - 1 } else { MAX_TURNS };
        assert_eq!(runs.load(Ordering::Relaxed), expected);
    }
}

#[tokio::test]
async fn the_same_call_again_is_told_and_at_the_fourth_time_the_turn_ends() {
    let told = Arc::new(AtomicUsize::new(0));
    let counter = told.clone();
    let leg = Scripted::by("ollama", move |history, _| {
        if let Some(Turn::ToolResult { content, .. }) = history.last()
            && content.contains("already")
        {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        // The same arguments in another order are the same call.
        let odd = history.len() % 4 == 1;
        let arguments = if odd { json!({"a": 1, "b": 2}) } else { json!({"b": 2, "a": 1}) };
        calls(vec![("count", arguments)])
    });
    let runs = Arc::new(AtomicUsize::new(0));
    let outcome = run(leg, &registry(&runs, "ok"), &peer(&[PermissionCategory::System])).await;
    assert_eq!(outcome.status, ChatStatus::Failed);
    assert_eq!((runs.load(Ordering::Relaxed), told.load(Ordering::Relaxed)), (1, 2));
}

#[tokio::test]
async fn a_long_result_is_cut_with_a_mark() {
    for (length, cut) in [(MAX_TOOL_RESULT_CHARS, false), (MAX_TOOL_RESULT_CHARS + 1, true)] {
        let leg = Scripted::by("ollama", |history, _| match history.last() {
            Some(Turn::ToolResult { content, .. }) => Ok(BackendTurn::Text(content.clone())),
            _ => calls(vec![("count", json!({}))]),
        });
        let runs = Arc::new(AtomicUsize::new(0));
        let registry = registry(&runs, &"ä".repeat(length));
        let outcome = run(leg, &registry, &peer(&[PermissionCategory::System])).await;
        assert_eq!(outcome.text.ends_with("1 more characters cut]"), cut);
    }
}

#[tokio::test]
async fn a_model_that_obeys_the_attacker_can_run_nothing_that_is_not_granted() {
    for scope in [peer(&[]), peer(&[PermissionCategory::Notes])] {
        let leg = Scripted::by("ollama", |history, tools| {
            assert!(tools.is_empty(), "nothing is offered");
            let step = history.len();
            calls(vec![
                ("count", json!({"step": step})),
                ("Count", json!({})),
                ("count\n", json!({})),
                ("system.count", json!(null)),
                ("count", json!({"granted": ["system"], "scope": "operator"})),
                ("execute_tool", json!({"name": "count"})),
            ])
        });
        let runs = Arc::new(AtomicUsize::new(0));
        let outcome = run(leg, &registry(&runs, "ok"), &scope).await;
        assert_eq!(runs.load(Ordering::Relaxed), 0);
        assert!(!outcome.tools.is_empty());
        assert!(outcome.tools.iter().all(|record| {
            matches!(record.outcome, ToolOutcome::Denied | ToolOutcome::Unknown)
        }));
    }
}

/// What was asked, and which calls ran, when `count` is needed and the model answers as scripted.
async fn needing(
    answers: Vec<Result<BackendTurn, BackendError>>,
    granted: &[PermissionCategory],
    max_turns: usize,
) -> (Vec<Vec<Turn>>, usize, Outcome) {
    let runs = Arc::new(AtomicUsize::new(0));
    let (registry, scope) = (registry(&runs, "seven"), peer(granted));
    let needed =
        ToolCall { id: "n".to_owned(), name: "count".to_owned(), arguments: json!({"a": 1}) };
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = asked.clone();
    let answers = std::sync::Mutex::new(std::collections::VecDeque::from(answers));
    let leg = Scripted::by("ollama", move |history, _| {
        seen.lock().unwrap().push(history.to_vec());
        answers.lock().unwrap().pop_front().unwrap()
    });
    let legs = Legs::new(vec![Box::new(leg) as Box<dyn Backend>]);
    let rules = Rules { needed: Some(needed), max_turns, ..rules(&registry, &scope) };
    let question = vec![Turn::User("go".to_owned())];
    let outcome = run_loop(&mut legs.select_backend(true), &rules, question).await;
    let asked = asked.lock().unwrap().clone();
    (asked, runs.load(Ordering::Relaxed), outcome)
}

fn text(words: &str) -> Result<BackendTurn, BackendError> {
    Ok(BackendTurn::Text(words.to_owned()))
}

#[tokio::test]
async fn a_needed_call_is_reminded_of_once_and_then_made_for_the_model() {
    let system = [PermissionCategory::System];
    let three = vec![text("guess"), text("guess"), text("seven it is")];
    let (asked, runs, outcome) = needing(three, &system, MAX_TURNS).await;
    assert_eq!((asked.len(), runs, outcome.text.as_str()), (3, 1, "seven it is"));
    let [Turn::User(reminder)] = &asked[1][..] else { panic!("{asked:?}") };
    assert!(reminder.starts_with("go\n\n") && reminder.contains("count"), "{reminder}");
    let [_, Turn::Assistant { calls: made, .. }, Turn::ToolResult { content, .. }] = &asked[2][..]
    else {
        panic!("{asked:?}")
    };
    assert_eq!((made[0].name.as_str(), content.as_str()), ("count", "seven"));

    // Reminded and obeyed; or done at once, with arguments of the model's own.
    let call = || calls(vec![("count", json!({}))]);
    let obeyed = vec![text("guess"), call(), text("seven")];
    assert_eq!(needing(obeyed, &system, MAX_TURNS).await.1, 1);
    let (asked, runs, _) = needing(vec![call(), text("seven")], &system, MAX_TURNS).await;
    assert_eq!((asked.len(), runs), (2, 1));
}

#[tokio::test]
async fn a_needed_call_that_is_not_granted_is_neither_reminded_of_nor_made() {
    let (asked, runs, outcome) = needing(vec![text("I can't")], &[], MAX_TURNS).await;
    assert_eq!((asked.len(), runs, outcome.text.as_str()), (1, 0, "I can't"));
}

#[tokio::test]
async fn a_turn_may_be_given_fewer_requests_and_never_more() {
    let system = [PermissionCategory::System];
    for (limit, made) in [(1, 1), (2, 2), (MAX_TURNS + 1, MAX_TURNS)] {
        let endless = (0..=MAX_TURNS + 1).map(|step| calls(vec![("count", json!({"s": step}))]));
        let (asked, _, outcome) = needing(endless.collect(), &system, limit).await;
        assert_eq!((asked.len(), outcome.status), (made, ChatStatus::Failed));
    }
}
