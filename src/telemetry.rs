//! Where log lines go.
//!
//! Owns the subscriber. Message text and secrets are the business of those who log: above `trace` there
//! is none.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Sets up logging to standard error: `TOMBOLO_LOG` (as in `debug` or `tombolo::radio=trace`), else
/// `fallback`. Under systemd the journal adds the time.
pub fn start(fallback: &str) {
    let filter =
        EnvFilter::try_from_env("TOMBOLO_LOG").unwrap_or_else(|_| EnvFilter::new(fallback));
    // That library writes whole messages of tools at debug level.
    let filter = match "rmcp=off".parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_target(true);
    // A second start in one process (tests) keeps the first.
    let _ = if std::env::var_os("JOURNAL_STREAM").is_some() {
        subscriber.without_time().try_init()
    } else {
        subscriber.try_init()
    };
}
