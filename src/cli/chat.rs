//! (being written)

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Does it.
pub fn run(_args: Args) -> anyhow::Result<std::process::ExitCode> {
    anyhow::bail!("not yet")
}
