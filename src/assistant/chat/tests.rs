//! Whole turns against scripted legs.

mod cloud;
mod evil;
mod faults;
mod gated;
mod memory;
mod orders;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::assistant::backends::offline::Offline;
use crate::assistant::backends::scripted::Scripted;
use crate::assistant::backends::{BackendError, BackendTurn, Capabilities, ToolCall};
use crate::assistant::loop_::{NO_MODEL, NO_MODEL_BUT_FIXED, NO_USE, TOO_MUCH};
use crate::assistant::{Assurance, PeerId, PermissionCategory, SessionId, ToolOutcome, TurnId};

fn text(words: &str) -> Result<BackendTurn, BackendError> {
    Ok(BackendTurn::Text(words.to_owned()))
}

fn calls(name: &str) -> Result<BackendTurn, BackendError> {
    let call = ToolCall { id: "c1".to_owned(), name: name.to_owned(), arguments: json!({}) };
    Ok(BackendTurn::ToolCalls { text: String::new(), calls: vec![call], raw: None })
}

fn unreachable() -> Result<BackendTurn, BackendError> {
    Err(BackendError::Unreachable("connection refused".to_owned()))
}

fn operator(session: &str) -> CallerScope {
    CallerScope::LocalOperator {
        session_id: SessionId(session.to_owned()),
        granted: CategorySet::from([PermissionCategory::System]),
    }
}

fn peer(id: &str, assurance: Assurance) -> CallerScope {
    CallerScope::Mesh {
        peer_id: PeerId(id.to_owned()),
        name: "Ana".to_owned(),
        assurance,
        granted: CategorySet::from([PermissionCategory::System]),
    }
}

fn context(scope: CallerScope, turn: &str) -> ChatContext {
    ChatContext {
        scope,
        turn_id: TurnId(turn.to_owned()),
        cancel: CancellationToken::new(),
        answer_bytes: None,
        quotes: None,
    }
}

struct Desk {
    assistant: Assistant,
    _data: tempfile::TempDir,
}

fn desk(backends: Vec<Scripted>, cloud: CloudPolicy) -> Desk {
    let legs = backends.into_iter().map(|b| Box::new(b) as Box<dyn Backend>).collect();
    desk_of(legs, cloud)
}

fn desk_with_offline(backends: Vec<Scripted>, cloud: CloudPolicy) -> Desk {
    let legs = backends.into_iter().map(|b| Box::new(b) as Box<dyn Backend>);
    desk_of(legs.chain([Box::new(Offline) as Box<dyn Backend>]).collect(), cloud)
}

fn desk_of(legs: Vec<Box<dyn Backend>>, cloud: CloudPolicy) -> Desk {
    let data = tempfile::tempdir().unwrap();
    let tools = crate::tools::registry(Path::new("/"));
    let assistant = Assistant::with_legs(legs, cloud, tools, data.path()).unwrap();
    Desk { assistant, _data: data }
}

#[tokio::test]
async fn a_tool_runs_and_its_result_reaches_the_model() {
    let leg = Scripted::by("ollama", |history, _| match history.last() {
        Some(Turn::ToolResult { content, .. }) => text(&format!("Answer: {content}")),
        _ => calls("system_disk_status"),
    });
    let desk = desk(vec![leg], CloudPolicy::None);
    let reply = desk.assistant.chat(context(operator("s"), "t"), "disk?").await;
    assert_eq!(reply.status, ChatStatus::Answered);
    assert!(reply.text.contains(" free of "), "{}", reply.text);
    assert_eq!(reply.tools[0].outcome, ToolOutcome::Ran);
    assert_eq!(reply.backend, "ollama");
}

#[tokio::test]
async fn without_a_model_only_who_may_use_tools_is_told_of_the_fixed_questions() {
    let data = tempfile::tempdir().unwrap();
    let tools = crate::tools::registry(Path::new("/"));
    let legs: Vec<Box<dyn Backend>> = vec![Box::new(Offline)];
    let assistant = Assistant::with_legs(legs, CloudPolicy::None, tools, data.path()).unwrap();
    let unconfirmed = CallerScope::Mesh {
        peer_id: PeerId("key:ana".to_owned()),
        name: "Ana".to_owned(),
        assurance: Assurance::Verified,
        granted: CategorySet::new(),
    };
    for (scope, question, status, fixed) in [
        (operator("s"), "how much disk space is left?", ChatStatus::Answered, false),
        (operator("s"), "who was Ada?", ChatStatus::Failed, true),
        (unconfirmed, "how much disk space is left?", ChatStatus::Failed, false),
    ] {
        let reply = assistant.chat(context(scope, question), question).await;
        assert_eq!(reply.status, status, "{}", reply.text);
        assert!(reply.text.contains("No model can be reached now"), "{}", reply.text);
        assert_eq!(reply.text.contains("fixed questions"), fixed, "{}", reply.text);
    }
}

