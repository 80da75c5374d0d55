//! A simulated radio with a mesh around it: firmware 2.7.26 towards a client, as it was measured.
//!
//! Owns the handle by which tests, the demo and `tombolo sim` drive it. It is the other side of the
//! wire, so it must share no code with the client's side: only the protobuf types and `node`'s names.
//!
//! All time is Tokio's: with a paused clock and in-process clients an hour takes a moment. The
//! airtime of each packet is spent as on the real air; [`SimConfig::speed`] shortens that.

mod acts;
mod admin;
mod air;
mod client;
mod config;
mod device;
mod distance;
mod engine;
mod ether;
mod newer;
mod peers;
mod phone;
mod pty;
mod receive;
mod router;
mod scenario;
mod settings;
mod stats;
mod stream;
mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use meshtastic::protobufs::{MeshPacket, NodeInfo};
use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::node::{NodeNum, PacketId, PublicKey};
pub use acts::Act;
pub use air::Transmission;
pub use client::AtDoor;
pub use config::{SimChannel, SimConfig, SimPeer, key_for};
use engine::Shared;
pub use ether::Relayed;
pub use peers::Heard;
pub use scenario::{Scenario, ScenarioError};
use world::{Event, World};

/// Bytes between an in-process client and the radio.
const DUPLEX_BYTES: usize = 64 * 1024;

/// Whom a peer speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SayTo {
    /// Our radio, sealed to its key.
    Direct,
    /// Everybody, on the channel with this index in our radio.
    Channel(u32),
}

/// A text that a peer sends, with everything that can be wrong or special about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Saying {
    /// To whom.
    pub to: SayTo,
    /// The payload; need not be UTF-8.
    pub text: Vec<u8>,
    /// The number that it claims to be sent by; `None` for its own.
    pub claims: Option<NodeNum>,
    /// The packet's id; `None` for a new one. An old one makes it a replay.
    pub id: Option<PacketId>,
    /// The text that it answers; on a reaction the one that it is about.
    pub reply_id: Option<PacketId>,
    /// It is a reaction.
    pub emoji: bool,
    /// It came over the internet at some hop.
    pub via_mqtt: bool,
    /// Its radio wants an ack. On a channel it never does.
    pub want_ack: bool,
    /// Firmware 2.8 has signed it, and our radio has checked that: on a channel only.
    pub signed: bool,
    /// A direct message with the channel key only, as old firmware sends it.
    pub in_the_open: bool,
}

impl Saying {
    /// A plain text.
    pub fn new(to: SayTo, text: impl Into<Vec<u8>>) -> Saying {
        Saying {
            to,
            text: text.into(),
            claims: None,
            id: None,
            reply_id: None,
            emoji: false,
            via_mqtt: false,
            want_ack: to == SayTo::Direct,
            signed: false,
            in_the_open: false,
        }
    }
}

/// The simulated radio and its mesh. Clones drive the same one; it ends with the last of them and
/// the last connection.
#[derive(Clone)]
pub struct Sim {
    shared: Arc<Shared>,
}

