//! The mode `always`: which words in a conversation make a confirmation necessary all the same.

use super::*;

/// With `always` for a note.
fn house_with_always(leg: Scripted) -> House {
    let house = House::new(leg);
    house.grant(ANA, PermissionCategory::Notes);
    house.mode(ANA, "notes_write", ToolMode::Always).unwrap();
    house.mode(ANA, "notes_own", ToolMode::Always).unwrap();
    house.mode(ANA, "notes_fails", ToolMode::Always).unwrap();
    house
}

#[tokio::test]
async fn foreign_text_makes_a_fresh_confirmation_necessary_even_where_always_was_set() {
    let house = house_with_always(obeys_all(&["notes_write"]));
    house.ask(ana(), "m-1").await;
    assert_eq!(house.runs.names(), ["notes_write"], "nothing foreign, nothing asked");
    // The conversation holds the result of a tool now, of which nobody said that it is our own.
    house.ask(ana(), "m-2").await;
    assert_eq!(house.runs.count(), 1);
    assert!(house.assistant.prompt_of(&TurnId("m-2".to_owned())).is_some());
    house.assistant.new_conversation(&ana()).unwrap();
    house.ask(ana(), "m-3").await;
    assert_eq!(house.runs.count(), 2, "a fresh conversation holds none");
    // Within a turn: what only reads brings it in, what changes something too, and a failure.
    for names in [
        &["system_read", "notes_own"],
        &["notes_write", "notes_own"],
        &["notes_fails", "notes_own"],
    ] {
        let mut house = house_with_always(obeys_all(names));
        house.ask(ana(), "m-1").await;
        assert_eq!(house.runs.names(), names[..1]);
        assert_eq!(house.assistant.pending().len(), 1);
        // What a tool refused is our own text and taints nothing.
        house.restart(obeys_all(&["wallet_read", "notes_write"]));
        house.ask(ana(), "m-2").await;
        assert_eq!(house.runs.names().last().unwrap(), "notes_write");
    }
}

#[tokio::test]
async fn our_own_words_make_no_confirmation_necessary_where_always_was_set() {
    // Fixed words of a tool, turn after turn, past any number of summaries.
    let house = house_with_always(obeys_all(&["notes_own", "notes_own"]));
    for turn in 0..60 {
        house.ask(ana(), &format!("m-{turn}")).await;
        assert_eq!(house.runs.count(), 2 * (turn + 1), "asked at turn {turn}");
        tokio::task::yield_now().await;
    }
    let given = house.assistant.history.for_model(&ana().history_key().unwrap());
    assert!(matches!(given.first(), Some(Turn::Summary(_))));
    // That a call waits, and that a confirmed one was done, are our words too, whatever the tool gave.
    let mut house = house_with_always(obeys("network_write", json!({"text": "x"})));
    house.grant(ANA, PermissionCategory::Network);
    house.ask(ana(), "m-1").await;
    let taken = house.assistant.take(&house.assistant.pending()[0].id).unwrap();
    house.assistant.settle(taken, true, true).await;
    house.restart(obeys_all(&["system_read", "network_write"]));
    house.ask(ana(), "m-2").await;
    assert_eq!(house.assistant.history(&ana()).len(), 3);
    house.restart(obeys_all(&["notes_write"]));
    house.ask(ana(), "m-3").await;
    assert_eq!(house.runs.names(), ["network_write", "system_read", "notes_write"]);
    // A turn that failed is given to no model, whatever it had read.
    let mut house = house_with_always(Scripted::by("ollama", |history, _| {
        let calls = history.iter().filter(|turn| matches!(turn, Turn::ToolResult { .. })).count();
        fixture::calls("system_read", json!({"text": calls.to_string()}))
    }));
    let reply = house.ask(ana(), "m-1").await;
    assert_eq!(reply.status, ChatStatus::Failed);
    house.restart(obeys_all(&["notes_write"]));
    house.ask(ana(), "m-2").await;
    assert_eq!(house.runs.names().last().unwrap(), "notes_write");
    // And an answer that a model made of it stays foreign through its summary.
    let mut house = house_with_always(obeys("system_read", json!({"text": "x"})));
    house.ask(ana(), "m-1").await;
    house.restart(obeys_all(&[]));
    for turn in 2..40 {
        house.ask(ana(), &format!("m-{turn}")).await;
        tokio::task::yield_now().await;
    }
    house.restart(obeys_all(&["notes_own"]));
    house.ask(ana(), "m-40").await;
    assert_eq!(house.runs.count(), 1, "only the reading");
}
