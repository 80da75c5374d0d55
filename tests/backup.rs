//! `tombolo backup`: a copy made beside a running daemon, and a daemon on that copy.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;
use tombolo::sim::SayTo;

use crate::support::ollama::Answer;
use crate::support::world::World;

async fn backup(world: &World, to: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tombolo"));
    command.arg("backup").arg(to).arg("--config").arg(world.config_path());
    command.stdin(Stdio::null());
    tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
}

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Puts a copy in the place of the data folder, as the guide says.
fn restore(copy: &Path, data: &Path) {
    std::fs::remove_dir_all(data).unwrap();
    let copied = Command::new("cp").arg("-a").arg(copy).arg(data).status().unwrap();
    assert!(copied.success());
}

#[tokio::test]
async fn a_daemon_on_a_copy_knows_its_contacts_transcripts_grants_and_password() {
    let to = tempfile::tempdir().unwrap();
    let mut world = World::new().await;
    world.ollama.set_default(Answer::text("the well is dry"));
    world.start().await;
    let operator = world.operator().await;
    let eve = json!({"add_contact": {"id": "!00c0ffee", "name": "Eve"}});
    operator.call("mesh.assistant-configure", eve).await;
    let grant = json!({"caller": "operator", "category": "notes", "granted": true});
    operator.call("assistant.grants-set", grant).await;
    world.sim.say("Ana", SayTo::Direct, "!ai is the well dry?");
    world.heard("Ana", 1).await;
    assert!(operator.call("system.info", json!({})).await["backup"].is_null());

    let output = backup(&world, to.path()).await;
    assert!(output.status.success(), "{}", said(&output));
    let copies: Vec<_> = std::fs::read_dir(to.path()).unwrap().flatten().collect();
    assert_eq!(copies.len(), 1, "one folder, and nothing half-made");
    let copy = copies[0].path();
    assert!(said(&output).contains(&copy.display().to_string()), "{}", said(&output));
    let info = operator.call("system.info", json!({})).await;
    assert_eq!(info["backup"]["folder"], json!(copy));
    assert!(info["backup"]["at"].as_u64().unwrap() > 1_700_000_000_000);
    assert!(info["storage"]["data_bytes"].as_u64().unwrap() > 0);
    assert!(!copy.join("sessions.json").exists() && !copy.join("index").exists());
    let metrics = crate::support::world::client().get(world.url("/metrics")).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let age = metrics.lines().find_map(|line| line.strip_prefix("tombolo_backup_age_seconds "));
    assert!(age.is_some_and(|age| age.parse::<f64>().unwrap() < 600.0), "{metrics}");

    // What happens after the copy is not in it.
    operator.call("mesh.assistant-configure", json!({"remove_contact": {"id": "!00c0ffee"}})).await;
    world.kill();
    restore(&copy, &world.data_dir());
    world.start().await;
    let operator = world.operator().await; // with the password of before
    let contacts = operator.call("mesh.assistant-status", json!({})).await;
    let names: Vec<_> =
        contacts["allowed_contacts"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["Ana", "Eve"]);
    let grants = operator.call("assistant.grants-list", json!({})).await;
    assert_eq!(grants["callers"][0]["source"], "grants.json");
    world.sim.say("Ana", SayTo::Direct, "!ai and now?");
    world.heard("Ana", 2).await;
    let asked = world.ollama.requests();
    let last = asked.iter().rfind(|request| request.path == "/api/chat").unwrap();
    let history = last.body["messages"].to_string();
    assert!(
        history.contains("is the well dry?") && history.contains("the well is dry"),
        "{history}"
    );
}

#[tokio::test]
async fn a_question_that_was_being_answered_is_answered_by_the_copy() {
    let to = tempfile::tempdir().unwrap();
    let mut world = World::new().await;
    world.ollama.set_default(Answer::hang());
    world.start().await;
    world.sim.say("Ana", SayTo::Direct, "!ai when?");
    world
        .until("the model is asked", async |w: &World| {
            w.ollama.requests().iter().any(|request| request.path == "/api/chat")
        })
        .await;
    assert!(backup(&world, to.path()).await.status.success());
    world.kill();
    let copy = std::fs::read_dir(to.path()).unwrap().flatten().next().unwrap().path();
    restore(&copy, &world.data_dir());
    world.ollama.set_default(Answer::text("soon"));
    world.start().await;
    assert_eq!(world.heard("Ana", 1).await[0].text, "soon");
}

#[tokio::test]
async fn what_is_no_place_for_a_copy_is_refused_with_what_would_be_right() {
    let to = tempfile::tempdir().unwrap();
    let mut world = World::new().await;
    let none = backup(&world, to.path()).await;
    assert!(said(&none).contains("there is no data folder"), "{}", said(&none));
    world.start().await;
    let file = to.path().join("file");
    std::fs::write(&file, "").unwrap();
    for (place, words) in [
        (world.data_dir().join("transcripts"), "outside it"),
        (to.path().join("nowhere"), "create it"),
        (file, "not a folder"),
        // Nobody can make a folder there, not even root.
        ("/proc".into(), "can't be written"),
    ] {
        let output = backup(&world, &place).await;
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(words), "{}", said(&output));
    }
    assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 1);
    assert!(!world.data_dir().join("backup.json").exists());
}
