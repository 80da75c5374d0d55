//! `tombolo mcp`: the tools of Model Context Protocol servers, and accepting the words of those that changed.
//!
//! Owns what is shown before a person says yes: the old words, the new ones, and the schema; and why a server or a tool
//! is not there. Starts no server: how they are, a running daemon has written down.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::likeness::suggestion;
use super::terminal::{self, exact, printable};
use crate::config::{self, Config};
use crate::gateway;
use crate::invisible::word;
use crate::tools::folder;
use crate::tools::mcp::condition::{Condition, Conditions};
use crate::tools::mcp::offers;
use crate::tools::mcp::pins::{Definition, Pin, Pins};

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
    /// Every server and tool of the configuration: whether it is there and offered, else why not; what has changed, with its
    /// words.
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
            terminal::print(&listed(&config, &pins))?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Accept { server, tool } => {
            if !pins.accept(&server, &tool)? {
                bail!(why_not_accepted(&config, &pins, &server, &tool));
            }
            terminal::print("Accepted. A running daemon offers it from the next turn on.\n")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Every server and how it is, and under it every tool and whether it is offered.
fn listed(config: &Config, pins: &Pins) -> String {
    if config.mcp.is_empty() {
        return "No [[mcp]] server in the configuration.\n".to_owned();
    }
    let running = gateway::is_running(&config.data_dir);
    let conditions = Conditions::read(&config.data_dir);
    let offers = offers(config.mcp.iter(), pins);
    let mut text = String::new();
    for server in &config.mcp {
        let condition = condition(conditions.get(&server.name), running);
        text.push_str(&format!("{}\t{}\n", server.name, printable(&condition)));
        if server.tools.is_empty() {
            text.push_str("  no tool of it is offered: name them in [[mcp.tools]]\n");
        }
        for offer in offers.iter().filter(|offer| offer.server == server.name) {
            let state = match &offer.shown {
                Ok(shown) => {
                    let kind = if shown.destructive { "asks first" } else { "reads only" };
                    format!("offered ({}, {kind})", shown.category)
                }
                Err(why) => format!("not offered: {}", printable(why)),
            };
            text.push_str(&format!("{}\t{state}\n", offer.name));
            if let Some(pin) = pins.get(offer.server, offer.tool) {
                text.push_str(&change(pin));
            }
        }
    }
    text
}

/// How a server is, as a running daemon has it, or was when one last ran.
pub(super) fn condition(condition: Option<&Condition>, running: bool) -> String {
    let Some(Condition { since, why_not }) = condition else {
        return if running {
            "not known: restart the daemon, which reads [[mcp]] only when it starts".to_owned()
        } else {
            "not known: no daemon has started it yet".to_owned()
        };
    };
    let since = folder::date(i128::from(*since) * 1_000_000);
    match (why_not, running) {
        (None, true) => format!("there since {since} UTC"),
        (Some(why), true) => format!("not there since {since} UTC: {why}"),
        (None, false) => "no daemon is running; it was there when one did".to_owned(),
        (Some(why), false) => {
            format!("no daemon is running; it was not there when one did ({since} UTC): {why}")
        }
    }
}

/// Why nothing of that tool was accepted, and what could be.
fn why_not_accepted(config: &Config, pins: &Pins, server: &str, tool: &str) -> String {
    let configured = config.mcp.iter().flat_map(|server| {
        server.tools.iter().map(|tool| (server.name.as_str(), tool.name.as_str()))
    });
    let known: Vec<(&str, &str)> = configured.chain(pins.known()).collect();
    let (server_shown, tool_shown) = (word(server, 64), word(tool, 64));
    if !known.iter().any(|(known, _)| *known == server) {
        let servers = suggestion(server, known.iter().map(|(server, _)| *server));
        return format!("there is no server `{server_shown}` with tools: {servers}");
    }
    if !known.contains(&(server, tool)) {
        let tools = known.iter().filter(|(known, _)| *known == server).map(|(_, tool)| *tool);
        let tools = suggestion(tool, tools);
        return format!("no tool `{tool_shown}` of {server_shown} is configured: {tools}");
    }
    match pins.get(server, tool).and_then(|pin| pin.refused.as_ref()) {
        Some(why) => format!("{server_shown} {tool_shown} can't be accepted: {why}"),
        None => format!(
            "nothing of {server_shown} {tool_shown} waits to be accepted; see: tombolo mcp list"
        ),
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
