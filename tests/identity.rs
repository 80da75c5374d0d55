//! Who is asking: the same number on a channel, with another's key, and with its own.

use serde_json::Value;
use tombolo::node::NodeNum;
use tombolo::sim::{SayTo, key_for};

use crate::support::ollama::Answer;
use crate::support::world::{Wire, World, ana_is_a_contact};

const ANA: NodeNum = NodeNum(0xa1b2_c3d4);

fn texts(body: &Value) -> String {
    body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] != "system")
        .map(|message| message["content"].as_str().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("|")
}

#[tokio::test]
async fn only_the_pinned_key_gets_tools_and_a_forger_takes_nothing_from_its_owner() {
    let mesh = format!("{}\ntrusted_only = false\nchannels = [\"bots\"]", ana_is_a_contact());
    let mut world = World::with(Wire::Tcp, &mesh, |_| {}).await;
    world.ollama.set_default(Answer::text("noted"));
    world.start().await;

    // 1. The number on a channel.
    world.sim.say_as("Mallory", ANA, SayTo::Channel(1), "!ai first");
    world.until("the first is answered", async |w: &World| chats(w) == 1).await;
    // 2. The number in a direct message, under a key that is not the pinned one.
    world.sim.learn_key(ANA, Some(key_for("Mallory")));
    world.sim.say_as("Mallory", ANA, SayTo::Direct, "!ai second");
    world.until("the second is answered", async |w: &World| chats(w) == 2).await;
    // 3. The real Ana.
    world.sim.learn_key(ANA, Some(key_for("Ana")));
    world.sim.say("Ana", SayTo::Direct, "!ai third");
    world.until("the third is answered", async |w: &World| chats(w) == 3).await;

    let requests = world.ollama.requests();
    let asked: Vec<&Value> =
        requests.iter().filter(|r| r.path == "/api/chat").map(|r| &r.body).collect();
    let tools: Vec<usize> =
        asked.iter().map(|body| body["tools"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(tools[..2], [0, 0], "a claim is offered no tool");
    assert!(tools[2] > 0, "the pinned key is");
    assert_eq!(texts(asked[1]), "second");
    assert_eq!(texts(asked[2]), "third", "nothing of the others is in Ana's conversation");

    // The operator sees what happened, and the pin is as it was.
    let operator = world.operator().await;
    let status = operator.call("mesh.assistant-status", serde_json::json!({})).await;
    let ana = &status["allowed_contacts"][0];
    assert_eq!(ana["id"], "!a1b2c3d4");
    assert_eq!(ana["pin"], "configured");
    assert_eq!(ana["fingerprint"], key_for("Ana").fingerprint());
    assert_eq!(ana["foreign_fingerprint"], key_for("Mallory").fingerprint());
}

#[tokio::test]
async fn by_default_a_stranger_and_a_forger_hear_nothing_at_all() {
    let mut world = World::new().await;
    world.ollama.set_default(Answer::text("noted"));
    world.start().await;
    world.sim.say("Mallory", SayTo::Direct, "!ai help");
    world.sim.say("Mallory", SayTo::Channel(1), "!ai help");
    world.sim.say_as("Mallory", ANA, SayTo::Channel(0), "!ai help");
    world.sim.learn_key(ANA, Some(key_for("Mallory")));
    world.sim.say_as("Mallory", ANA, SayTo::Direct, "!ai help");
    world.sim.learn_key(ANA, Some(key_for("Ana")));
    // Whoever is answered next is answered after all of those.
    world.sim.say("Ana", SayTo::Direct, "!ai ping");
    world.heard("Ana", 1).await;
    assert_eq!(chats(&world), 0);
    let texts = world.sim.transmissions().iter().filter(|t| t.port == 1).count();
    assert_eq!(texts, 1, "the only text on the air is Ana's");
    assert!(world.sim.heard("Mallory").is_empty());
}

fn chats(world: &World) -> usize {
    world.ollama.requests().iter().filter(|r| r.path == "/api/chat").count()
}