#[tokio::test]
async fn a_transport_error_falls_through_and_the_reason_is_shown() {
    let desk = desk(
        vec![
            Scripted::new("ollama", vec![unreachable()]),
            Scripted::new("claude", vec![text("from the cloud")]).in_cloud(),
        ],
        CloudPolicy::All,
    );
    let reply = desk.assistant.chat(context(operator("s"), "t"), "hello").await;
    assert_eq!((reply.text.as_str(), reply.backend.as_str()), ("from the cloud", "claude"));
    assert_eq!(reply.reasons.len(), 1);
    assert_eq!(reply.reasons[0].leg, "ollama");
    assert!(reply.reasons[0].reason.contains("connection refused"));
}

#[tokio::test]
async fn a_leg_that_failed_a_turn_is_not_asked_again_in_it() {
    let claude = Scripted::by("claude", |history, _| match history.last() {
        Some(Turn::ToolResult { .. }) => text("done"),
        _ => calls("system_disk_status"),
    })
    .in_cloud();
    let desk = desk(
        vec![Scripted::new("ollama", vec![unreachable(), text("too late")]), claude],
        CloudPolicy::All,
    );
    let reply = desk.assistant.chat(context(operator("s"), "t"), "disk?").await;
    assert_eq!((reply.text.as_str(), reply.backend.as_str()), ("done", "claude"));
}

#[tokio::test]
async fn non_tool_capable_model_falls_through_to_claude() {
    let ollama = Scripted::new("ollama", vec![text("I have no tools")])
        .with(Ok(Capabilities { tools: false }));
    let claude = Scripted::new("claude", vec![text("with tools")]).in_cloud();
    let desk = desk(vec![ollama, claude], CloudPolicy::All);
    let reply = desk.assistant.chat(context(operator("s"), "t"), "disk?").await;
    assert_eq!((reply.text.as_str(), reply.backend.as_str()), ("with tools", "claude"));
    assert_eq!(reply.reasons[0].reason, BackendError::NoTools.to_string());
}

#[tokio::test]
async fn a_local_model_without_tools_answers_at_last_and_says_so() {
    for learnt_late in [false, true] {
        let ollama = if learnt_late {
            Scripted::new("ollama", vec![Err(BackendError::NoTools), text("Paris")])
        } else {
            Scripted::new("ollama", vec![text("Paris")]).with(Ok(Capabilities { tools: false }))
        };
        let claude = Scripted::new("claude", vec![unreachable()]).in_cloud();
        let desk = desk(vec![ollama, claude], CloudPolicy::All);
        let reply = desk.assistant.chat(context(operator("s"), "t"), "capital of France?").await;
        assert_eq!(reply.backend, "ollama");
        assert!(reply.text.starts_with("Paris") && reply.text.contains("without tools"));
    }
}

#[tokio::test]
async fn the_cloud_policy_decides_whose_text_may_leave() {
    let stranger = || peer("claim:!0badcafe", Assurance::Unverified);
    for (policy, scope, reaches) in [
        (CloudPolicy::None, operator("s"), false),
        (CloudPolicy::Operator, operator("s"), true),
        (CloudPolicy::Operator, peer("key:a", Assurance::Verified), false),
        (CloudPolicy::All, peer("key:a", Assurance::Verified), true),
        (CloudPolicy::All, stranger(), true),
    ] {
        let claude = Scripted::new("claude", vec![text("cloud")]).in_cloud();
        let desk = desk(vec![Scripted::new("ollama", vec![unreachable()]), claude], policy);
        let reply = desk.assistant.chat(context(scope.clone(), "t"), "hello").await;
        assert_eq!(reply.backend == "claude", reaches, "{policy:?} {scope:?}");
        assert_eq!(reply.status == ChatStatus::Answered, reaches);
    }
}

