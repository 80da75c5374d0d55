//! The configured tools in the real program: a peer's question over the air, a scripted model that calls
//! them, and what the model was told. Scored on what was offered, told and written, not on words of a model.

use serde_json::{Value, json};
use tombolo::sim::SayTo;

use crate::support::ollama::Answer;
use crate::support::world::{Operator, Wire, World, ana_is_a_contact};

/// Ana with these grants, and a library beside the data folder.
async fn world(grants: &str, tools: &str) -> (tempfile::TempDir, World) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("library")).unwrap();
    let text = "# Wells\n\n## Pump\n\nOil the pump in spring.\n\n## Криниця\n\nВоду кип'ятити.\n";
    std::fs::write(folder.path().join("library/wells.md"), text).unwrap();
    let ana = ana_is_a_contact().replace(" }]", &format!(", grants = {grants} }}]"));
    let tools = tools.replace("$T", folder.path().to_str().unwrap());
    let mut world = World::with(Wire::Tcp, &format!("{ana}\n[tools]\n{tools}\n"), |_| {}).await;
    world.start().await;
    (folder, world)
}

/// Ana asks and the model makes that call; what it was told, and what it had been offered.
async fn asked(world: &World, tool: &str, arguments: Value) -> (String, Vec<String>) {
    world.ollama.push(Answer::tool_call(tool, arguments));
    world.ollama.push(Answer::text("Done."));
    let before = world.sim.heard("Ana").len();
    world.sim.say("Ana", SayTo::Direct, &format!("!ai please use {tool}, number {before}"));
    world.heard("Ana", before + 1).await;
    let last = world.ollama.requests_to("/api/chat").pop().unwrap().body;
    let told = last["messages"].as_array().unwrap().iter().rev().find(|m| m["role"] == "tool");
    let told = told.and_then(|m| m["content"].as_str()).unwrap_or_default().to_owned();
    let offered = last["tools"].as_array().cloned().unwrap_or_default();
    let offered = offered.iter().map(|t| t["function"]["name"].as_str().unwrap().to_owned());
    (told, offered.collect())
}

async fn listed(operator: &Operator) -> (Vec<String>, Vec<String>) {
    let answer = operator.call("assistant.list-tools", json!({})).await;
    let texts = |value: &Value, name: &str| -> Vec<String> {
        let rows = value.as_array().unwrap().iter();
        rows.map(|row| row.get(name).unwrap_or(row).as_str().unwrap().to_owned()).collect()
    };
    (texts(&answer["tools"], "name"), texts(&answer["unconfigured"], ""))
}

#[tokio::test]
async fn a_peer_searches_the_operators_documents_and_the_answer_can_cite_them() {
    let (_folder, world) = world("[\"search\"]", "documents = [\"$T/library\"]").await;
    let (told, offered) = asked(&world, "documents_search", json!({"query": "pump oil"})).await;
    assert!(told.starts_with("library/wells.md:5 — Wells › Pump\nOil the pump"), "{told}");
    assert_eq!(offered, ["documents_read", "documents_search"]);
    let (told, _) = asked(&world, "documents_search", json!({"query": "вода з криниці"})).await;
    assert!(told.contains("library/wells.md:9"), "{told}");
    // A category that was not granted is neither offered nor run.
    let (told, _) = asked(&world, "mesh_nodes", json!({})).await;
    assert!(told.contains("no grant for \"network\""), "{told}");
}

#[tokio::test]
async fn a_peer_asks_for_the_nodes_of_the_mesh_and_their_names_are_quoted() {
    let (_folder, world) = world("[\"network\"]", "").await;
    let (told, _) = asked(&world, "mesh_nodes", json!({"limit": 40})).await;
    assert!(told.contains("contact \"Ana\""), "{told}");
    assert!(told.lines().all(|line| line.starts_with('!') || line.starts_with('[')), "{told}");
    let (told, _) = asked(&world, "mesh_node", json!({"node": "ana"})).await;
    assert!(told.contains("heard") && told.contains("SNR"), "{told}");
    let (told, _) = asked(&world, "mesh_airtime", json!({})).await;
    assert!(told.contains("sent in the last hour"), "{told}");
}

#[tokio::test]
async fn a_peer_reads_files_and_changes_none_without_a_confirmation() {
    let tools = "folders = [{ path = \"$T/library\", writable = true }]";
    let (folder, world) = world("[\"files\"]", tools).await;
    let (told, _) =
        asked(&world, "files_read", json!({"path": "library/wells.md", "end_line": 1})).await;
    assert!(told.starts_with("1\t# Wells"), "{told}");
    let (told, _) = asked(&world, "files_read", json!({"path": "library/../data/secrets/x"})).await;
    assert!(told.contains("leads outside"), "{told}");
    let edit = json!({"path": "library/wells.md", "old_text": "# Wells", "new_text": "# Owned"});
    asked(&world, "files_edit", edit).await;
    let text = std::fs::read_to_string(folder.path().join("library/wells.md")).unwrap();
    assert!(text.starts_with("# Wells"));
}

#[tokio::test]
async fn what_is_not_configured_has_no_tool_until_the_configuration_is_read_again() {
    let (folder, world) = world("[\"system\"]", "").await;
    let operator = world.operator().await;
    let (tools, unconfigured) = listed(&operator).await;
    assert!(tools.contains(&"system_status".to_owned()), "{tools:?}");
    assert_eq!(unconfigured, ["apps", "wallet", "files", "media", "search", "notes", "bitcoin"]);

    let text = std::fs::read_to_string(world.config_path()).unwrap();
    let library = folder.path().join("library");
    let more = format!("[tools]\nnotes = \"own\"\nmedia = [\"{}\"]\n", library.display());
    std::fs::write(world.config_path(), text.replace("[tools]\n", &more)).unwrap();
    let pid = rustix::process::Pid::from_raw(world.pid().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    world
        .until("the new tools are there", async |_| {
            listed(&operator).await.1 == ["apps", "wallet", "files", "search", "bitcoin"]
        })
        .await;
}

#[tokio::test]
async fn a_folder_that_would_show_the_secrets_stops_the_start_and_names_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("data"), folder.path().join("innocent")).unwrap();
    let text = format!(
        "data_dir = \"{path}/data\"\n[radio]\nport = \"sim\"\n[http]\nlisten = \"127.0.0.1:0\"\n\
         [tools]\nfolders = [\"{path}/innocent\"]\n"
    );
    let config = folder.path().join("t.toml");
    std::fs::write(&config, text).unwrap();
    let run = |command: &str| {
        std::process::Command::new(env!("CARGO_BIN_EXE_tombolo"))
            .args([command, "--config"])
            .arg(&config)
            .output()
            .unwrap()
    };
    let ended = run("run");
    assert!(!ended.status.success());
    let words = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(words.contains("tools.folders") && words.contains("the node's own data"), "{words}");
    let checked = String::from_utf8_lossy(&run("check").stdout).into_owned();
    assert!(checked.contains("FAILED folders"), "{checked}");
}
