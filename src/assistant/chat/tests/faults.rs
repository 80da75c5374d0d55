//! Turns that go wrong: what the caller is told, what is kept, and that nobody else pays for it.

use std::sync::Arc;
use std::time::Duration;

use super::*;

fn hanging_up_after(calls_first: bool) -> Scripted {
    Scripted::by("ollama", move |history, _| match history.last() {
        Some(Turn::User(_)) if calls_first => calls("system_disk_status"),
        _ => Err(BackendError::Broken("nothing".to_owned())),
    })
}

#[tokio::test(start_paused = true)]
async fn a_leg_that_rests_is_asked_where_nobody_else_answers() {
    let slow = |answers: &'static [&'static str]| {
        let mut script =
            vec![Err(BackendError::Overloaded { retry_after: Some(Duration::from_secs(20)) })];
        script.extend(answers.iter().map(|words| text(words)));
        Scripted::new("ollama", script)
    };
    // Alone, it is asked although it rests: a question that waits must not fail for that.
    let alone = desk(vec![slow(&["back"])], CloudPolicy::None);
    let failed = alone.assistant.chat(context(operator("s"), "1"), "hello").await;
    assert_eq!(failed.status, ChatStatus::Failed);
    let reply = alone.assistant.chat(context(operator("s"), "2"), "hello").await;
    assert_eq!((reply.text.as_str(), reply.reasons.len()), ("back", 0));

    // Beside another it rests as long as its server wished, and the reason is shown.
    let cloud = Scripted::by("claude", |_, _| text("cloud")).in_cloud();
    let both = desk(vec![slow(&["back"]), cloud], CloudPolicy::All);
    for (turn, after, backend) in [("1", 0, "claude"), ("2", 19, "claude"), ("3", 2, "ollama")] {
        tokio::time::advance(Duration::from_secs(after)).await;
        let reply = both.assistant.chat(context(operator("s"), turn), "hello").await;
        assert_eq!(reply.backend, backend, "turn {turn}");
        let told = reply.reasons.iter().filter(|reason| reason.leg == "ollama").count();
        assert_eq!(told, usize::from(backend == "claude"), "turn {turn}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leg_that_fails_again_and_again_rests_longer_each_time_and_is_shown_so() {
    let ollama = Arc::new(Scripted::new("ollama", (0..4).map(|_| unreachable()).collect()));
    let cloud = Scripted::by("claude", |_, _| text("cloud")).in_cloud();
    let legs: Vec<Box<dyn Backend>> = vec![Box::new(ollama.clone()), Box::new(cloud)];
    let desk = desk_of(legs, CloudPolicy::All);
    let state = async || desk.assistant.legs().await.legs.remove(0);
    assert_eq!((state().await.state.as_str(), state().await.rests_for_s), ("ready", None));
    let mut turn = 0;
    for (asked, rest) in [(1, 5), (2, 10), (3, 20), (4, 40)] {
        // Just before and just after the end of the rest.
        turn += 1;
        desk.assistant.chat(context(operator("s"), &turn.to_string()), "hello").await;
        assert_eq!(ollama.asked().len(), asked);
        let shown = state().await;
        assert_eq!((shown.state.as_str(), shown.rests_for_s), ("resting", Some(rest)));
        assert!(shown.reason.unwrap().contains("connection refused"));
        tokio::time::advance(Duration::from_secs(rest) - Duration::from_millis(1)).await;
        turn += 1;
        let reply = desk.assistant.chat(context(operator("s"), &turn.to_string()), "hello").await;
        assert_eq!((ollama.asked().len(), reply.backend.as_str()), (asked, "claude"));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(state().await.state, "failing");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leg_that_was_not_set_up_neither_fails_nor_rests() {
    let none = BackendError::Unconfigured("no key in secrets/claude-api-key".to_owned());
    let claude = Scripted::new("claude", vec![]).with(Err(none)).in_cloud();
    let desk = desk(vec![Scripted::new("ollama", vec![unreachable()]), claude], CloudPolicy::All);
    let reply = desk.assistant.chat(context(operator("s"), "t"), "hello").await;
    let told: Vec<&str> = reply.reasons.iter().map(|reason| reason.leg.as_str()).collect();
    assert_eq!(told, ["ollama", "claude"], "each once");
    let states = desk.assistant.legs().await.legs;
    assert_eq!((states[1].state.as_str(), states[1].rests_for_s), ("unconfigured", None));
}

#[tokio::test(start_paused = true)]
async fn the_line_says_what_happened_and_offers_only_what_the_caller_has() {
    let stranger = || peer("claim:!0badcafe", Assurance::Unverified);
    let broken = || Err(BackendError::Broken("empty".to_owned()));
    for (script, scope, line) in [
        (vec![unreachable()], operator("s"), NO_MODEL_BUT_FIXED),
        (vec![unreachable()], stranger(), NO_MODEL),
        (vec![broken(), broken()], operator("s"), NO_USE),
        (vec![Err(BackendError::TooLong)], operator("s"), TOO_MUCH),
    ] {
        let legs = vec![Scripted::new("ollama", script)];
        let desk = desk_with_offline(legs, CloudPolicy::None);
        let reply = desk.assistant.chat(context(scope, "t"), "who wrote Faust?").await;
        assert_eq!((reply.status, reply.text.as_str()), (ChatStatus::Failed, line));
        assert!(line.len() <= 120);
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_hangs_leaves_time_for_the_next_leg() {
    for (scope, local_gets) in
        [(operator("s"), OPERATOR_TURN / 4 * 3), (peer("key:a", Assurance::Verified), TURN / 4 * 3)]
    {
        let claude = Scripted::new("claude", vec![text("in time")]).in_cloud();
        let desk = desk(vec![Scripted::hanging("ollama"), claude], CloudPolicy::All);
        let begun = tokio::time::Instant::now();
        let reply = desk.assistant.chat(context(scope, "t"), "hello").await;
        assert_eq!(reply.text, "in time");
        assert_eq!(begun.elapsed(), local_gets);
    }
    // Whom the caller may not use is no reason to hurry.
    let claude = Scripted::new("claude", vec![text("never")]).in_cloud();
    let desk = desk(vec![Scripted::hanging("ollama"), claude], CloudPolicy::None);
    let begun = tokio::time::Instant::now();
    let reply = desk.assistant.chat(context(operator("s"), "t"), "hello").await;
    assert_eq!(reply.text, TOO_LONG);
    assert_eq!(begun.elapsed(), OPERATOR_TURN);
}

#[tokio::test(start_paused = true)]
async fn what_had_run_is_in_the_ledger_of_a_turn_that_was_broken_off() {
    let calls_then_hangs = || Scripted::hanging_after("ollama", vec![calls("system_disk_status")]);
    let late = desk(vec![calls_then_hangs()], CloudPolicy::None);
    let reply = late.assistant.chat(context(operator("s"), "t"), "disk?").await;
    assert_eq!((reply.status, reply.text.as_str()), (ChatStatus::Failed, TOO_LONG));
    assert_eq!(reply.tools.len(), 1);
    assert_eq!(late.assistant.history(&operator("s"))[0].tools, reply.tools);

    let stopped = desk(vec![calls_then_hangs()], CloudPolicy::None);
    let context = context(operator("s"), "t");
    let cancel = context.cancel.clone();
    let (reply, ()) = tokio::join!(stopped.assistant.chat(context, "disk?"), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        cancel.cancel();
    });
    assert_eq!(reply.status, ChatStatus::Stopped);
    assert_eq!(reply.tools.len(), 1);
    // Nothing is told twice where the loop came to its own end.
    let done = desk(vec![hanging_up_after(true)], CloudPolicy::None);
    let reply = done.assistant.chat(super::context(operator("s"), "t"), "disk?").await;
    assert_eq!((reply.status, reply.tools.len()), (ChatStatus::Failed, 1));
}
