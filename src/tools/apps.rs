//! `apps`: the commands that the operator wrote down, a tool each.
//!
//! Owns these tools. A command runs exactly as it stands in the configuration: no shell, no argument of a
//! model's, an environment of a few plain variables, a limit of time and of output. How a program is run
//! and ended is `workspace`'s.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::workspace::Workspace;
use super::workspace::process::{Limits, run_fixed, status_words};
use crate::assistant::PermissionCategory;
use crate::assistant::loop_::MAX_TOOL_RESULT_CHARS;
use crate::assistant::tools::{ForeignDescription, ToolDef};
use crate::config::tools::Command;
use crate::invisible;

/// Bytes kept of each stream.
const MAX_OUTPUT: usize = 16 * 1024;
/// Processes at one time.
const MAX_PROCESSES: usize = 32;
/// Characters of a result, below what the loop cuts.
const MAX_SHOWN: usize = MAX_TOOL_RESULT_CHARS - 200;
/// Characters of what a failed command said.
const MAX_ERROR: usize = 300;

/// A tool for each command.
pub(super) fn tools(commands: &[Command]) -> Vec<ToolDef> {
    commands.iter().map(|command| tool(Arc::new(command.clone()))).collect()
}

fn tool(command: Arc<Command>) -> ToolDef {
    let about = ForeignDescription {
        name: format!("app_{}", command.name.0),
        description: command.description.0.clone(),
        parameters: json!({"type": "object", "properties": {}, "additionalProperties": false}),
        category: PermissionCategory::Apps,
        destructive: !command.safe,
    };
    ToolDef::foreign(about, move |_| {
        let command = command.clone();
        Box::pin(async move { run(&command).await })
    })
}

async fn run(command: &Command) -> Result<String, String> {
    let Some((program, arguments)) = command.command.0.split_first() else {
        return Err("there is no program in it".to_owned());
    };
    let root = Workspace::open(Path::new("/")).map_err(|e| e.to_string())?;
    let limits = Limits {
        time: Duration::from_secs(command.timeout_s.0),
        output: MAX_OUTPUT,
        processes: MAX_PROCESSES,
    };
    let finished = run_fixed(&root, program, arguments, limits).await?;
    let output = shown(&finished.output.text(), MAX_SHOWN);
    match (finished.stopped, finished.status) {
        (Some(why), _) => Err(format!("it was stopped, {why}")),
        (None, Some(status)) if status.success() => {
            Ok(if output.is_empty() { "done, without output".to_owned() } else { output })
        }
        (None, Some(status)) => {
            let errors = shown(&finished.errors.text(), MAX_ERROR);
            let said = if errors.is_empty() { shown(&output, MAX_ERROR) } else { errors };
            Err(format!("{}: {said}", status_words(status)))
        }
        (None, None) => Err("it ended in an unknown way".to_owned()),
    }
}

/// What can be seen of it, with a mark where it was cut.
fn shown(text: &str, limit: usize) -> String {
    let visible = invisible::visible(text);
    let text = visible.trim();
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}\n[… cut]", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assistant::ToolOutcome;
    use crate::config::tools::{Argv, Described, Seconds, ToolWord};
    use crate::tools::fixture::Caller;

    fn command(name: &str, words: &[&str], safe: bool) -> Command {
        Command {
            name: ToolWord(name.to_owned()),
            description: Described("Does it".to_owned()),
            command: Argv(words.iter().map(|word| (*word).to_owned()).collect()),
            safe,
            timeout_s: Seconds(1),
        }
    }

    fn caller(commands: &[Command]) -> Caller {
        Caller::of(tools(commands), PermissionCategory::Apps)
    }

    #[tokio::test]
    async fn a_command_runs_as_it_is_written_and_only_a_safe_one_without_a_confirmation() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made");
        let caller = caller(&[
            command("say", &["/bin/echo", "a  b", "$HOME", "; id", "*"], true),
            command("make", &["/usr/bin/touch", file.to_str().unwrap()], false),
        ]);
        let (outcome, words) = caller.without_gate("app_say", json!({})).await;
        assert_eq!((outcome, words.as_str()), (ToolOutcome::Ran, "a  b $HOME ; id *"));
        let (outcome, _) = caller.without_gate("app_make", json!({})).await;
        assert_eq!(outcome, ToolOutcome::NeedsConfirmation);
        assert!(!file.exists());
        let (outcome, words) = caller.run("app_make", json!({})).await;
        assert_eq!((outcome, words.as_str()), (ToolOutcome::Ran, "done, without output"));
        assert!(file.exists());
        let (outcome, words) = caller.run("app_say", json!({"more": "; id"})).await;
        assert_eq!(outcome, ToolOutcome::BadArguments);
        assert!(words.contains("no argument `more`"), "{words}");
    }

    #[tokio::test]
    async fn a_command_sees_no_environment_of_ours_and_can_not_become_another() {
        let caller = caller(&[
            command("env", &["/usr/bin/env"], true),
            command("privileges", &["/bin/grep", "NoNewPrivs", "/proc/self/status"], true),
        ]);
        let (_, environment) = caller.run("app_env", json!({})).await;
        let names: Vec<&str> =
            environment.lines().filter_map(|line| line.split('=').next()).collect();
        for name in &names {
            assert!(
                ["PATH", "HOME", "LANG"].contains(name) || name.starts_with("TOMBOLO_"),
                "{name}"
            );
        }
        assert!(names.contains(&"PATH"), "{environment}");
        let (_, privileges) = caller.run("app_privileges", json!({})).await;
        assert!(privileges.ends_with('1'), "{privileges}");
    }

    #[tokio::test]
    async fn time_and_output_are_bounded_and_failures_are_told() {
        let caller = caller(&[
            command("sleep", &["/bin/sleep", "60"], true),
            command("much", &["/usr/bin/seq", "1", "100000"], true),
            command("fail", &["/bin/ls", "/nowhere/at/all"], true),
            command("gone", &["/nowhere/program"], true),
            command("colour", &["/usr/bin/printf", "\\033[31mred\\033[0m\\n"], true),
        ]);
        let (outcome, words) = caller.run("app_sleep", json!({})).await;
        assert_eq!(outcome, ToolOutcome::Failed);
        assert!(words.contains("the time of 1 s is over"), "{words}");
        let (outcome, words) = caller.run("app_much", json!({})).await;
        assert_eq!(outcome, ToolOutcome::Ran);
        assert!(words.chars().count() <= MAX_TOOL_RESULT_CHARS && words.ends_with("[… cut]"));
        let (outcome, words) = caller.run("app_fail", json!({})).await;
        assert_eq!(outcome, ToolOutcome::Failed);
        assert!(words.contains("exit code: 2") && words.contains("/nowhere/at/all"), "{words}");
        assert_eq!(caller.run("app_gone", json!({})).await.0, ToolOutcome::Failed);
        assert_eq!(caller.run("app_colour", json!({})).await.1, "[31mred[0m");
    }
}
