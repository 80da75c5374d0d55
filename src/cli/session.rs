//! `tombolo session`: the sessions of `tombolo agent`.
//!
//! Owns how they are listed and shown, and where the data folder of the terminal is. Knows no session of
//! the daemon: those are callers' transcripts.

pub mod record;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;

use self::record::{KeptCall, Session, SessionName, Sessions};
use super::terminal::{exact, printable};
use super::{exit, terminal};
use crate::config;

/// Arguments of `tombolo session`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tombolo agent --session tidy \"Which files have no test?\"
  tombolo session list
  tombolo session export tidy > tidy.json")]
pub struct Args {
    /// Use the data folder of this configuration [default: $XDG_DATA_HOME/tombolo, else
    /// ~/.local/share/tombolo].
    #[arg(long, value_name = "FILE", env = "TOMBOLO_CONFIG", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Name, turns and last question of each.
    List,
    /// Print one, for reading.
    Show {
        /// Which.
        name: SessionName,
    },
    /// Print one as JSON.
    Export {
        /// Which.
        name: SessionName,
    },
    /// Delete one.
    Delete {
        /// Which.
        name: SessionName,
    },
}

/// Does it.
pub fn run(args: Args) -> Result<ExitCode> {
    let data_dir = match &args.config {
        Some(path) => config::load(path)?.data_dir,
        None => data_dir()?,
    };
    let sessions = Sessions::of(&data_dir);
    let text = match &args.action {
        Action::List => {
            let mut lines = String::new();
            for name in sessions.names()? {
                lines.push_str(&match sessions.get(&name) {
                    Ok(session) => line(&name, &session.unwrap_or_default()),
                    // One that can't be read hides no other.
                    Err(error) => format!("{}\t{:#}\n", name.as_str(), anyhow::Error::new(error)),
                });
            }
            lines
        }
        Action::Show { name } => match sessions.get(name)? {
            Some(session) => shown(&session),
            None => return Ok(none(name)),
        },
        Action::Export { name } => match sessions.get(name)? {
            Some(session) => format!("{}\n", exact(&serde_json::to_value(session)?)),
            None => return Ok(none(name)),
        },
        Action::Delete { name } => {
            if !sessions.delete(name)? {
                return Ok(none(name));
            }
            terminal::note(&format!("{} is deleted", name.as_str()));
            String::new()
        }
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Where the terminal's own data lies when no configuration is given.
pub fn data_dir() -> Result<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .context("neither XDG_DATA_HOME nor HOME says where to keep sessions")?;
    Ok(base.join(Path::new("tombolo")))
}

fn none(name: &SessionName) -> ExitCode {
    terminal::complain(&format!("there is no session {}", name.as_str()));
    ExitCode::from(exit::FAILED)
}

fn line(name: &SessionName, session: &Session) -> String {
    let last = session.turns.last().map_or("", |turn| turn.question.as_str());
    let last: String = last.split_whitespace().collect::<Vec<_>>().join(" ");
    let last: String = printable(&last).chars().take(60).collect();
    let turns = session.turns.len();
    let unit = if turns == 1 { "turn" } else { "turns" };
    format!("{}\t{turns} {unit}\t{last}\n", name.as_str())
}

fn shown(session: &Session) -> String {
    let mut text = String::new();
    for turn in &session.turns {
        text.push_str(&format!("> {}\n", printable(&turn.question).replace('\n', "\n> ")));
        for call in &turn.tools {
            text.push_str(&tool(call));
        }
        text.push_str(&format!("{}\n\n", printable(&turn.answer)));
    }
    text
}

fn tool(call: &KeptCall) -> String {
    let arguments = call.arguments.as_ref().map_or_else(|| "(not kept)".to_owned(), exact);
    let outcome = json!(call.outcome);
    format!("  … {} {arguments}: {}\n", printable(&call.name), outcome.as_str().unwrap_or_default())
}
