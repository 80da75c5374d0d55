//! Calls that need a confirmation, grants that change while a turn runs, and what is recorded of it.

mod always;
mod late;

use serde_json::Value;

use super::*;
use crate::assistant::confirm::NOT_IN_TIME;
use crate::assistant::fixture::{self, Log, Runs, all_files};
use crate::assistant::grants::{GrantError, OPERATOR, Standing, ToolMode, Wish};
use crate::assistant::tools::{Description, ToolRegistry};

const ANA: &str = "key:ana";
const CANARY: &str = "canary-7f3a";

/// An assistant with a tool in every category, on a data folder that can be opened again.
struct House {
    data: tempfile::TempDir,
    runs: Runs,
    assistant: Assistant,
}

impl House {
    fn new(leg: Scripted) -> House {
        let (data, runs) = (tempfile::tempdir().unwrap(), Runs::default());
        let assistant = open(&data, &runs, leg);
        House { data, runs, assistant }
    }

    /// As after a kill: nothing of memory is left.
    fn restart(&mut self, leg: Scripted) {
        self.assistant = open(&self.data, &self.runs, leg);
    }

    fn grant(&self, caller: &str, category: PermissionCategory) {
        let wish = Wish::Category { category, granted: true, until: None };
        self.assistant.set_grant(caller, wish, "test").unwrap();
    }

    fn revoke(&self, caller: &str, category: PermissionCategory) {
        let wish = Wish::Category { category, granted: false, until: None };
        self.assistant.set_grant(caller, wish, "test").unwrap();
    }

    fn mode(&self, caller: &str, tool: &str, mode: ToolMode) -> Result<(), GrantError> {
        let wish = Wish::Tool { tool: tool.to_owned(), mode: Some(mode), until: None };
        self.assistant.set_grant(caller, wish, "test")
    }

    async fn ask(&self, scope: CallerScope, turn: &str) -> ChatReply {
        self.assistant
            .chat(ChatContext { answer_bytes: Some(195), ..context(scope, turn) }, "do it")
            .await
    }

    fn outcomes(&self) -> Vec<ToolOutcome> {
        self.assistant.calls(100).unwrap().into_iter().map(|call| call.outcome).collect()
    }
}

fn open(data: &tempfile::TempDir, runs: &Runs, leg: Scripted) -> Assistant {
    let tools = ToolRegistry::new(fixture::tools(runs).into_iter().chain(fixture::notes(runs)));
    let assistant =
        Assistant::with_legs(vec![Box::new(leg)], CloudPolicy::None, tools, data.path()).unwrap();
    assistant.grants().set_contacts(vec![Standing {
        caller: PeerId(ANA.to_owned()),
        name: "Ana".to_owned(),
        base: CategorySet::from([PermissionCategory::System]),
        configured: false,
        confirmed: true,
    }]);
    assistant
}

/// Makes that call, and says what came of it.
fn obeys(name: &'static str, arguments: Value) -> Scripted {
    Scripted::by("ollama", move |history, _| match history.last() {
        Some(Turn::ToolResult { content, .. }) => text(content),
        _ => fixture::calls(name, arguments.clone()),
    })
}

/// Makes those calls one after the other.
fn obeys_all(names: &'static [&'static str]) -> Scripted {
    Scripted::by("ollama", move |history, _| {
        let done = history.iter().rev().take_while(|turn| !matches!(turn, Turn::User(_)));
        let done = done.filter(|turn| matches!(turn, Turn::ToolResult { .. })).count();
        match names.get(done) {
            Some(name) => fixture::calls(name, json!({"text": format!("{CANARY}-{done}")})),
            None => text("done"),
        }
    })
}

fn ana() -> CallerScope {
    peer(ANA, Assurance::Verified)
}

