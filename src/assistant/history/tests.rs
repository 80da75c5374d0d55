//! Tests of the transcripts: bounds, borders between conversations, and files that are broken.

use super::*;
use crate::assistant::{CallerScope, CategorySet, SessionId};

fn key(session: &str) -> HistoryKey {
    let session_id = SessionId(session.to_owned());
    CallerScope::LocalOperator { session_id, granted: CategorySet::new() }.history_key().unwrap()
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
    assert_eq!(history.for_model(&key("a")).len(), 2 * KEEP_VERBATIM_TURNS);

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
    }
    assert_eq!(history.for_model(&key("a")).len(), 2 * KEEP_VERBATIM_TURNS);
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
fn a_broken_line_is_set_aside_and_costs_only_itself() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    let path = history.path(&key("a"));
    history.add(&key("a"), turn(1, "old")).unwrap();
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"version\":1,\"tu");
    store::replace(&path, text.as_bytes(), Durability::Process).unwrap();
    // A torn line is what a kill left: no reader minds it.
    assert_eq!(history.turns(&key("a")), vec![turn(1, "old")]);
    history.add(&key("a"), turn(2, "new")).unwrap();
    let broken = std::fs::read_to_string(&path).unwrap();
    assert_eq!(history.turns(&key("a")), vec![turn(1, "old"), turn(2, "new")]);
    let aside = path.with_extension("jsonl.broken");
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), broken);
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    assert_eq!(history.turns(&key("a")).len(), 2);
}

#[test]
fn a_line_of_another_form_is_no_turn() {
    let entry = Entry::Turn(turn(1, "x"));
    let good = line(Path::new(""), &entry).unwrap();
    assert_eq!(parse(&good), Some(entry));
    assert_eq!(parse(&good.replace("\"version\":1", "\"version\":2")), None);
}

#[test]
fn a_file_is_written_anew_when_it_is_too_large_and_not_before() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    let path = history.path(&key("a"));
    let size = || std::fs::metadata(&path).unwrap().len();
    let long = |id: usize| turn(10_000 + id, &"x".repeat(1000));
    let a_line = line(&path, &Entry::Turn(long(0))).unwrap().len() as u64 + 1;
    let fit = usize::try_from(MAX_FILE / a_line).unwrap();
    (0..fit - 1).for_each(|id| history.add(&key("a"), long(id)).unwrap());
    history.begin_anew(&key("a")).unwrap();
    assert!(size() > MAX_FILE - 2 * a_line && size() <= MAX_FILE, "{}", size());
    history.add(&key("a"), long(fit)).unwrap();
    if size() > MAX_FILE / 2 + a_line {
        history.add(&key("a"), long(fit + 1)).unwrap();
    }
    assert!(size() <= MAX_FILE / 2 + a_line, "{}", size());
    assert!(store::is_private(&path).unwrap());
    // The newest stay, and so does the border between the conversations.
    let newest = history.turns(&key("a")).pop().unwrap().turn_id.0;
    assert!(newest == long(fit).turn_id.0 || newest == long(fit + 1).turn_id.0);
    assert!((2..=4).contains(&history.for_model(&key("a")).len()));
}
