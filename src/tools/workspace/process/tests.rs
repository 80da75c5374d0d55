//! What was started ends, whatever happens.

use std::fs;
use std::future::Future;
use std::task::{Context, Poll, Waker};

use super::super::command::parse;
use super::super::fixture::{Folder, SECRET};
use super::*;

const LIMITS: Limits = Limits { time: Duration::from_secs(60), output: 1000, processes: 32 };

async fn run_with(folder: &Folder, text: &str, limits: Limits) -> Result<Finished, String> {
    run(&folder.workspace(), &parse(text).unwrap(), limits).await
}

async fn run_in(folder: &Folder, text: &str) -> (Option<i32>, String, String) {
    let finished = run_with(folder, text, LIMITS).await.unwrap_or_else(|e| panic!("{text}: {e}"));
    (finished.status.unwrap().code(), finished.output.text(), finished.errors.text())
}

/// Processes in this test's workspace: by their current folder, so that no mark is needed.
fn left(folder: &Folder) -> Vec<Pid> {
    let root = folder.root();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == root))
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

/// What was killed takes a moment to go: waits for the end of each, by its handle.
async fn none_is_left(folder: &Folder) {
    for pid in left(folder) {
        // Without a handle it has gone already.
        if let Ok(handle) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            // Sound here: an `OwnedFd` keeps its descriptor as long as it lives.
            #[allow(deprecated)]
            let handle = tokio::io::unix::AsyncFd::new(handle).unwrap();
            let ended = tokio::time::timeout(Duration::from_secs(20), handle.readable()).await;
            assert!(ended.is_ok(), "{pid:?} still runs");
        }
    }
    assert_eq!(left(folder), []);
}

#[tokio::test]
async fn programs_run_in_the_workspace_with_their_streams_apart() {
    let folder = Folder::new();
    folder.write("a", "1\n2\n3\n");
    let root = folder.root().display().to_string();
    assert_eq!(run_in(&folder, "pwd").await, (Some(0), format!("{root}\n"), String::new()));
    let (code, output, errors) = run_in(&folder, "ls a none").await;
    assert_eq!((code, output.as_str()), (Some(2), "a\n"));
    assert!(errors.contains("none"), "{errors}");
    assert_eq!(run_in(&folder, "cat a | tail -n2 | head -n1").await.1, "2\n");
    assert_eq!(run_in(&folder, "cat").await, (Some(0), String::new(), String::new()), "no input");
    assert_eq!(run_in(&folder, "echo '$HOME' \"a  b\"").await.1, "$HOME a  b\n");
}

#[tokio::test]
async fn steps_follow_the_status_of_the_last() {
    let folder = Folder::new();
    for (text, code, output) in [
        ("true && echo a", 0, "a\n"),
        ("false && echo a", 1, ""),
        ("false || echo a", 0, "a\n"),
        ("true || echo a", 0, ""),
        ("false ; echo a", 0, "a\n"),
        ("false && echo a || echo b", 0, "b\n"),
        ("true || echo a && echo b", 0, "b\n"),
        ("false | true", 0, ""),
        ("true | false", 1, ""),
    ] {
        assert_eq!(run_in(&folder, text).await, (Some(code), output.to_owned(), String::new()));
    }
}

#[tokio::test]
async fn redirections_lead_to_files_of_the_workspace_only() {
    let folder = Folder::new();
    run_in(&folder, "echo one > a; echo two >> a; cat < a > b; echo x > c; echo y > c").await;
    assert_eq!((folder.read("a"), folder.read("b")), ("one\ntwo\n".into(), "one\ntwo\n".into()));
    assert_eq!(folder.read("c"), "y\n");
    let (_, output, errors) = run_in(&folder, "ls none 2>&1").await;
    assert!(output.contains("none") && errors.is_empty());
    let (_, output, errors) = run_in(&folder, "ls none 2>&1 >/dev/null").await;
    assert!(output.contains("none") && errors.is_empty(), "the order counts");
    let (_, output, errors) = run_in(&folder, "ls none >/dev/null 2>&1").await;
    assert!(output.is_empty() && errors.is_empty());
    folder.link("link", folder.outside());
    let absolute = folder.outside().display().to_string();
    for path in ["../outside.txt", &absolute, "link", "/dev/zero", "/dev/full"] {
        for sign in [">", ">>", "<", "2>"] {
            let refused = run_with(&folder, &format!("cat {sign} {path}"), LIMITS).await;
            assert!(refused.is_err(), "{sign} {path}");
        }
    }
    assert_eq!(fs::read_to_string(folder.outside()).unwrap(), SECRET);
}