#[tokio::test]
async fn operator_and_mesh_transcripts_are_separate() {
    let leg = Scripted::by("ollama", |_, _| text("noted"));
    let desk = desk(vec![leg], CloudPolicy::None);
    // The same words as id everywhere: only the kind of caller tells them apart.
    let callers = [
        operator("same"),
        operator("other"),
        peer("same", Assurance::Verified),
        peer("other", Assurance::Verified),
    ];
    for (index, scope) in callers.iter().enumerate() {
        desk.assistant.chat(context(scope.clone(), "t"), &format!("secret {index}")).await;
    }
    for (index, scope) in callers.iter().enumerate() {
        let turns = desk.assistant.history(scope);
        assert_eq!(turns.len(), 1);
        assert_eq!(turns[0].question, format!("secret {index}"));
    }
    desk.assistant.clear_history(&callers[2]).unwrap();
    let left: Vec<usize> = callers.iter().map(|c| desk.assistant.history(c).len()).collect();
    assert_eq!(left, [1, 1, 0, 1]);
}

#[tokio::test]
async fn a_caller_who_is_not_verified_has_no_memory() {
    let leg = Scripted::by("ollama", |history, _| text(&format!("{} before", history.len() - 1)));
    let desk = desk(vec![leg], CloudPolicy::None);
    for assurance in [Assurance::Unverified, Assurance::Signed] {
        for turn in ["1", "2"] {
            let scope = peer("key:a", assurance);
            let reply = desk.assistant.chat(context(scope.clone(), turn), "hello").await;
            assert_eq!(reply.text, "0 before");
            assert!(desk.assistant.history(&scope).is_empty());
        }
    }
    let verified = peer("key:a", Assurance::Verified);
    desk.assistant.chat(context(verified.clone(), "3"), "hello").await;
    let reply = desk.assistant.chat(context(verified, "4"), "hello").await;
    assert_eq!(reply.text, "2 before");
}

#[tokio::test]
async fn an_answered_turn_is_not_run_again() {
    let leg = Scripted::new("ollama", vec![unreachable(), text("first"), text("second")]);
    let desk = desk(vec![leg], CloudPolicy::None);
    let failed = desk.assistant.chat(context(operator("s"), "t"), "hello").await;
    assert_eq!(failed.status, ChatStatus::Failed);
    for _ in 0..2 {
        let reply = desk.assistant.chat(context(operator("s"), "t"), "hello").await;
        assert_eq!(reply.text, "first");
    }
    assert_eq!(desk.assistant.history(&operator("s")).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_turn_and_an_endless_one_end_with_one_line() {
    let desk = desk(vec![Scripted::hanging("ollama")], CloudPolicy::None);
    let stopped = context(operator("s"), "t");
    stopped.cancel.cancel();
    assert_eq!(desk.assistant.chat(stopped, "hello").await.status, ChatStatus::Stopped);
    let begun = tokio::time::Instant::now();
    let reply = desk.assistant.chat(context(operator("s"), "u"), "hello").await;
    assert_eq!((reply.status, reply.text.as_str()), (ChatStatus::Failed, TOO_LONG));
    assert_eq!(begun.elapsed(), OPERATOR_TURN);
}

#[tokio::test]
async fn what_goes_wrong_is_one_short_line_without_a_product_or_an_address() {
    let desk = desk(
        vec![Scripted::new(
            "ollama",
            vec![Err(BackendError::Refused {
                status: 500,
                reason: "http://10.0.0.1 broke".to_owned(),
            })],
        )],
        CloudPolicy::None,
    );
    let reply =
        desk.assistant.chat(context(peer("key:a", Assurance::Verified), "t"), "hello").await;
    assert_eq!(reply.status, ChatStatus::Failed);
    assert!(reply.text.len() <= 120, "{}", reply.text);
    for word in ["500", "http", "ollama", "claude", "10.0.0.1"] {
        assert!(!reply.text.to_lowercase().contains(word), "{}", reply.text);
    }
}

#[tokio::test]
async fn an_answer_of_no_use_gets_a_second_try_and_no_third() {
    let broken = || Err(BackendError::Broken("empty".to_owned()));
    for (script, answered) in
        [(vec![broken(), text("good")], true), (vec![broken(), broken(), text("late")], false)]
    {
        let desk = desk(vec![Scripted::new("ollama", script)], CloudPolicy::None);
        let reply = desk.assistant.chat(context(operator("s"), "t"), "hello").await;
        assert_eq!(reply.status == ChatStatus::Answered, answered);
    }
}
