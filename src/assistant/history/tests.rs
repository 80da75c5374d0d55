//! Tests of the transcripts: bounds, borders between conversations, and files that are broken.

mod foreign;

use super::transcript::{MAX_BYTES, MAX_TURNS};
use super::*;
use crate::assistant::{
    CallerScope, ChatStatus, PermissionCategory, SessionId, ToolOutcome, ToolRecord,
};

fn key(session: &str) -> HistoryKey {
    let session_id = SessionId(session.to_owned());
    CallerScope::LocalOperator { session_id, granted: CategorySet::new() }.history_key().unwrap()
}

impl History {
    /// A turn that begins and ends now.
    fn add(&self, key: &HistoryKey, turn: StoredTurn) -> Result<(), StoreError> {
        self.add_since(key, self.mark(), turn)
    }
}

/// Folds what is due, as the assistant does after a turn.
fn fold(history: &History) -> bool {
    let Some(fold) = history.due(&key("a")) else { return false };
    let text = format!("{} turns more", fold.turns.len());
    history.fold(&key("a"), &fold, &text).unwrap();
    true
}

fn turn(id: usize, text: &str) -> StoredTurn {
    StoredTurn {
        turn_id: TurnId(format!("t-{id}")),
        at: id as u64,
        question: text.to_owned(),
        answer: text.to_owned(),
        status: ChatStatus::Answered,
        backend: "scripted".to_owned(),
        tools: Vec::new(),
        foreign: None,
        made_of: Some(CategorySet::new()),
    }
}

#[test]
fn a_transcript_survives_a_restart_and_is_private() {
    let data = tempfile::tempdir().unwrap();
    History::open(data.path()).unwrap().add(&key("a"), turn(1, "hello")).unwrap();
    let history = History::open(data.path()).unwrap();
    assert_eq!(history.turns(&key("a")), vec![turn(1, "hello")]);
    assert!(history.turns(&key("b")).is_empty());
    let path = history.path(&key("a"));
    assert!(store::is_private(&path).unwrap());
    assert!(store::is_private(&data.path().join("transcripts")).unwrap());
    history.clear(&key("a")).unwrap();
    assert!(!path.exists());
}

#[test]
fn turns_and_bytes_are_bounded_and_the_newest_stay() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    for id in 0..=MAX_TURNS {
        history.add(&key("a"), turn(id, "x")).unwrap();
    }
    let kept = history.turns(&key("a"));
    assert_eq!((kept.len(), kept[0].at), (MAX_TURNS, 1));

    let large = "x".repeat(MAX_BYTES / 4);
    for id in 1000..1003 {
        history.add(&key("a"), turn(id, &large)).unwrap();
    }
    let kept = history.turns(&key("a"));
    assert!(kept.iter().map(StoredTurn::bytes).sum::<usize>() <= MAX_BYTES);
    assert_eq!(kept.last().unwrap().at, 1002);
    // One turn alone may be larger than everything; it stays.
    history.add(&key("b"), turn(1, &"x".repeat(MAX_BYTES))).unwrap();
    assert_eq!(history.turns(&key("b")).len(), 1);
}

#[test]
fn a_fresh_conversation_begins_where_it_was_asked_for_and_the_transcript_stays() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    history.begin_anew(&key("a")).unwrap();
    assert!(!history.path(&key("a")).exists(), "nothing to mark");
    for id in 0..3 {
        history.add(&key("a"), turn(id, "old")).unwrap();
    }
    history.begin_anew(&key("a")).unwrap();
    let history = History::open(data.path()).unwrap();
    assert!(history.for_model(&key("a")).is_empty());
    assert_eq!(history.turns(&key("a")).len(), 3);
    history.add(&key("a"), turn(3, "new")).unwrap();
    // An old turn that is stored once more counts as new; the border moves with what is removed.
    history.add(&key("a"), turn(0, "once more")).unwrap();
    let questions: Vec<Turn> = history.for_model(&key("a")).into_iter().step_by(2).collect();
    let user = |text: &str| Turn::User(text.to_owned());
    assert_eq!(questions, [user("new"), user("once more")]);
    for id in 10..10 + MAX_TURNS {
        history.add(&key("a"), turn(id, "x")).unwrap();
        fold(&history);
    }
    let given = history.for_model(&key("a")).len() / 2;
    assert!((KEEP_VERBATIM_TURNS..2 * KEEP_VERBATIM_TURNS).contains(&given), "{given}");
}

