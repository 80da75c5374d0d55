//! What a path reaches, through the choke point.

use std::path::PathBuf;

use serde_json::Value;

use super::*;
use crate::assistant::ToolOutcome;
use crate::config::tools::Folder;
use crate::tools::fixture::Caller;

struct World {
    temp: tempfile::TempDir,
    caller: Caller,
}

impl World {
    /// `plans` can be read, `shared` can be changed, `data` is the node's.
    fn new() -> World {
        let temp = tempfile::tempdir().unwrap();
        for name in ["plans", "shared", "data", "outside"] {
            std::fs::create_dir(temp.path().join(name)).unwrap();
        }
        std::fs::write(temp.path().join("outside/secret.txt"), "the secret outside").unwrap();
        let folder = |name: &str, writable| Folder {
            name: name.to_owned(),
            path: temp.path().join(name),
            writable,
        };
        let configured = [folder("plans", false), folder("shared", true)];
        let folders = Folders::new(&configured, &temp.path().join("data"));
        let caller = Caller::of(tools(&folders), PermissionCategory::Files);
        World { temp, caller }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.temp.path().join(path)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        std::fs::write(self.path(path), content).unwrap();
    }

    async fn run(&self, tool: &str, arguments: Value) -> (ToolOutcome, String) {
        self.caller.run(tool, arguments).await
    }
}

#[tokio::test]
async fn folders_and_files_are_listed() {
    let world = World::new();
    world.write("plans/heating.md", "warm");
    world.write("plans/2026/a.txt", "x");
    world.write("plans/.hidden", "x");
    world.write("plans/line\nbreak", "");
    let (_, overview) = world.run("files_list", json!({})).await;
    assert_eq!(overview, "plans/\nshared/ (can be changed)");
    let (_, listing) = world.run("files_list", json!({"path": "plans"})).await;
    let names: Vec<&str> = listing.lines().map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(names, ["2026/", "heating.md", "line\\nbreak"]);
    assert!(listing.contains("heating.md  4 B  20"), "{listing}");
    assert_eq!(
        world.run("files_list", json!({"path": "shared"})).await.1,
        "[the folder is empty]\n"
    );
    let (outcome, words) = world.run("files_list", json!({"path": "plans/heating.md"})).await;
    assert_eq!(outcome, ToolOutcome::Failed);
    assert!(words.contains("files_read"), "{words}");
}

#[tokio::test]
async fn a_long_listing_is_cut_with_a_mark() {
    let world = World::new();
    for index in 0..300 {
        world.write(&format!("plans/file-{index:03}.txt"), "x");
    }
    let (_, listing) = world.run("files_list", json!({"path": "plans"})).await;
    assert!(listing.chars().count() <= MAX_TOOL_RESULT_CHARS);
    let shown = listing.lines().count() - 1;
    assert!(listing.ends_with(&format!("[{} more]\n", 300 - shown)), "{listing}");
}

#[tokio::test]
async fn lines_are_read_and_found_under_the_folders_name() {
    let world = World::new();
    world.write("plans/heating.md", "one\ntwo\nThree\n");
    world.write("shared/list.md", "three apples\n");
    let lines = json!({"path": "plans/heating.md", "start_line": 2, "end_line": 2});
    assert_eq!(world.run("files_read", lines).await.1, "2\ttwo\n[the file has 3 lines]\n");
    let (_, found) = world.run("files_search", json!({"pattern": "three"})).await;
    assert_eq!(found, "plans/heating.md:3:Three\nshared/list.md:1:three apples\n");
    let (_, found) = world.run("files_search", json!({"pattern": "Three"})).await;
    assert_eq!(found, "plans/heating.md:3:Three\n", "capitals are meant");
    let only = json!({"pattern": "three", "path": "shared"});
    assert_eq!(world.run("files_search", only).await.1, "shared/list.md:1:three apples\n");
    let one = json!({"pattern": "t", "limit": 1});
    assert!(world.run("files_search", one).await.1.contains("more than these 1"));
    std::fs::remove_dir_all(world.path("shared")).unwrap();
    let (outcome, found) = world.run("files_search", json!({"pattern": "three"})).await;
    assert_eq!(outcome, ToolOutcome::Ran, "one folder that is gone does not hide the others");
    assert!(
        found.starts_with("plans/heating.md:3") && found.contains("shared can't be opened"),
        "{found}"
    );
}

