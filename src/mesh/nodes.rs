//! The nodes that were heard or told of.
//!
//! Owns a bounded table of them, for showing, and the keys that the radio holds. Everything in it is a claim of
//! somebody: names are cleaned, and nothing here gives authority.

use std::collections::HashMap;

use super::identity::Contacts;
use super::inbox::{self, Signal};
use super::names::Likeness;
use super::view::NodeView;
use crate::clock::Now;
use crate::config::{Asker, MeshConfig};
use crate::node::{NodeNum, PublicKey};
use crate::radio::{Inbound, NodeInfo, Payload};

/// Nodes that are remembered; the one that was not heard for longest makes room.
pub const MAX_NODES: usize = 500;
/// Longest shown name, in characters. On the air a long name has 39 bytes.
const MAX_NAME: usize = 40;

/// The table.
#[derive(Debug, Default)]
pub struct Nodes {
    table: HashMap<NodeNum, Node>,
}

#[derive(Debug, Default)]
struct Node {
    long_name: String,
    short_name: String,
    key: Option<PublicKey>,
    last_heard: u64,
    snr: Option<f32>,
    rssi: Option<i32>,
    hops: Option<u32>,
    battery: Option<u32>,
}

impl Nodes {
    /// How many are known.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// The radio's own table, after a handshake: its keys and names replace what was known.
    pub fn replace(&mut self, nodes: &[NodeInfo], own: NodeNum) {
        for node in self.table.values_mut() {
            node.key = None;
        }
        for node in nodes {
            self.learn(node, own);
        }
    }

    /// The radio learnt something of a node.
    pub fn learn(&mut self, info: &NodeInfo, own: NodeNum) {
        let number = NodeNum(info.num);
        let Some(node) = self.entry(number, own) else { return };
        node.long_name = inbox::clean_name(&info.long_name, MAX_NAME);
        node.short_name = inbox::clean_name(&info.short_name, MAX_NAME);
        // An announcement has none, and says nothing of the one that the radio holds.
        node.key = info.public_key.or(node.key);
        node.last_heard = node.last_heard.max(u64::from(info.last_heard));
        if info.last_heard != 0 && node.snr.is_none() {
            node.snr = Some(info.snr);
        }
        node.hops = info.hops_away.or(node.hops);
        node.battery = info.telemetry.and_then(|t| t.battery_level).or(node.battery);
    }

    /// A packet claims to come from a node.
    pub fn heard(&mut self, packet: &Inbound, own: NodeNum, now: Now) {
        let Some(node) = self.entry(packet.from, own) else { return };
        let signal = Signal::of(packet);
        node.last_heard = now.unix_ms / 1000;
        node.snr = Some(signal.snr);
        node.rssi = signal.rssi;
        node.hops = signal.hops.or(node.hops);
        if let Payload::Data(data) = &packet.payload {
            node.battery = data.telemetry.and_then(|t| t.battery_level).or(node.battery);
        }
    }

    /// The radio turned out not to hold the key that it had for a number.
    pub fn forget_key(&mut self, number: NodeNum) {
        if let Some(node) = self.table.get_mut(&number) {
            node.key = None;
        }
    }

    /// The key that the radio holds for a number.
    pub fn key_of(&self, number: NodeNum) -> Option<PublicKey> {
        self.table.get(&number)?.key
    }

    /// Nodes that call themselves something that looks like that name, but for the node `own`: their numbers and names.
    pub fn that_look_like(&self, name: &str, own: NodeNum) -> Vec<(NodeNum, String)> {
        let likeness = Likeness::of(name);
        let mut found: Vec<(NodeNum, String)> = self
            .table
            .iter()
            .filter(|(number, _)| **number != own)
            .filter_map(|(number, node)| {
                let names = [&node.long_name, &node.short_name];
                let like = names.into_iter().find(|name| Likeness::of(name).is_like(&likeness))?;
                Some((*number, like.clone()))
            })
            .collect();
        found.sort();
        found
    }

    /// Was something heard of that node, or does the radio know it?
    pub fn knows(&self, number: NodeNum) -> Option<&str> {
        self.table.get(&number).map(|node| node.long_name.as_str())
    }

    /// As `mesh.nodes` shows them, the one heard last first.
    pub fn view(&self, contacts: &Contacts, config: &MeshConfig) -> Vec<NodeView> {
        let mut view: Vec<NodeView> = self
            .table
            .iter()
            .map(|(number, node)| NodeView {
                node: *number,
                long_name: node.long_name.clone(),
                short_name: node.short_name.clone(),
                fingerprint: node.key.map(|key| key.fingerprint()),
                contact: contacts.of_number(*number).map(|contact| contact.name.clone()),
                standing: standing(*number, node.key, contacts, config),
                last_heard: node.last_heard,
                snr: node.snr.filter(|snr| snr.is_finite()),
                rssi: node.rssi,
                hops: node.hops,
                battery: node.battery,
            })
            .collect();
        view.sort_by(|a, b| (b.last_heard, a.node).cmp(&(a.last_heard, b.node)));
        view
    }