#[tokio::test]
async fn a_call_of_the_operator_waits_runs_once_when_approved_and_without_the_model() {
    let log = Log::listen();
    let house = House::new(obeys("system_write", json!({"text": CANARY})));
    let reply = house.ask(operator("s"), "t1").await;
    assert_eq!(reply.status, ChatStatus::Answered);
    assert_eq!(reply.text, "system_write waits for your confirmation.");
    assert_eq!(reply.tools[0].outcome, ToolOutcome::NeedsConfirmation);
    assert_eq!(house.runs.count(), 0);
    let pending = house.assistant.pending_of(&TurnId("t1".to_owned())).unwrap();
    assert_eq!(house.assistant.pending(), std::slice::from_ref(&pending));
    assert_eq!((pending.caller.as_str(), pending.code_for_peer), ("operator", false));
    assert_eq!(pending.arguments, json!({"text": CANARY}));
    let (one, two) = (house.assistant.take(&pending.id), house.assistant.take(&pending.id));
    assert!(two.is_none(), "approved twice");
    let settled = house.assistant.settle(one.unwrap(), true, true).await;
    assert_eq!(settled.outcome, Some(ToolOutcome::Ran));
    assert_eq!(settled.text, format!("system_write did {CANARY}"));
    assert_eq!(house.runs.all(), [("system_write".to_owned(), CANARY.to_owned())]);
    assert!(house.assistant.pending().is_empty());
    // The next turn knows that it was done; nobody keeps with what.
    let history = house.assistant.history(&operator("s"));
    assert_eq!(history[1].answer, "system_write was confirmed and done.");
    let calls = house.assistant.calls(10).unwrap();
    assert_eq!(house.outcomes(), [ToolOutcome::NeedsConfirmation, ToolOutcome::Ran]);
    assert!(calls.iter().all(|call| call.turn_id.0 == "t1" && call.caller == "operator"));
    assert!(!all_files(house.data.path()).contains(CANARY), "{}", all_files(house.data.path()));
    let log = log.text();
    assert!(log.contains("tool call turn=\"t1\" tool=\"system_write\""), "{log}");
    assert!(!log.contains(CANARY));
}

#[tokio::test]
async fn a_call_that_is_said_no_to_is_gone() {
    let house = House::new(obeys("system_write", json!({"text": "x"})));
    house.ask(operator("s"), "t1").await;
    let id = house.assistant.pending()[0].id.clone();
    let taken = house.assistant.take(&id).unwrap();
    assert_eq!(house.assistant.settle(taken, false, true).await.outcome, None);
    assert!(house.assistant.take(&id).is_none());
    assert_eq!(house.runs.count(), 0);
}

#[tokio::test]
async fn restart_drops_pending_not_executes() {
    let leg = || obeys("notes_write", json!({"text": CANARY}));
    let mut house = House::new(leg());
    house.grant(ANA, PermissionCategory::Notes);
    house.ask(operator("s"), "t1").await;
    house.grant(OPERATOR, PermissionCategory::Notes);
    house.ask(operator("s"), "t2").await;
    house.ask(ana(), "m-1").await;
    let code = house.assistant.prompt_of(&TurnId("m-1".to_owned())).unwrap().code;
    let ids: Vec<String> = house.assistant.pending().into_iter().map(|call| call.id).collect();
    assert_eq!(ids.len(), 2, "without the grant nothing waits");
    let files = all_files(house.data.path());
    for secret in [code.expose(), CANARY, &ids[0], &ids[1]] {
        assert!(!files.contains(secret), "{secret} is in {files}");
    }
    house.restart(leg());
    assert!(house.assistant.pending().is_empty());
    assert!(house.assistant.take_by_code(&ana(), code.expose()).is_none());
    assert!(ids.iter().all(|id| house.assistant.take(id).is_none()));
    // And the answered turns are not run again.
    house.ask(operator("s"), "t2").await;
    house.ask(ana(), "m-1").await;
    assert!(house.assistant.pending().is_empty());
    assert_eq!(house.runs.count(), 0);
}

