//! The last lines of the log, for the node page.
//!
//! Owns a bounded ring of what was logged at `info` and above by this program, whatever the log's own
//! filter lets through: what is below may hold message text, and never comes here. A line is one record:
//! control characters, line breaks and marks that turn text around are shown harmless.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::sync::broadcast;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::clock;
use crate::invisible::hidden;

/// Lines at most; past it the oldest is forgotten.
pub const MAX_LINES: usize = 500;
/// A longer message is cut here.
pub const MAX_MESSAGE_CHARS: usize = 1000;
/// Lines that wait for a slow follower; past it the follower loses the oldest.
const MAX_WAITING: usize = 256;
/// The targets of our own lines begin so. Lines of libraries are not known to be free of secrets.
const OURS: &str = "tombolo";

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Counted from 1 since the start.
    pub seq: u64,
    /// Unix milliseconds.
    pub at: u64,
    /// `error`, `warn` or `info`.
    pub level: &'static str,
    /// The part that says it.
    pub target: String,
    /// What it says, with its fields behind it as `key=value`.
    pub message: String,
}

/// The ring. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Lines(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kept: Mutex<(u64, VecDeque<Line>)>,
    followers: broadcast::Sender<Line>,
}

impl Default for Lines {
    fn default() -> Lines {
        let followers = broadcast::Sender::new(MAX_WAITING);
        Lines(Arc::new(Inner { kept: Mutex::default(), followers }))
    }
}

impl Lines {
    /// The newest lines that `wanted` lets through, oldest first, at most `limit`.
    pub fn last(&self, limit: usize, wanted: impl Fn(&Line) -> bool) -> Vec<Line> {
        let kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines: Vec<Line> =
            kept.1.iter().rev().filter(|line| wanted(line)).take(limit).cloned().collect();
        lines.reverse();
        lines
    }

    /// Every line from now on. Whoever is slow loses the oldest and is told so.
    pub fn follow(&self) -> broadcast::Receiver<Line> {
        self.0.followers.subscribe()
    }

    /// Adds a line. Must log nothing itself.
    pub fn push(&self, level: &'static str, target: &str, message: &str) {
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.0 += 1;
        let line = Line {
            seq: kept.0,
            at: clock::unix_ms(),
            level,
            target: target.to_owned(),
            message: harmless(message),
        };
        if kept.1.len() >= MAX_LINES {
            kept.1.pop_front();
        }
        kept.1.push_back(line.clone());
        // Still under the lock, so that followers see the order of the numbers. Nobody there is fine.
        let _ = self.0.followers.send(line);
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        let level = match *meta.level() {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            _ => return,
        };
        let of_ours = meta.target().strip_prefix(OURS);
        if !of_ours.is_some_and(|rest| rest.is_empty() || rest.starts_with("::")) {
            return;
        }
        let mut words = Words::default();
        event.record(&mut words);
        self.push(level, meta.target(), &format!("{}{}", words.message, words.fields));
    }
}

#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a String can't fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// One line of characters that show themselves; anything else is `\u{fffd}`.
fn harmless(text: &str) -> String {
    text.chars().take(MAX_MESSAGE_CHARS).map(|c| if hidden(c) { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    fn logged(log: impl FnOnce()) -> Lines {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::registry().with(lines.clone());
        tracing::subscriber::with_default(subscriber, log);
        lines
    }

    fn messages(lines: &Lines) -> Vec<String> {
        lines.last(usize::MAX, |_| true).into_iter().map(|line| line.message).collect()
    }

    #[test]
    fn info_and_above_of_our_own_is_kept_and_nothing_else() {
        let lines = logged(|| {
            tracing::error!(target: "tombolo::mesh", code = 7, name = "Ana", "lost");
            tracing::warn!(target: "tombolo", error = %"no disk", "not stored");
            tracing::info!("from {}", "here");
            tracing::debug!("canary of debug");
            tracing::trace!(text = "canary of a message", "heard");
            tracing::info!(target: "hyper::server", "canary of a library");
            tracing::info!(target: "tombolox", "canary of another");
        });
        assert_eq!(
            messages(&lines),
            ["lost code=7 name=Ana", "not stored error=no disk", "from here"]
        );
        let all = lines.last(usize::MAX, |_| true);
        assert_eq!(all.iter().map(|line| line.seq).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((all[0].level, all[1].level, all[2].level), ("error", "warn", "info"));
        assert_eq!(lines.last(1, |line| line.level != "info")[0].level, "warn");
    }

    #[test]
    fn a_line_is_one_line_and_bounded_and_so_is_the_ring() {
        let lines = Lines::default();
        lines.push("info", "t", "a\nWARN fake\r\u{1b}[31m\u{202e}b\u{200b}c\u{2028}é");
        let plain = "a\u{fffd}WARN fake\u{fffd}\u{fffd}[31m\u{fffd}b\u{fffd}c\u{fffd}é";
        assert_eq!(messages(&lines), [plain]);
        lines.push("info", "t", &"x".repeat(MAX_MESSAGE_CHARS + 1));
        assert_eq!(messages(&lines)[1].len(), MAX_MESSAGE_CHARS);
        for _ in 0..MAX_LINES - 2 {
            lines.push("info", "t", "y");
        }
        assert_eq!(lines.last(usize::MAX, |_| true)[0].seq, 1, "as many as fit");
        lines.push("info", "t", "y");
        let all = lines.last(usize::MAX, |_| true);
        assert_eq!((all.len(), all[0].seq), (MAX_LINES, 2));
    }

    #[test]
    fn a_follower_gets_each_line_and_a_slow_one_is_told() {
        let lines = Lines::default();
        let mut follower = lines.follow();
        lines.push("info", "t", "one");
        assert_eq!(follower.try_recv().unwrap().message, "one");
        for _ in 0..=MAX_WAITING {
            lines.push("info", "t", "more");
        }
        let told = follower.try_recv();
        assert!(matches!(told, Err(broadcast::error::TryRecvError::Lagged(1))), "{told:?}");
    }
}
