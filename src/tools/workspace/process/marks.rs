//! Finding what a command started, wherever it went.
//!
//! Owns the mark: a variable in the environment that every process hands down. It finds those that left
//! the process group; one that also clears its environment is not found.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal};

/// Names the command in the environment of all that it starts.
pub const MARK: &str = "TOMBOLO_COMMAND";
/// What an environment says about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Marked,
    /// Another's, or one that has ended.
    Foreign,
    /// In the middle of an `execve` a process has no environment for a moment.
    Unknown,
}

/// The processes with that mark in their environment, but for those that have ended.
pub fn marked(mark: &str) -> Vec<Pid> {
    processes().into_iter().filter(|pid| look(*pid, mark) == Look::Marked).collect()
}

/// Kills them, and those that they start meanwhile. Returns when none was seen for some rounds.
pub fn kill_marked(mark: &str) {
    const MAX_ROUNDS: usize = 200;
    /// Rounds without a new one. A second look finds what was started during the first.
    const QUIET: usize = 2;
    /// The same, while there is a process of which nothing is known.
    const QUIET_UNKNOWN: usize = 20;
    let mut killed = Vec::new();
    let mut quiet = 0;
    for _ in 0..MAX_ROUNDS {
        quiet += 1;
        let mut is_known = true;
        for pid in processes() {
            match look(pid, mark) {
                Look::Foreign => {}
                Look::Unknown => is_known = false,
                Look::Marked if killed.contains(&pid) => {}
                Look::Marked => {
                    quiet = 0;
                    if kill(pid, mark) {
                        killed.push(pid);
                    }
                }
            }
        }
        if quiet >= if is_known { QUIET } else { QUIET_UNKNOWN } {
            return;
        }
        std::thread::yield_now();
    }
}

/// By a handle, and looked at again: a number can have become another process's. `false` if it was not
/// killed: it may have begun an `execve` between the two looks, and is for the next round.
fn kill(pid: Pid, mark: &str) -> bool {
    let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return false };
    look(pid, mark) == Look::Marked
        && rustix::process::pidfd_send_signal(&handle, Signal::KILL).is_ok()
}

fn processes() -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        .collect()
}

fn look(pid: Pid, mark: &str) -> Look {
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    // Unreadable is what is another user's, and what is gone.
    let Ok(environment) = fs::read(format!("{folder}/environ")) else { return Look::Foreign };
    let entry = format!("{MARK}={mark}");
    if environment.split(|byte| *byte == 0).any(|one| one == entry.as_bytes()) {
        Look::Marked
    } else if environment.is_empty() && may_be_starting(&folder).unwrap_or(false) {
        Look::Unknown
    } else {
        Look::Foreign
    }
}

/// Whether it is neither dead nor a thread of the kernel: those have no environment at all.
fn may_be_starting(folder: &str) -> Option<bool> {
    /// From the kernel's `PF_KTHREAD`.
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let stat = fs::read_to_string(format!("{folder}/stat")).ok()?;
    // After the name, which may have anything in it: state, parent, group, session, tty, its group, flags.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let flags: u64 = fields.nth(5)?.parse().ok()?;
    Some(!["Z", "X", "x"].contains(&state) && flags & KERNEL_THREAD == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_is_neither_starting_nor_marked() {
        let own = rustix::process::getpid();
        assert_eq!(look(own, "0123456789abcdef"), Look::Foreign);
        assert_eq!(may_be_starting("/proc/self"), Some(true), "alive, and no kernel thread");
        assert_eq!(may_be_starting("/proc/none"), None);
        assert!(processes().contains(&own));
    }
}
