//! `tombolo airtime`: the hourly record of what this transmitter sent, as CSV.
//!
//! Owns the columns. Reads the data folder only, so it works beside a running daemon and without one.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::config;
use crate::mesh::airtime::hours;

/// Arguments of `tombolo airtime`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration [default: $TOMBOLO_CONFIG, else /etc/tombolo/tombolo.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Prints it.
pub fn run(args: Args) -> Result<ExitCode> {
    use std::io::Write as _;

    let config = config::load(&config::path(args.config))?;
    let text = csv(&config.data_dir)?;
    match std::io::stdout().write_all(text.as_bytes()) {
        // Whoever reads it has enough.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("writing the record")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// A header and one row an hour in which something was sent. `percent` is of the hour, and counts every repetition that
/// the radio may have made.
fn csv(data_dir: &Path) -> Result<String> {
    let mut text = "hour_utc,transmissions,airtime_ms,possible_retries_ms,percent\n".to_owned();
    for (hour, sent) in hours::read(data_dir)? {
        let (airtime, retries) = (sent.airtime_us.div_ceil(1000), sent.retries_us.div_ceil(1000));
        let hundredths = airtime.saturating_add(retries).div_ceil(360);
        let (whole, rest) = (hundredths / 100, hundredths % 100);
        writeln!(text, "{hour},{},{airtime},{retries},{whole}.{rest:02}", sent.transmissions)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Now;
    use crate::mesh::airtime::Ledger;
    use crate::node::PacketId;

    #[test]
    fn what_the_ledger_charges_is_in_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let header = "hour_utc,transmissions,airtime_ms,possible_retries_ms,percent\n";
        assert_eq!(csv(folder.path()).unwrap(), header);
        let now = Now { mono_ms: 5_000, unix_ms: 1_700_000_000_000 };
        let mut ledger = Ledger::open(folder.path(), "boot-a", now).unwrap();
        ledger.charge(PacketId(1), 1_993_000, 3_986_000, now).unwrap();
        ledger.charge(PacketId(2), 500_000, 0, now).unwrap();
        ledger.settle(PacketId(1), 1_993_000, now);
        let row = "2023-11-14T22:00Z,2,2493,1993,0.13\n";
        assert_eq!(csv(folder.path()).unwrap(), format!("{header}{row}"));
        // A restart, and another boot's clock, add nothing to it.
        for boot in ["boot-a", "boot-b"] {
            drop(Ledger::open(folder.path(), boot, now).unwrap());
            assert_eq!(csv(folder.path()).unwrap(), format!("{header}{row}"));
        }
    }
}
