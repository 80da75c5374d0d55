//! The two tools, through the choke point, over real folders.

use std::path::PathBuf;

use super::*;
use crate::assistant::ToolOutcome;
use crate::config::tools::Folder;
use crate::tools::fixture::Caller;

struct World {
    temp: tempfile::TempDir,
    caller: Caller,
    tracker: TaskTracker,
}

impl World {
    async fn new(files: &[(&str, &str)]) -> World {
        let temp = tempfile::tempdir().unwrap();
        let library = temp.path().join("books");
        std::fs::create_dir_all(&library).unwrap();
        for (path, text) in files {
            std::fs::write(library.join(path), text).unwrap();
        }
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let folder = Folder { name: "library".to_owned(), path: library, writable: false };
        let data = temp.path().join("data");
        let tools = tools(&Folders::new(&[folder], &data), &data, &tracker, &stop);
        World { temp, caller: Caller::of(tools, PermissionCategory::Search), tracker }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.temp.path().join(path)
    }

    async fn search(&self, query: &str) -> String {
        let (outcome, words) = self.caller.run("documents_search", json!({ "query": query })).await;
        assert_eq!(outcome, ToolOutcome::Ran, "{words}");
        words
    }
}

#[tokio::test]
async fn what_is_found_is_cited_and_can_be_read_on() {
    let world = World::new(&[
        (
            "wells.md",
            "# Wells\n\n## Pump\n\nOil the pump in spring.\n\n## Rope\n\nCheck the rope.\n",
        ),
        ("page.html", "<title>Stoves</title><p>No water here."),
    ])
    .await;
    let found = world.search("pump oil").await;
    assert!(
        found.starts_with("library/wells.md:5 — Wells › Pump\nOil the pump in spring.\n"),
        "{found}"
    );
    assert!(world.search("stoves").await.starts_with("library/page.html:1 — Stoves\n"));
    assert_eq!(world.search("submarine").await, "[nothing found in 2 documents]\n");
    for arguments in [
        json!({"document": "library/wells.md", "line": 5}),
        json!({"document": "library/wells.md:5"}),
        json!({"document": "library/wells.md:99", "line": 6}),
    ] {
        let (outcome, text) = world.caller.run("documents_read", arguments.clone()).await;
        assert_eq!(outcome, ToolOutcome::Ran, "{text}");
        let expected =
            "[Wells › Pump]\n5: Oil the pump in spring.\n[Wells › Rope]\n9: Check the rope.\n";
        assert_eq!(text, expected, "{arguments}");
    }
    for wrong in
        ["wells.md", "library/none.md", "../data/x", "other/wells.md", "library/../books/wells.md"]
    {
        let (outcome, words) =
            world.caller.run("documents_read", json!({ "document": wrong })).await;
        assert_eq!(outcome, ToolOutcome::Failed, "{wrong}");
        assert!(words.contains("in: library"), "{words}");
    }
    let (outcome, words) = world.caller.run("documents_search", json!({"query": " ?! "})).await;
    assert_eq!(outcome, ToolOutcome::Failed);
    assert!(words.contains("a few words"), "{words}");
}

#[tokio::test]
async fn an_index_that_is_broken_while_it_is_used_is_made_anew() {
    let world = World::new(&[("a.md", "the pump")]).await;
    world.search("pump").await;
    world.tracker.close();
    world.tracker.wait().await;
    world.tracker.reopen();
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(world.path(&format!("data/index/documents.sqlite{end}")));
    }
    std::fs::write(world.path("data/index/documents.sqlite"), "broken ".repeat(2000)).unwrap();
    let (outcome, words) = world.caller.run("documents_search", json!({"query": "pump"})).await;
    assert_eq!(outcome, ToolOutcome::Failed);
    assert!(words.contains("made anew"), "{words}");
    assert!(world.search("pump").await.starts_with("library/a.md:1"));
}

#[tokio::test]
async fn results_are_bounded_however_long_the_documents_are() {
    let long = format!("# {}\n{}", "pump ".repeat(100), "pump water ".repeat(5000));
    let files: Vec<(String, &str)> = (0..12).map(|i| (format!("{i}.md"), long.as_str())).collect();
    let files: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    let world = World::new(&files).await;
    let most = json!({"query": "pump", "limit": MAX_HITS});
    let (_, found) = world.caller.run("documents_search", most).await;
    assert!(found.matches("library/").count() == MAX_HITS, "{found}");
    let (outcome, words) =
        world.caller.run("documents_search", json!({"query": "pump", "limit": MAX_HITS + 1})).await;
    assert_eq!(outcome, ToolOutcome::BadArguments);
    assert!(words.contains("`limit` must be of type integer, 1 to 10"), "{words}");
    let (_, text) = world.caller.run("documents_read", json!({"document": "library/0.md"})).await;
    assert!(text.chars().count() <= MAX_TOOL_RESULT_CHARS, "{}", text.chars().count());
}

#[test]
fn without_folders_there_is_no_tool() {
    let none = Folders::new(&[], Path::new("/data"));
    let tools = tools(&none, Path::new("/data"), &TaskTracker::new(), &CancellationToken::new());
    assert!(tools.is_empty());
}
