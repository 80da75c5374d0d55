//! Finding what a command started, wherever it went.
//!
//! Owns the mark: a variable in the environment that every process hands down. It finds those that left
//! the process group; one that also clears its environment is not found.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal};

/// Names the command in the environment of all that it starts.
pub const MARK: &str = "TOMBOLO_COMMAND";
/// The processes with that mark in their environment, but for those that have ended.
pub fn marked(mark: &str) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        .filter(|pid| has_mark(*pid, mark))
        .collect()
}

fn has_mark(pid: Pid, mark: &str) -> bool {
    let entry = format!("{MARK}={mark}");
    fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).is_ok_and(|environment| {
        environment.split(|byte| *byte == 0).any(|one| one == entry.as_bytes())
    })
}

/// Kills them, and those that they start meanwhile.
pub fn kill_marked(mark: &str) {
    const MAX_ROUNDS: usize = 50;
    let mut killed = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let new: Vec<Pid> = marked(mark).into_iter().filter(|pid| !killed.contains(pid)).collect();
        if new.is_empty() {
            return;
        }
        for pid in new {
            // By a handle, and looked at again: a number can have become another process's.
            if let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty())
                && has_mark(pid, mark)
            {
                let _ = rustix::process::pidfd_send_signal(&handle, Signal::KILL);
            }
            killed.push(pid);
        }
    }
}
