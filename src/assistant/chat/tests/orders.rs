//! Every order of legs that fail: the caller gets an answer, or one honest line, within the turn's time.

use super::*;

/// How a leg fails, or doesn't.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Answers,
    Killed,
    Slow,
    Broken,
    Full,
    WrongKey,
    NoMoney,
    NotSetUp,
    NoModel,
}

const ALL: [State; 9] = [
    State::Answers,
    State::Killed,
    State::Slow,
    State::Broken,
    State::Full,
    State::WrongKey,
    State::NoMoney,
    State::NotSetUp,
    State::NoModel,
];

fn leg(name: &'static str, state: State) -> Scripted {
    let failing = move |error: BackendError| Scripted::by(name, move |_, _| Err(error.clone()));
    match state {
        State::Answers => Scripted::by(name, |_, _| text("an answer")),
        State::Killed => failing(BackendError::Unreachable("connection reset".to_owned())),
        State::Slow => Scripted::hanging(name),
        State::Broken => failing(BackendError::Broken("empty".to_owned())),
        State::Full => failing(BackendError::Overloaded { retry_after: None }),
        State::WrongKey => failing(BackendError::Auth("not accepted".to_owned())),
        State::NoMoney => failing(BackendError::NoMoney("0 left".to_owned())),
        State::NotSetUp => {
            Scripted::new(name, vec![]).with(Err(BackendError::Unconfigured("no key".to_owned())))
        }
        State::NoModel => failing(BackendError::NoModel("toy".to_owned())),
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_the_legs_do_there_is_an_answer_or_one_honest_line_in_time() {
    let mut asked = 0;
    for first in ALL {
        for second in ALL {
            for third in ALL {
                let states = [first, second, third];
                let legs = vec![
                    leg("ollama", first),
                    leg("claude", second).in_cloud(),
                    leg("openai", third).in_cloud(),
                ];
                let desk = desk_with_offline(legs, CloudPolicy::All);
                // Twice: the second turn meets legs that rest.
                for turn in ["1", "2"] {
                    let begun = tokio::time::Instant::now();
                    let reply = desk.assistant.chat(context(operator("s"), turn), "hello").await;
                    asked += 1;
                    assert!(begun.elapsed() <= OPERATOR_TURN, "{states:?}: {:?}", begun.elapsed());
                    if states.contains(&State::Answers) {
                        assert_eq!(reply.text, "an answer", "{states:?}");
                        continue;
                    }
                    assert_eq!(reply.status, ChatStatus::Failed, "{states:?}");
                    let lines = [NO_MODEL_BUT_FIXED, NO_USE, TOO_LONG];
                    assert!(lines.contains(&reply.text.as_str()), "{states:?}: {}", reply.text);
                    if !states.contains(&State::Slow) {
                        let expected = if states.contains(&State::Broken) {
                            NO_USE
                        } else {
                            NO_MODEL_BUT_FIXED
                        };
                        assert_eq!(reply.text, expected, "{states:?}");
                        let told: Vec<&str> =
                            reply.reasons.iter().map(|reason| reason.leg.as_str()).collect();
                        assert_eq!(told.len(), 4, "each leg once: {states:?} {:?}", reply.reasons);
                    }
                }
            }
        }
    }
    assert_eq!(asked, 2 * ALL.len().pow(3));
}
