//! Tests of the outbox. Here: the bench that they share.

mod backlog;
mod delivery;
mod keeping;
mod pace;
mod recalling;
mod refusals;
mod simulated;
mod storm;
mod weather;

use std::sync::Arc;

use super::*;
use crate::mesh::airtime::law::Use;
use crate::radio::{LoraSettings, NodeInfo, QueueStatus, routing};

const OURS: NodeNum = NodeNum(0x70b0_1001);
const ANA: NodeNum = NodeNum(0xa1b2_c3d4);
const BEN: NodeNum = NodeNum(0xb0b0_b0b2);
/// Three parts in a direct message, four would be one too many.
const THREE: usize = 540;

/// EU_868, LONG_FAST, as a handshake tells it.
fn radio() -> RadioInfo {
    RadioInfo {
        session: 1,
        port: String::new(),
        my_node: OURS,
        public_key: None,
        owner: NodeInfo::default(),
        firmware: "2.7.26.54e0d8d".to_owned(),
        role: 0,
        announces_every_s: 0,
        lora: LoraSettings {
            region: 3,
            use_preset: true,
            hop_limit: 3,
            tx_enabled: true,
            ..LoraSettings::default()
        },
        channels: Vec::new(),
        nodes: Vec::new(),
    }
}

/// A packet that asks for parts.
fn packet() -> TurnId {
    TurnId("m-packet".to_owned())
}

/// An outbox on a folder of its own, and a clock that the test moves.
struct Bench {
    folder: tempfile::TempDir,
    outbox: Outbox,
    now: Now,
    events: Vec<MeshEvent>,
}

impl Bench {
    /// With the link up.
    fn new() -> Bench {
        let mut bench = Bench::down(1.0);
        bench.up();
        bench
    }

    fn down(share: f64) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let now = Now { mono_ms: 100_000, unix_ms: 1_700_000_000_000 };
        let outbox = Outbox::open(folder.path(), share, 3, now, "boot-a").unwrap();
        Bench { folder, outbox, now, events: Vec::new() }
    }

    fn up(&mut self) {
        self.outbox.link_up(Arc::new(radio()), self.now);
    }

    /// As after a kill at this instant.
    fn restart(&mut self) {
        self.outbox = Outbox::open(self.folder.path(), 1.0, 3, self.now, "boot-a").unwrap();
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now.plus(std::time::Duration::from_millis(ms));
    }

    fn reply(&self, id: &str, node: NodeNum, kind: ReplyKind, text: &str) -> NewReply {
        NewReply {
            id: TurnId(id.to_owned()),
            peer: PeerId(format!("key:{node}")),
            name: "Somebody".to_owned(),
            to: Destination::Direct { node, key: Some(PublicKey([7; 32])) },
            in_reply_to: Some(PacketId(77)),
            kind,
            hops: None,
            text: text.to_owned(),
            secret: None,
        }
    }

    fn submit(&mut self, id: &str, node: NodeNum, kind: ReplyKind, text: &str) -> usize {
        let reply = self.reply(id, node, kind, text);
        self.outbox.submit(reply, self.now).unwrap()
    }

    fn answer(&mut self, id: &str, node: NodeNum, text: &str) -> usize {
        self.submit(id, node, ReplyKind::Answer, text)
    }

    fn channel(&mut self, id: &str, text: &str) -> usize {
        let to = Destination::Channel { index: 2 };
        let reply = NewReply { to, ..self.reply(id, ANA, ReplyKind::Answer, text) };
        self.outbox.submit(reply, self.now).unwrap()
    }

    /// What leaves at this instant, if anything.
    fn poll(&mut self) -> Option<Outbound> {
        let step = self.outbox.poll(self.now);
        self.events.extend(self.outbox.take_events());
        match step {
            Step::Send(outbound) => Some(outbound),
            Step::Wait(_) => None,
        }
    }

    fn sent(&mut self) -> Outbound {
        self.poll().expect("something leaves")
    }

    /// What leaves next, and how long that takes, ms; following the outbox's own times.
    fn next(&mut self) -> Option<(u64, Outbound)> {
        let begin = self.now.mono_ms;
        for _ in 0..1000 {
            let step = self.outbox.poll(self.now);
            self.events.extend(self.outbox.take_events());
            match step {
                Step::Send(outbound) => return Some((self.now.mono_ms - begin, outbound)),
                Step::Wait(Some(at)) if at < begin + 7_200_000 => {
                    let ms = at.saturating_sub(self.now.mono_ms).max(1);
                    self.pass(ms);
                }
                Step::Wait(_) => return None,
            }
        }
        panic!("the outbox asks to be asked for ever");
    }

    fn status(&mut self, id: PacketId, res: i32) {
        self.outbox.queue_status(QueueStatus { res, free: 16, maxlen: 16, id }, self.now);
        self.events.extend(self.outbox.take_events());
    }

    fn routing(&mut self, from: NodeNum, id: PacketId, error: i32) -> bool {
        let ours = self.outbox.routing(from, id, error, self.now);
        self.events.extend(self.outbox.take_events());
        ours
    }

    fn ack(&mut self, outbound: &Outbound) {
        assert!(self.routing(outbound.to, outbound.id, routing::NONE));
    }

    /// What was last told of a part, counted from 1.
    fn state(&self, id: &str, part: usize) -> Option<crate::mesh::view::Delivery> {
        self.events.iter().rev().find_map(|event| match event {
            MeshEvent::PartState { reply, part: p, delivery, .. }
                if reply.0 == id && *p == part =>
            {
                Some(delivery.clone())
            }
            _ => None,
        })
    }

    fn paused(&self) -> Option<String> {
        self.outbox.airtime(self.now).paused
    }
}

fn text(outbound: &Outbound) -> String {
    String::from_utf8(outbound.bytes.clone()).unwrap()
}

/// A text of words, so many bytes long.
fn words(len: usize) -> String {
    "word ".repeat(len / 5)
}
