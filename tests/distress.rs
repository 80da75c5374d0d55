//! `sos` through everything: the radio's port, the daemon, its disk and the node page's RPC.

use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;

use serde_json::{Value, json};
use tombolo::node::PacketId;
use tombolo::sim::{SayTo, Saying};

use crate::support::ollama::Answer;
use crate::support::world::{Operator, World, ana_is_a_contact};

async fn texts(operator: &Operator) -> Vec<Value> {
    let texts = operator.call("mesh.distress", json!({})).await;
    texts["distress"].as_array().unwrap().clone()
}

/// The answers' part of this hour's airtime is used up: another boot has sent for 1,715 of the 1,800 s of the share.
fn use_up_the_air(world: &World) {
    let path = world.data_dir().join("airtime.log");
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    writeln!(file, "another-boot 1000 1000 1715000000 text").unwrap();
}

fn chats(world: &World) -> usize {
    world.ollama.requests().iter().filter(|r| r.path == "/api/chat").count()
}

#[tokio::test]
async fn a_call_reaches_the_page_and_is_acknowledged_once_with_no_air_left_and_the_model_hanging() {
    let mut world = World::new().await;
    std::fs::DirBuilder::new().mode(0o700).create(world.data_dir()).unwrap();
    world.ollama.set_default(Answer::hang());
    world.start().await;
    let operator = world.operator().await;
    world.sim.say("Ana", SayTo::Direct, "!ai tell me");
    world.until("the model is asked", async |w: &World| chats(w) == 1).await;
    world.kill();
    use_up_the_air(&world);
    world.start().await;
    world.until("the model is asked again", async |w: &World| chats(w) == 2).await;
    let air = operator.call("mesh.airtime", json!({})).await;
    assert!(air["recovers_in_s"].as_u64().unwrap() > 3_000, "{air}");

    let call = Saying {
        id: Some(PacketId(0x5051_0001)),
        ..Saying::new(SayTo::Direct, "SOS broken leg at the causeway")
    };
    world.sim.say_with("Ana", call.clone());
    world.until("it is recorded", async |_| !texts(&operator).await.is_empty()).await;
    world.kill();
    world.start().await;
    let found = texts(&operator).await;
    assert_eq!(found.len(), 1);
    let text = &found[0];
    assert_eq!(text["text"], "broken leg at the causeway");
    assert_eq!((&text["name"], &text["assurance"]), (&json!("Ana"), &json!("verified")));
    assert_eq!((&text["seen_at"], &text["channel"]), (&Value::Null, &Value::Null));
    assert_eq!(operator.call("mesh.status", json!({})).await["distress"], 1);

    let heard = world.heard("Ana", 1).await;
    assert!(heard[0].text.contains("NOT 911/112"), "{}", heard[0].text);
    assert_eq!(heard[0].reply_id, Some(PacketId(0x5051_0001)));
    world.sim.reboot(std::time::Duration::from_millis(100)); // the radio forgets what it has seen
    world.until("the link is back", async |w: &World| w.sim.is_attached()).await;
    world.sim.say_with("Ana", call);
    world.sim.say("Ana", SayTo::Direct, "!ai ping");
    let heard = world.heard("Ana", 2).await;
    assert!(heard[1].text.starts_with("pong"), "{}", heard[1].text);
    assert_eq!(texts(&operator).await, found, "the same packet is the same record");

    let id = text["id"].clone();
    let cleared = operator.call("mesh.distress-clear", json!({ "id": id })).await;
    assert!(cleared["distress"][0]["seen_at"].is_u64(), "{cleared}");
    assert_eq!(operator.call("mesh.status", json!({})).await["distress"], 0);
    let log = world.log();
    assert!(log.contains("distress text from !a1b2c3d4 (pinned key), see the node page"), "{log}");
    assert!(!log.contains("broken leg"), "no words of it in the log");
    let changes = std::fs::read_to_string(world.data_dir().join("changes.log")).unwrap();
    assert!(
        changes.contains("distress text of Ana") && !changes.contains("broken leg"),
        "{changes}"
    );
}

#[tokio::test]
async fn a_strangers_call_is_shown_as_a_claim_and_brings_no_frame() {
    let mut world =
        World::with(crate::support::world::Wire::Tcp, &ana_is_a_contact(), |_| {}).await;
    world.start().await;
    let operator = world.operator().await;
    world.sim.say("Mallory", SayTo::Direct, "sos, the dam breaks");
    world.until("it is recorded", async |_| !texts(&operator).await.is_empty()).await;
    let text = &texts(&operator).await[0];
    assert_eq!((&text["assurance"], &text["claims"]), (&json!("unverified"), &Value::Null));
    world.sim.say("Ana", SayTo::Direct, "!ai ping");
    world.heard("Ana", 1).await;
    assert!(world.sim.heard("Mallory").is_empty());
}
