//! `tombolo backup`: a copy of the data folder.
//!
//! Owns the words on the command line. What is copied is the matter of `backup`; it works beside a running daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::cli::terminal;
use crate::{backup, clock, config};

/// Arguments of `tombolo backup`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  tombolo backup /mnt/usb

makes /mnt/usb/tombolo-backup-YYYYMMDD-HHMMSS (UTC), whole or not at all; the daemon may run meanwhile. The copy
holds the keys and passwords of the node: keep it as closed as the node itself. To go back to it: stop the daemon,
put the copy in the place of the data folder, start the daemon.")]
pub struct Args {
    /// A folder that is there, outside the data folder.
    #[arg(value_name = "TO")]
    to: PathBuf,
    /// The configuration [default: $TOMBOLO_CONFIG, else /etc/tombolo/tombolo.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Makes one.
pub fn run(args: Args) -> Result<ExitCode> {
    let config = config::load(&config::path(args.config))?;
    let made = backup::make(&config.data_dir, &args.to, clock::unix_ms())?;
    for path in &made.skipped {
        eprintln!("tombolo: left out, for it is neither a file nor a folder: {}", path.display());
    }
    if let Some(why) = &made.not_noted {
        eprintln!("tombolo: the node does not know of this backup: {why}");
    }
    let folder = made.folder.display().to_string();
    terminal::print(&format!(
        "{} files, {} bytes: {}\n",
        made.files,
        made.bytes,
        terminal::printable(&folder)
    ))?;
    Ok(ExitCode::SUCCESS)
}
