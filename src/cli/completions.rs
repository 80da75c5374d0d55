//! `tombolo completions` and `tombolo man`: made from the command line's own definition.
//!
//! Owns nothing but where they are printed.

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, exit, terminal};

/// Arguments of `tombolo completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tombolo completions bash | sudo tee /etc/bash_completion.d/tombolo >/dev/null
  tombolo completions fish > ~/.config/fish/completions/tombolo.fish")]
pub struct Args {
    /// For which shell.
    shell: Shell,
}

/// Arguments of `tombolo man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tombolo man | man -l -
  tombolo man agent > tombolo-agent.1")]
pub struct ManArgs {
    /// The page of this subcommand instead of the program's.
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

/// Prints the completions.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tombolo", &mut script);
    terminal::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a page.
pub fn man(args: ManArgs) -> Result<ExitCode> {
    let mut program = Cli::command();
    program.build();
    let command = match &args.command {
        None => program,
        Some(name) => match program.find_subcommand(name) {
            Some(found) => found.clone(),
            None => return Ok(exit::usage(&format!("there is no command {name}"))),
        },
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    terminal::print(&String::from_utf8_lossy(&page))?;
    Ok(ExitCode::SUCCESS)
}