#[tokio::test]
async fn what_leads_elsewhere_is_refused_with_the_reason_by_every_tool() {
    let world = World::new();
    world.write("plans/ok.txt", "x");
    world.write("plans/binary", b"a\0b");
    let limit = usize::try_from(read::MAX_FILE_BYTES).unwrap();
    world.write("plans/large", vec![b'x'; limit + 1]);
    std::os::unix::fs::symlink(world.path("outside/secret.txt"), world.path("plans/link")).unwrap();
    std::os::unix::fs::symlink(world.path("outside"), world.path("plans/dirlink")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", world.path("plans/zero")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        world.path("plans/fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    for (path, reason) in [
        ("plans/../outside/secret.txt", "leads outside"),
        ("plans/link", "outside"),
        ("plans/dirlink/secret.txt", "outside"),
        ("plans/zero", "outside"),
        ("plans/fifo", "FIFO"),
        ("plans/binary", "binary"),
        ("plans/large", "larger than 4 MiB"),
        ("plans/missing", "does not exist"),
        ("plans/.git/config", "hidden"),
        ("plans", "a folder"),
        ("outside/secret.txt", "paths begin with: plans, shared"),
        ("/etc/passwd", "paths begin with"),
    ] {
        let (outcome, words) = world.run("files_read", json!({ "path": path })).await;
        assert_eq!(outcome, ToolOutcome::Failed, "{path}: {words}");
        assert!(words.contains(reason), "{path}: {words}");
        let search = json!({"pattern": ".", "path": path});
        let (_, found) = world.run("files_search", search).await;
        assert!(!found.contains("the secret"), "{path}: {found}");
        let (_, listing) = world.run("files_list", json!({ "path": path })).await;
        assert!(!listing.contains("secret.txt  "), "{path}: {listing}");
    }
}

#[tokio::test]
async fn only_a_writable_folder_is_changed_and_only_after_a_confirmation() {
    let world = World::new();
    world.write("plans/a.txt", "one\n");
    world.write("shared/a.txt", "one\n");
    std::os::unix::fs::symlink(world.path("plans/a.txt"), world.path("shared/link")).unwrap();
    let edit = |path: &str| json!({"path": path, "old_text": "one", "new_text": "two"});
    let (outcome, _) = world.caller.without_gate("files_edit", edit("shared/a.txt")).await;
    assert_eq!(outcome, ToolOutcome::NeedsConfirmation);
    let (outcome, words) = world.run("files_edit", edit("plans/a.txt")).await;
    assert_eq!(outcome, ToolOutcome::Failed);
    assert!(words.contains("can only be read; files can be changed in: shared"), "{words}");
    for path in ["shared/link", "shared/../plans/a.txt", "shared/.profile"] {
        assert_eq!(world.run("files_edit", edit(path)).await.0, ToolOutcome::Failed, "{path}");
    }
    assert_eq!(std::fs::read_to_string(world.path("plans/a.txt")).unwrap(), "one\n");
    let (outcome, words) = world.run("files_edit", edit("shared/a.txt")).await;
    assert_eq!(outcome, ToolOutcome::Ran, "{words}");
    assert_eq!(std::fs::read_to_string(world.path("shared/a.txt")).unwrap(), "two\n");
    let patch = json!({"path": "shared/a.txt", "patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-two\n+three\n"});
    let (outcome, words) = world.run("files_edit", patch).await;
    assert_eq!(outcome, ToolOutcome::Ran, "{words}");
    assert_eq!(std::fs::read_to_string(world.path("shared/a.txt")).unwrap(), "three\n");
}

#[test]
fn without_a_writable_folder_nothing_can_be_changed() {
    let folder = Folder { name: "p".to_owned(), path: "/p".into(), writable: false };
    let folders = Folders::new(&[folder], Path::new("/data"));
    let names: Vec<String> = tools(&folders).iter().map(|tool| tool.name.to_string()).collect();
    assert_eq!(names, ["files_list", "files_read", "files_search"]);
    assert!(tools(&Folders::new(&[], Path::new("/data"))).is_empty());
}
