//! Another radio on the port than the one used last: the daemon, its RPC and the command line, against two
//! simulated radios on one address.

use std::process::Stdio;

use serde_json::json;
use tombolo::node::NodeNum;
use tombolo::sim::{SayTo, SimConfig, key_for};

use crate::support::world::World;

fn foreign(config: &mut SimConfig) {
    config.num = NodeNum(0x70b0_2002);
    config.name = "Foreign".to_owned();
    config.key = key_for("Foreign");
    // With the dice of the first one a packet could get an id that was answered already.
    config.seed += 1;
}

/// A daemon that has used the first radio, and the second one on its port.
async fn swapped() -> World {
    let mut world = World::new().await;
    world.start().await;
    world.sim.say("Ana", SayTo::Direct, "!ai ping");
    world.heard("Ana", 1).await;
    world.swap_radio(foreign).await;
    world
}

async fn refused(world: &World) -> serde_json::Value {
    let operator = world.operator().await;
    world
        .until("the radio is refused", async |_| {
            operator.call("mesh.status", json!({})).await["refused_radio"].is_object()
        })
        .await;
    operator.call("mesh.status", json!({})).await
}

#[tokio::test]
async fn it_is_neither_read_nor_answered_until_the_operator_accepts_its_fingerprint() {
    let mut world = swapped().await;
    world.sim.say("Ana", SayTo::Direct, "!ai hello");
    let status = refused(&world).await;
    let fingerprint = key_for("Foreign").fingerprint();
    assert_eq!(
        status["refused_radio"],
        json!({ "fingerprint": fingerprint, "owner": "Foreign", "node": "!70b02002" })
    );
    assert_eq!(status["connected"], false);
    let warnings = status["warnings"].to_string();
    assert!(warnings.contains("another radio") && warnings.contains(&fingerprint), "{warnings}");

    // A restart does not make it ours.
    world.kill();
    world.spawn();
    world.until("the daemon serves", async |w: &World| w.health().await.is_some()).await;
    refused(&world).await;
    assert!(world.sim.heard("Ana").is_empty());
    assert!(world.ollama.requests().iter().all(|request| request.path != "/api/chat"));
    // Only its own acks are on the air: nothing of ours, and no contact was written to it.
    assert!(world.sim.transmissions().iter().all(|sent| sent.port == 5));

    let operator = world.operator().await;
    let wrong = json!({ "fingerprint": key_for("Tombolo Node").fingerprint() });
    let (_, body) = operator.raw("mesh.radio-accept", wrong).await;
    let error = body["error"]["message"].as_str().unwrap();
    assert!(error.contains("`fingerprint`") && error.contains(&fingerprint), "{error}");
    refused(&world).await;

    let accepted = operator.call("mesh.radio-accept", json!({ "fingerprint": fingerprint })).await;
    assert_eq!(accepted["refused_radio"], json!(null));
    world
        .until("the link is up", async |_| {
            operator.call("mesh.status", json!({})).await["connected"] == true
        })
        .await;
    world.sim.say("Ana", SayTo::Direct, "!ai ping");
    world.heard("Ana", 1).await;
    let (_, body) = operator.raw("mesh.radio-accept", json!({ "fingerprint": fingerprint })).await;
    let error = body["error"]["message"].as_str().unwrap();
    assert!(error.contains("no radio is refused"), "{error}");
}

#[tokio::test]
async fn without_a_daemon_the_command_line_accepts_it_and_writes_nothing_to_it_before() {
    let mut world = swapped().await;
    refused(&world).await;
    let run = async |world: &World, arguments: &[&str]| {
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_tombolo"))
            .arg("radio")
            .args(arguments)
            .arg("--config")
            .arg(world.config_path())
            .env("TOMBOLO_RADIO__SETTINGS__OWNER", "Hilltop")
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let fingerprint = key_for("Foreign").fingerprint();
    let (done, said) = run(&world, &["accept", &fingerprint]).await;
    assert!(!done && said.contains("in use"), "{said}");
    world.kill();

    let (done, said) = run(&world, &["apply"]).await;
    assert!(!done && said.contains("nothing was written: another radio"), "{said}");
    let (done, said) = run(&world, &["info"]).await;
    assert!(done && said.contains("Note: another radio") && said.contains(&fingerprint), "{said}");
    let (done, said) = run(&world, &["accept"]).await;
    assert!(!done && said.contains(&format!("tombolo radio accept '{fingerprint}'")), "{said}");
    let (done, said) = run(&world, &["accept", "0000 0000 0000 0000"]).await;
    assert!(!done && said.contains(&fingerprint), "{said}");
    let (done, said) = run(&world, &["accept", &fingerprint]).await;
    assert!(done && said.contains("Done: !70b02002"), "{said}");
    let (done, said) = run(&world, &["accept", &fingerprint]).await;
    assert!(done && said.contains("Nothing to do"), "{said}");
    world.start().await;
    world.sim.say("Ana", SayTo::Direct, "!ai ping");
    world.heard("Ana", 1).await;
}
