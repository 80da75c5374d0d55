//! `tombolo run`: the daemon.
//!
//! Owns the runtime and the exit code. The parts are the gateway's.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::gateway::Gateway;
use crate::{config, telemetry};

/// Exit code of a configuration that is refused (EX_CONFIG).
const BAD_CONFIG: u8 = 78;

/// Arguments of `tombolo run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration [default: $TOMBOLO_CONFIG, else /etc/tombolo/tombolo.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs until a signal.
pub fn run(args: Args) -> Result<ExitCode> {
    telemetry::start("info");
    let path = config::path(args.config);
    let config = match config::load(&path) {
        Ok(config) => config,
        Err(fault) => {
            eprintln!("tombolo: {}", super::whole(&fault.into()));
            return Ok(ExitCode::from(BAD_CONFIG));
        }
    };
    runtime()?.block_on(async {
        let gateway = Gateway::start(config).await?;
        tracing::info!(address = %gateway.address, "serving the node page");
        if let Some(link) = gateway.setup_link() {
            // To whoever can read this terminal or journal, once: it is no secret that lasts.
            println!("No password is set yet. Set one at {link}");
        }
        gateway.run_until_signal(Some(path)).await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// One thread for everything but slow hashes and file syncs: small, and enough for one radio.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .thread_keep_alive(std::time::Duration::from_secs(2))
        .build()?)
}