#[tokio::test]
async fn the_environment_is_clean() {
    let folder = Folder::new();
    let (_, output, _) = run_in(&folder, "env").await;
    let mut names: Vec<&str> = output.lines().map(|line| line.split('=').next().unwrap()).collect();
    names.sort_unstable();
    let known = ["HOME", "LANG", "PATH", MARK];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    assert!(output.contains("LANG=C.UTF-8\n") && output.contains("PATH=/"));
}

#[tokio::test]
async fn no_program_can_become_someone_else() {
    let folder = Folder::new();
    let text = "sh -c 'grep NoNewPrivs /proc/self/status'";
    assert_eq!(run_in(&folder, text).await.1, "NoNewPrivs:\t1\n");
    let ours = fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(ours.contains("NoNewPrivs:\t0"), "this thread itself is as it was");
}

#[tokio::test]
async fn an_unknown_program_is_named_before_anything_runs() {
    let folder = Folder::new();
    let refused = run_with(&folder, "touch made && nonesuch", LIMITS).await.unwrap_err();
    assert_eq!(refused, "there is no program nonesuch");
    assert!(folder.names().is_empty());
    folder.write("plain", "no program");
    assert!(run_with(&folder, "./plain", LIMITS).await.is_err(), "not executable");
    for name in ["./none", "../w/plain", "/bin/ls"] {
        assert!(run_with(&folder, name, LIMITS).await.is_err(), "{name}");
    }
}

#[tokio::test]
async fn output_is_kept_to_the_limit_and_its_end_as_well() {
    let folder = Folder::new();
    folder.write("fits", format!("a{}z", "x".repeat(LIMITS.output - 2)));
    folder.write("over", format!("a{}z", "x".repeat(LIMITS.output - 1)));
    let (_, output, _) = run_in(&folder, "cat fits").await;
    assert_eq!(output, folder.read("fits"));
    let (_, output, _) = run_in(&folder, "cat over").await;
    assert!(output.contains("[… 1 bytes left out …]"), "{output}");
    assert!(output.starts_with('a') && output.ends_with('z'));
    // More than a pipe holds: who writes it is not held up by what is left out.
    let (code, output, _) = run_in(&folder, "head -c 5000000 /dev/zero").await;
    assert_eq!(code, Some(0));
    assert!(output.contains("[… 4999000 bytes left out …]"));
}

#[tokio::test]
async fn a_command_that_never_ends_is_killed_with_all_it_started() {
    let folder = Folder::new();
    let limits = Limits { time: Duration::from_secs(1), ..LIMITS };
    for text in [
        "sleep 1000",
        "sleep 1000 | sleep 1000",
        "sh -c 'echo started; sleep 1000 & sleep 1000 & wait'",
        "sh -c 'setsid sleep 1000 & sleep 1000'",
        "true; sleep 1000; echo never",
        "yes",
    ] {
        let finished = run_with(&folder, text, limits).await.unwrap();
        assert_eq!(finished.status, None, "{text}");
        assert_eq!(finished.stopped.unwrap(), "the time of 1 s is over");
        assert!(!finished.output.text().contains("never"));
        none_is_left(&folder).await;
    }
}

#[tokio::test]
async fn what_is_left_running_is_killed_and_not_waited_for() {
    let folder = Folder::new();
    for text in [
        "sh -c 'sleep 1000 & echo done'",
        "sh -c 'setsid sleep 1000 & echo done'",
        "sh -c '(setsid sh -c \"sleep 1000\" &) ; echo done'",
        "echo done; setsid sleep 1000",
        "sh -c 'echo done; kill -9 $$'",
    ] {
        let finished = run_with(&folder, text, LIMITS).await.unwrap();
        assert!(finished.stopped.is_none(), "{text}");
        assert_eq!(finished.output.text(), "done\n", "{text}");
        none_is_left(&folder).await;
    }
}

#[tokio::test]
async fn the_processes_of_a_command_are_counted() {
    let folder = Folder::new();
    let two = Limits { processes: 2, time: Duration::from_secs(2), ..LIMITS };
    let finished = run_with(&folder, "sleep 1000 | sleep 1000", two).await.unwrap();
    assert_eq!(finished.stopped.unwrap(), "the time of 2 s is over", "two are allowed");
    let finished = run_with(&folder, "sleep 1000 | sleep 1000 | sleep 1000", two).await.unwrap();
    assert_eq!(finished.stopped.unwrap(), "more than 2 processes");
    none_is_left(&folder).await;
}

#[tokio::test]
async fn whoever_gives_up_waiting_leaves_nothing_behind() {
    let folder = Folder::new();
    for text in ["sleep 1000 | sleep 1000", "sh -c 'setsid sleep 1000 & sleep 1000'"] {
        let mut running = Box::pin(run_with(&folder, text, LIMITS));
        while left(&folder).len() < 2 {
            let polled = running.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Pending));
            tokio::task::yield_now().await;
        }
        drop(running);
        none_is_left(&folder).await;
    }
}