#[tokio::test]
async fn each_mode_does_what_it_says() {
    let leg = || {
        Scripted::by("ollama", |history, tools| match history.last() {
            Some(Turn::ToolResult { content, .. }) => text(content),
            _ if tools.iter().any(|tool| tool.name == "system_read") => {
                fixture::calls("system_read", json!({"text": "x"}))
            }
            _ => fixture::calls("system_read", json!({"text": "not offered"})),
        })
    };
    let house = House::new(leg());
    for (mode, ran, waits) in
        [(ToolMode::Always, 1, 0), (ToolMode::Ask, 0, 1), (ToolMode::Never, 0, 0)]
    {
        let before = house.runs.count();
        house.mode(ANA, "system_read", mode).unwrap();
        let reply = house.ask(ana(), &format!("m-{mode:?}")).await;
        assert_eq!(house.runs.count() - before, ran, "{mode:?}");
        assert_eq!(house.assistant.pending().len(), waits, "{mode:?} {}", reply.text);
        house.assistant.drop_pending(ANA);
        let listed = house.assistant.list_tools(&ana());
        let offered = listed.iter().any(|(tool, may)| tool.name == "system_read" && *may);
        assert_eq!(offered, mode != ToolMode::Never);
    }
    assert!(house.runs.all().iter().all(|(_, text)| text != "not offered"));
}

#[tokio::test]
async fn a_peer_confirms_by_code_what_it_may_and_the_operator_the_rest() {
    let long = "x".repeat(200);
    for (tool, text, by_code) in [
        ("notes_write", "milk", true),
        ("network_write", "milk", true),
        ("notes_write", &long, false), // nobody confirms what does not fit before the eyes
        ("system_write", "milk", false),
        ("files_write", "milk", false),
        ("apps_write", "milk", false),
        ("wallet_write", "milk", false),
        ("bitcoin_write", "milk", false),
    ] {
        let house = House::new(obeys(tool, json!({"text": text})));
        for category in PermissionCategory::ALL {
            house.grant(ANA, category);
        }
        let reply = house.ask(ana(), "m-1").await;
        let turn = TurnId("m-1".to_owned());
        let prompt = house.assistant.prompt_of(&turn);
        assert_eq!(prompt.is_some(), by_code, "{tool}");
        assert_eq!(house.assistant.pending()[0].code_for_peer, by_code);
        assert_eq!(reply.text.contains("operator"), !by_code, "{}", reply.text);
        if let Some(prompt) = prompt {
            assert_eq!(prompt.call, format!("{tool} {{\"text\":\"milk\"}}"));
            assert!(!reply.text.contains(prompt.code.expose()) && !reply.text.contains("milk"));
            let wrong = peer("key:ben", Assurance::Verified);
            assert!(house.assistant.take_by_code(&wrong, prompt.code.expose()).is_none());
            for assurance in [Assurance::Signed, Assurance::Unverified] {
                let unproven = peer(ANA, assurance);
                assert!(house.assistant.take_by_code(&unproven, prompt.code.expose()).is_none());
            }
            let taken = house.assistant.take_by_code(&ana(), prompt.code.expose()).unwrap();
            house.assistant.settle(taken, true, false).await;
            assert_eq!(house.runs.count(), 1);
        }
        // `always` lifts that for no peer, not even where the file says so.
        let always = house.mode(ANA, tool, ToolMode::Always);
        let operators = crate::assistant::confirm::needs_operator(
            house.assistant.tools.get(tool).unwrap().category,
        );
        assert_eq!(always.is_err(), operators, "{tool}");
        house.mode(OPERATOR, tool, ToolMode::Always).unwrap();
        let wish = Wish::Tool { tool: tool.to_owned(), mode: Some(ToolMode::Always), until: None };
        house.assistant.grants().set(ANA, wish, "by hand").unwrap();
        house.assistant.drop_pending(ANA);
        house.assistant.clear_history(&ana()).unwrap();
        let before = house.runs.count();
        house.ask(ana(), "m-2").await;
        assert_eq!(house.runs.count() - before, usize::from(!operators), "{tool}");
    }
}

