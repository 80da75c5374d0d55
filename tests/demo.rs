//! The demo from outside: what may be typed, and how it ends, with nothing left behind.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

/// The demo with a folder of its own for what it keeps meanwhile.
struct Demo {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    folder: TempDir,
}

impl Demo {
    fn start(stdin: Stdio) -> Demo {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_tombolo"))
            .arg("demo")
            .env("TMPDIR", folder.path())
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Demo { child, lines, folder }
    }

    /// Reads until a line that holds this.
    fn until(&mut self, words: &str) {
        let found = self.lines.by_ref().any(|line| line.unwrap().contains(words));
        assert!(found, "the demo ended before it said: {words}");
    }

    /// Its exit code after that signal.
    fn after(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let code = self.child.wait().unwrap().code();
        let left: Vec<_> = std::fs::read_dir(self.folder.path()).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?} is left");
        code
    }
}

/// A terminal: the end that types, and the end that the program gets.
fn terminal() -> (OwnedFd, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let path = ptsname(&ours, Vec::new()).unwrap();
    let theirs =
        rustix::fs::open(path.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (ours, File::from(theirs))
}

#[test]
fn an_interrupt_ends_the_demo_while_it_waits_for_a_line_and_leaves_nothing() {
    let (typing, stdin) = terminal();
    let mut demo = Demo::start(stdin.into());
    demo.until("You are Ana");
    // A slip is answered with what can be typed, and is not said on the air.
    File::from(typing.try_clone().unwrap()).write_all(b"/hepl\n").unwrap();
    demo.until("You are Ana");
    assert_eq!(demo.after(Signal::INT), Some(0));
    drop(typing);
}

#[test]
fn a_script_that_is_ended_early_is_no_success_and_leaves_nothing() {
    let mut demo = Demo::start(Stdio::null());
    demo.until("connected to");
    assert_eq!(demo.after(Signal::TERM), Some(1));
}
