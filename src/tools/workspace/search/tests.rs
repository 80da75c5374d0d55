//! What is found, and what ends a search.

use super::super::fixture::{Folder, SECRET};
use super::*;

fn search_in(
    folder: &Folder,
    pattern: &str,
    path: Option<&str>,
    limit: Option<usize>,
) -> Result<String, String> {
    let arguments = Arguments { pattern: pattern.to_owned(), path: path.map(str::to_owned), limit };
    search(&folder.workspace(), &arguments, &CancellationToken::new())
}

#[test]
fn matches_are_shown_with_path_and_line() {
    let folder = Folder::new();
    folder.write("src/b.rs", "one\r\nfn two()\r\n");
    folder.write("src/a.rs", "fn one()\nx\nfn ü()\n");
    folder.write("top.txt", "fn top()");
    let all = "src/a.rs:1:fn one()\nsrc/a.rs:3:fn ü()\nsrc/b.rs:2:fn two()\ntop.txt:1:fn top()\n";
    assert_eq!(search_in(&folder, "^fn ", None, None).unwrap(), all);
    assert_eq!(search_in(&folder, r"\)$", None, None).unwrap(), all, "a CR is no part of a line");
    let under = "src/a.rs:1:fn one()\nsrc/a.rs:3:fn ü()\nsrc/b.rs:2:fn two()\n";
    for path in ["src", "./src/", folder.root().join("src").to_str().unwrap()] {
        assert_eq!(search_in(&folder, "fn", Some(path), None).unwrap(), under, "{path}");
    }
    let one = search_in(&folder, "two", Some("src/b.rs"), None).unwrap();
    assert_eq!(one, "src/b.rs:2:fn two()\n");
    assert_eq!(search_in(&folder, "nowhere", None, None).unwrap(), "[no match]\n");
}

#[test]
fn ignored_hidden_and_binary_files_are_left_out() {
    let folder = Folder::new();
    folder.write(".gitignore", "/out\n*.log\n");
    folder.write("src/.ignore", "gen.rs\n");
    for path in ["out/x", "src/deep/x.log", "src/gen.rs", ".hidden"] {
        folder.write(path, "needle");
    }
    folder.write("binary", b"needle\n\0");
    folder.write("src/seen.rs", "needle");
    assert_eq!(search_in(&folder, "needle", None, None).unwrap(), "src/seen.rs:1:needle\n");
    // The root's ignore file holds below it as well.
    assert_eq!(search_in(&folder, "needle", Some("src/deep"), None).unwrap(), "[no match]\n");
    let named = search_in(&folder, "needle", Some("src/deep/x.log"), None).unwrap();
    assert_eq!(named, "src/deep/x.log:1:needle\n", "a file that is named is searched");
}

#[test]
fn ignore_files_overrule_each_other_from_the_deepest_up() {
    let folder = Folder::new();
    folder.write(".git/info/exclude", "excluded\n");
    folder.write(".gitignore", "*.log\n/only-here\ndir/\n");
    folder.write("sub/.gitignore", "!kept.log\n");
    folder.write("sub/.ignore", "[broken\nlast\n");
    for path in ["excluded", "a.log", "only-here", "sub/only-here", "sub/kept.log", "sub/b.log"] {
        folder.write(path, "needle");
    }
    for path in ["dir/x", "sub/last", "sub/dir/x", "sub/deep/last", "sub/deep/kept.log"] {
        folder.write(path, "needle");
    }
    let shown = search_in(&folder, "needle", None, None).unwrap();
    let paths: Vec<&str> = shown.lines().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(paths, ["sub/deep/kept.log", "sub/kept.log", "sub/only-here"]);
}

#[test]
fn an_ignore_file_that_is_none_is_neither_waited_for_nor_followed() {
    let folder = Folder::new();
    folder.write("a", "needle");
    folder.write("sub/the secret outside", "needle");
    let fifo = folder.root().join(".gitignore");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
    // Its one line would be a pattern for the file of that name.
    folder.link("sub/.gitignore", folder.outside());
    let shown = search_in(&folder, "needle", None, None).unwrap();
    assert_eq!(shown, "a:1:needle\nsub/the secret outside:1:needle\n");
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.root().join("fifo"), mode).unwrap();
    assert_eq!(search_in(&folder, "needle", None, None).unwrap(), shown);
    assert!(search_in(&folder, "needle", Some("fifo"), None).is_err());
}

