//! How the legs are seen from outside.

use super::*;
use crate::assistant::backends::Answer;

/// A leg that takes its time, looking and answering.
struct Slow(&'static str, Duration);

impl Backend for Slow {
    fn name(&self) -> &'static str {
        self.0
    }

    fn is_cloud(&self) -> bool {
        false
    }

    fn available(&self) -> Answer<'_, Capabilities> {
        Box::pin(async { Ok(Capabilities { tools: true }) })
    }

    fn there(&self) -> Answer<'_, Capabilities> {
        Box::pin(async {
            tokio::time::sleep(self.1).await;
            Err(BackendError::Unreachable("silent".to_owned()))
        })
    }

    fn send<'a>(&'a self, request: Request<'a>) -> Answer<'a, BackendTurn> {
        Box::pin(async move {
            tokio::time::sleep(self.1).await;
            match request.history {
                [] => Err(BackendError::Broken("no question".to_owned())),
                _ => Ok(BackendTurn::Text("yes".to_owned())),
            }
        })
    }
}

fn legs() -> Legs {
    let leg =
        |name, seconds| Box::new(Slow(name, Duration::from_secs(seconds))) as Box<dyn Backend>;
    Legs::new(vec![leg("ollama", 3), leg("claude", 2), leg("openai", 1)])
}

#[tokio::test(start_paused = true)]
async fn silent_servers_are_waited_for_at_once_and_listed_in_their_order() {
    let begun = Instant::now();
    let states = legs().states().await;
    assert_eq!(begun.elapsed(), Duration::from_secs(3), "as long as the slowest");
    let names: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
    assert_eq!(names, ["ollama", "claude", "openai"]);
    assert!(states.iter().all(|state| state.state == "unavailable"));
}

#[tokio::test(start_paused = true)]
async fn a_legs_speed_is_that_of_its_answers_and_of_no_failure() {
    let legs = legs();
    let median = async || legs.states().await[0].median_ms;
    assert_eq!(median().await, None);
    let history = [Turn::User("?".to_owned())];
    let none = Request { system: "", tools: &[], history: &[] };
    assert!(legs.select_backend(true).send(none).await.is_none());
    assert_eq!(median().await, None);
    let asked = Request { history: &history, ..none };
    let answered = legs.select_backend(true).send(asked).await;
    assert_eq!(answered.unwrap().0, "ollama");
    assert_eq!(median().await, Some(3000));
    assert_eq!(legs.states().await[1].median_ms, None);
}
