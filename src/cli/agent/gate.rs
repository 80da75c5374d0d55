//! The operator at the terminal confirms what changes something.
//!
//! Owns the question as it stands there, and what counts as a yes. Where nobody can be asked, nothing is
//! confirmed but what `--yes-to` named.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::termios::{QueueSelector, tcflush};
use serde_json::Value;

use crate::assistant::gate::{Asking, Decision, Gate};
use crate::assistant::tools::ToolDef;
use crate::cli::terminal;

/// A longer line is no answer.
const MAX_LINE: u64 = 1024;

/// Refuses what would be refused anyhow, so that nobody is asked about it.
pub type Precheck = Box<dyn Fn(&str, &Value) -> Result<(), String> + Send + Sync>;

/// The gate.
pub struct TerminalGate {
    yes_to: Vec<String>,
    precheck: Precheck,
    /// Where the answer is read; the question goes to standard error.
    keyboard: Option<OwnedFd>,
}

impl TerminalGate {
    /// `yes_to` names the tools that need no question.
    pub fn new(yes_to: Vec<String>, precheck: Precheck) -> TerminalGate {
        TerminalGate { yes_to, precheck, keyboard: keyboard() }
    }

    async fn decide(&self, tool: &ToolDef, arguments: &Value) -> Decision {
        if let Err(why) = (self.precheck)(&tool.name, arguments) {
            return Decision::Denied(why);
        }
        if self.yes_to.iter().any(|name| *name == tool.name) {
            terminal::note(&format!(
                "{} {} (confirmed by --yes-to)",
                tool.name,
                terminal::exact(arguments)
            ));
            return Decision::Approved;
        }
        let Some(keyboard) = self.keyboard.as_ref().and_then(|fd| fd.try_clone().ok()) else {
            terminal::complain(&format!(
                "{} {} needs a confirmation and there is no terminal to ask at; it was not done \
                 (--yes-to {} allows it)",
                tool.name,
                terminal::exact(arguments),
                tool.name
            ));
            return Decision::NotNow;
        };
        let question = question(&tool.name, arguments);
        let answer =
            tokio::task::spawn_blocking(move || ask(File::from(keyboard), &question)).await;
        if matches!(answer, Ok(Ok(line)) if is_yes(&line)) {
            Decision::Approved
        } else {
            Decision::Denied("the operator said no".to_owned())
        }
    }
}

impl Gate for TerminalGate {
    fn ask<'a>(&'a self, tool: &'a ToolDef, arguments: &'a Value) -> Asking<'a> {
        Box::pin(self.decide(tool, arguments))
    }
}

/// What is asked: every argument, whole, one a line.
fn question(tool: &str, arguments: &Value) -> String {
    let mut words = format!("\nThe model wants {tool}:\n");
    for (name, value) in arguments.as_object().into_iter().flatten() {
        // The names were checked: they are the schema's.
        words.push_str(&format!("  {name} = {}\n", terminal::exact(value)));
    }
    words.push_str("Do it? [y/N] ");
    words
}

/// The terminal of whoever sees standard error: standard input, or, where that is a pipe with a part of
/// the question, the terminal behind it.
fn keyboard() -> Option<OwnedFd> {
    if !io::stderr().is_terminal() {
        return None;
    }
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return stdin.as_fd().try_clone_to_owned().ok();
    }
    File::open("/dev/tty").ok().map(OwnedFd::from)
}

fn ask(keyboard: File, question: &str) -> io::Result<Vec<u8>> {
    // What was typed before the question stood there is no answer to it.
    tcflush(&keyboard, QueueSelector::IFlush)?;
    let mut out = io::stderr();
    out.write_all(question.as_bytes())?;
    out.flush()?;
    let mut line = Vec::new();
    BufReader::new(keyboard.take(MAX_LINE)).read_until(b'\n', &mut line)?;
    Ok(line)
}

fn is_yes(line: &[u8]) -> bool {
    let Some(line) = line.strip_suffix(b"\n") else { return false };
    let line = line.trim_ascii();
    line.eq_ignore_ascii_case(b"y") || line.eq_ignore_ascii_case(b"yes")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_whole_yes_is_a_yes() {
        for yes in ["y\n", "Y\n", " yes \r\n", "YES\n"] {
            assert!(is_yes(yes.as_bytes()), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "y", "yes", "yy\n", "yes please\n", "no\n", "\u{ff59}\n"] {
            assert!(!is_yes(no.as_bytes()), "{no:?}");
        }
    }

    #[test]
    fn the_question_shows_every_argument_and_cannot_be_drawn_over() {
        let arguments = json!({
            "command": "rm -r x\r\u{1b}[2Kls", "timeout": 5, "more": "\nDo it? [y/N] y",
        });
        assert_eq!(
            question("run_shell_command", &arguments),
            "\nThe model wants run_shell_command:\n  command = \"rm -r x\\r\\u001b[2Kls\"\n  \
             timeout = 5\n  more = \"\\nDo it? [y/N] y\"\nDo it? [y/N] "
        );
    }
}