#[test]
fn nothing_outside_is_searched() {
    let folder = Folder::new();
    folder.write("a", "x");
    folder.link("link", folder.outside());
    folder.link("up", "..");
    assert_eq!(search_in(&folder, "secret", None, None).unwrap(), "[no match]\n");
    let absolute = folder.outside().display().to_string();
    for path in ["link", "up", "up/outside.txt", "..", "../outside.txt", &absolute, "a/..", "none"]
    {
        let refused = search_in(&folder, "secret", Some(path), None);
        assert!(!format!("{refused:?}").contains(SECRET), "{path}");
        assert!(refused.is_err(), "{path}: {refused:?}");
    }
}

#[test]
fn a_pattern_that_does_not_compile_is_refused_with_its_place() {
    let folder = Folder::new();
    for (pattern, place) in [
        ("ab(c", "character 3: unclosed group"),
        ("ab[c", "character 3: unclosed character class"),
        ("a**{", "character 4"),
        (r"\p{Nope}", "character 1: Unicode property"),
        ("a\n(b", "line 2, character 1"),
        ("", "is empty"),
        ("(a{1000}){1000}", "does not compile"),
        (r"a\nb", "does not compile"),
    ] {
        let refused = search_in(&folder, pattern, None, None).unwrap_err();
        assert!(refused.contains(place), "{pattern}: {refused}");
        assert!(!refused.contains('\n'), "one line: {refused}");
    }
    assert!(compile(&"x".repeat(MAX_PATTERN), false).is_ok());
    assert!(compile(&"x".repeat(MAX_PATTERN + 1), false).is_err());
}

#[test]
fn matches_stop_at_the_limit() {
    let folder = Folder::new();
    folder.write("a", "x\nx\n");
    folder.write("b", "x\n");
    let shown = search_in(&folder, "x", None, Some(3)).unwrap();
    assert_eq!(shown, "a:1:x\na:2:x\nb:1:x\n", "as many as there are");
    let shown = search_in(&folder, "x", None, Some(2)).unwrap();
    assert!(shown.starts_with("a:1:x\na:2:x\n[there are more than these 2;"), "{shown}");
    for (limit, fits) in [(0, false), (1, true), (MAX_MATCHES, true), (MAX_MATCHES + 1, false)] {
        assert_eq!(search_in(&folder, "x", None, Some(limit)).is_ok(), fits, "{limit}");
    }
}

#[test]
fn long_lines_and_long_results_are_cut() {
    let folder = Folder::new();
    for (length, cut) in [(MAX_LINE_CHARS, false), (MAX_LINE_CHARS + 1, true)] {
        folder.write("a", "ü".repeat(length));
        let shown = search_in(&folder, "ü", None, None).unwrap();
        assert_eq!(shown.contains('…'), cut);
        assert_eq!(shown.matches('ü').count(), MAX_LINE_CHARS);
    }
    folder.write("a", format!("{}\n", "x".repeat(MAX_LINE_CHARS)).repeat(100));
    let shown = search_in(&folder, "x", None, Some(MAX_MATCHES)).unwrap();
    assert!(shown.chars().count() <= MAX_TOOL_RESULT_CHARS, "{}", shown.chars().count());
    assert!(shown.contains("there are more"));
}

#[test]
fn a_file_over_the_limit_is_named_as_not_searched() {
    let folder = Folder::new();
    let file = folder.root().join("big");
    folder.write("big", "needle\n");
    // Sparse: the rest of it is a hole, and thus binary.
    let big = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    for (length, skipped) in [(MAX_FILE_BYTES, false), (MAX_FILE_BYTES + 1, true)] {
        big.set_len(length).unwrap();
        let shown = search_in(&folder, "needle", None, None).unwrap();
        assert_eq!(shown.contains("not searched"), skipped, "{shown}");
    }
}

#[test]
fn a_search_that_is_told_to_stop_says_so() {
    let folder = Folder::new();
    folder.write("a", "needle");
    let arguments = Arguments { pattern: "needle".to_owned(), path: None, limit: None };
    let stop = CancellationToken::new();
    stop.cancel();
    let shown = search(&folder.workspace(), &arguments, &stop).unwrap();
    assert!(shown.contains("the time is over") && !shown.contains("a:1"), "{shown}");
    let mut source = Stoppable {
        file: std::fs::File::open(folder.root().join("a")).unwrap().take(6),
        stop: &stop,
    };
    assert_eq!(source.read(&mut [0; 6]).unwrap(), 0, "in the middle of a file, too");
}