#[tokio::test]
async fn a_grant_that_is_taken_back_stops_the_next_call_and_the_one_that_waits() {
    // In the middle of a turn.
    let house = Arc::new(std::sync::OnceLock::<House>::new());
    let seen = house.clone();
    let leg = Scripted::by("ollama", move |history, _| {
        let results = history.iter().filter(|turn| matches!(turn, Turn::ToolResult { .. })).count();
        if results == 1 {
            seen.get().unwrap().revoke(ANA, PermissionCategory::System);
        }
        match results {
            0 | 1 => fixture::calls("system_read", json!({"text": format!("{results}")})),
            _ => text("done"),
        }
    });
    house.set(House::new(leg)).ok().unwrap();
    let house = house.get().unwrap();
    let reply = house.ask(ana(), "m-1").await;
    let outcomes: Vec<ToolOutcome> = reply.tools.iter().map(|call| call.outcome).collect();
    assert_eq!(outcomes, [ToolOutcome::Ran, ToolOutcome::Denied]);
    assert_eq!(house.runs.count(), 1);

    // Between the question and the yes: the grant, the tool, the contact.
    for what in 0..3 {
        let house = House::new(obeys("notes_write", json!({"text": "x"})));
        house.grant(ANA, PermissionCategory::Notes);
        house.ask(ana(), "m-1").await;
        let id = house.assistant.pending()[0].id.clone();
        match what {
            0 => house.revoke(ANA, PermissionCategory::Notes),
            1 => house.mode(ANA, "notes_write", ToolMode::Never).unwrap(),
            _ => house.assistant.grants().set_contacts(Vec::new()),
        }
        let taken = house.assistant.take(&id).unwrap();
        let settled = house.assistant.settle(taken, true, true).await;
        assert_eq!(settled.outcome, Some(ToolOutcome::Denied), "{what}");
        assert_eq!(house.runs.count(), 0);
    }
}

#[tokio::test]
async fn what_changed_something_before_a_kill_is_not_done_again_by_the_same_turn() {
    let mut house = House::new(Scripted::hanging_after(
        "ollama",
        vec![fixture::calls("notes_write", json!({"text": "once"}))],
    ));
    house.grant(ANA, PermissionCategory::Notes);
    house.mode(ANA, "notes_write", ToolMode::Always).unwrap();
    {
        let turn = house.ask(ana(), "m-1");
        tokio::pin!(turn);
        // Until it has run and the model thinks about its result.
        while house.runs.count() == 0 {
            let pause = tokio::task::yield_now();
            tokio::select! { _ = &mut turn => panic!("it ended"), () = pause => {} }
        }
    }
    house.restart(obeys("notes_write", json!({"text": "once more, in other words"})));
    let reply = house.ask(ana(), "m-1").await;
    assert_eq!(reply.tools[0].outcome, ToolOutcome::Denied);
    assert!(reply.text.contains("may have been done already"), "{}", reply.text);
    assert_eq!(house.runs.count(), 1);
    house.ask(ana(), "m-2").await;
    assert_eq!(house.runs.count(), 2, "another turn is another matter");
    let note = std::fs::read_to_string(house.data.path().join("inbox/begun.log")).unwrap();
    assert!(note.contains("m-1 notes_write") && !note.contains("once"), "{note}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_hears_in_any_case_what_became_of_a_call_that_the_operator_was_asked_about() {
    for (decision, words) in [
        (Some(true), Some("system_write did x")),
        (Some(false), Some("The operator said no: nothing was done.")),
        (None, Some(NOT_IN_TIME)),
    ] {
        let house = House::new(obeys("system_write", json!({"text": "x"})));
        house.ask(ana(), "m-1").await;
        let told = house.assistant.told_of(&TurnId("m-1".to_owned())).unwrap();
        if let Some(approve) = decision {
            let taken = house.assistant.take(&house.assistant.pending()[0].id).unwrap();
            house.assistant.settle(taken, approve, true).await;
        }
        assert_eq!(told.await.as_deref(), words);
        assert_eq!(house.runs.count(), usize::from(decision == Some(true)));
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_told_in_one_line_that_names_the_field() {
    let house = House::new(obeys("system_read", json!({"text": 7})));
    let reply = house.ask(ana(), "m-1").await;
    assert_eq!(
        reply.text,
        "Refused: the arguments of system_read are wrong: `text` must be of type string, not number."
    );
}

#[tokio::test]
async fn a_session_without_authority_gets_none_from_what_was_set_for_the_operator() {
    let house = House::new(obeys("system_read", json!({"text": "x"})));
    house.grant(OPERATOR, PermissionCategory::System);
    let session_id = SessionId("viewer".to_owned());
    let viewer = CallerScope::LocalOperator { session_id, granted: CategorySet::new() };
    house.ask(viewer.clone(), "t1").await;
    assert_eq!(house.runs.count(), 0);
    assert!(house.assistant.list_tools(&viewer).iter().all(|(_, may)| !may));
}
