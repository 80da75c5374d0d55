//! `tombolo demo`: the daemon on a simulated mesh, with a data folder that is thrown away.
//!
//! Owns the script and the judgement whether every question was answered. Shows what the daemon did, from
//! its own events and from what the simulated peers received; it decides nothing itself.

mod screen;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};

use self::screen::Screen;
use crate::config::{Config, Contact, PortSpec};
use crate::gateway::Gateway;
use crate::mesh::view::{Delivery, MeshEvent};
use crate::node::NodeNum;
use crate::sim::{SayTo, Sim, SimConfig};
use crate::telemetry;

/// The peer whom the demo's node knows, with key.
const FRIEND: &str = "Ana";
/// The peer whom it doesn't.
const STRANGER: &str = "Mallory";
/// What the friend asks in the script, in this order.
const QUESTIONS: [&str; 3] = ["!ai how much disk space is left?", "!ai ping", "!ai help"];
/// A part takes two seconds on the air, a lost one is sent three times: a question has this long.
const PATIENCE: Duration = Duration::from_secs(200);

/// Arguments of `tombolo demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Play the built-in script even on a terminal, then exit: 0 only if every question was answered.
    #[arg(long)]
    once: bool,
    /// Where the node page is served.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Runs the demo.
pub fn run(args: Args) -> Result<ExitCode> {
    telemetry::start("error");
    let typed = !args.once && std::io::stdin().is_terminal();
    let data = tempfile::Builder::new().prefix("tombolo-demo-").tempdir()?;
    let runtime = super::run::runtime()?;
    let result = runtime.block_on(async {
        let mut told = told_to_end()?;
        let simulated = SimConfig::default();
        let config = configuration(&args, data.path().join("data"), &simulated).await?;
        let sim = Sim::start(simulated);
        let gateway = Gateway::start_with(config, Some(sim.clone())).await?;
        let screen = Screen::new();
        screen.title(&gateway.login_link());
        let demo = Demo { events: gateway.mesh.events.subscribe(), screen, sim };
        let show = async {
            if typed { demo.conversation(&gateway).await } else { demo.script(&gateway).await }
        };
        // Whichever way it ends, the data folder goes: nothing is kept.
        let result = tokio::select! {
            result = show => result,
            _ = told.recv() => Ok(if typed { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        };
        gateway.stop().await;
        result
    });
    // Not dropped: that would wait for the thread that waits for the next line to be typed.
    runtime.shutdown_background();
    data.close()?;
    result
}

/// Gets a word when somebody interrupts or ends the program, or closes its terminal.
fn told_to_end() -> Result<mpsc::Receiver<()>> {
    // One is enough, so more are not kept.
    let (tell, told) = mpsc::channel(1);
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let (mut signals, tell) = (signal(kind)?, tell.clone());
        tokio::spawn(async move {
            if signals.recv().await.is_some() {
                let _ = tell.try_send(());
            }
        });
    }
    Ok(told)
}

/// The documented defaults, with one contact, on the simulated radio.
async fn configuration(
    args: &Args,
    data_dir: std::path::PathBuf,
    sim: &SimConfig,
) -> Result<Config> {
    let friend = sim
        .peers
        .iter()
        .find(|peer| peer.name == FRIEND)
        .context("the simulated mesh has no peer for the demo")?;
    let mut config = Config { data_dir, ..Config::default() };
    config.radio.port = PortSpec::Sim;
    config.http.listen = args.listen;
    config.mesh.allowed_contacts = vec![Contact {
        id: NodeNum(friend.num.0),
        key: friend.key,
        name: Some(FRIEND.to_owned()),
        grants: None,
    }];
    // Whatever Ollama has is good enough to show; without one, the offline leg answers.
    let models = crate::assistant::backends::ollama::models(&config.assistant.ollama.url).await;
    if let Ok(models) = models
        && let Some(first) = models.first()
        && !models.contains(&config.assistant.ollama.model)
    {
        config.assistant.ollama.model.clone_from(first);
    }
    Ok(config)
}

struct Demo {
    events: broadcast::Receiver<MeshEvent>,
    screen: Screen,
    sim: Sim,
}

impl Demo {
    /// The built-in script.
    async fn script(mut self, gateway: &Gateway) -> Result<ExitCode> {
        self.link_up().await?;
        let mut unanswered = Vec::new();
        for question in QUESTIONS {
            self.sim.say(FRIEND, SayTo::Direct, question);
            if let Err(why) = self.answered().await {
                unanswered.push(format!("{question}: {why:#}"));
            }
        }

        self.sim.say(STRANGER, SayTo::Direct, QUESTIONS[0]);
        self.ignored().await?;
        // An answer would have left by then: the gate lets a text go every 2.3 s.
        let quiet_until = tokio::time::Instant::now() + Duration::from_secs(5);
        while let Ok(event) = tokio::time::timeout_at(quiet_until, self.next()).await {
            event?;
        }
        if !self.sim.heard(STRANGER).is_empty() {
            unanswered.push(format!("{STRANGER} is a stranger and was answered"));
        }

        self.screen.summary(&gateway.mesh.airtime().await?);
        if unanswered.is_empty() {
            self.screen.line("Every question was answered, and the stranger heard nothing.");
            return Ok(ExitCode::SUCCESS);
        }
        for fault in &unanswered {
            self.screen.line(&format!("Not as it should be: {fault}"));
        }
        Ok(ExitCode::FAILURE)
    }

    /// A conversation at the terminal.
    async fn conversation(mut self, gateway: &Gateway) -> Result<ExitCode> {
        self.link_up().await?;
        self.screen.hint(FRIEND, STRANGER, QUESTIONS[0]);
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        loop {
            tokio::select! {
                line = lines.next_line() => match line? {
                    None => break,
                    Some(line) => match line.trim() {
                        "" => {}
                        "/quit" => break,
                        "/air" => self.screen.summary(&gateway.mesh.airtime().await?),
                        // A slip of the finger is not for the air.
                        line if line.starts_with('/') && !line.starts_with("/stranger ") => {
                            self.screen.hint(FRIEND, STRANGER, QUESTIONS[0]);
                        }
                        line => {
                            let stranger = line.strip_prefix("/stranger ");
                            let peer = if stranger.is_some() { STRANGER } else { FRIEND };
                            self.sim.say(peer, SayTo::Direct, stranger.unwrap_or(line));
                        }
                    },
                },
                event = self.next() => { event?; }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The next event, shown.
    async fn next(&mut self) -> Result<MeshEvent> {
        loop {
            match self.events.recv().await {
                Ok(event) => {
                    self.screen.event(&event);
                    return Ok(event);
                }
                Err(RecvError::Lagged(missed)) => {
                    self.screen.line(&format!("({missed} events not shown)"));
                }
                Err(RecvError::Closed) => bail!("the daemon ended by itself"),
            }
        }
    }

    async fn link_up(&mut self) -> Result<()> {
        self.until("the link to the simulated radio", |event| {
            matches!(event, MeshEvent::Link { up: true, .. })
        })
        .await
    }

    async fn ignored(&mut self) -> Result<()> {
        self.until("the stranger's question to be heard", |event| {
            matches!(event, MeshEvent::Heard { ignored: Some(_), .. })
        })
        .await
    }

    /// Waits until the last part of the next reply is acknowledged by its destination.
    async fn answered(&mut self) -> Result<()> {
        let mut failed = None;
        self.until("an answer", |event| match event {
            MeshEvent::PartState { part, of, delivery: Delivery::Delivered, .. } => part == of,
            MeshEvent::PartState { delivery: Delivery::Failed(why), .. } => {
                failed = Some(why.clone());
                true
            }
            MeshEvent::Heard { ignored: Some(why), .. } => {
                failed = Some(why.clone());
                true
            }
            _ => false,
        })
        .await?;
        match failed {
            Some(why) => bail!("{why}"),
            None => Ok(()),
        }
    }

    async fn until(&mut self, what: &str, mut is_it: impl FnMut(&MeshEvent) -> bool) -> Result<()> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let event = tokio::time::timeout_at(deadline, self.next())
                .await
                .with_context(|| format!("waited {} s for {what}", PATIENCE.as_secs()))??;
            if is_it(&event) {
                return Ok(());
            }
        }
    }
}
