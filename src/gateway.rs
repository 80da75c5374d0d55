//! Builds the parts, joins them by bounded channels, supervises and shuts down.
//!
//! The only file that knows all parts. Decides nothing that a part could decide.

mod sources;

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, info, warn};

use crate::assistant::confirm::{Prompt, Taken, Told};
use crate::assistant::grants::Standing;
use crate::assistant::{Assistant, CallerScope, ChatContext, PeerId, TurnId};
use crate::clock::Clock;
use crate::config::{self, Config, PortSpec};
use crate::mesh::service::{Answer, Answerer, Place, Settling};
use crate::mesh::{self, MeshHandle, MeshParts};
use crate::radio::known::KnownRadio;
use crate::radio::link::{self, LinkParts};
use crate::radio::system_clock;
use crate::radio::transport::Connector;
use crate::rpc::Services;
use crate::rpc::events::{Changed, Event};
use crate::secrets::{Secret, Secrets};
use crate::sim::{Sim, SimConfig};
use crate::tools::{self, ToolSet};
use crate::{store, web};

/// How long parts may take to finish what they began, once told to stop.
const DRAIN: Duration = Duration::from_secs(5);

/// A running daemon.
pub struct Gateway {
    /// Where the node page is.
    pub address: SocketAddr,
    /// The mesh side.
    pub mesh: MeshHandle,
    /// The one-time token for `auth.setup`, while no password is set.
    pub setup_token: Option<Secret>,
    /// The simulated mesh, where the port is `sim`.
    pub sim: Option<Sim>,
    services: Arc<Services>,
    assistant: Arc<Assistant>,
    tools: Arc<ToolSet>,
    config: Config,
    cancel: CancellationToken,
    tracker: TaskTracker,
    web: JoinHandle<()>,
    // Held for the life of the process: two daemons on one data folder would send everything twice.
    _lock: File,
}

impl Gateway {
    /// Checks everything that can be checked, then opens: secrets, the data folder, the port of the
    /// pages, at last the radio.
    pub async fn start(config: Config) -> Result<Gateway> {
        let sim = (config.radio.port == PortSpec::Sim).then(|| Sim::start(SimConfig::default()));
        Gateway::start_with(config, sim).await
    }

