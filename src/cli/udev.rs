//! `tombolo udev`: prints the udev rules that are made from the board table.
//!
//! Owns nothing but the printing; the table and the rules' form are `tombolo_hw::board`'s.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;

/// Arguments: none.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Prints the rules, for `/etc/udev/rules.d/70-tombolo.rules`.
pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    let mut rules = String::new();
    tombolo_hw::board::udev_rules(&mut rules).context("writing the rules")?;
    std::io::stdout().write_all(rules.as_bytes()).context("printing the rules")?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_file_is_what_the_command_prints() {
        let mut rules = String::new();
        tombolo_hw::board::udev_rules(&mut rules).unwrap();
        let committed = include_str!("../../udev/70-tombolo.rules");
        assert!(
            rules == committed,
            "the board table has changed: run `cargo run -- udev > udev/70-tombolo.rules`"
        );
    }
}
