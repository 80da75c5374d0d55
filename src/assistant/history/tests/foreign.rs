//! Foreign text in a conversation and in what is left of it, and turns that end after their conversation.

use super::*;

#[test]
fn a_turn_that_ends_after_its_conversation_was_deleted_or_begun_anew_is_no_part_of_the_next() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    let (a, b) = (key("a"), key("b"));
    // Deleted, of one caller only.
    history.add(&a, turn(1, "one")).unwrap();
    let mark = history.mark();
    history.clear(&a).unwrap();
    history.add_since(&a, mark, turn(2, "late")).unwrap();
    history.add_since(&b, mark, turn(2, "another's")).unwrap();
    assert!(history.turns(&a).is_empty());
    assert_eq!(history.turns(&b).len(), 1);
    // Begun anew, also where there was nothing yet: it stays to be looked at, and no model is given it.
    for earlier in [0, 1] {
        let mark = history.mark();
        history.begin_anew(&a).unwrap();
        history.add(&a, turn(3, "fresh")).unwrap();
        history.add_since(&a, mark, turn(4 + earlier, "late")).unwrap();
        let texts: Vec<String> = history.turns(&a).into_iter().map(|turn| turn.answer).collect();
        assert!(texts.ends_with(&["late".to_owned(), "fresh".to_owned()]), "{texts:?}");
        let given = history.for_model(&a);
        assert_eq!(given.first(), Some(&Turn::User("fresh".to_owned())), "{given:?}");
        assert_eq!(given.len(), 2);
        // And one that began after it belongs to it.
        history.add_since(&a, history.mark(), turn(9, "next")).unwrap();
        assert_eq!(history.for_model(&a).len(), 4);
        // A restart changes nothing of that.
        let again = History::open(data.path()).unwrap();
        assert_eq!(again.for_model(&a).len(), 4);
    }
}

#[test]
fn of_the_many_that_were_deleted_the_last_are_known() {
    let data = tempfile::tempdir().unwrap();
    let history = History::open(data.path()).unwrap();
    let mark = history.mark();
    for number in 0..=MAX_COUNTED {
        history.clear(&key(&number.to_string())).unwrap();
    }
    history.add_since(&key("1"), mark, turn(1, "late")).unwrap();
    assert!(history.turns(&key("1")).is_empty());
    assert_eq!(history.lock().ends.len(), MAX_COUNTED);
}

#[test]
fn foreign_text_stays_in_a_conversation_in_summaries_and_when_its_turn_is_gone_and_not_in_the_next()
{
    let (data, a) = (tempfile::tempdir().unwrap(), key("a"));
    let history = History::open(data.path()).unwrap();
    // Each look is one after a restart, too.
    let is_foreign = || {
        let now = history.has_foreign_text(&a);
        assert_eq!(History::open(data.path()).unwrap().has_foreign_text(&a), now);
        now
    };
    let said = |id, foreign| StoredTurn { foreign: Some(foreign), ..turn(id, "x") };
    // Any number of turns without it, summaries of them included, and turns that fall out of the file.
    for id in 0..MAX_TURNS + 2 * KEEP_VERBATIM_TURNS {
        history.add(&a, said(id, false)).unwrap();
        fold(&history);
        assert!(id % 10 != 0 || !is_foreign(), "{id}");
    }
    assert!(matches!(history.for_model(&a).first(), Some(Turn::Summary(_))));
    assert!(!is_foreign());
    // What no model is given counts for nothing.
    history.add(&a, StoredTurn { status: ChatStatus::Failed, ..said(1_000, true) }).unwrap();
    assert!(!is_foreign());
    history.add(&a, said(1_001, true)).unwrap();
    for id in 2_000..2_000 + MAX_TURNS + 2 * KEEP_VERBATIM_TURNS {
        assert!(id % 10 != 0 || is_foreign(), "{id}");
        history.add(&a, said(id, false)).unwrap();
        fold(&history);
    }
    assert!(history.turns(&a).iter().all(|turn| turn.foreign == Some(false)));
    assert!(is_foreign(), "by its summary");
    history.begin_anew(&a).unwrap();
    history.add(&a, said(1, false)).unwrap();
    assert!(!is_foreign());
    // Without a summary.
    history.add(&a, said(2, true)).unwrap();
    for id in 3_000..=3_000 + MAX_TURNS {
        history.add(&a, said(id, false)).unwrap();
    }
    assert!(history.transcript(&a).unwrap().summary.is_none() && is_foreign());
    history.begin_anew(&a).unwrap();
    history.add(&a, said(1, false)).unwrap();
    assert!(!is_foreign());
}

#[test]
fn foreign_text_that_is_too_old_to_be_kept_still_counts_for_what_was_answered_after_it() {
    let (data, a) = (tempfile::tempdir().unwrap(), key("a"));
    let history = History::open(data.path()).unwrap();
    history.keep_days(2);
    let (hour, now) = (3_600_000, clock::unix_ms());
    let said = |id, at, foreign| StoredTurn { at, foreign: Some(foreign), ..turn(id, "x") };
    for (foreign, left) in [(false, false), (true, true)] {
        history.clear(&a).unwrap();
        for id in 0..2 * KEEP_VERBATIM_TURNS {
            history.add(&a, said(id, now - 49 * hour, foreign && id == 0)).unwrap();
        }
        history.add(&a, said(100, now, false)).unwrap();
        assert_eq!(history.turns(&a).len(), 1);
        assert_eq!(history.has_foreign_text(&a), left);
        history.tend();
        assert_eq!(history.has_foreign_text(&a), left);
    }
}

#[test]
fn what_nobody_noted_counts_as_foreign_where_it_may_be() {
    let (data, a) = (tempfile::tempdir().unwrap(), key("a"));
    let history = History::open(data.path()).unwrap();
    let path = history.path(&a);
    // Files of an earlier version: turns with and without tools, a summary, turns that are gone.
    let told = |tools: &str| {
        format!(
            "{{\"turn_id\":\"t\",\"at\":1,\"question\":\"q\",\"answer\":\"a\",\"status\":\"answered\",\
             \"backend\":\"x\",\"tools\":[{tools}]}}"
        )
    };
    let tool = |outcome: &str| {
        told(&format!("{{\"name\":\"t\",\"category\":\"system\",\"outcome\":\"{outcome}\"}}"))
    };
    for (line, foreign) in [
        (format!("\"turn\":{}", told("")), false),
        (format!("\"turn\":{}", tool("denied")), false),
        (format!("\"turn\":{}", tool("needs_confirmation")), false),
        (format!("\"turn\":{}", tool("ran")), true),
        (format!("\"turn\":{}", tool("failed")), true),
        (format!("\"turns\":[{}]", told("")), false),
        (format!("\"turns\":[{}],\"gone\":1", told("")), true),
        (format!("\"turns\":[{}],\"gone\":1,\"gone_foreign\":false", told("")), false),
        ("\"summary\":{\"text\":\"s\",\"since\":1,\"categories\":[]},\"folded\":8".to_owned(), true),
        (
            "\"summary\":{\"text\":\"s\",\"since\":1,\"categories\":[],\"foreign\":false},\"folded\":8"
                .to_owned(),
            false,
        ),
    ] {
        let line = format!("{{\"version\":1,{line}}}\n");
        store::replace(&path, line.as_bytes(), Durability::Process).unwrap();
        let transcript = history.transcript(&a).unwrap();
        assert_eq!((transcript.lines, transcript.broken), (1, 0), "{line}");
        assert_eq!(history.has_foreign_text(&a), foreign, "{line}");
    }
}
