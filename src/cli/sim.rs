//! `tombolo sim`: only the simulated radio, for any Meshtastic client.
//!
//! Owns the arguments and what is printed. The radio itself is in `sim`, what may be commanded in `sim::acts`.

mod control;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::sim::{Scenario, Sim, SimConfig};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("line").required(true)))]
pub struct Args {
    /// Serve clients on TCP, one at a time, for instance on 127.0.0.1:4403. There is no
    /// authentication: keep it on loopback.
    #[arg(long, value_name = "ADDR", group = "line")]
    listen: Option<String>,
    /// Serve a pseudo-terminal, as a radio on USB.
    #[arg(long, group = "line")]
    pty: bool,
    /// Who is in the mesh, and who says what when (TOML).
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Read commands from standard input, one JSON object a line, for instance
    /// {"say": {"peer": "Ana", "text": "!ai ping"}}. Each done one is answered with "line N: done". The end of
    /// the input ends the simulator.
    #[arg(long)]
    control: bool,
}

/// Runs until it is interrupted.
///
/// # Errors
/// A scenario that is wrong, or an address that can't be bound.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let scenario = args.scenario.as_deref().map(Scenario::read).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(args, scenario))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(args: Args, scenario: Option<Scenario>) -> anyhow::Result<()> {
    let config = scenario.as_ref().map_or_else(SimConfig::default, |s| s.config.clone());
    let mesh = config.clone();
    let (num, name) = (config.num, config.name.clone());
    let peers: Vec<_> = config.peers.iter().map(|p| format!("{} {}", p.name, p.num)).collect();
    let sim = Sim::start(config);
    let cancel = CancellationToken::new();
    let serving = match &args.listen {
        Some(address) => {
            let listener =
                TcpListener::bind(address).await.with_context(|| format!("listen on {address}"))?;
            let address = listener.local_addr()?;
            print(&format!("simulated radio {num} \"{name}\" on {address}"));
            Some(tokio::spawn(sim.clone().serve_tcp(listener, cancel.clone())))
        }
        None => {
            let path = sim.serve_pty(cancel.clone()).context("open a pseudo-terminal")?;
            print(&format!("simulated radio {num} \"{name}\" on {}", path.display()));
            None
        }
    };
    print(&format!("peers: {}", peers.join(", ")));
    let playing = async {
        if let Some(scenario) = scenario {
            scenario.play(&sim).await;
        }
        std::future::pending::<()>().await;
    };
    let following = sim.follow(|peer, heard| {
        let place = heard.channel.map_or_else(String::new, |c| format!(" on channel {c}"));
        // Escaped: what a client sends must not steer the terminal.
        print(&format!("{peer} hears{place}: {}", heard.text.escape_debug()));
    });
    let controlled = async {
        if args.control {
            control::obey(&sim, &mesh).await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        () = playing => {}
        () = following => {}
        () = controlled => {}
        result = tokio::signal::ctrl_c() => result?,
        _ = terminated.recv() => {}
    }
    cancel.cancel();
    if let Some(serving) = serving {
        serving.await?;
    }
    Ok(())
}

/// A line on standard output, at once: whoever starts this waits for it. A closed output is no
/// reason to stop.
fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    let _closed = writeln!(out, "{line}").and_then(|()| out.flush());
}
