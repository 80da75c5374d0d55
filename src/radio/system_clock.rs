//! Is this machine's clock right? A radio is given the time only from one that is.
//!
//! Owns whom to ask: the mark of systemd-timesyncd, then the programs that say what the kernel and the time
//! daemons know (the kernel itself can be asked only by an unsafe call, which this program forbids itself).
//! Sets no clock.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// There while systemd-timesyncd knows that the clock is right.
const TIMESYNCD: &str = "/run/systemd/timesync/synchronized";
/// Where the programs are.
const PROGRAMS: &str = "/usr/bin:/bin:/usr/sbin:/sbin";
/// Until it is right, it is asked this often.
const NOT_YET: Duration = Duration::from_secs(60);
/// And after that, for it may be wrong again.
const AGAIN: Duration = Duration::from_secs(900);
/// A program that takes longer says nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// What is read of a program's answer.
const ANSWER: u64 = 4096;

/// Seconds since 1970, by a clock that is known to be right; else nothing.
pub type RightTime = Arc<dyn Fn() -> Option<u32> + Send + Sync>;

/// Never right: for links that should leave the radio's clock alone.
pub fn unknown() -> RightTime {
    Arc::new(|| None)
}

/// The system's clock, asked about from time to time.
pub fn watched(cancel: CancellationToken, tracker: &TaskTracker) -> RightTime {
    let right = Arc::new(AtomicBool::new(false));
    let known = right.clone();
    tracker.spawn(async move {
        let mark = PathBuf::from(TIMESYNCD);
        loop {
            let now = is_right(&mark, OsStr::new(PROGRAMS)).await;
            if now != known.swap(now, Ordering::Relaxed) {
                tracing::info!(right = now, "this machine's clock");
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(if now { AGAIN } else { NOT_YET }) => {}
            }
        }
    });
    Arc::new(move || {
        // From the system, not from `clock::Clock`: that one doesn't see the clock being put right later.
        let seconds = crate::clock::unix_ms() / 1000;
        right.load(Ordering::Relaxed).then(|| u32::try_from(seconds).ok()).flatten()
    })
}

/// `programs`: folders, as in `PATH`.
async fn is_right(mark: &Path, programs: &OsStr) -> bool {
    if mark.exists() {
        return true;
    }
    // What the kernel knows, whoever steers it. chronyd tells the kernel only with `rtcsync`, so it is asked too.
    says(programs, "timedatectl", &["show", "--property=NTPSynchronized", "--value"], |answer| {
        answer.trim() == "yes"
    })
    .await
        || says(programs, "chronyc", &["-n", "-c", "tracking"], |answer| {
            // The last field is the leap status.
            matches!(
                answer.trim().rsplit(',').next(),
                Some("Normal" | "Insert second" | "Delete second")
            )
        })
        .await
        || says(programs, "ntpq", &["-n", "-c", "rv"], |answer| {
            answer.contains("leap_")
                && !["leap_alarm", "sync_unspec"].iter().any(|w| answer.contains(w))
        })
        .await
}

/// Does that program say so? One that isn't there, fails, or takes too long doesn't.
async fn says(
    programs: &OsStr,
    program: &str,
    arguments: &[&str],
    yes: impl Fn(&str) -> bool,
) -> bool {
    // Looked for here, for the search of a spawn goes by our own PATH.
    let Some(path) = std::env::split_paths(programs).map(|f| f.join(program)).find(|p| p.is_file())
    else {
        return false;
    };
    let child = Command::new(path)
        .args(arguments)
        .env_clear()
        .env("PATH", programs)
        .env("LC_ALL", "C")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    let Ok(mut child) = child else { return false };
    let Some(output) = child.stdout.take() else { return false };
    let answer = async {
        let mut answer = Vec::new();
        output.take(ANSWER).read_to_end(&mut answer).await.ok()?;
        child.wait().await.ok()?.success().then_some(answer)
    };
    let answer = tokio::time::timeout(PATIENCE, answer).await.ok().flatten();
    answer.is_some_and(|answer| yes(&String::from_utf8_lossy(&answer)))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test lays out programs of its own
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    async fn right(programs: &[(&str, &str)]) -> bool {
        let folder = tempfile::tempdir().unwrap();
        for (name, script) in programs {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        is_right(&folder.path().join("no mark"), folder.path().as_os_str()).await
    }

    #[tokio::test]
    async fn the_mark_of_timesyncd_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("synchronized");
        assert!(!is_right(&mark, folder.path().as_os_str()).await);
        std::fs::write(&mark, "").unwrap();
        assert!(is_right(&mark, folder.path().as_os_str()).await);
    }

    #[tokio::test]
    async fn each_program_is_believed_in_its_own_words_and_only_when_it_succeeds() {
        let chrony = |leap: &str| {
            format!(
                "echo 'A9FEA97B,169.254.169.123,4,1700000000.1,0.0,0.0,0.0,-1.2,0.0,0.1,0.0,0.0,16.3,{leap}'"
            )
        };
        let ntp = |leap: &str, sync: &str| {
            format!("echo 'associd=0 status=0615 {leap}, {sync}, 1 event, clock_sync,'")
        };
        for (program, script, good) in [
            ("timedatectl", "echo yes".to_owned(), true),
            ("timedatectl", "echo no".to_owned(), false),
            ("timedatectl", "echo yes; exit 1".to_owned(), false),
            (
                "timedatectl",
                "[ \"$1 $2 $3\" = 'show --property=NTPSynchronized --value' ] && echo yes"
                    .to_owned(),
                true,
            ),
            ("chronyc", chrony("Normal"), true),
            ("chronyc", chrony("Insert second"), true),
            ("chronyc", chrony("Not synchronised"), false),
            ("chronyc", "echo '506 Cannot talk to daemon'; exit 1".to_owned(), false),
            ("ntpq", ntp("leap_none", "sync_ntp"), true),
            ("ntpq", ntp("leap_add_sec", "sync_uhf_radio"), true),
            ("ntpq", ntp("leap_alarm", "sync_unspec"), false),
            ("ntpq", ntp("leap_none", "sync_unspec"), false),
            ("ntpq", "echo 'ntpq: read: Connection refused'".to_owned(), false),
        ] {
            assert_eq!(right(&[(program, &script)]).await, good, "{program}: {script}");
        }
        assert!(!right(&[]).await);
        let both = [("timedatectl", "echo no"), ("chronyc", "echo x,Normal")];
        assert!(right(&both).await, "chronyd without rtcsync");
    }

    #[tokio::test]
    async fn the_programs_see_nothing_of_our_environment() {
        let script = "[ -z \"$HOME\" ] && [ \"$LC_ALL\" = C ] && echo yes";
        assert!(right(&[("timedatectl", script)]).await);
    }
}