#[test]
fn a_prompt_begins_with_all_of_the_one_before_but_for_one_turn_in_eight() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    let mut before: Vec<Turn> = Vec::new();
    let mut begun_anew = 0;
    // Past the file's own limit, and with turns in between that no model is given.
    for id in 0..2 * MAX_TURNS {
        history.add(&key("a"), turn(id, &format!("text {id}"))).unwrap();
        if id % 5 == 0 {
            let failed = StoredTurn { status: ChatStatus::Failed, ..turn(10_000 + id, "no") };
            history.add(&key("a"), failed).unwrap();
        }
        fold(&history);
        let given = history.for_model(&key("a"));
        let turns = given.len() / 2;
        assert!(turns >= KEEP_VERBATIM_TURNS.min(id + 1) && turns < 2 * KEEP_VERBATIM_TURNS);
        assert_eq!(given[given.len() - 2], Turn::User(format!("text {id}")));
        begun_anew += usize::from(!given.starts_with(&before));
        before = given;
    }
    assert_eq!(begun_anew, 2 * MAX_TURNS / KEEP_VERBATIM_TURNS - 1);
}

#[test]
fn a_transcript_that_the_system_does_not_give_now_stays_where_it_is() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    // A folder in its place: reading fails, and not because of what is in it.
    let path = history.path(&key("a"));
    std::fs::create_dir(&path).unwrap();
    assert!(history.add(&key("a"), turn(1, "x")).is_err());
    assert!(history.begin_anew(&key("a")).is_err());
    assert!(history.turns(&key("a")).is_empty() && history.for_model(&key("a")).is_empty());
    assert!(path.is_dir() && !path.with_extension("json.broken").exists());
}

#[test]
fn a_turn_of_the_same_name_is_replaced() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    let failed = StoredTurn { status: ChatStatus::Failed, ..turn(1, "no") };
    history.add(&key("a"), failed).unwrap();
    assert_eq!(history.answered(&key("a"), &TurnId("t-1".to_owned())), None);
    assert!(history.for_model(&key("a")).is_empty());
    history.add(&key("a"), turn(1, "yes")).unwrap();
    assert_eq!(history.turns(&key("a")).len(), 1);
    assert!(history.answered(&key("a"), &TurnId("t-1".to_owned())).is_some());
}

#[test]
fn a_broken_transcript_is_set_aside_and_not_overwritten() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    let path = history.path(&key("a"));
    store::replace(&path, b"{\"version\":1,\"tu", Durability::Process).unwrap();
    history.add(&key("a"), turn(1, "new")).unwrap();
    assert_eq!(history.turns(&key("a")).len(), 1);
    let aside = path.with_extension("json.broken");
    assert_eq!(std::fs::read(aside).unwrap(), b"{\"version\":1,\"tu");
}

#[test]
fn a_torn_line_costs_only_itself_and_is_kept_aside() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    let path = history.path(&key("a"));
    history.add(&key("a"), turn(1, "old")).unwrap();
    let torn = std::fs::read_to_string(&path).unwrap() + "{\"version\":1,\"turn\":{\"tu";
    store::replace(&path, torn.as_bytes(), Durability::Process).unwrap();

    let history = History::open(data.path()).unwrap();
    assert_eq!(history.turns(&key("a")), vec![turn(1, "old")]);
    history.add(&key("a"), turn(2, "new")).unwrap();
    assert_eq!(history.turns(&key("a")), vec![turn(1, "old"), turn(2, "new")]);
    let aside = path.with_extension("json.broken");
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), torn);
    assert!(store::is_private(&path).unwrap());
}

#[test]
fn a_file_of_one_line_without_its_end_is_read_and_extended() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    let path = history.path(&key("a"));
    let turns = Some(vec![turn(1, "one"), turn(2, "two")]);
    let whole = Line { turns, earlier: 1, ..Line::default() }.text(&path).unwrap();
    store::replace(&path, whole.as_bytes(), Durability::Process).unwrap();
    history.add(&key("a"), turn(3, "three")).unwrap();
    assert_eq!(history.turns(&key("a")), vec![turn(1, "one"), turn(2, "two"), turn(3, "three")]);
    assert_eq!(history.for_model(&key("a")).len(), 4);
    assert!(!path.with_extension("json.broken").exists());
}

