//! The checks in their order, and what a model sees.

use super::super::fixture::{Folder, SECRET};
use super::*;

async fn run_in(folder: &Folder, command: &str, seconds: Option<u64>) -> Result<String, String> {
    let arguments = Arguments { command: command.to_owned(), timeout_seconds: seconds };
    run_command(folder.workspace(), Arc::new(ShellPolicy::default()), arguments).await
}

#[tokio::test]
async fn a_result_has_the_exit_code_and_both_streams() {
    let folder = Folder::new();
    folder.write("src/a", "");
    folder.write("src/b", "");
    let shown = run_in(&folder, "ls src | head -1", None).await.unwrap();
    assert_eq!(shown, "exit code: 0\nstdout:\na\nstderr:\n");
    let shown = run_in(&folder, "ls none", None).await.unwrap();
    assert!(shown.starts_with("exit code: 2\nstdout:\n\nstderr:\n"), "{shown}");
    assert!(shown.contains("none"), "{shown}");
}

#[tokio::test]
async fn one_that_never_ends_fails_with_what_it_said() {
    let folder = Folder::new();
    let failed = run_in(&folder, "echo said; sleep 1000", Some(1)).await.unwrap_err();
    assert_eq!(failed, "stopped, the time of 1 s is over\nstdout:\nsaid\nstderr:\n");
    for (seconds, fits) in [(0, false), (1, true), (MAX_SECONDS, true), (MAX_SECONDS + 1, false)] {
        assert_eq!(run_in(&folder, "true", Some(seconds)).await.is_ok(), fits, "{seconds}");
    }
}

#[tokio::test]
async fn what_is_refused_does_not_run() {
    let folder = Folder::new();
    folder.write("in", "inside");
    folder.write("d/x", "");
    folder.link("link", folder.outside());
    folder.link("up", "..");
    let absolute = folder.outside().display().to_string();
    let commands = [
        format!("touch made; cat {absolute}"),
        "touch made; cat ../outside.txt".to_owned(),
        "touch made; cat link".to_owned(),
        "touch made; cat up/outside.txt".to_owned(),
        format!("touch made; cat --file={absolute}"),
        format!("touch made; grep -f{absolute} in"),
        "touch made; ls /".to_owned(),
        "touch made; cat ./d/../../outside.txt".to_owned(),
        "touch made; cat /proc/self/root/etc/passwd".to_owned(),
        "touch made; sudo cat in".to_owned(),
        "touch made; cat $HOME".to_owned(),
        "touch made > ../made".to_owned(),
    ];
    for command in commands {
        let refused = run_in(&folder, &command, None).await;
        assert!(refused.is_err(), "{command}: {refused:?}");
        assert!(!format!("{refused:?}").contains(SECRET), "{command}");
        assert_eq!(folder.names(), ["d", "d/x", "in", "link", "up"], "{command}");
    }
    assert!(!folder.root().parent().unwrap().join("made").exists());
    let inside = folder.root().join("in").display().to_string();
    for command in [
        format!("cat {inside}"),
        "cat ./in".to_owned(),
        "cat < in > /dev/null".to_owned(),
        "sed -n /inside/p in".to_owned(),
        "sed s/in/out/ in".to_owned(),
    ] {
        let shown = run_in(&folder, &command, None).await;
        assert!(shown.as_ref().is_ok_and(|shown| shown.starts_with("exit code: 0")), "{shown:?}");
    }
}

#[test]
fn what_is_shown_stays_within_the_loops_limit() {
    let whole = ends(&"x".repeat(10), 10);
    assert_eq!(whole, "x".repeat(10));
    let cut = ends(&format!("a{}z", "x".repeat(9)), 10);
    assert!(
        cut.starts_with("axxxx\n[… 1 characters left out …]\n") && cut.ends_with("xz"),
        "{cut}"
    );
}

#[tokio::test]
async fn a_long_output_leaves_room_for_the_errors() {
    let folder = Folder::new();
    folder.write("long", "x".repeat(100_000));
    let shown = run_in(&folder, "cat long; ls none", None).await.unwrap();
    assert!(shown.chars().count() <= MAX_TOOL_RESULT_CHARS, "{}", shown.chars().count());
    assert!(shown.contains("left out") && shown.contains("none"), "{shown}");
}
