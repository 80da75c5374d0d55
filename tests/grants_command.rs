//! `tombolo grants`: what it prints, what it changes, and that a running daemon is not gone behind.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::world::World;

const KEY: &str = "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqo=";

fn run(config: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .arg("grants")
        .args(args)
        .arg("--config")
        .arg(config)
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("tombolo.toml");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let text = format!(
        "data_dir = \"{}\"\n[mesh]\nallowed_contacts = [{{ id = \"!a1b2c3d4\", key = \"{KEY}\", name = \"Ana\", \
         grants = [\"network\"] }}, \"!b0b0b0b2\"]\n\
         [[tools.commands]]\nname = \"tides\"\ndescription = \"Tides\"\ncommand = [\"/bin/true\"]\n\
         [[mcp]]\nname = \"toy\"\ncommand = [\"/nowhere/toy\"]\n\
         [[mcp.tools]]\nname = \"getForecast\"\ncategory = \"search\"\ndestructive = false\n\
         [[mcp.tools]]\nname = \"unmarked\"\n",
        data.display()
    );
    std::fs::write(&config, text).unwrap();
    (folder, config)
}

#[test]
fn what_is_set_is_shown_and_stored_and_what_is_wrong_is_named() {
    let (folder, config) = folder();
    let listed = run(&config, &[]);
    let text = out(&listed);
    assert!(text.contains("operator  (default)\n  may use: system\n"), "{text} {}", err(&listed));
    let ana = format!("Ana  key:{KEY}  (configuration)\n  may use: network\n");
    assert!(text.contains(&ana), "{text}");
    assert!(!folder.path().join("data/grants.json").exists(), "to list changes nothing");

    for (args, shown) in [
        (&["set", "ana", "notes", "on"][..], "may use: network, notes\n"),
        (&["set", "!a1b2c3d4", "network", "off"], "may use: notes\n"),
        (&["set", "Ana", "media", "on", "--for", "90m"], " UTC, 1 h 29 min from now), notes\n"),
        (&["tool", &format!("key:{KEY}"), "notes_add", "never"], "  notes_add: never\n"),
        (&["set", "operator", "system", "off"], "may use: nothing\n"),
    ] {
        let done = run(&config, args);
        assert!(
            done.status.success() && out(&done).contains(shown),
            "{args:?} {} {}",
            out(&done),
            err(&done)
        );
    }
    let done = run(&config, &["tool", "Ana", "notes_add", "default"]);
    assert!(!out(&done).contains("notes_add"), "{}", out(&done));
    let file: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("data/grants.json")).unwrap())
            .unwrap();
    assert_eq!(file["history"].as_array().unwrap().len(), 6);
    assert_eq!(file["history"][0]["by"], "command line");

    for (args, words) in [
        (&["set", "nobody", "notes", "on"][..], "there is no caller `nobody`"),
        (&["set", "!b0b0b0b2", "notes", "on"], "has no key yet"),
        (&["set", "Ana", "note", "on"], "the categories are"),
        (&["set", "Ana", "notes", "maybe"], "possible values: on, off"),
        (&["set", "Ana", "notes", "on", "--for", "soon"], "90m, 12h or 7d"),
        (&["set", "Ana", "notes", "off", "--for", "1h"], "--for goes with `on`"),
        (&["tool", "Ana", "Notes Add", "ask"], "a tool's name"),
        (&["tool", "Ana", "notes_ad", "never"], "no tool `notes_ad`; did you mean notes_add? ("),
        (&["tool", "Ana", "notes_ad", "never"], "add --unknown"),
        (&["tool", "Ana", "zzzzzz", "never"], "there are: ai_models, "),
        (&["tool", "Ana", "app_tdies", "never"], "did you mean app_tides?"),
        (&["tool", "Ana", "app_tides", "always"], "app_tides"),
        (&["tool", "Ana", "files_edit", "always"], "files_edit"),
    ] {
        let refused = run(&config, args);
        assert!(
            !refused.status.success() && err(&refused).contains(words),
            "{args:?}: {}",
            err(&refused)
        );
    }
    let after: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("data/grants.json")).unwrap())
            .unwrap();
    assert_eq!(after, file, "a refused change changes nothing");
}

#[test]
fn a_tool_that_is_not_there_now_can_be_set_and_a_misspelt_one_only_on_purpose() {
    let (_folder, config) = folder();
    for (args, shown) in [
        // Of a category for which nothing is configured, a command, a foreign tool with its marks and one without.
        (&["tool", "Ana", "files_read", "never"][..], "files_read: never"),
        (&["tool", "operator", "app_tides", "always"], "app_tides: always"),
        (&["tool", "Ana", "app_tides", "ask"], "app_tides: ask"),
        #[cfg(feature = "mcp")]
        (&["tool", "Ana", "toy_getForecast", "never"], "toy_getForecast: never"),
        #[cfg(feature = "mcp")]
        (&["tool", "Ana", "toy_unmarked", "ask"], "toy_unmarked: ask"),
        (&["tool", "Ana", "later_tool", "never", "--unknown"], "later_tool: never"),
        // What is set already can be changed and taken back without more ado.
        (&["tool", "Ana", "later_tool", "ask"], "later_tool: ask"),
        (&["tool", "Ana", "later_tool", "default"], "app_tides: ask"),
    ] {
        let done = run(&config, args);
        assert!(
            done.status.success() && out(&done).contains(shown),
            "{args:?} {} {}",
            out(&done),
            err(&done)
        );
    }
}

#[tokio::test]
async fn a_running_daemon_is_not_gone_behind() {
    let mut world = World::new().await;
    world.start().await;
    let config = world.config_path();
    let refused = run(&config, &["set", "operator", "notes", "on"]);
    assert!(!refused.status.success());
    assert!(err(&refused).contains("node page"), "{}", err(&refused));
    assert!(run(&config, &["list"]).status.success());
    world.kill();
    assert!(run(&config, &["set", "Ana", "notes", "on"]).status.success());
}