#[test]
fn a_file_is_written_anew_when_it_has_its_lines_and_not_before() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    let lines = || std::fs::read_to_string(history.path(&key("a"))).unwrap().lines().count();
    for id in 0..LINES - 1 {
        history.add(&key("a"), turn(id, "x")).unwrap();
    }
    history.begin_anew(&key("a")).unwrap();
    assert_eq!(lines(), LINES);
    // Another process counts the same.
    History::open(data.path()).unwrap().add(&key("a"), turn(1000, "x")).unwrap();
    assert_eq!(lines(), 1);
    let history = History::open(data.path()).unwrap();
    assert_eq!(history.turns(&key("a")).len(), LINES);
    assert_eq!(history.for_model(&key("a")).len(), 2, "the border stays");
}

#[test]
fn a_line_of_another_version_is_not_taken_for_a_turn() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    let path = history.path(&key("a"));
    history.add(&key("a"), turn(1, "x")).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let other = text.replace("\"version\":1", "\"version\":2");
    store::replace(&path, other.as_bytes(), Durability::Process).unwrap();
    assert!(history.turns(&key("a")).is_empty());
    store::replace(&path, text.as_bytes(), Durability::Process).unwrap();
    assert_eq!(history.turns(&key("a")).len(), 1);
}

#[test]
fn older_turns_are_due_at_a_border_by_number_and_by_bytes() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    for id in 0..2 * KEEP_VERBATIM_TURNS - 1 {
        history.add(&key("a"), turn(id, "x")).unwrap();
        assert_eq!(history.due(&key("a")), None, "{id}");
    }
    history.add(&key("a"), turn(99, "x")).unwrap();
    let due = history.due(&key("a")).unwrap();
    assert_eq!((due.turns.len(), due.overdue), (KEEP_VERBATIM_TURNS, false));
    for id in 100..100 + KEEP_VERBATIM_TURNS - 1 {
        history.add(&key("a"), turn(id, "x")).unwrap();
        assert!(!history.due(&key("a")).unwrap().overdue);
    }
    history.add(&key("a"), turn(999, "x")).unwrap();
    assert!(history.due(&key("a")).unwrap().overdue);

    // Two turns of 6000 bytes are within, and one byte more is not; one turn alone stays whatever its size.
    for (bytes, due) in [(5800, false), (5801, true)] {
        history.clear(&key("a")).unwrap();
        history
            .add(&key("a"), StoredTurn { answer: String::new(), ..turn(1, &"x".repeat(5800)) })
            .unwrap();
        history
            .add(&key("a"), StoredTurn { answer: String::new(), ..turn(2, &"x".repeat(bytes)) })
            .unwrap();
        assert_eq!(history.due(&key("a")).map(|fold| fold.turns.len()), due.then_some(1));
    }
    history.clear(&key("a")).unwrap();
    history.add(&key("a"), turn(1, &"x".repeat(50_000))).unwrap();
    assert_eq!(history.due(&key("a")), None);
}

#[test]
fn a_summary_takes_the_place_of_what_it_stands_for_across_a_restart_and_a_rewrite() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    for id in 0..2 * KEEP_VERBATIM_TURNS {
        history.add(&key("a"), turn(id, &format!("text {id}"))).unwrap();
    }
    assert!(fold(&history));
    let first = |history: &History| history.for_model(&key("a")).into_iter().next().unwrap();
    for history in [&history, &History::open(data.path()).unwrap()] {
        let given = history.for_model(&key("a"));
        assert_eq!(given.len(), 1 + 2 * KEEP_VERBATIM_TURNS);
        assert_eq!(given[0], Turn::Summary("8 turns more".to_owned()));
        assert_eq!(given[1], Turn::User(format!("text {KEEP_VERBATIM_TURNS}")));
        assert_eq!(history.turns(&key("a")).len(), 2 * KEEP_VERBATIM_TURNS, "nothing is lost");
    }
    for id in 1000..1000 + LINES {
        history
            .add(&key("a"), StoredTurn { status: ChatStatus::Failed, ..turn(id, "no") })
            .unwrap();
    }
    assert_eq!(first(&history), Turn::Summary("8 turns more".to_owned()));
    // A fresh conversation has none.
    history.begin_anew(&key("a")).unwrap();
    assert!(history.for_model(&key("a")).is_empty());
}