    fn entry(&mut self, number: NodeNum, own: NodeNum) -> Option<&mut Node> {
        if !number.is_peer() || number == own {
            return None;
        }
        if !self.table.contains_key(&number) && self.table.len() >= MAX_NODES {
            let oldest = self.table.iter().min_by_key(|(number, n)| (n.last_heard, **number));
            let oldest = oldest.map(|(number, _)| *number)?;
            self.table.remove(&oldest);
        }
        Some(self.table.entry(number).or_default())
    }
}

fn standing(
    number: NodeNum,
    key: Option<PublicKey>,
    contacts: &Contacts,
    config: &MeshConfig,
) -> &'static str {
    let denied = config.denied_askers.iter().any(|asker| match asker {
        Asker::Node(denied) => *denied == number,
        Asker::Key(denied) => Some(*denied) == key,
    });
    let Some(contact) = contacts.of_number(number) else {
        return if denied { "denied" } else { "stranger" };
    };
    let pinned = contact.pin.key();
    match pinned {
        _ if denied => "denied",
        _ if contact.suspended => "suspended",
        Some(pinned) if key.is_some_and(|key| key != pinned) => "foreign_key",
        _ if contact.foreign.is_some() => "foreign_key",
        Some(_) if contact.pin.is_confirmed() => "pinned",
        _ => "unconfirmed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Contact;
    use crate::mesh::packets::{KEY_A, KEY_B, text_packet};

    const ME: NodeNum = NodeNum(0x70b0_1001);

    fn info(num: u32, name: &str, key: Option<PublicKey>, last_heard: u32) -> NodeInfo {
        let long_name = name.to_owned();
        NodeInfo { num, long_name, public_key: key, last_heard, ..NodeInfo::default() }
    }

    fn view(nodes: &Nodes, config: &MeshConfig) -> Vec<NodeView> {
        let folder = tempfile::tempdir().unwrap();
        nodes.view(&Contacts::open(folder.path(), &config.allowed_contacts).unwrap(), config)
    }

    #[test]
    fn the_table_is_bounded_and_keeps_who_was_heard() {
        let mut nodes = Nodes::default();
        for i in 0..600 {
            nodes.learn(&info(1000 + i, "x", None, i), ME);
        }
        let view = view(&nodes, &MeshConfig::default());
        assert_eq!(view.len(), MAX_NODES);
        assert_eq!((view[0].node, view[MAX_NODES - 1].node), (NodeNum(1599), NodeNum(1100)));
    }

    #[test]
    fn neither_we_nor_reserved_numbers_are_nodes_and_names_are_cleaned() {
        let mut nodes = Nodes::default();
        for num in [ME.0, 0, 3, u32::MAX] {
            nodes.learn(&info(num, "x", None, 1), ME);
        }
        nodes.learn(&info(7, &format!("A\u{202e}\n{}", "x".repeat(80)), None, 1), ME);
        let view = view(&nodes, &MeshConfig::default());
        assert_eq!(view.len(), 1);
        assert_eq!(view[0].long_name, format!("A {}", "x".repeat(38)));
    }

    #[test]
    fn a_handshake_replaces_the_keys_and_keeps_what_was_heard() {
        let mut nodes = Nodes::default();
        nodes.learn(&info(7, "a", Some(KEY_A), 1), ME);
        nodes.learn(&info(8, "b", Some(KEY_B), 1), ME);
        let now = Now { mono_ms: 0, unix_ms: 90_000 };
        nodes.heard(&text_packet(NodeNum(7), ME, "x"), ME, now);
        nodes.replace(&[info(8, "b", Some(KEY_A), 1)], ME);
        assert_eq!((nodes.key_of(NodeNum(7)), nodes.key_of(NodeNum(8))), (None, Some(KEY_A)));
        let view = view(&nodes, &MeshConfig::default());
        assert_eq!((view[0].node, view[0].last_heard, view[0].snr), (NodeNum(7), 90, Some(6.25)));
        assert_eq!(view[0].rssi, Some(-45));
        let silent = Inbound { rx_rssi: 0, ..text_packet(NodeNum(7), ME, "x") };
        nodes.heard(&silent, ME, now);
        assert_eq!(self::view(&nodes, &MeshConfig::default())[0].rssi, None);
    }

    #[test]
    fn a_nodes_standing_is_told() {
        let contact = |id, key| Contact { id: NodeNum(id), key, name: None, grants: None };
        let config = MeshConfig {
            allowed_contacts: vec![
                contact(10, Some(KEY_A)),
                contact(11, Some(KEY_B)),
                contact(12, None),
                contact(13, Some(PublicKey([9; 32]))),
            ],
            denied_askers: vec![Asker::Node(NodeNum(13)), Asker::Node(NodeNum(14))],
            ..MeshConfig::default()
        };
        let mut nodes = Nodes::default();
        for (num, key) in [
            (10, Some(KEY_A)),
            (11, Some(KEY_A)),
            (12, Some(KEY_B)),
            (13, None),
            (14, None),
            (15, None),
        ] {
            nodes.learn(&info(num, "x", key, 0), ME);
        }
        let standings: Vec<_> = view(&nodes, &config).iter().map(|node| node.standing).collect();
        assert_eq!(
            standings,
            ["pinned", "foreign_key", "unconfirmed", "denied", "denied", "stranger"]
        );
    }
}
