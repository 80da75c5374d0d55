//! Is this machine's clock right, and who sees to that? A radio is given the time only from one that is.
//!
//! Owns whom to ask: the mark of systemd-timesyncd, then the programs that say what the kernel and the time
//! daemons know (the kernel itself can be asked only by an unsafe call, which this program forbids itself).
//! Sets no clock.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// There while systemd-timesyncd runs.
const TIMESYNCD: &str = "/run/systemd/timesync";
/// In it, once it knows that the clock is right.
const MARK: &str = "synchronized";
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

/// Who sees to this machine's clock, and whether it is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// Who.
    pub source: Source,
    /// Is it known to be right?
    pub synchronised: bool,
}

/// Who sees to a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// Nobody that is known here.
    #[default]
    None,
    /// systemd-timesyncd.
    Timesyncd,
    /// chronyd.
    Chrony,
    /// ntpd.
    Ntpd,
    /// Somebody who told only the kernel.
    Kernel,
}

impl Source {
    const ALL: [Source; 5] =
        [Source::None, Source::Timesyncd, Source::Chrony, Source::Ntpd, Source::Kernel];
    /// Their names, as they are shown.
    pub const NAMES: [&'static str; 5] = ["none", "timesyncd", "chrony", "ntpd", "kernel"];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::None => "none",
            Source::Timesyncd => "timesyncd",
            Source::Chrony => "chrony",
            Source::Ntpd => "ntpd",
            Source::Kernel => "kernel",
        }
    }
}

/// What was last found; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Watched(Arc<AtomicU8>);

impl Watched {
    /// What was last found; nobody, before anybody was asked.
    pub fn state(&self) -> State {
        let packed = self.0.load(Ordering::Relaxed);
        let source = Source::ALL.get(usize::from(packed >> 1)).copied().unwrap_or_default();
        State { source, synchronised: packed & 1 == 1 }
    }

    /// Keeps it; gives what was kept before.
    fn keep(&self, state: State) -> State {
        let before = self.state();
        self.0.store((state.source as u8) << 1 | u8::from(state.synchronised), Ordering::Relaxed);
        before
    }

    /// The time, while it is known to be right.
    pub fn right_time(&self) -> RightTime {
        let watched = self.clone();
        Arc::new(move || {
            // From the system, not from `clock::Clock`: that one doesn't see the clock being put right later.
            let seconds = crate::clock::unix_ms() / 1000;
            watched.state().synchronised.then(|| u32::try_from(seconds).ok()).flatten()
        })
    }
}

/// Seconds since 1970, by a clock that is known to be right; else nothing.
pub type RightTime = Arc<dyn Fn() -> Option<u32> + Send + Sync>;

/// Never right: for links that should leave the radio's clock alone.
pub fn unknown() -> RightTime {
    Arc::new(|| None)
}

/// The system's clock, asked about from time to time.
pub fn watched(cancel: CancellationToken, tracker: &TaskTracker) -> Watched {
    let watched = Watched::default();
    let kept = watched.clone();
    tracker.spawn(async move {
        let place = PathBuf::from(TIMESYNCD);
        loop {
            let now = ask(&place, OsStr::new(PROGRAMS)).await;
            if kept.keep(now) != now {
                let State { source, synchronised } = now;
                tracing::info!(
                    source = source.as_str(),
                    right = synchronised,
                    "this machine's clock"
                );
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(if now.synchronised { AGAIN } else { NOT_YET }) => {}
            }
        }
    });
    watched
}