    /// The same with a simulated mesh of the caller's own.
    pub async fn start_with(config: Config, sim: Option<Sim>) -> Result<Gateway> {
        store::private_dir(&config.data_dir)?;
        if store::close_dir(&config.data_dir, &["lock", "secrets"])? {
            let path = config.data_dir.display();
            warn!(%path, "others could read the data folder: it has the mode 700 now");
        }
        let lock = lock(&config.data_dir)?;
        let secrets = Secrets::open(&config.data_dir)?;

        let clock = Clock::start();
        let cancel = CancellationToken::new();
        let tracker = TaskTracker::new();

        let assistant = Assistant::new(&config.assistant, secrets.clone(), &config.data_dir)?;
        // Before those of other programs: of two with one name the first stays.
        let tools = Arc::new(ToolSet::default());
        let assistant = assistant.with_source(tools.clone());
        #[cfg(feature = "mcp")]
        let assistant = assistant.with_source(crate::tools::mcp::Hub::start(
            &config.mcp,
            &config.data_dir,
            &cancel,
            &tracker,
        )?);
        #[cfg(not(feature = "mcp"))]
        if !config.mcp.is_empty() {
            bail!(
                "this program was built without the feature mcp: take [[mcp]] out of the configuration"
            );
        }
        let assistant = Arc::new(assistant);

        let listener = TcpListener::bind(config.http.listen)
            .await
            .with_context(|| format!("listening on {} (key http.listen)", config.http.listen))?;
        let address = listener.local_addr()?;

        let connector = match (&config.radio.port, &sim) {
            (_, Some(sim)) => {
                let sim = sim.clone();
                Connector::from_fn("the simulated radio", move || sim.connect())
            }
            (port, None) => Connector::to(port).context("the simulated radio was not started")?,
        };
        // The simulated radio is nobody's: it is neither remembered nor refused.
        let known = match &sim {
            Some(_) => KnownRadio::any(),
            None => KnownRadio::open(&config.data_dir)?,
        };
        let machine_clock = system_clock::watched(cancel.clone(), &tracker);
        let link = link::start(LinkParts {
            connector,
            settings: config.radio.settings.clone(),
            known: Arc::new(known),
            right_time: machine_clock.right_time(),
            cancel: cancel.clone(),
            tracker: tracker.clone(),
        });

        let mesh = mesh::spawn(MeshParts {
            mesh: config.mesh.clone(),
            airtime: config.airtime.clone(),
            data_dir: config.data_dir.clone(),
            answerer: assistant.clone(),
            radio: Arc::new(link.handle),
            events: link.events,
            clock,
            cancel: cancel.clone(),
            tracker: tracker.clone(),
        })?;

        let sources = tools::Sources {
            data_dir: config.data_dir.clone(),
            secrets: secrets.clone(),
            ollama_url: config.assistant.ollama.url.clone(),
            mesh: Arc::new(sources::MeshSide(mesh.clone())),
            tracker: tracker.clone(),
            cancel: cancel.clone(),
        };
        tools.start(sources, &config.tools)?;

        let services = Services::new(
            &config,
            address,
            assistant.clone(),
            mesh.clone(),
            secrets,
            tracker.clone(),
        )?;
        let services = Arc::new(services.with_clock(machine_clock));
        let setup_token = services.auth.setup_token();
        let web = tracker.spawn(web::serve(listener, services.clone(), cancel.clone()));

        Ok(Gateway {
            address,
            mesh,
            setup_token,
            sim,
            services,
            assistant,
            tools,
            config,
            cancel,
            tracker,
            web,
            _lock: lock,
        })
    }

    /// A path with a token that logs a browser in once, for whoever can read this terminal.
    pub fn login_link(&self) -> String {
        let token = self.services.auth.one_time_link_token();
        format!("http://{}/?login={}", self.page_address(), token.expose())
    }

    /// The link for setting the first password, while there is none. The token stands behind a `#`, which
    /// no browser sends to anybody.
    pub fn setup_link(&self) -> Option<String> {
        let token = self.setup_token.as_ref()?;
        Some(format!("http://{}/#setup={}", self.page_address(), token.expose()))
    }

    /// Where a browser on this machine finds the pages: nobody is at home at the wildcard address.
    fn page_address(&self) -> SocketAddr {
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        address
    }

    /// The daemon is going down.
    pub fn cancelled(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Takes what may change while running from a configuration that was read again. What needs a
    /// restart is said and left as it is.
    pub async fn reconfigure(&mut self, new: Config) {
        for (key, same) in [
            ("data_dir", new.data_dir == self.config.data_dir),
            ("radio", new.radio == self.config.radio),
            ("http", new.http == self.config.http),
            ("mcp", new.mcp == self.config.mcp),
        ] {
            if !same {
                warn!(key, "a change of this key takes effect at the next start");
            }
        }
        if self.mesh.reconfigure(new.mesh.clone(), new.airtime.clone()).await.is_err() {
            return;
        }
        self.assistant.reconfigure(&new.assistant);
        let model_server = &new.assistant.ollama.url;
        if new.tools != self.config.tools || *model_server != self.config.assistant.ollama.url {
            if let Err(error) = self.tools.reconfigure(&new.tools, model_server) {
                error!("the old tools stay: {error:#}");
            } else {
                self.config.tools = new.tools;
            }
        }
        self.config.mesh = new.mesh;
        self.config.airtime = new.airtime;
        self.config.assistant = new.assistant;
        self.services.events.publish(Event::Changed(Changed::Settings));
        info!("the configuration was read again");
    }

    /// Runs until a signal, re-reading the configuration at SIGHUP. An error is the end of a part that
    /// should not have ended.
    pub async fn run_until_signal(mut self, path: Option<PathBuf>) -> Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        let mut watchdog = tokio::time::interval(Duration::from_secs(10));
        let queries = self.mesh.queries.clone();
        let outcome = loop {
            tokio::select! {
                _ = terminate.recv() => break Ok(()),
                _ = interrupt.recv() => break Ok(()),
                // A part that ends alone leaves a daemon that looks alive: the supervisor starts a whole one.
                () = queries.closed() => break Err(anyhow::anyhow!("the mesh side ended by itself")),
                _ = &mut self.web => break Err(anyhow::anyhow!("the pages' server ended by itself")),
                _ = watchdog.tick() => {
                    // Only a daemon whose mesh side still answers is alive.
                    if self.mesh.status().await.is_ok() {
                        let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
                    }
                }
                _ = hangup.recv() => match path.as_deref().map(config::load) {
                    Some(Ok(new)) => self.reconfigure(new).await,
                    Some(Err(fault)) => error!("the old settings stay: {fault}"),
                    None => {}
                },
            }
        };
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        self.stop().await;
        outcome
    }

