//! Where log lines go.
//!
//! Owns the subscriber. Message text and secrets are the business of those who log: above `trace` there
//! is none.

mod lines;

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

pub use lines::{Line, Lines, MAX_LINES, MAX_MESSAGE_CHARS};

/// That library writes whole messages of tools, at info level too.
const SILENT: &str = "rmcp=off";

/// The last lines of this process's log: empty for a program that didn't [`start`] one.
pub fn lines() -> &'static Lines {
    static LINES: OnceLock<Lines> = OnceLock::new();
    LINES.get_or_init(Lines::default)
}

/// Sets up logging to standard error: `TOMBOLO_LOG` (as in `debug` or `tombolo::radio=trace`), else
/// `fallback`. Under systemd the journal adds the time.
pub fn start(fallback: &str) {
    let filter =
        EnvFilter::try_from_env("TOMBOLO_LOG").unwrap_or_else(|_| EnvFilter::new(fallback));
    let filter = match SILENT.parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    };
    let printed = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_target(true);
    let printed = if std::env::var_os("JOURNAL_STREAM").is_some() {
        printed.without_time().with_filter(filter).boxed()
    } else {
        printed.with_filter(filter).boxed()
    };
    let kept = lines().clone().with_filter(EnvFilter::new(format!("info,{SILENT}")));
    // A second start in one process (tests) keeps the first.
    let _ = tracing_subscriber::registry().with(printed).with(kept).try_init();
}
