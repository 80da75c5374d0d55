//! What the data folder may hold that is not as this program wrote it: files of a newer version, broken ones, folders in
//! their place, files that can't be read; and a folder that others can read.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::support::world::World;

/// Every JSON file that is opened at the start.
const FILES: [&str; 7] = [
    "contacts.json",
    "grants.json",
    "history.json",
    "mcp.json",
    "radio.json",
    "sessions.json",
    "settings.json",
];
/// Without these somebody would be let in whom they keep out: a broken one refuses the start.
const GUARDS: [&str; 2] = ["contacts.json", "radio.json"];

/// What a start on that data folder says that ends with an error.
async fn refusal(data: &Path) -> String {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("tombolo.toml");
    let text = format!(
        "data_dir = \"{}\"\n[radio]\nport = \"tcp://127.0.0.1:1\"\n[http]\nlisten = \"127.0.0.1:0\"\n",
        data.display()
    );
    std::fs::write(&config, text).unwrap();
    let run = tokio::process::Command::new(env!("CARGO_BIN_EXE_tombolo"))
        .args(["run", "--config", config.to_str().unwrap()])
        .env_remove("TOMBOLO_CONFIG")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs(60), run).await;
    let output = output.expect("the start was not refused").unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

fn data() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o700)).unwrap();
    (folder, data)
}

#[tokio::test]
async fn a_file_of_a_newer_version_refuses_the_start_and_stays_as_it_is() {
    for file in FILES {
        let (_folder, data) = data();
        let text = r#"{"version":999,"something":["new"]}"#;
        std::fs::write(data.join(file), text).unwrap();
        let said = refusal(&data).await;
        for words in [file, "newer tombolo (version 999", "backup"] {
            assert!(said.contains(words), "{said} lacks {words}");
        }
        assert_eq!(std::fs::read_to_string(data.join(file)).unwrap(), text);
        assert!(!data.join(format!("{file}.broken")).exists());
    }
}

#[tokio::test]
async fn a_folder_or_what_can_not_be_read_in_the_place_of_a_file_refuses_the_start_and_says_what_to_do()
 {
    for file in FILES {
        let (_folder, data) = data();
        let path = data.join(file);
        std::fs::create_dir(&path).unwrap();
        let said = refusal(&data).await;
        assert!(said.contains(file) && said.contains("move the folder away"), "{said}");
        assert!(path.is_dir());
        std::fs::remove_dir(&path).unwrap();
        // Not even root can read a link to itself.
        symlink(&path, &path).unwrap();
        let said = refusal(&data).await;
        assert!(said.contains(file) && said.contains("move it away"), "{said}");
        assert!(std::fs::symlink_metadata(&path).unwrap().is_symlink());
    }
}

#[tokio::test]
async fn a_broken_file_that_keeps_somebody_out_refuses_the_start() {
    for file in GUARDS {
        let (_folder, data) = data();
        std::fs::write(data.join(file), "{ broken").unwrap();
        let said = refusal(&data).await;
        assert!(said.contains(file) && said.contains("repair it, or move it away"), "{said}");
        assert!(said.contains("line 1 column 3"), "the cause: {said}");
        assert_eq!(std::fs::read_to_string(data.join(file)).unwrap(), "{ broken");
    }
}

#[tokio::test]
async fn other_broken_files_are_set_aside_and_the_log_says_why() {
    let mut world = World::new().await;
    let data = world.data_dir();
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o700)).unwrap();
    let others: Vec<_> = FILES.into_iter().filter(|file| !GUARDS.contains(file)).collect();
    for file in &others {
        std::fs::write(data.join(file), "{ broken").unwrap();
    }
    world.start().await;
    let log = world.log();
    for file in &others {
        let aside = std::fs::read_to_string(data.join(format!("{file}.broken")));
        assert_eq!(aside.unwrap(), "{ broken", "{file}");
        let line = log.lines().find(|line| line.contains(&format!("{file}.broken")));
        let line = line.unwrap_or_else(|| panic!("{file}: {log}"));
        assert!(line.contains("line 1 column 3"), "the cause: {line}");
        let grave = if *file == "grants.json" { "ERROR" } else { "WARN" };
        assert!(line.contains(grave), "{line}");
    }
    let operator = world.operator().await;
    let grants = operator.call("assistant.grants-list", serde_json::json!({})).await;
    assert!(grants["warning"].as_str().unwrap().contains("grants.json"));
    assert_eq!(grants["callers"][0]["categories"], serde_json::json!([]), "closed");
}

#[tokio::test]
async fn a_data_folder_that_others_can_read_is_closed_if_it_is_ours() {
    let mut world = World::new().await;
    let data = world.data_dir();
    std::fs::create_dir(&data).unwrap();
    let open = || std::fs::set_permissions(&data, PermissionsExt::from_mode(0o755)).unwrap();
    let mode = || std::fs::metadata(&data).unwrap().permissions().mode() & 0o777;
    open();
    world.start().await;
    assert_eq!(mode(), 0o700);
    assert!(world.log().contains("others could read the data folder"), "{}", world.log());
    world.kill();
    open();
    world.start().await;
    assert_eq!(mode(), 0o700, "with the files of the last run in it");

    // Somebody else's folder is left to them.
    let other = tempfile::tempdir().unwrap();
    std::fs::set_permissions(other.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(other.path().join("letter.txt"), "x").unwrap();
    let said = refusal(other.path()).await;
    assert!(said.contains("chmod 700") && said.contains("data_dir"), "{said}");
    let mode = std::fs::metadata(other.path()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o755);
}