#[test]
fn a_summary_of_a_conversation_that_has_changed_is_not_taken() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    let fill = || {
        for id in 0..2 * KEEP_VERBATIM_TURNS {
            history.add(&key("a"), turn(id, "x")).unwrap();
        }
        history.due(&key("a")).unwrap()
    };
    let late = fill();
    history.begin_anew(&key("a")).unwrap();
    history.fold(&key("a"), &late, "late").unwrap();
    assert!(history.for_model(&key("a")).is_empty());
    history.clear(&key("a")).unwrap();
    history.fold(&key("a"), &late, "late").unwrap();
    assert!(!history.path(&key("a")).exists());
    // Twice the same: the second stands for nothing.
    let once = fill();
    history.fold(&key("a"), &once, "once").unwrap();
    history.fold(&key("a"), &once, "twice").unwrap();
    assert_eq!(history.for_model(&key("a"))[0], Turn::Summary("once".to_owned()));
}

#[test]
fn the_categories_of_what_went_into_a_turn_go_with_it_and_into_the_summary() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    let with = |id, outcome| {
        let category = Some(PermissionCategory::Files);
        let record = ToolRecord { name: "read".to_owned(), category, outcome };
        StoredTurn { tools: vec![record], ..turn(id, "x") }
    };
    let files = CategorySet::from([PermissionCategory::Files]);
    history.add(&key("a"), with(0, ToolOutcome::Ran)).unwrap();
    history.add(&key("a"), with(1, ToolOutcome::Denied)).unwrap();
    let none = CategorySet::new();
    let given = history.given(&key("a")).categories;
    assert_eq!(given, [files.clone(), files.clone(), none.clone(), none.clone()]);
    for id in 2..2 * KEEP_VERBATIM_TURNS {
        history.add(&key("a"), turn(id, "x")).unwrap();
    }
    assert!(fold(&history));
    let given = history.given(&key("a")).categories;
    assert_eq!((&given[0], &given[1]), (&files, &none));
}

#[test]
fn what_is_too_old_is_given_to_nobody_and_deleted_with_its_copies() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    history.keep_days(2);
    let now = crate::clock::unix_ms();
    let at = |id: usize, at: u64| StoredTurn { at, ..turn(id, "text") };
    let hour = 3_600_000;
    history.add(&key("a"), at(1, now - 49 * hour)).unwrap();
    history.add(&key("a"), at(2, now - 47 * hour)).unwrap();
    history.add(&key("b"), at(1, now - 49 * hour)).unwrap();
    assert_eq!(history.turns(&key("a")).len(), 1);
    assert!(history.turns(&key("b")).is_empty());
    let stored = || std::fs::read_to_string(history.path(&key("a"))).unwrap();
    assert!(stored().contains("t-1"), "not deleted yet");
    history.tend();
    assert!(!stored().contains("t-1") && stored().contains("t-2"));
    assert!(!history.path(&key("b")).exists());
    // For ever, where it is so wished.
    history.keep_days(0);
    history.add(&key("b"), at(1, 1)).unwrap();
    history.tend();
    assert_eq!(history.turns(&key("b")).len(), 1);

    // A summary goes with the oldest that is in it.
    for id in 0..2 * KEEP_VERBATIM_TURNS {
        history.add(&key("a"), at(100 + id, now - 47 * hour)).unwrap();
    }
    assert!(fold(&history));
    assert!(history.given(&key("a")).turns.len() > 2 * KEEP_VERBATIM_TURNS);
    history.keep_days(1);
    assert!(history.given(&key("a")).turns.is_empty());
}

#[test]
fn a_start_sets_aside_what_makes_no_sense_and_forget_deletes_that_too() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    let path = history.path(&key("a"));
    history.add(&key("a"), turn(1, "whole")).unwrap();
    let torn = std::fs::read_to_string(&path).unwrap() + "{\"version\":1,\"turn\":{\"tu";
    store::replace(&path, torn.as_bytes(), Durability::Process).unwrap();
    let history = History::open(data.path()).unwrap();
    history.tend();
    let aside = path.with_extension("json.broken");
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), torn);
    assert_eq!(history.turns(&key("a")).len(), 1);
    history.clear(&key("a")).unwrap();
    assert!(!path.exists() && !aside.exists());
}
