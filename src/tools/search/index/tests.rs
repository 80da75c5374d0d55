//! The index follows its documents, and is made anew when it is broken.

use std::io::{Seek as _, SeekFrom, Write as _};

use super::*;
use crate::config::tools::Folder;

struct World {
    temp: tempfile::TempDir,
    index: Index,
}

impl World {
    fn new() -> World {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(temp.path().join("library")).unwrap();
        let index = Index::of(&temp.path().join("data"));
        World { temp, index }
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.temp.path().join("library").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn folders(&self) -> Folders {
        self.folders_named(&["library"])
    }

    fn folders_named(&self, names: &[&str]) -> Folders {
        let folders: Vec<Folder> = names
            .iter()
            .map(|name| Folder {
                name: (*name).to_owned(),
                path: self.temp.path().join(name),
                writable: false,
            })
            .collect();
        Folders::new(&folders, &self.temp.path().join("data"))
    }

    fn update(&self) -> Report {
        self.index.update(&self.folders(), &CancellationToken::new()).unwrap()
    }

    fn found(&self, query: &str) -> Vec<String> {
        let hits = self.index.find(query, 10).unwrap();
        hits.into_iter().map(|hit| format!("{}:{}", hit.path, hit.line)).collect()
    }
}

#[test]
fn the_index_follows_its_documents() {
    let world = World::new();
    world.write("wells.md", "# Wells\n\nOil the pump in spring.\n");
    world.write("deep/er/page.html", "<title>Stoves</title><p>Light the stove.");
    world.write("notes.txt", "The pump is old.\n");
    world.write("photo.jpg", "no document: pump");
    world.write(".hidden.md", "pump");
    let report = world.update();
    assert_eq!((report.indexed, report.removed, report.complete), (3, 0, true));
    assert_eq!(world.found("pump").len(), 2);
    assert_eq!(world.found("oil pump"), ["wells.md:3", "notes.txt:1"], "all words before any");
    assert_eq!(world.found("stoves"), ["deep/er/page.html:1"]);

    assert_eq!(world.update().indexed, 0, "nothing changed");
    world.write("notes.txt", "The stove is new and larger.\n");
    std::fs::remove_file(world.temp.path().join("library/wells.md")).unwrap();
    let report = world.update();
    assert_eq!((report.indexed, report.removed), (1, 1));
    assert!(world.found("pump").is_empty());
    assert_eq!(world.found("stove").len(), 2);
    assert_eq!(world.index.count().unwrap(), 2);
}

#[test]
fn ukrainian_and_accents_are_found_in_their_forms() {
    let world = World::new();
    world.write("uk.md", "# Криниця\n\nВоду з криниці треба кип'ятити. Їжак і ґанок. М’яч.\n");
    world.write("de.txt", "Das Gerät muß geölt werden.\n");
    world.update();
    for query in [
        "криниця",
        "КРИНИЦЮ",
        "вода",
        "кип'ятити",
        "кипʼятити",
        "кип’ятити",
        "їжак",
        "ґанок",
        "м'яч",
    ] {
        assert_eq!(world.found(query), ["uk.md:3"], "{query}");
    }
    for query in ["gerät", "GERAT", "Geräte"] {
        assert_eq!(world.found(query), ["de.txt:1"], "{query}");
    }
    assert!(world.found("лісопилка").is_empty());
}

#[test]
fn no_question_is_an_error() {
    let world = World::new();
    world.write("a.md", "# A\nx");
    world.update();
    for query in [
        "",
        "\"",
        "a AND",
        "NEAR(",
        "title:",
        "-x",
        "*",
        "col : x",
        "(((",
        "\u{0}",
        "a\"b OR \"c",
        "^",
        "🌊",
    ] {
        world.index.find(query, 5).unwrap();
    }
}

#[test]
fn a_broken_index_is_made_anew() {
    let world = World::new();
    for index in 0..40 {
        world.write(
            &format!("{index}.md"),
            format!("# Title {index}\n{}", "pump oil water ".repeat(300)),
        );
    }
    world.update();
    let file = world.index.file();
    assert!(world.index.is_whole().unwrap());

    // No database at all.
    world.index.remove().unwrap();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "this is no database, however long it may be: ".repeat(200)).unwrap();
    assert!(!world.index.is_whole().unwrap());
    assert!(world.index.find("pump", 3).unwrap_err().is_corrupt());
    assert_eq!(world.update().indexed, 40);
    assert_eq!(world.found("pump").len(), 10);

