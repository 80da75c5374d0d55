//! `tombolo operator`: the operator's login, from the machine itself.
//!
//! Owns reading the password from standard input. Never takes one from the command line, where every
//! process of the machine could read it.

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use rustix::termios::{self, LocalModes, OptionalActions};

use crate::config;
use crate::rpc::auth::Role;
use crate::rpc::auth::passwords::Passwords;
use crate::secrets::{Secret, Secrets};
use crate::store;

/// A line longer than this holds no password.
const MAX_LINE_BYTES: u64 = 4096;

/// Arguments of `tombolo operator`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Read a password from standard input (one line) and store its hash. Ends the role's sessions.
    SetPassword {
        /// Whose password: the operator's, or that of viewers, who see and change nothing.
        #[arg(long, value_name = "ROLE", default_value = "operator", value_parser = ["operator", "viewer"])]
        role: String,
        /// The configuration [default: $TOMBOLO_CONFIG, else /etc/tombolo/tombolo.toml].
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// Does it.
pub fn run(args: Args) -> Result<ExitCode> {
    let Action::SetPassword { role, config } = args.action;
    let role = if role == "viewer" { Role::Viewer } else { Role::Operator };
    let config = config::load(&config::path(config))?;
    let input = std::io::stdin();
    let password = if input.is_terminal() {
        eprint!("New password of the {} for the node page: ", role.as_str());
        let line = without_echo(|| read_line(input.lock()))?;
        eprintln!();
        line
    } else {
        read_line(input.lock())?
    };
    store::private_dir(&config.data_dir)?;
    Passwords::new(Secrets::open(&config.data_dir)?).store(role, &password)?;
    println!("The password of the {} is set. Sessions in that role are over.", role.as_str());
    Ok(ExitCode::SUCCESS)
}

fn read_line(input: impl BufRead) -> Result<Secret> {
    let mut bytes = Vec::new();
    std::io::Read::take(input, MAX_LINE_BYTES)
        .read_until(b'\n', &mut bytes)
        .context("reading the password from standard input")?;
    let Ok(text) = String::from_utf8(bytes) else { bail!("the password is not UTF-8 text") };
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Secret::new(line.strip_suffix('\r').unwrap_or(line)))
}

/// Nobody reads the password off the screen.
fn without_echo<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    let input = rustix::stdio::stdin();
    let before = termios::tcgetattr(input).context("asking the terminal")?;
    let mut quiet = before.clone();
    quiet.local_modes.remove(LocalModes::ECHO);
    termios::tcsetattr(input, OptionalActions::Flush, &quiet).context("setting the terminal")?;
    let result = read();
    let _ = termios::tcsetattr(input, OptionalActions::Now, &before);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_read_and_nothing_of_it_is_trimmed_but_its_end() {
        for (input, password) in [
            ("secret word\n", "secret word"),
            ("secret word", "secret word"),
            (" secret word \r\nmore\n", " secret word "),
            ("\n", ""),
        ] {
            assert_eq!(read_line(input.as_bytes()).unwrap(), Secret::new(password));
        }
        assert!(read_line(&b"\xff\xfe\n"[..]).is_err());
    }

    #[test]
    fn the_hash_is_stored_and_a_short_password_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let passwords = Passwords::new(Secrets::open(folder.path()).unwrap());
        let short = passwords.store(Role::Operator, &Secret::new("short"));
        assert!(short.unwrap_err().to_string().contains("at least 8"));
        assert!(passwords.stored(Role::Operator).unwrap().is_none());
        passwords.store(Role::Operator, &Secret::new("correct horse")).unwrap();
        assert!(passwords.is_of(Role::Operator, &Secret::new("correct horse")).unwrap());
    }
}
