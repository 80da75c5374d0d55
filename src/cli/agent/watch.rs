//! What the operator sees of a turn while it runs, and what a session keeps of its calls.
//!
//! Owns the lines of `--trace` and of the progress; both go to standard error. Changes nothing.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::assistant::LegReason;
use crate::assistant::backends::{BackendTurn, ToolCall};
use crate::assistant::observer::Observer;
use crate::assistant::tools::Executed;
use crate::cli::terminal::{self, exact};

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// Every line of the trace.
    Trace,
    /// A line a call.
    Progress {
        /// Dimmed.
        colour: bool,
    },
    /// Nothing.
    Nothing,
}

/// The observer.
pub struct Watch {
    show: Show,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    replies: usize,
    /// The last reply was shown as it came.
    raw: bool,
    calls: Vec<(ToolCall, Option<Executed>)>,
}

impl Watch {
    /// Shows that much.
    pub fn new(show: Show) -> Watch {
        Watch { show, seen: Mutex::default() }
    }

    /// Which leg answers, and why it.
    pub fn leg(&self, name: &str, reason: &str) {
        self.trace(|| format!("leg={name} reason={reason}"));
    }

    /// The calls that were carried out, in order; the watch is empty afterwards.
    pub fn take_calls(&self) -> Vec<(ToolCall, Executed)> {
        let calls = std::mem::take(&mut self.seen().calls);
        calls.into_iter().filter_map(|(call, executed)| Some((call, executed?))).collect()
    }

    fn trace(&self, words: impl FnOnce() -> String) {
        if self.show == Show::Trace {
            terminal::note(&format!("[trace] {}", words()));
        }
    }

    fn progress(&self, words: impl FnOnce() -> String) {
        if let Show::Progress { colour } = self.show {
            let (dim, plain) = if colour { ("\u{1b}[2m", "\u{1b}[0m") } else { ("", "") };
            terminal::note(&format!("{dim}{}{plain}", words()));
        }
    }

    fn reply(&self, raw: &Value) {
        let number = {
            let mut seen = self.seen();
            seen.replies += 1;
            seen.replies
        };
        self.trace(|| format!("assistant_raw[{number}]={}", exact(raw)));
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Watch {
    fn raw(&self, reply: &str) {
        // A JSON object is shown as one, not as a text with quotes in quotes.
        let value = serde_json::from_str(reply).unwrap_or_else(|_| json!(reply));
        self.reply(&value);
        self.seen().raw = true;
    }

    fn rejected(&self, why: &str) {
        let number = self.seen().replies;
        self.trace(|| format!("rejected[{number}]={}", exact(&json!(why))));
        self.progress(|| "… the reply was of no use and is asked for again".to_owned());
    }

    fn skipped(&self, leg: &LegReason) {
        self.leg(&leg.leg, &leg.reason);
    }

    fn answered(&self, _leg: &'static str, turn: &BackendTurn) {
        if std::mem::take(&mut self.seen().raw) {
            return;
        }
        self.reply(&match turn {
            BackendTurn::Text(text) => json!(text),
            BackendTurn::ToolCalls { text, calls, .. } => {
                let calls: Vec<Value> = calls
                    .iter()
                    .map(|call| json!({ "name": call.name, "arguments": call.arguments }))
                    .collect();
                json!({ "content": text, "tool_calls": calls })
            }
        });
    }

    fn reminded(&self, tool: &str) {
        self.trace(|| format!("reminded=the model answered without {tool}"));
    }

    fn made_for_the_model(&self, call: &ToolCall) {
        self.trace(|| format!("harness_call={} the model did not make it", call.name));
        self.progress(|| "… the model did not use the tool; it is used for it".to_owned());
    }

    fn calling(&self, call: &ToolCall) {
        let number = {
            let mut seen = self.seen();
            seen.calls.push((call.clone(), None));
            seen.calls.len()
        };
        let words = || format!("{} {}", name(call), exact(&call.arguments));
        self.trace(|| format!("tool_call[{number}]={}", words()));
        self.progress(|| format!("… {}", words()));
    }

    fn called(&self, call: &ToolCall, executed: &Executed) {
        let number = {
            let mut seen = self.seen();
            let number = seen.calls.len();
            if let Some(last) = seen.calls.last_mut() {
                last.1 = Some(executed.clone());
            }
            number
        };
        let error =
            if executed.is_error { exact(&json!(executed.content)) } else { "null".to_owned() };
        self.trace(|| {
            let success = !executed.is_error;
            format!("tool_result[{number}]={} success={success} error={error}", name(call))
        });
        if executed.is_error {
            self.progress(|| format!("  {error}"));
        }
    }
}

/// The name as the model wrote it, fit for a line.
fn name(call: &ToolCall) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !call.name.is_empty() && call.name.len() <= 64 && call.name.chars().all(fits) {
        call.name.clone()
    } else {
        exact(&json!(call.name.chars().take(64).collect::<String>()))
    }
}