impl Sim {
    /// Starts it on the current Tokio runtime.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn start(config: SimConfig) -> Sim {
        Sim { shared: Shared::start(config) }
    }

    /// An in-process client. It evicts the one before, which gets an end of file; while the radio
    /// is down, it gets one itself.
    pub fn connect(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(DUPLEX_BYTES);
        self.shared.spawn(stream::attend(self.shared.clone(), ours, stream::Line::Network));
        theirs
    }

    /// Serves TCP clients, one at a time: a new one evicts the one before.
    pub async fn serve_tcp(self, listener: TcpListener, cancel: CancellationToken) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = cancel.cancelled() => break,
            };
            // A failed accept concerns that client only.
            if let Ok((socket, _)) = accepted {
                let task = stream::attend(self.shared.clone(), socket, stream::Line::Network);
                self.shared.spawn(task);
            }
        }
        self.drop_link();
    }

    /// Serves a pseudo-terminal; the path is a stable link to it, like a udev name.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn serve_pty(&self, cancel: CancellationToken) -> std::io::Result<PathBuf> {
        pty::serve(&self.shared, cancel)
    }

    /// Breaks the connection to the client. The radio itself goes on.
    pub fn drop_link(&self) {
        self.shared.with(World::drop_link);
    }

    /// The radio goes down at once and comes back after that time.
    pub fn reboot(&self, downtime: Duration) {
        self.shared.with(|world| world.go_down(downtime));
    }

    /// A peer says something; the id of its packet. Its radio repeats a direct message until it is
    /// acked.
    ///
    /// # Panics
    /// When there is no such peer.
    pub fn say(&self, peer: &str, to: SayTo, text: &str) -> PacketId {
        self.say_with(peer, Saying::new(to, text))
    }

    /// A peer says something under another's number, with its own key. Our radio opens a direct
    /// message only if the key that it holds for the claimed number is the peer's: see [`Sim::learn_key`].
    ///
    /// # Panics
    /// When there is no such peer.
    pub fn say_as(&self, peer: &str, claims: NodeNum, to: SayTo, text: &str) -> PacketId {
        self.say_with(peer, Saying { claims: Some(claims), ..Saying::new(to, text) })
    }

    /// A peer says something, as described. A text too long for the air is not sent (id 0).
    ///
    /// # Panics
    /// When there is no such peer.
    pub fn say_with(&self, peer: &str, saying: Saying) -> PacketId {
        self.shared.with(|world| {
            let index = index_of(world, peer);
            PacketId(world.peer_says(index, &saying))
        })
    }

    /// Gives the client a packet as if the radio had received it. Nothing about it is checked.
    pub fn inject(&self, packet: MeshPacket) {
        self.shared.with(|world| world.show_client(packet, false));
    }

    /// Puts bytes between the frames to the client: log text, broken frames.
    pub fn inject_raw(&self, bytes: Vec<u8>) {
        self.shared.with(|world| world.raw_to_client(&bytes));
    }

    /// The texts of our radio that a peer has received, each once, oldest first.
    ///
    /// # Panics
    /// When there is no such peer.
    pub fn heard(&self, peer: &str) -> Vec<Heard> {
        self.shared.with(|world| {
            let index = index_of(world, peer);
            world.peers[index].heard.iter().cloned().collect()
        })
    }

    /// Waits until a peer has heard so many texts.
    ///
    /// # Errors
    /// After `timeout` by Tokio's clock: what the mesh looked like then.
    ///
    /// # Panics
    /// When there is no such peer.
    pub async fn wait_heard(
        &self,
        peer: &str,
        count: usize,
        timeout: Duration,
    ) -> Result<Vec<Heard>, String> {
        let mut changes = self.shared.changes.subscribe();
        let deadline = Instant::now() + timeout;
        loop {
            changes.mark_unchanged();
            let heard = {
                let world = self.shared.look();
                let index = index_of(&world, peer);
                world.peers[index].heard.iter().cloned().collect::<Vec<_>>()
            };
            if heard.len() >= count {
                return Ok(heard);
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(deadline) => {
                    return Err(format!(
                        "after {timeout:?} {peer} had heard {} of {count} texts: {:?}; our radio's \
                         last transmissions: {:?}",
                        heard.len(),
                        heard.iter().map(|h| &h.text).collect::<Vec<_>>(),
                        self.transmissions().iter().rev().take(8).collect::<Vec<_>>(),
                    ));
                }
            }
        }
    }

    /// Calls back for each text that a peer hears from now on. Never ends by itself.
    pub async fn follow(&self, mut each: impl FnMut(&str, &Heard)) {
        let mut changes = self.shared.changes.subscribe();
        let mut told: Vec<u64> = Vec::new();
        loop {
            changes.mark_unchanged();
            let mut news = Vec::new();
            {
                let world = self.shared.look();
                told.resize(world.peers.len(), 0);
                for (peer, told) in world.peers.iter().zip(&mut told) {
                    let new = usize::try_from(peer.heard_total - *told).unwrap_or(usize::MAX);
                    let skip = peer.heard.len().saturating_sub(new);
                    let name = &peer.spec.name;
                    news.extend(peer.heard.iter().skip(skip).map(|h| (name.clone(), h.clone())));
                    *told = peer.heard_total;
                }
            }
            for (peer, heard) in &news {
                each(peer, heard);
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Everything that our radio put on the air, acks of its own included, oldest first.
    pub fn transmissions(&self) -> Vec<Transmission> {
        self.shared.with(|world| world.log.iter().cloned().collect())
    }

    /// The texts that clients gave to our radio, oldest first. Repetitions of a known id are not among them.
    pub fn door(&self) -> Vec<AtDoor> {
        self.shared.with(|world| world.door.iter().copied().collect())
    }

    /// What the relays have put on the air so far.
    pub fn relayed(&self) -> Relayed {
        self.shared.with(|world| world.relayed)
    }

    /// Changes a peer while the mesh runs.
    ///
    /// # Panics
    /// When there is no such peer.
    pub fn set_peer(&self, peer: &str, change: impl FnOnce(&mut SimPeer)) {
        self.shared.with(|world| {
            let index = index_of(world, peer);
            change(&mut world.peers[index].spec);
        });
    }

    /// One more peer. Our radio does not know it before it is heard.
    pub fn add_peer(&self, peer: SimPeer) {
        self.shared.with(|world| world.add_peer(peer));
    }

    /// Is there a peer of that name?
    pub fn has_peer(&self, peer: &str) -> bool {
        self.shared.with(|world| world.peer_index(peer).is_some())
    }

    /// Makes our radio hold this key for a node, as if its NodeInfo had come first; `None` makes it
    /// know the node without a key.
    pub fn learn_key(&self, num: NodeNum, key: Option<PublicKey>) {
        self.shared.with(|world| {
            let before = world.device.node(num.0).map(|n| n.info.clone());
            let mut info = before.unwrap_or_else(|| NodeInfo {
                num: num.0,
                user: Some(device::user(num.0, &num.to_string(), "", None)),
                ..NodeInfo::default()
            });
            if let Some(user) = &mut info.user {
                user.public_key = key.map_or_else(Vec::new, |k| k.0.to_vec());
            }
            world.device.remember(info);
        });
    }

    /// The key that our radio holds for a node.
    pub fn known_key(&self, num: NodeNum) -> Option<PublicKey> {
        self.shared.with(|world| world.device.key_of(num.0))
    }

    /// The radio claims this channel utilization in its telemetry, whatever it has heard.
    pub fn set_channel_utilization(&self, percent: f32) {
        self.shared.with(|world| world.meter.claimed_channel = Some(percent));
    }

    /// The radio claims this airtime of the last hour, and refuses by it.
    pub fn set_air_util(&self, percent: f32) {
        self.shared.with(|world| world.meter.claimed_tx = Some(percent));
    }

    /// Milliseconds since the start of the simulation.
    pub fn now_ms(&self) -> u64 {
        self.shared.now_us() / 1000
    }

    /// Is a client attached?
    pub fn is_attached(&self) -> bool {
        self.shared.with(|world| world.phone.conn.is_some())
    }

    /// Waits until a client is attached, or none is.
    ///
    /// # Errors
    /// After `timeout` by Tokio's clock.
    pub async fn wait_attached(&self, attached: bool, timeout: Duration) -> Result<(), String> {
        let mut changes = self.shared.changes.subscribe();
        let deadline = Instant::now() + timeout;
        loop {
            changes.mark_unchanged();
            if self.shared.look().phone.conn.is_some() == attached {
                return Ok(());
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(deadline) => {
                    let state = if attached { "no client" } else { "still a client" };
                    return Err(format!("{state} after {timeout:?}"));
                }
            }
        }
    }

    /// The radio sends its own telemetry to the client now, not only at the next minute.
    pub fn send_telemetry(&self) {
        self.shared.with(|world| {
            let boot = world.boot;
            world.after(0, Event::Telemetry { boot });
        });
    }
}

fn index_of(world: &World, peer: &str) -> usize {
    match world.peer_index(peer) {
        Some(index) => index,
        None => panic!("the simulated mesh has no peer `{peer}`"),
    }
}

#[cfg(test)]
mod tests;
