//! `run_shell_command`: programs in the workspace.
//!
//! Owns the order of the checks (grammar, policy, paths) and what a model sees of the result. There is
//! no shell: see [`super::command`] for what is understood.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::command::{CommandLine, parse};
use super::path::{PathError, Workspace, shown};
use super::policy::ShellPolicy;
use super::process::{Captured, Finished, Limits, run, status_words};
use crate::assistant::PermissionCategory;
use crate::assistant::loop_::MAX_TOOL_RESULT_CHARS;
use crate::assistant::tools::{Description, ToolDef};

/// Seconds without a wish of the caller's.
const DEFAULT_SECONDS: u64 = 30;
/// Seconds at most.
const MAX_SECONDS: u64 = 600;
/// Bytes kept of each stream.
const MAX_OUTPUT: usize = 64 * 1024;
/// Processes at one time.
const MAX_PROCESSES: usize = 64;
/// Characters shown of both streams, below what the loop cuts: so that the end is seen as well.
const MAX_SHOWN_CHARS: usize = MAX_TOOL_RESULT_CHARS - 400;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    command: String,
    timeout_seconds: Option<u64>,
}

/// `run_shell_command`
pub(super) fn tool(workspace: Arc<Workspace>, policy: ShellPolicy) -> ToolDef {
    let about = Description::changes(
        PermissionCategory::Apps,
        "run_shell_command",
        "Runs programs in the workspace's root and shows exit code, stdout and stderr. \
         Understood are quotes, |, &&, ||, ; and redirection to files of the workspace; \
         variables, wildcards, substitutions and cd are not.",
    )
    .taking(
        json!({
            "command": {"type": "string", "description": "For instance: ls src | head -5"},
            "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": MAX_SECONDS,
                                "description": "After which it is killed; 30 if left out"}
        }),
        &["command"],
    );
    let policy = Arc::new(policy);
    ToolDef::new(about, move |arguments: Arguments| {
        Box::pin(run_command(workspace.clone(), policy.clone(), arguments))
    })
}

async fn run_command(
    workspace: Arc<Workspace>,
    policy: Arc<ShellPolicy>,
    arguments: Arguments,
) -> Result<String, String> {
    let seconds = arguments.timeout_seconds.unwrap_or(DEFAULT_SECONDS);
    if !(1..=MAX_SECONDS).contains(&seconds) {
        return Err(format!("timeout_seconds must be 1 to {MAX_SECONDS}"));
    }
    let line = allowed(&workspace, &policy, &arguments.command)?;
    let limits =
        Limits { time: Duration::from_secs(seconds), output: MAX_OUTPUT, processes: MAX_PROCESSES };
    let finished = run(&workspace, &line, limits).await?;
    words(&finished)
}

/// The command, if it may run at all.
fn allowed(workspace: &Workspace, policy: &ShellPolicy, text: &str) -> Result<CommandLine, String> {
    let line = parse(text).map_err(|e| e.to_string())?;
    policy.check(&line)?;
    stays_inside(workspace, &line)?;
    Ok(line)
}

/// Whether the command would be refused whoever confirms it, and why: nobody has to be asked about it.
pub fn check_command(
    workspace: &Workspace,
    policy: &ShellPolicy,
    command: &str,
) -> Result<(), String> {
    allowed(workspace, policy, command).map(|_| ())
}

/// Refuses arguments that name something outside of the workspace, by themselves or through a link.
/// What a program opens by itself this can't know.
fn stays_inside(workspace: &Workspace, line: &CommandLine) -> Result<(), String> {
    let arguments =
        line.steps.iter().flat_map(|step| &step.programs).flat_map(|program| &program.arguments);
    for argument in arguments {
        // `--file=/etc/passwd` and `-I/usr/include` name a path as well.
        let value = argument.split_once('=').map(|(_, value)| value);
        let glued = argument
            .strip_prefix('-')
            .filter(|rest| !rest.starts_with('-'))
            .and_then(|rest| rest.char_indices().nth(1).and_then(|(at, _)| rest.get(at..)));
        for path in [Some(argument.as_str()), value, glued].into_iter().flatten() {
            if leads_outside(workspace, path) {
                return Err(format!("{} is outside of the workspace", shown(path)));
            }
        }
    }
    Ok(())
}

fn leads_outside(workspace: &Workspace, path: &str) -> bool {
    if path.is_empty() || path == "/dev/null" {
        return false;
    }
    match workspace.is_dir(path) {
        // A pattern may begin with a slash, too; what begins nothing that exists is no path.
        Err(PathError::Outside(_)) if path.starts_with('/') => {
            let first: std::path::PathBuf = Path::new(path).components().take(2).collect();
            first == Path::new("/") || first.exists()
        }
        Err(PathError::Outside(_)) => true,
        // One that goes through a link of the system's own, like those in /proc, is seen as malformed.
        _ => false,
    }
}

fn words(finished: &Finished) -> Result<String, String> {
    let (output, errors) = shares(&finished.output, &finished.errors);
    let streams = format!("stdout:\n{output}\nstderr:\n{errors}");
    match (&finished.stopped, finished.status) {
        (Some(why), _) => Err(format!("stopped, {why}\n{streams}")),
        (None, Some(status)) => Ok(format!("{}\n{streams}", status_words(status))),
        (None, None) => Err(format!("it ended in an unknown way\n{streams}")),
    }
}

/// Both streams within the limit: what one doesn't need, the other gets.
fn shares(output: &Captured, errors: &Captured) -> (String, String) {
    let (output, errors) = (output.text(), errors.text());
    let (output_chars, errors_chars) = (output.chars().count(), errors.chars().count());
    let half = MAX_SHOWN_CHARS / 2;
    let for_errors = errors_chars.min(half.max(MAX_SHOWN_CHARS.saturating_sub(output_chars)));
    let for_output = MAX_SHOWN_CHARS - for_errors;
    (ends(&output, for_output), ends(&errors, for_errors))
}

/// The start and the end of a text that is longer than so many characters.
fn ends(text: &str, limit: usize) -> String {
    let text = text.trim_end();
    let chars = text.chars().count();
    if chars <= limit {
        return text.to_owned();
    }
    let head: String = text.chars().take(limit / 2).collect();
    let tail: String = text.chars().skip(chars - (limit - limit / 2)).collect();
    format!("{head}\n[… {} characters left out …]\n{tail}", chars - limit)
}

#[cfg(test)]
mod tests;