    // A page in its middle.
    let mut broken = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    for page in 1..8 {
        broken.seek(SeekFrom::Start(page * 4096)).unwrap();
        broken.write_all(&[0xA5; 4096]).unwrap();
    }
    drop(broken);
    assert!(!world.index.is_whole().unwrap());
    world.write("new.md", "pump");
    let report = world.update();
    assert_eq!(report.indexed, 41);
    assert!(world.index.is_whole().unwrap());

    // A truncated one, and one of another version.
    std::fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(5000).unwrap();
    assert_eq!(world.update().indexed, 41);
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert_eq!(world.update().indexed, 41);
    assert_eq!(world.found("pump").len(), 10);
}

#[test]
fn a_folder_that_is_away_keeps_what_is_known_and_one_that_was_closed_does_not() {
    let world = World::new();
    world.write("a.md", "pump");
    std::fs::create_dir(world.temp.path().join("other")).unwrap();
    std::fs::write(world.temp.path().join("other/b.md"), "pump").unwrap();
    let both = world.folders_named(&["library", "other"]);
    let go = CancellationToken::new();
    assert_eq!(world.index.update(&both, &go).unwrap().indexed, 2);
    std::fs::rename(world.temp.path().join("other"), world.temp.path().join("away")).unwrap();
    let report = world.index.update(&both, &go).unwrap();
    assert_eq!((report.removed, report.complete), (0, false));
    assert_eq!(world.found("pump").len(), 2);
    assert_eq!(world.update().removed, 1, "it is no longer configured");
    assert_eq!(world.found("pump"), ["a.md:1"]);
    let stopped = CancellationToken::new();
    stopped.cancel();
    std::fs::remove_file(world.temp.path().join("library/a.md")).unwrap();
    let report = world.index.update(&world.folders(), &stopped).unwrap();
    assert_eq!((report.removed, report.complete), (0, false), "what was not seen is not gone");
}

#[test]
fn large_binary_and_foreign_files_are_left_out() {
    let world = World::new();
    let limit = usize::try_from(update::MAX_DOCUMENT).unwrap();
    world.write("most.txt", vec![b'x'; limit]);
    world.write("more.txt", vec![b'x'; limit + 1]);
    world.write("binary.txt", b"pump\0");
    world.write("latin.txt", b"caf\xe9 pump");
    std::os::unix::fs::symlink("/etc/passwd", world.temp.path().join("library/link.txt")).unwrap();
    let report = world.update();
    assert_eq!((report.indexed, report.skipped), (2, 2));
    assert_eq!(world.found("pump"), ["latin.txt:1"]);
    assert!(world.found("root").is_empty());
}

#[test]
fn a_document_is_read_from_the_line_that_was_cited() {
    let world = World::new();
    let text = (1..=9).map(|i| format!("# Part {i}\n\nText {i}.\n")).collect::<String>();
    world.write("a.md", text);
    world.update();
    let folder = world.temp.path().join("library").display().to_string();
    let lines = |line, chars| {
        let read = world.index.read(&folder, "a.md", line, chars).unwrap().unwrap();
        read.into_iter().map(|p| p.line).collect::<Vec<_>>()
    };
    assert_eq!(lines(1, 14), [3, 6]);
    assert_eq!(lines(6, 14), [6, 9]);
    assert_eq!(lines(8, 1), [6], "the passage that holds it");
    assert_eq!(lines(999, 100), [27]);
    assert_eq!(world.index.read(&folder, "b.md", 1, 10).unwrap(), None);
}

#[test]
fn others_can_not_read_the_index() {
    let world = World::new();
    world.update();
    assert!(store::is_private(&world.temp.path().join("data/index")).unwrap());
}