    /// Stops every part and waits, within five seconds, until each has finished what it began.
    pub async fn stop(self) {
        self.cancel.cancel();
        self.tracker.close();
        if tokio::time::timeout(DRAIN, self.tracker.wait()).await.is_err() {
            warn!(parts = self.tracker.len(), "some parts did not stop in time");
        }
    }
}

impl Answerer for Assistant {
    fn chat(&self, context: ChatContext, text: String) -> Answer<'_> {
        Box::pin(async move { Assistant::chat(self, context, &text).await })
    }

    fn new_conversation(&self, caller: &CallerScope) -> Result<(), store::StoreError> {
        Assistant::new_conversation(self, caller)
    }

    fn forget(&self, caller: &CallerScope) -> Result<(), store::StoreError> {
        self.clear_history(caller)
    }

    fn model_place<'a>(&'a self, caller: &'a CallerScope) -> Place<'a> {
        Box::pin(Assistant::model_place(self, caller))
    }

    fn contacts(&self, contacts: Vec<Standing>) {
        self.grants().set_contacts(contacts);
    }

    fn current(&self, caller: CallerScope) -> CallerScope {
        self.grants().current(caller)
    }

    fn grants_source(&self, caller: &PeerId) -> &'static str {
        self.grants().source(&caller.0)
    }

    fn prompt(&self, turn: &TurnId) -> Option<Prompt> {
        self.prompt_of(turn)
    }

    fn told(&self, turn: &TurnId) -> Option<Told> {
        self.told_of(turn)
    }

    fn waits_for_code(&self, caller: &CallerScope) -> bool {
        Assistant::waits_for_code(self, caller)
    }

    fn take(&self, caller: &CallerScope, code: &str) -> Option<Taken> {
        self.take_by_code(caller, code)
    }

    fn settle(&self, taken: Taken, approve: bool) -> Settling<'_> {
        Box::pin(async move {
            Assistant::settle(self, taken, approve, false).await;
        })
    }

    fn drop_pending(&self, peer: &PeerId) {
        Assistant::drop_pending(self, &peer.0);
    }
}

/// Does a daemon hold that data folder? A folder that can't be looked at counts as free.
pub fn is_running(data_dir: &Path) -> bool {
    let Ok(file) = File::open(data_dir.join("lock")) else { return false };
    matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock))
}

fn lock(data_dir: &Path) -> Result<File> {
    let path = data_dir.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| {
            format!("this user can't write to the data folder: opening {}", path.display())
        })?;
    store::give_to_owner(&file, data_dir);
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => bail!(
            "another tombolo is running on {}: stop it, or give this one a data_dir of its own",
            data_dir.display()
        ),
        Err(std::fs::TryLockError::Error(e)) => {
            Err(e).with_context(|| format!("locking {}", path.display()))
        }
    }
}
