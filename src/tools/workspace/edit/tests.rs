//! A file is changed as asked, or not at all.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::super::fixture::{Folder, SECRET};
use super::*;

fn replace_in(folder: &Folder, path: &str, old: &str, new: &str) -> Result<String, String> {
    let (old_text, new_text) = (Some(old.to_owned()), Some(new.to_owned()));
    let arguments = Arguments { path: path.to_owned(), old_text, new_text, patch: None };
    edit(&folder.workspace(), &arguments)
}

fn create_in(folder: &Folder, path: &str, text: &str) -> Result<String, String> {
    let new_text = Some(text.to_owned());
    edit(&folder.workspace(), &Arguments { path: path.to_owned(), new_text, ..Default::default() })
}

fn patch_in(folder: &Folder, path: &str, patch: &str) -> Result<String, String> {
    let patch = Some(patch.to_owned());
    edit(&folder.workspace(), &Arguments { path: path.to_owned(), patch, ..Default::default() })
}

#[test]
fn the_only_match_is_replaced_and_the_mode_is_kept() {
    let folder = Folder::new();
    folder.write("a.sh", "one\ntwo\nthree\n");
    let file = folder.root().join("a.sh");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o4754)).unwrap();
    let said = replace_in(&folder, "a.sh", "two\n", "2\n2\n").unwrap();
    assert!(said.contains("line 2") && said.contains("4 lines"), "{said}");
    assert_eq!(folder.read("a.sh"), "one\n2\n2\nthree\n");
    let mode = std::fs::metadata(&file).unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o754, "as it was, less set-user-id");
    assert_eq!(folder.names(), ["a.sh"], "nothing is left beside it");
}

#[test]
fn an_ambiguous_or_missing_text_is_refused_with_its_places() {
    let folder = Folder::new();
    folder.write("a", "x\ny\nx\naaa\n");
    let refused = replace_in(&folder, "a", "x", "z").unwrap_err();
    assert!(refused.contains("at lines 1, 3;"), "{refused}");
    let refused = replace_in(&folder, "a", "aa", "z").unwrap_err();
    assert!(refused.contains("at lines 4, 4;"), "matches that overlap are two: {refused}");
    let refused = replace_in(&folder, "a", "  y\nq", "z").unwrap_err();
    assert!(refused.contains("not in the file") && refused.contains("at line 2"), "{refused}");
    let refused = replace_in(&folder, "a", "q", "z").unwrap_err();
    assert_eq!(refused, "old_text is not in the file");
    assert!(replace_in(&folder, "a", "", "z").unwrap_err().contains("empty"));
    assert!(replace_in(&folder, "a", "y", "y").unwrap_err().contains("as it is"));
    assert_eq!(folder.read("a"), "x\ny\nx\naaa\n");
    for (count, more) in [(MAX_PLACES, false), (MAX_PLACES + 1, true)] {
        folder.write("b", "x\n".repeat(count));
        let refused = replace_in(&folder, "b", "x", "z").unwrap_err();
        assert_eq!(refused.contains("and more"), more, "{refused}");
    }
}

#[test]
fn a_new_file_is_made_with_its_folders_and_none_is_overwritten() {
    let folder = Folder::new();
    create_in(&folder, "x/y/new.txt", "a\nb\n").unwrap();
    assert_eq!(folder.read("x/y/new.txt"), "a\nb\n");
    let refused = create_in(&folder, "x/y/new.txt", "c").unwrap_err();
    assert!(refused.contains("is there already"), "{refused}");
    assert!(create_in(&folder, "x/y", "c").unwrap_err().contains("is there already"));
    patch_in(&folder, "z", "--- /dev/null\n+++ b/z\n@@ -0,0 +1 @@\n+a\n").unwrap();
    assert_eq!(folder.read("z"), "a\n");
    assert!(patch_in(&folder, "z", "--- /dev/null\n+++ b/z\n@@ -0,0 +1 @@\n+b\n").is_err());
    folder.link("dangling", folder.root().join("none"));
    assert!(create_in(&folder, "dangling", "c").is_err());
    assert_eq!(folder.names(), ["dangling", "x", "x/y", "x/y/new.txt", "z"]);
}

#[test]
fn a_patch_applies_as_a_whole_or_leaves_the_file() {
    let folder = Folder::new();
    folder.write("a", "one\ntwo\nthree\n");
    let good = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+1\n@@ -3 +3 @@\n-three\n+3\n";
    let half = "@@ -1 +1 @@\n-one\n+1\n@@ -3 +3 @@\n-tree\n+3\n";
    let before = std::fs::metadata(folder.root().join("a")).unwrap().ino();
    assert!(patch_in(&folder, "a", half).unwrap_err().contains("hunk 2"));
    assert_eq!(folder.read("a"), "one\ntwo\nthree\n");
    assert_eq!(std::fs::metadata(folder.root().join("a")).unwrap().ino(), before);
    patch_in(&folder, "a", good).unwrap();
    assert_eq!(folder.read("a"), "1\ntwo\n3\n");
    let other = good.replace("a/a", "a/other");
    assert!(patch_in(&folder, "a", &other).unwrap_err().contains("another file"));
    assert_eq!(folder.names(), ["a"]);
}

