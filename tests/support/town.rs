//! A town of peers around a node, in virtual time: the simulated mesh, the link and the mesh side as the daemon
//! runs them, and a model made of a rule. Under Tokio's paused clock a day takes a moment.
//!
//! Owns starting, killing and watching them. Judges nothing. The bench `mesh` includes this file as it is.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tombolo::assistant::{CallerScope, ChatContext, ChatReply, ChatStatus, ModelPlace};
use tombolo::clock::Clock;
use tombolo::config::{AirtimeConfig, Contact, MeshConfig};
use tombolo::mesh::view::MeshEvent;
use tombolo::mesh::{self, Answer, Answerer, MeshHandle, MeshParts};
use tombolo::node::NodeNum;
use tombolo::radio::link;
use tombolo::radio::transport::Connector;
use tombolo::sim::{Sim, SimConfig, SimPeer, Transmission};
use tombolo::store::StoreError;

/// `PortNum` of a text.
pub const TEXT: i32 = 1;

/// What the model says to a question, and how long it thinks.
pub type Rule = dyn Fn(&str) -> (Duration, String) + Send + Sync;

struct Model {
    rule: Arc<Rule>,
    /// Everything that was ever asked, oldest first.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Answerer for Model {
    fn chat(&self, context: ChatContext, text: String) -> Answer<'_> {
        let (time, answer) = (self.rule)(&text);
        self.asked.lock().unwrap().push(text);
        Box::pin(async move {
            let status = tokio::select! {
                () = tokio::time::sleep(time) => ChatStatus::Answered,
                () = context.cancel.cancelled() => ChatStatus::Stopped,
            };
            let text = if status == ChatStatus::Answered { answer } else { String::new() };
            ChatReply {
                status,
                text,
                backend: "rule".to_owned(),
                tools: Vec::new(),
                reasons: Vec::new(),
            }
        })
    }

    fn new_conversation(&self, _caller: &CallerScope) -> Result<(), StoreError> {
        Ok(())
    }

    fn forget(&self, _caller: &CallerScope) -> Result<(), StoreError> {
        Ok(())
    }

    fn model_place<'a>(&'a self, _caller: &'a CallerScope) -> mesh::service::Place<'a> {
        Box::pin(std::future::ready(ModelPlace::Local))
    }
}

/// The node's processes, one after the other, and the mesh around them. Everything ends when it is dropped.
pub struct Town {
    /// The mesh, the radio included.
    pub sim: Sim,
    /// One for all processes, for the machine does not reboot.
    pub clock: Clock,
    config: MeshConfig,
    airtime: AirtimeConfig,
    rule: Arc<Rule>,
    asked: Arc<Mutex<Vec<String>>>,
    folder: TempDir,
    node: Option<Node>,
    /// What every process told, with the time of the simulation, ms.
    told: Arc<Mutex<Vec<(u64, MeshEvent)>>>,
}

struct Node {
    handle: MeshHandle,
    cancel: CancellationToken,
}

impl Drop for Town {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Town {
    /// Every peer with a key is a contact; the model answers by the rule. Ready when the link is up.
    pub async fn start(
        sim: SimConfig,
        airtime: AirtimeConfig,
        rule: impl Fn(&str) -> (Duration, String) + Send + Sync + 'static,
    ) -> Town {
        let contact = |peer: &SimPeer| Contact {
            id: peer.num,
            key: peer.key,
            name: Some(peer.name.clone()),
            grants: None,
        };
        let config = MeshConfig {
            allowed_contacts: sim.peers.iter().map(contact).collect(),
            ..MeshConfig::default()
        };
        let mut town = Town {
            sim: Sim::start(sim),
            clock: Clock::start(),
            config,
            airtime,
            rule: Arc::new(rule),
            asked: Arc::default(),
            folder: folder(),
            node: None,
            told: Arc::default(),
        };
        town.spawn();
        town.until_up().await;
        town
    }

    /// Starts the node's next process.
    pub fn spawn(&mut self) {
        assert!(self.node.is_none(), "it runs");
        let (cancel, tracker) = (CancellationToken::new(), TaskTracker::new());
        let radio = self.sim.clone();
        let connector = Connector::from_fn("sim", move || radio.connect());
        let link = link::spawn(connector, cancel.clone(), &tracker);
        let handle = mesh::spawn(MeshParts {
            mesh: self.config.clone(),
            airtime: self.airtime.clone(),
            data_dir: self.data_dir(),
            answerer: Arc::new(Model { rule: self.rule.clone(), asked: self.asked.clone() }),
            radio: Arc::new(link.handle),
            events: link.events,
            clock: self.clock,
            cancel: cancel.clone(),
            tracker,
        })
        .unwrap();
        let (mut events, told, sim) =
            (handle.events.subscribe(), self.told.clone(), self.sim.clone());
        tokio::spawn(async move {
            while let Ok(event) = events.recv().await {
                told.lock().unwrap().push((sim.now_ms(), event));
            }
        });
        self.node = Some(Node { handle, cancel });
    }

    /// Ends the process at this instant, as a kill would: what its data folder holds now is what the next one finds.
    pub fn kill(&mut self) {
        let copy = folder();
        copy_folder(self.folder.path(), copy.path());
        self.sim.drop_link(); // no farewell
        self.stop();
        self.folder = copy;
    }

    fn stop(&mut self) {
        if let Some(node) = self.node.take() {
            node.cancel.cancel();
        }
    }

    /// The service that runs.
    pub fn handle(&self) -> &MeshHandle {
        &self.node.as_ref().expect("the node runs").handle
    }

    /// Where it keeps its files.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Lets so much time pass.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Until the link is up; ten minutes at most.
    pub async fn until_up(&self) {
        for _ in 0..6_000 {
            if self.handle().status().await.unwrap().connected {
                return;
            }
            self.pass(Duration::from_millis(100)).await;
        }
        panic!("the link does not come up");
    }

    /// What was told, with the time of the simulation, ms.
    pub fn told(&self) -> Vec<(u64, MeshEvent)> {
        self.told.lock().unwrap().clone()
    }

    /// The questions that a model was asked, each once.
    pub fn asked(&self) -> Vec<String> {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.sort();
        asked.dedup();
        asked
    }

    /// How accepted packets ended, as `seen.log` says: `answered`, `command`, `refused:busy`…
    pub fn ends(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.folder.path().join("seen.log")).unwrap_or_default();
        log.lines().filter_map(|line| line.split(' ').next_back().map(str::to_owned)).collect()
    }

    /// How many files there are in the data folder, and their bytes.
    pub fn files(&self) -> (usize, u64) {
        let (mut folders, mut count, mut bytes) = (vec![self.data_dir()], 0, 0);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let file = entry.metadata().unwrap();
                if file.is_dir() {
                    folders.push(entry.path());
                } else {
                    count += 1;
                    bytes += file.len();
                }
            }
        }
        (count, bytes)
    }

    /// The texts that our radio transmitted, each try.
    pub fn texts(&self) -> Vec<Transmission> {
        let ours = SimConfig::default().num;
        let sent = self.sim.transmissions().into_iter();
        sent.filter(|sent| sent.port == TEXT && sent.from == ours).collect()
    }
}

/// So many known peers, so many relays away, named P0, P1…
pub fn peers(count: u32, hops: impl Fn(u32) -> u32) -> Vec<SimPeer> {
    let peer = |n| SimPeer {
        hops: hops(n),
        ..SimPeer::new(&format!("P{n}"), NodeNum(0x1000_0000 + n * 0x101))
    };
    (0..count).map(peer).collect()
}

/// In memory where the system has that: the disk is not what is measured.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}
