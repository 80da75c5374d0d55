//! What is kept of a session, and what never is.

use serde_json::json;

use super::*;
use crate::assistant::ToolRecord;

fn name(text: &str) -> SessionName {
    text.parse().unwrap()
}

fn turn(at: u64, text: &str) -> KeptTurn {
    KeptTurn::new(at, text, text, ChatStatus::Answered, "toy", &[])
}

fn call(
    tool: &str,
    category: Option<PermissionCategory>,
    outcome: ToolOutcome,
    arguments: Value,
    content: &str,
) -> (ToolCall, Executed) {
    let call = ToolCall { id: "1".to_owned(), name: tool.to_owned(), arguments };
    let record = ToolRecord { name: tool.to_owned(), category, outcome };
    let is_error = outcome != ToolOutcome::Ran;
    (call, Executed { record, content: content.to_owned(), is_error, waits: false, foreign: true })
}

#[test]
fn a_name_is_letters_digits_dash_and_underscore_and_at_most_64() {
    let longest = "x".repeat(64);
    for good in ["a", "A-1_b", longest.as_str()] {
        assert_eq!(good.parse::<SessionName>().unwrap().as_str(), good);
    }
    let longer = "x".repeat(65);
    for bad in ["", ".", "..", "a/b", "../a", "a.json", "a b", "ü", "a\n", longer.as_str()] {
        assert!(bad.parse::<SessionName>().is_err(), "{bad}");
    }
}

#[test]
fn a_session_is_private_survives_and_can_be_deleted() {
    let data = tempfile::tempdir().unwrap();
    let sessions = Sessions::of(data.path());
    assert!(sessions.names().unwrap().is_empty());
    sessions.add(&name("b"), turn(1, "hello")).unwrap();
    sessions.add(&name("a"), turn(2, "hello")).unwrap();
    assert!(store::is_private(&sessions.path(&name("a"))).unwrap());
    assert!(store::is_private(&data.path().join("terminal")).unwrap());
    let again = Sessions::of(data.path());
    assert_eq!(again.names().unwrap(), [name("a"), name("b")]);
    assert_eq!(again.get(&name("b")).unwrap().unwrap().turns, [turn(1, "hello")]);
    assert_eq!(
        (again.delete(&name("b")).unwrap(), again.delete(&name("b")).unwrap()),
        (true, false)
    );
    assert_eq!(again.get(&name("b")).unwrap(), None);
}

#[test]
fn turns_and_bytes_are_bounded_and_the_newest_stay() {
    let data = tempfile::tempdir().unwrap();
    let sessions = Sessions::of(data.path());
    for at in 0..=MAX_TURNS {
        sessions.add(&name("a"), turn(at as u64, "x")).unwrap();
    }
    let session = sessions.get(&name("a")).unwrap().unwrap();
    assert_eq!((session.turns.len(), session.turns[0].at), (MAX_TURNS, 1));
    assert_eq!(session.for_model().len(), 2 * GIVEN_TURNS);

    let large = "x".repeat(MAX_BYTES / 4);
    for at in 1000..1003 {
        sessions.add(&name("a"), turn(at, &large)).unwrap();
    }
    let kept = sessions.get(&name("a")).unwrap().unwrap().turns;
    assert!(kept.iter().map(KeptTurn::bytes).sum::<usize>() <= MAX_BYTES);
    assert_eq!(kept.last().unwrap().at, 1002);
    sessions.add(&name("b"), turn(1, &"x".repeat(MAX_BYTES))).unwrap();
    assert_eq!(sessions.get(&name("b")).unwrap().unwrap().turns.len(), 1);
}

#[test]
fn no_argument_of_files_or_wallet_and_no_content_of_a_file_is_kept() {
    use PermissionCategory::{Apps, Files, System, Wallet};
    let secret = json!({"text": "canary-in"});
    for (category, outcome, arguments, result) in [
        (Some(Files), ToolOutcome::Ran, false, false),
        (Some(Files), ToolOutcome::Denied, false, false),
        (Some(Wallet), ToolOutcome::Ran, false, false),
        (None, ToolOutcome::Unknown, false, false),
        (Some(Apps), ToolOutcome::Ran, true, false),
        (Some(Apps), ToolOutcome::Failed, true, false),
        (Some(Apps), ToolOutcome::Denied, true, true),
        (Some(System), ToolOutcome::Ran, true, true),
    ] {
        let made = call("t", category, outcome, secret.clone(), "canary-out");
        let turn = KeptTurn::new(1, "q", "a", ChatStatus::Answered, "toy", &[made]);
        let file = serde_json::to_string(&turn).unwrap();
        assert_eq!(file.contains("canary-in"), arguments, "{category:?} {outcome:?}");
        assert_eq!(file.contains("canary-out"), result, "{category:?} {outcome:?}");
    }
}

#[test]
fn what_looks_like_a_key_is_not_kept() {
    let key = format!("sk-{}", "a1".repeat(10));
    for text in [
        key.clone(),
        format!("the key is {key}, use it"),
        format!("curl -H 'x-api-key: {key}'"),
        format!("API_KEY={key} run"),
        format!("Authorization: Bearer {}", "t".repeat(KEY_LENGTH)),
    ] {
        let kept = masked(&text);
        assert!(kept.contains("***") && !kept.contains("a1a1") && !kept.contains("tttt"), "{kept}");
    }
    for text in
        ["a task-list-of-some-twenty-letters", "sk-short", "bearer of news", "ä ö\n\n ü", ""]
    {
        assert_eq!(masked(text), text);
    }
    let made = call("t", Some(PermissionCategory::Apps), ToolOutcome::Ran, json!({"c": [key]}), "");
    let turn = KeptTurn::new(1, "q", "a", ChatStatus::Answered, "toy", &[made]);
    assert_eq!(turn.tools[0].arguments, Some(json!({"c": ["***"]})));
}

#[test]
fn a_model_is_given_the_calls_whose_arguments_were_kept() {
    let run = json!({"command": "pwd"});
    let calls = [
        call("read_file", Some(PermissionCategory::Files), ToolOutcome::Ran, json!({}), "canary"),
        call(
            "run_shell_command",
            Some(PermissionCategory::Apps),
            ToolOutcome::Ran,
            run.clone(),
            "/",
        ),
    ];
    let answered = KeptTurn::new(1, "q", "a", ChatStatus::Answered, "toy", &calls);
    let failed = KeptTurn { status: ChatStatus::Failed, ..answered.clone() };
    let turns = Session { version: 1, turns: vec![failed, answered] }.for_model();
    let [
        Turn::User(_),
        Turn::Assistant { calls, .. },
        Turn::ToolResult { id, content, .. },
        Turn::Assistant { text, .. },
    ] = &turns[..]
    else {
        panic!("{turns:?}")
    };
    assert_eq!((calls[0].arguments == run, &calls[0].id, content.as_str()), (true, id, NOT_KEPT));
    assert_eq!(text, "a");
}

#[test]
fn two_runs_that_end_at_once_both_keep_their_turns() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for run in 0..4 {
            let sessions = Sessions::of(folder.path());
            scope.spawn(move || {
                for at in 0..10 {
                    sessions.add(&name("both"), turn(at, &format!("run {run}"))).unwrap();
                }
            });
        }
    });
    let session = Sessions::of(folder.path()).get(&name("both")).unwrap().unwrap();
    assert_eq!(session.turns.len(), 40);
}
