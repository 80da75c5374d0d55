//! `SIGKILL` at the worst instants: nothing is lost, and nothing is sent twice.

use tombolo::sim::{Heard, SayTo};

use crate::support::ollama::Answer;
use crate::support::world::{World, joined, words};

const ANSWER: &str = "One sentence that is long enough to fill a good part of a packet, and goes on. A second \
sentence follows it and brings the whole to more than what fits into a single text. A third one makes sure \
that there are more than two parts, so that the middle one exists. A fourth one ends it, at last, here. And a \
fifth, for good measure, to be quite certain. The sixth one is there because the planner packs so well that \
five were not enough to make three parts of this answer, and it has to. ";

fn chats(world: &World) -> usize {
    world.ollama.requests().iter().filter(|r| r.path == "/api/chat").count()
}

/// Each part once, in order.
fn assert_once(parts: &[Heard]) {
    let marks: Vec<&str> = parts.iter().map(|p| p.text.split(' ').next().unwrap()).collect();
    assert_eq!(marks, ["1/3", "2/3", "3/3"]);
    assert_eq!(words(&joined(parts)), words(ANSWER));
}

#[tokio::test]
async fn killed_between_acceptance_and_answer_the_answer_arrives_after_the_restart() {
    let mut world = World::new().await;
    world.ollama.push(Answer::hang());
    world.ollama.set_default(Answer::text(ANSWER));
    world.start().await;
    world.sim.say("Ana", SayTo::Direct, "!ai tell me");
    world.until("the model is asked", async |w: &World| chats(w) == 1).await;
    world.kill();
    world.start().await;
    assert_once(&world.heard("Ana", 3).await);
    assert_eq!(chats(&world), 2);
    world.sim.say("Ana", SayTo::Direct, "!ai ping");
    assert_eq!(world.heard("Ana", 4).await.len(), 4, "nothing came twice");
}

#[tokio::test]
async fn killed_between_parts_the_rest_arrives_and_no_part_twice() {
    let mut world = World::new().await;
    world.ollama.set_default(Answer::text(ANSWER));
    world.start().await;
    world.sim.say("Ana", SayTo::Direct, "!ai tell me");
    for part in 1..=2 {
        world.heard("Ana", part).await;
        world.kill();
        world.start().await;
    }
    assert_once(&world.heard("Ana", 3).await);
    assert_eq!(chats(&world), 1, "the model is not asked again");
    world.sim.say("Ana", SayTo::Direct, "!ai ping");
    assert_eq!(world.heard("Ana", 4).await.len(), 4, "nothing came twice");
}

#[tokio::test]
async fn an_answered_question_that_is_heard_again_after_a_restart_is_not_answered_again() {
    use tombolo::node::PacketId;
    use tombolo::sim::Saying;
    let mut world = World::new().await;
    world.ollama.set_default(Answer::text("once"));
    world.start().await;
    let again =
        Saying { id: Some(PacketId(0x1234_5678)), ..Saying::new(SayTo::Direct, "!ai tell me") };
    world.sim.say_with("Ana", again.clone());
    world.heard("Ana", 1).await;
    world.kill();
    world.sim.reboot(std::time::Duration::from_millis(100)); // the radio forgets what it has seen
    world.start().await;
    world.sim.say_with("Ana", again);
    world.sim.say("Ana", SayTo::Direct, "!ai ping");
    let heard = world.heard("Ana", 2).await;
    assert!(heard[1].text.starts_with("pong"), "{}", heard[1].text);
    assert_eq!(chats(&world), 1);
}

#[tokio::test]
async fn more_goes_on_where_it_stopped_after_a_restart_too() {
    let mut world = World::new().await;
    world.ollama.set_default(Answer::text(ANSWER.repeat(2)));
    world.start().await;
    world.sim.say("Ana", SayTo::Direct, "!ai tell me");
    let burst = world.heard("Ana", 3).await;
    assert!(burst[2].text.contains("more"), "{}", burst[2].text);
    world.kill();
    world.start().await;
    world.sim.say("Ana", SayTo::Direct, "!ai more");
    let all = world.heard("Ana", 5).await;
    assert!(all[3].text.starts_with("4/"), "{}", all[3].text);
    assert_eq!(words(&joined(&all).replace(" (more)", "")), words(&ANSWER.repeat(2)));
}
