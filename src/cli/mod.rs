//! The command line: one file a subcommand, the types here.
//!
//! Owns what can be typed. Does no work itself.

pub mod agent;
pub mod airtime;
pub mod backup;
pub mod chat;
pub mod check;
pub mod completions;
pub mod demo;
pub mod exit;
pub mod grants;
mod likeness;
#[cfg(feature = "mcp")]
pub mod mcp;
pub mod operator;
pub mod question;
pub mod radio;
pub mod run;
pub mod server;
pub mod session;
pub mod sim;
pub mod terminal;
pub mod udev;

use clap::{Parser, Subcommand};

/// Answers peers of a LoRa mesh with a local assistant.
#[derive(Debug, Parser)]
#[command(name = "tombolo", version, about, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the daemon.
    Run(run::Args),
    /// Run the daemon on a simulated mesh, with nothing attached and nothing kept.
    Demo(demo::Args),
    /// Run only the simulated radio, for any Meshtastic client.
    Sim(sim::Args),
    /// Ask the local model once, without tools.
    Chat(chat::Args),
    /// Let the local model work in the current folder, with tools.
    Agent(agent::Args),
    /// The sessions of `agent`.
    Session(session::Args),
    /// Copy the data folder, while the daemon may be running.
    Backup(backup::Args),
    /// Print the hourly record of airtime as CSV.
    Airtime(airtime::Args),
    /// The operator's login.
    Operator(operator::Args),
    /// Tools of Model Context Protocol servers: which are offered, and accepting changed ones.
    #[cfg(feature = "mcp")]
    Mcp(mcp::Args),
    /// Who may use which tools.
    Grants(grants::Args),
    /// The radios: which there are, what one says of itself, writing its settings.
    Radio(radio::Args),
    /// Test configuration, data folder, secrets, radio and model servers: a line each.
    Check(check::Args),
    /// Print the udev rules made from the board table.
    Udev(udev::Args),
    /// Print completions for a shell.
    Completions(completions::Args),
    /// Print the manual page.
    Man(completions::ManArgs),
}

/// An error with its causes, on one line. A cause that the words before it name already is not said again.
pub fn whole(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |words, cause| {
        match (words.is_empty(), words.contains(&cause)) {
            (true, _) => cause,
            (false, true) => words,
            (false, false) => format!("{words}: {cause}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_was_named_is_not_said_again() {
        let io = || std::io::Error::other("no space left");
        let plain = anyhow::Error::new(io()).context("writing x");
        assert_eq!(whole(&plain), "writing x: no space left");
        let named =
            anyhow::Error::new(io()).context("x can't be written (no space left): make room");
        assert_eq!(whole(&named), "x can't be written (no space left): make room");
    }
}
