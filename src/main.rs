//! Parses the command line and hands over.

use std::process::ExitCode;

use clap::Parser;
use tombolo::cli::{Cli, Command};

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => tombolo::cli::run::run(args),
        Command::Demo(args) => tombolo::cli::demo::run(args),
        Command::Sim(args) => tombolo::cli::sim::run(args),
        Command::Chat(args) => tombolo::cli::chat::run(args),
        Command::Agent(args) => tombolo::cli::agent::run(args),
        Command::Session(args) => tombolo::cli::session::run(args),
        Command::Backup(args) => tombolo::cli::backup::run(args),
        Command::Airtime(args) => tombolo::cli::airtime::run(args),
        Command::Operator(args) => tombolo::cli::operator::run(args),
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => tombolo::cli::mcp::run(args),
        Command::Grants(args) => tombolo::cli::grants::run(args),
        Command::Radio(args) => tombolo::cli::radio::run(args),
        Command::Check(args) => tombolo::cli::check::run(args),
        Command::Udev(args) => tombolo::cli::udev::run(args),
        Command::Completions(args) => tombolo::cli::completions::run(args),
        Command::Man(args) => tombolo::cli::completions::man(args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("tombolo: {}", tombolo::cli::whole(&error));
        ExitCode::FAILURE
    })
}
