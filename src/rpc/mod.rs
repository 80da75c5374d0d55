//! RPC: how the node page asks.
//!
//! Owns `POST /rpc` from its bytes to its answer: envelope, session, CSRF token, role, parameters. Each
//! handler asks the part that knows; none decides anything of its own. Knows no radio.
//!
//! In reading order: `methods` (what there is), `http` (from a request's headers to the dispatcher),
//! `dispatcher` (the order of the checks), then a file an area.

pub mod methods;
pub mod schema;

mod assistant_chat;
mod assistant_grants;
mod assistant_schema;
pub mod auth;
mod auth_methods;
mod contacts;
mod dispatcher;
mod distress;
pub mod error;
pub mod events;
pub mod fields;
pub mod figures;
mod history;
pub mod http;
mod legs;
pub mod markdown;
mod mesh;
mod message;
pub mod metrics;
mod storage;
mod system;
pub mod turns;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::http::HeaderMap;
use tokio_util::task::TaskTracker;

use crate::assistant::Assistant;
use crate::assistant::chat::LegsReport;
use crate::clock::{Clock, Now};
use crate::config::Config;
use crate::mesh::view::MeshHandle;
use crate::radio::system_clock::Watched;
use crate::secrets::Secrets;
use crate::telemetry::{self, Lines};
use crate::web::connection::Peer;
use crate::web::forwarded::Forwarded;
use crate::web::hosts::Hosts;
use crate::web::seats::Seats;
use auth::{Auth, AuthError, Client, Token};
use events::Bus;
use events::stream::Streams;
use figures::Figures;
use legs::LegsMemory;
use storage::StorageMemory;
use turns::Turns;

/// What the pages and RPC are served from.
pub struct Services {
    /// The one assistant.
    pub assistant: Arc<Assistant>,
    /// What is known of its legs.
    legs: LegsMemory,
    /// How much the data folder holds.
    storage: StorageMemory,
    /// Who sees to this machine's clock.
    machine_clock: Watched,
    /// The mesh side.
    pub mesh: MeshHandle,
    /// Logins.
    pub auth: Arc<Auth>,
    /// The operator's running turns.
    pub turns: Turns,
    /// What happens, for the pages.
    pub events: Bus,
    /// The open streams of it.
    pub streams: Streams,
    /// What is counted.
    pub figures: Figures,
    /// The last lines of the log.
    pub lines: Lines,
    /// Which `Host` values are ours.
    pub hosts: Hosts,
    /// What a reverse proxy is believed.
    pub forwarded: Forwarded,
    /// The connections.
    pub seats: Seats,
    /// Shown by `system.info`.
    pub data_dir: PathBuf,
    /// Named where something must be changed in it.
    pub config_file: Option<PathBuf>,
    /// The clock.
    pub clock: Clock,
    /// When this process began to serve.
    pub started: Now,
}

impl Services {
    /// The state of the assistant's legs, at most a few seconds old.
    pub async fn legs(&self) -> LegsReport {
        self.legs.of(&self.assistant).await
    }

    /// They were changed: what was known of them is not so any more.
    pub async fn forget_legs(&self) {
        self.legs.forget().await;
    }

    /// What a browser shows of itself.
    pub fn client(&self, headers: &HeaderMap, peer: Option<&Peer>) -> Client {
        http::client(headers, self.forwarded.address(headers, peer))
    }

    /// The same, that says who sees to this machine's clock.
    #[must_use]
    pub fn with_clock(mut self, watched: Watched) -> Services {
        self.machine_clock = watched;
        self
    }

    /// `listening` is the address that is really bound. Turns run on `tracker`.
    pub fn new(
        config: &Config,
        listening: SocketAddr,
        assistant: Arc<Assistant>,
        mesh: MeshHandle,
        secrets: Secrets,
        tracker: TaskTracker,
    ) -> Result<Services, AuthError> {
        let clock = Clock::start();
        Ok(Services {
            assistant,
            legs: LegsMemory::default(),
            storage: StorageMemory::default(),
            machine_clock: Watched::default(),
            mesh,
            auth: Arc::new(Auth::open(&config.data_dir, secrets, clock)?),
            turns: Turns::new(tracker),
            events: Bus::new(boot()?),
            streams: Streams::default(),
            figures: Figures::with(history::read(&config.data_dir)?),
            lines: telemetry::lines().clone(),
            hosts: Hosts::new(listening, &config.http.hosts),
            forwarded: Forwarded::new(config.http.forwarded),
            seats: Seats::default(),
            data_dir: config.data_dir.clone(),
            config_file: config.file.clone(),
            clock,
            started: clock.now(),
        })
    }
}

/// A random word that names this process.
fn boot() -> Result<String, AuthError> {
    let word = Token::random().map_err(AuthError::Random)?.hash();
    Ok(word.chars().take(8).collect())
}
