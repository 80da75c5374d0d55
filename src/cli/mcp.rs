//! `tombolo mcp`: the tools of Model Context Protocol servers, and accepting the words of those that changed.
//!
//! Owns what is shown before a person says yes: the old words, the new ones, and the schema. Starts no server.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::terminal::{self, exact, printable};
use crate::config;
use crate::tools::mcp::pins::{Definition, Pin, Pins};
use crate::tools::mcp::{marks, offered_name};

/// Arguments of `tombolo mcp`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tombolo mcp list
  tombolo mcp accept weather forecast")]
pub struct Args {
    /// The configuration [default: $TOMBOLO_CONFIG, else /etc/tombolo/tombolo.toml].
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Every tool of the configuration and whether it is offered; what has changed, with its words.
    List,
    /// Accept the changed words of a tool; a running daemon offers it from the next turn on.
    Accept {
        /// The server's name.
        server: String,
        /// The tool, as the server calls it.
        tool: String,
    },
}

/// Does it.
pub fn run(args: Args) -> Result<ExitCode> {
    let config = config::load(&config::path(args.config))?;
    let mut pins = Pins::open(&config.data_dir)?;
    match args.action {
        Action::List => {
            let mut text = String::new();
            for server in &config.mcp {
                for tool in &server.tools {
                    let name = offered_name(&server.name, &tool.name);
                    let pin = pins.get(&server.name, &tool.name);
                    let state = match (marks(tool), pin) {
                        (None, _) => {
                            "not offered: write its category and destructive = true or false"
                                .to_owned()
                        }
                        (Some(_), None) => {
                            "not offered: the server has not been seen yet".to_owned()
                        }
                        (Some((category, destructive)), Some(pin)) if pin.changed.is_none() => {
                            let kind = if destructive { "asks first" } else { "reads only" };
                            format!("offered ({category}, {kind})")
                        }
                        (Some(_), Some(_)) => "suspended: its words have changed".to_owned(),
                    };
                    text.push_str(&format!("{name}\t{state}\n"));
                    if let Some(pin) = pin {
                        text.push_str(&change(pin));
                    }
                }
            }
            if text.is_empty() {
                text = "No [[mcp]] server with tools in the configuration.\n".to_owned();
            }
            terminal::print(&text)?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Accept { server, tool } => {
            if !pins.accept(&server, &tool)? {
                bail!("nothing of {server} {tool} waits to be accepted; see: tombolo mcp list");
            }
            terminal::print("Accepted. A running daemon offers it from the next turn on.\n")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn change(pin: &Pin) -> String {
    let Some(new) = &pin.changed else { return String::new() };
    let old = pin.accepted.as_ref().map_or("  (nothing was accepted yet)\n".to_owned(), words);
    format!(" was:\n{old} now:\n{}", words(new))
}

fn words(definition: &Definition) -> String {
    let description: String =
        printable(&definition.description).lines().map(|line| format!("  {line}\n")).collect();
    format!("{description}  {}\n", exact(&definition.parameters))
}