#[test]
fn a_file_with_carriage_returns_keeps_them() {
    let folder = Folder::new();
    folder.write("a", "one\r\ntwo\r\nthree\r\n");
    replace_in(&folder, "a", "one\ntwo", "1\n2\n2b").unwrap();
    assert_eq!(folder.read("a"), "1\r\n2\r\n2b\r\nthree\r\n");
    patch_in(&folder, "a", "@@ -4 +4 @@\n-three\n+3\n").unwrap();
    assert_eq!(folder.read("a"), "1\r\n2\r\n2b\r\n3\r\n");
    // One with both kinds is matched byte by byte.
    folder.write("mixed", "one\r\ntwo\n");
    assert!(replace_in(&folder, "mixed", "one\ntwo", "x").is_err());
    replace_in(&folder, "mixed", "one\r\ntwo", "x").unwrap();
    assert_eq!(folder.read("mixed"), "x\n");
    folder.write("double", "one\r\r\ntwo\r\n");
    replace_in(&folder, "double", "two", "2").unwrap();
    assert_eq!(folder.read("double"), "one\r\r\n2\r\n");
}

#[test]
fn nothing_outside_and_nothing_but_text_is_changed() {
    let folder = Folder::new();
    folder.link("link", folder.outside());
    folder.link("up", "..");
    folder.write("real", "secret");
    folder.link("inside", "real");
    folder.write("binary", b"secret\0");
    folder.write("latin", b"secret \xe9");
    folder.write("d/x", "");
    let absolute = folder.outside().display().to_string();
    for path in [
        "link",
        "up/outside.txt",
        "../outside.txt",
        &absolute,
        "inside",
        "binary",
        "latin",
        "d",
        "none",
    ] {
        assert!(replace_in(&folder, path, "secret", "x").is_err(), "{path}");
    }
    for path in ["../new.txt", "up/new.txt", "link"] {
        assert!(create_in(&folder, path, "x").is_err(), "{path}");
    }
    assert_eq!(std::fs::read_to_string(folder.outside()).unwrap(), SECRET);
    assert_eq!(folder.read("real"), "secret");
    assert!(!folder.root().parent().unwrap().join("new.txt").exists());
    assert!(folder.names().iter().all(|name| !name.contains("tombolo")), "{:?}", folder.names());
}

#[test]
fn a_change_says_one_thing() {
    let folder = Folder::new();
    folder.write("a", "x");
    let some = |text: &str| Some(text.to_owned());
    for (old_text, new_text, patch) in [
        (None, None, None),
        (some("x"), None, None),
        (None, some("x"), some("x")),
        (some("x"), some("y"), some("z")),
    ] {
        let arguments = Arguments { path: "a".to_owned(), old_text, new_text, patch };
        assert!(edit(&folder.workspace(), &arguments).unwrap_err().starts_with("give "));
    }
}

#[test]
fn a_file_may_grow_to_the_limit_and_no_further() {
    let folder = Folder::new();
    let limit = usize::try_from(MAX_FILE_BYTES).unwrap();
    create_in(&folder, "most", &"x".repeat(limit)).unwrap();
    assert!(create_in(&folder, "more", &"x".repeat(limit + 1)).is_err());
    folder.write("a", "one");
    assert!(replace_in(&folder, "a", "one", &"x".repeat(limit + 1)).is_err());
    assert_eq!(folder.read("a"), "one");
    replace_in(&folder, "a", "one", &"x".repeat(limit)).unwrap();
    assert!(create_in(&folder, "nul", "a\0").is_err());
    assert_eq!(folder.names(), ["a", "most"]);
}

#[test]
fn what_changed_meanwhile_is_not_overwritten() {
    let folder = Folder::new();
    folder.write("a", "one");
    let workspace = folder.workspace();
    let place = workspace.place("a", false).unwrap();
    let refused = alter(&place, "a", |_| {
        folder.write("a", "someone else's");
        Ok(("two".to_owned(), String::new()))
    });
    assert!(refused.unwrap_err().contains("changed meanwhile"));
    assert_eq!(folder.read("a"), "someone else's");
    assert_eq!(folder.names(), ["a"]);
}

#[test]
fn a_folder_that_became_a_link_meanwhile_is_not_written_to() {
    let folder = Folder::new();
    folder.write("d/a", "one");
    let workspace = folder.workspace();
    let place = workspace.place("d/a", false).unwrap();
    #[allow(clippy::disallowed_methods)] // test data
    std::fs::rename(folder.root().join("d"), folder.root().join("moved")).unwrap();
    let other = folder.root().parent().unwrap().join("other");
    std::fs::create_dir(&other).unwrap();
    #[allow(clippy::disallowed_methods)]
    std::fs::write(other.join("a"), SECRET).unwrap();
    folder.link("d", &other);
    alter(&place, "d/a", |_| Ok(("two".to_owned(), String::new()))).unwrap();
    assert_eq!(folder.read("moved/a"), "two", "the folder that was opened");
    assert_eq!(std::fs::read_to_string(other.join("a")).unwrap(), SECRET);
}
