//! Whose notes are whose, and that none is lost.

use super::*;
use crate::assistant::ToolOutcome;
use crate::tools::fixture::Caller;

struct World {
    temp: tempfile::TempDir,
    operator: Caller,
}

impl World {
    fn new(kind: Notes) -> World {
        let temp = tempfile::tempdir().unwrap();
        let operator = Caller::of(tools(Some(kind), temp.path()), PermissionCategory::Notes);
        World { temp, operator }
    }

    fn files(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.temp.path().join("notes")) else {
            return Vec::new();
        };
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

async fn ran(caller: &Caller, tool: &str, arguments: serde_json::Value) -> String {
    let (outcome, words) = caller.run(tool, arguments).await;
    assert_eq!(outcome, ToolOutcome::Ran, "{words}");
    words
}

/// The notes without their dates.
async fn list(caller: &Caller) -> Vec<String> {
    let words = ran(caller, "notes_list", json!({})).await;
    words.lines().map(|line| format!("{} {}", &line[..2], line[20..].trim_start())).collect()
}

#[tokio::test]
async fn own_notes_are_kept_found_and_deleted_and_callers_do_not_meet() {
    let world = World::new(Notes::Own);
    let (ana, ben) = (world.operator.peer("ana"), world.operator.peer("ben"));
    assert_eq!(ran(&ana, "notes_list", json!({})).await, "[there are no notes]");
    let (outcome, _) = ana.without_gate("notes_add", json!({"text": "x"})).await;
    assert_eq!(outcome, ToolOutcome::NeedsConfirmation);
    assert!(world.files().is_empty(), "nothing was written");
    assert_eq!(ran(&ana, "notes_add", json!({"text": "The well is dry"})).await, "Noted as #1.");
    assert_eq!(ran(&ana, "notes_add", json!({"text": " Вода \u{202e}є\n"})).await, "Noted as #2.");
    assert_eq!(ran(&ben, "notes_add", json!({"text": "Ben's"})).await, "Noted as #1.");
    assert_eq!(ran(&world.operator, "notes_add", json!({"text": "mine"})).await, "Noted as #1.");
    assert_eq!(list(&ana).await, ["#2 Вода є", "#1 The well is dry"]);
    assert_eq!(list(&ben).await, ["#1 Ben's"]);
    let found = ran(&ana, "notes_search", json!({"words": "DRY well"})).await;
    assert!(found.starts_with("#1 ") && found.lines().count() == 1, "{found}");
    assert!(ran(&ana, "notes_search", json!({"words": "вода"})).await.starts_with("#2 "));
    assert_eq!(
        ran(&ana, "notes_search", json!({"words": "mine"})).await,
        "[no note has these words]"
    );
    assert_eq!(ran(&ana, "notes_delete", json!({"number": 1})).await, "#1 is deleted.");
    assert_eq!(list(&ana).await, ["#2 Вода є"]);
    assert_eq!(list(&ben).await, ["#1 Ben's"]);
    let (outcome, words) = ana.run("notes_delete", json!({"number": 7})).await;
    assert_eq!(
        (outcome, words.as_str()),
        (ToolOutcome::Failed, "notes_delete failed: there is no note #7.")
    );
    assert_eq!(ran(&ana, "notes_add", json!({"text": "new"})).await, "Noted as #3.");
    assert_eq!(world.files().len(), 3);
    assert!(world.files().iter().all(|name| !name.contains("ana")), "no name of a peer is a path");
}

#[tokio::test]
async fn another_login_of_the_operator_has_the_same_notes() {
    let world = World::new(Notes::Own);
    ran(&world.operator, "notes_add", json!({"text": "kept"})).await;
    let later = Caller {
        registry: world.operator.registry.clone(),
        scope: CallerScope::LocalOperator {
            session_id: crate::assistant::SessionId("another".to_owned()),
            granted: [PermissionCategory::Notes].into(),
        },
    };
    assert_eq!(list(&later).await, ["#1 kept"]);
}

#[tokio::test]
async fn shared_notes_say_whose_they_are() {
    let world = World::new(Notes::Shared);
    let ana = world.operator.peer("Ana\n#9 forged: x");
    ran(&ana, "notes_add", json!({"text": "one"})).await;
    ran(&world.operator, "notes_add", json!({"text": "two"})).await;
    assert_eq!(list(&ana).await, ["#2 operator: two", "#1 Ana #9 forged  x: one"]);
    assert_eq!(world.files(), ["shared.jsonl"]);
}

#[tokio::test]
async fn a_notebook_is_bounded_and_a_broken_line_costs_only_itself() {
    let world = World::new(Notes::Own);
    let longest = "ü".repeat(MAX_CHARS);
    ran(&world.operator, "notes_add", json!({ "text": longest })).await;
    let (outcome, words) =
        world.operator.run("notes_add", json!({ "text": format!("{longest}x") })).await;
    assert_eq!(outcome, ToolOutcome::BadArguments);
    assert!(words.contains("`text` must be of type string, 1 to 1000 characters"), "{words}");
    let (outcome, _) = world.operator.run("notes_add", json!({"text": " \u{200b} "})).await;
    assert_eq!(outcome, ToolOutcome::Failed);

    let path = world.temp.path().join("notes/operator.jsonl");
    let mut text = String::from("not a note\n");
    for id in 2..=MAX_NOTES as u64 - 1 {
        text +=
            &serde_json::to_string(&Note { id, at: 0, by: None, text: "n".repeat(100) }).unwrap();
        text.push('\n');
    }
    std::fs::write(&path, text).unwrap();
    assert_eq!(ran(&world.operator, "notes_add", json!({"text": "last"})).await, "Noted as #500.");
    let (outcome, words) = world.operator.run("notes_add", json!({"text": "more"})).await;
    assert_eq!(outcome, ToolOutcome::Failed);
    assert!(words.contains("is full"), "{words}");
    let shown = ran(&world.operator, "notes_list", json!({"limit": MAX_SHOWN})).await;
    assert!(shown.chars().count() <= MAX_TOOL_RESULT_CHARS && shown.contains(" older]"), "{shown}");
    ran(&world.operator, "notes_delete", json!({"number": 500})).await;
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("not a note\n"), "nothing is lost");
    assert!(store::is_private(&path).unwrap());
}

#[test]
fn without_a_word_in_the_configuration_nothing_is_kept() {
    assert!(tools(None, Path::new("/data")).is_empty());
}