/// `timesyncd`: its folder, which is there while it runs; `programs`: folders, as in `PATH`.
async fn ask(timesyncd: &Path, programs: &OsStr) -> State {
    let found = |source, synchronised| State { source, synchronised };
    if timesyncd.join(MARK).exists() {
        return found(Source::Timesyncd, true);
    }
    // chronyd tells the kernel only with `rtcsync`, so it is asked itself.
    let chrony = says(programs, "chronyc", &["-n", "-c", "tracking"], |answer| {
        // The last field is the leap status.
        let leap = answer.trim().rsplit(',').next();
        matches!(leap, Some("Normal" | "Insert second" | "Delete second"))
    });
    let ntp = says(programs, "ntpq", &["-n", "-c", "rv"], |answer| {
        answer.contains("leap_")
            && !["leap_alarm", "sync_unspec"].iter().any(|w| answer.contains(w))
    });
    // What the kernel knows, whoever steers it.
    let kernel = says(
        programs,
        "timedatectl",
        &["show", "--property=NTPSynchronized", "--value"],
        |answer| answer.trim() == "yes",
    );
    let (chrony, ntp, kernel) = tokio::join!(chrony, ntp, kernel);
    let daemon = match (chrony, ntp) {
        (Some(right), _) => Some((Source::Chrony, right)),
        (None, Some(right)) => Some((Source::Ntpd, right)),
        (None, None) if timesyncd.exists() => Some((Source::Timesyncd, false)),
        (None, None) => None,
    };
    let kernel = kernel == Some(true);
    match daemon {
        Some((source, right)) => found(source, right || kernel),
        None if kernel => found(Source::Kernel, true),
        None => State::default(),
    }
}

/// Does that program say so? `None` for one that isn't there, fails, or takes too long.
async fn says(
    programs: &OsStr,
    program: &str,
    arguments: &[&str],
    yes: impl Fn(&str) -> bool,
) -> Option<bool> {
    // Looked for here, for the search of a spawn goes by our own PATH.
    let path = std::env::split_paths(programs).map(|f| f.join(program)).find(|p| p.is_file())?;
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
    let mut child = child.ok()?;
    let output = child.stdout.take()?;
    let answer = async {
        let mut answer = Vec::new();
        output.take(ANSWER).read_to_end(&mut answer).await.ok()?;
        child.wait().await.ok()?.success().then_some(answer)
    };
    let answer = tokio::time::timeout(PATIENCE, answer).await.ok().flatten();
    answer.map(|answer| yes(&String::from_utf8_lossy(&answer)))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test lays out programs of its own
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    async fn state(programs: &[(&str, &str)]) -> State {
        let folder = tempfile::tempdir().unwrap();
        for (name, script) in programs {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        ask(&folder.path().join("timesync"), folder.path().as_os_str()).await
    }

    async fn right(programs: &[(&str, &str)]) -> bool {
        state(programs).await.synchronised
    }

    #[tokio::test]
    async fn the_mark_of_timesyncd_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        let (place, programs) = (folder.path().join("timesync"), folder.path().as_os_str());
        assert_eq!(ask(&place, programs).await, State::default());
        std::fs::create_dir(&place).unwrap();
        let waits = State { source: Source::Timesyncd, synchronised: false };
        assert_eq!(ask(&place, programs).await, waits);
        std::fs::write(place.join(MARK), "").unwrap();
        assert_eq!(ask(&place, programs).await, State { synchronised: true, ..waits });
    }

    #[tokio::test]
    async fn who_sees_to_the_clock_is_named() {
        let (chrony, ntp) = ("echo x,Normal", "echo 'leap_none, sync_ntp'");
        let (kernel, late) = ("echo yes", "echo x,Not synchronised");
        for (programs, source, synchronised) in [
            (&[("chronyc", chrony)][..], Source::Chrony, true),
            (&[("chronyc", late)], Source::Chrony, false),
            (&[("chronyc", late), ("timedatectl", kernel)], Source::Chrony, true),
            (&[("ntpq", ntp)], Source::Ntpd, true),
            (&[("chronyc", "exit 1"), ("ntpq", ntp)], Source::Ntpd, true),
            (&[("timedatectl", kernel)], Source::Kernel, true),
            (&[("timedatectl", "echo no")], Source::None, false),
            (&[], Source::None, false),
        ] {
            assert_eq!(state(programs).await, State { source, synchronised }, "{programs:?}");
        }
    }

    #[test]
    fn what_was_found_is_kept_as_it_is() {
        let watched = Watched::default();
        let mut before = State::default();
        for source in Source::ALL {
            for synchronised in [false, true] {
                let now = State { source, synchronised };
                assert_eq!(watched.keep(now), before);
                assert_eq!(watched.state(), now);
                assert_eq!(watched.right_time()().is_some(), synchronised);
                assert!(Source::NAMES.contains(&source.as_str()));
                before = now;
            }
        }
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
