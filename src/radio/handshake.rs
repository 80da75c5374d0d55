//! The handshake: from `want_config_id` to a [`RadioInfo`].
//!
//! Owns what has been told so far and what is waited for. Has no stream and no clock: frames and times are
//! given to it, and it says when to ask again. Never keeps a private key or a channel's key.

use std::time::Duration;

use tokio::time::Instant;

use super::wire::FromRadio;
use super::{Channel, LoraSettings, NodeInfo, RadioInfo};
use crate::node::{NodeNum, PublicKey};

/// Without `my_info` in this time, the radio is asked again: it may just be starting.
pub const ASK_AGAIN: Duration = Duration::from_secs(5);
/// The whole handshake may take this long: 250 nodes over a slow line take a while.
pub const COMPLETE: Duration = Duration::from_secs(60);
/// Nonces with a meaning of their own (only the configuration, only the nodes).
const SPECIAL: [u32; 2] = [69_420, 69_421];
/// Nodes that are kept; the largest radios know 250.
const MAX_NODES: usize = 500;
/// Channels of a radio.
const MAX_CHANNELS: usize = 8;

/// One handshake.
#[derive(Debug)]
pub struct Handshake {
    nonce: u32,
    started: Instant,
    asked: Instant,
    my_node: Option<NodeNum>,
    public_key: Option<PublicKey>,
    firmware: String,
    role: i32,
    announces_every_s: u32,
    lora: LoraSettings,
    channels: Vec<Channel>,
    nodes: Vec<NodeInfo>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Not yet complete.
    Going,
    /// Complete: everything but the session's number.
    Complete(Box<RadioInfo>),
}

impl Handshake {
    /// Begins one; the caller sends `want_config_id` with [`Handshake::nonce`].
    pub fn begin(nonce: u32, now: Instant) -> Handshake {
        Handshake {
            nonce,
            started: now,
            asked: now,
            my_node: None,
            public_key: None,
            firmware: String::new(),
            role: 0,
            announces_every_s: 0,
            lora: LoraSettings::default(),
            channels: Vec::new(),
            nodes: Vec::new(),
        }
    }

    /// A nonce for one: random, never one with a meaning of its own, never 0.
    pub fn fresh_nonce() -> u32 {
        loop {
            // Not a secret: it only has to differ from the last one.
            let nonce = getrandom::u32().unwrap_or(0x7461_6c6b);
            if nonce != 0 && !SPECIAL.contains(&nonce) {
                return nonce;
            }
        }
    }

    /// Has the radio named itself since it was asked?
    pub fn is_answered(&self) -> bool {
        self.my_node.is_some()
    }

    /// Which answer is ours.
    pub fn nonce(&self) -> u32 {
        self.nonce
    }

    /// When something has to be done if nothing is heard.
    pub fn deadline(&self) -> Instant {
        let end = self.started + COMPLETE;
        if self.my_node.is_none() { end.min(self.asked + ASK_AGAIN) } else { end }
    }

    /// It has taken too long.
    pub fn expired(&self, now: Instant) -> bool {
        now >= self.started + COMPLETE
    }

    /// Should the radio be asked again, with the same nonce?
    pub fn ask_again(&mut self, now: Instant) -> bool {
        let due = self.my_node.is_none() && now >= self.asked + ASK_AGAIN && !self.expired(now);
        if due {
            self.asked = now;
        }
        due
    }

    /// Takes one frame.
    pub fn take(&mut self, frame: FromRadio) -> Progress {
        match frame {
            FromRadio::MyInfo(node) => {
                // The radio starts over: what came before belongs to an earlier question.
                let fresh = Handshake::begin(self.nonce, self.started);
                *self = Handshake { asked: self.asked, my_node: Some(node), ..fresh };
            }
            FromRadio::NodeInfo(node) if self.nodes.len() < MAX_NODES => self.nodes.push(node),
            FromRadio::Metadata { firmware } => self.firmware = firmware,
            FromRadio::Channel(channel)
                if self.channels.len() < MAX_CHANNELS && channel.index < 8 =>
            {
                self.channels.push(channel);
            }
            FromRadio::Device { role, announces_every_s } => {
                (self.role, self.announces_every_s) = (role, announces_every_s);
            }
            FromRadio::Lora(lora) => self.lora = lora,
            FromRadio::OwnKey(key) => self.public_key = key,
            FromRadio::ConfigComplete(nonce) if nonce == self.nonce => {
                // Without `my_info` it is the end of nothing: the radio will be asked again.
                if let Some(my_node) = self.my_node {
                    return Progress::Complete(Box::new(self.finish(my_node)));
                }
            }
            _ => {}
        }
        Progress::Going
    }

    /// What was not told is left at its default: of the LoRa settings that is "region unset", so that
    /// nothing may be sent (a locked radio gives blank settings).
    fn finish(&mut self, my_node: NodeNum) -> RadioInfo {
        let mut nodes = std::mem::take(&mut self.nodes);
        let owner = nodes
            .iter()
            .position(|node| node.num == my_node.0)
            .map(|index| nodes.remove(index))
            .unwrap_or_else(|| NodeInfo { num: my_node.0, ..NodeInfo::default() });
        RadioInfo {
            session: 0,
            port: String::new(),
            my_node,
            // The security settings are the radio's own word; its node entry is a copy.
            public_key: self.public_key.or(owner.public_key),
            owner,
            firmware: std::mem::take(&mut self.firmware),
            role: self.role,
            announces_every_s: self.announces_every_s,
            lora: self.lora,
            channels: std::mem::take(&mut self.channels),
            nodes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Vec<FromRadio> {
        vec![
            FromRadio::MyInfo(NodeNum(7)),
            FromRadio::NodeInfo(NodeInfo {
                num: 7,
                long_name: "Us".to_owned(),
                ..NodeInfo::default()
            }),
            FromRadio::Metadata { firmware: "2.7.26".to_owned() },
            FromRadio::Channel(Channel { index: 0, name: String::new(), primary: true }),
            FromRadio::NoChannel(1),
            FromRadio::Lora(LoraSettings { region: 3, hop_limit: 3, ..LoraSettings::default() }),
            FromRadio::OwnKey(PublicKey::from_slice(&[9; 32])),
            FromRadio::NodeInfo(NodeInfo { num: 8, ..NodeInfo::default() }),
            FromRadio::Other,
        ]
    }

    #[tokio::test(start_paused = true)]
    async fn an_older_nonce_is_ignored_and_ours_completes() {
        let mut handshake = Handshake::begin(5, Instant::now());
        for frame in told() {
            assert_eq!(handshake.take(frame), Progress::Going);
        }
        assert_eq!(handshake.take(FromRadio::ConfigComplete(4)), Progress::Going);
        let Progress::Complete(info) = handshake.take(FromRadio::ConfigComplete(5)) else {
            panic!("not complete")
        };
        assert_eq!((info.my_node, info.nodes.len(), info.channels.len()), (NodeNum(7), 1, 1));
        assert_eq!(info.owner.long_name, "Us");
        assert_eq!(info.public_key, PublicKey::from_slice(&[9; 32]));
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_without_a_beginning_is_no_end() {
        let mut handshake = Handshake::begin(5, Instant::now());
        assert_eq!(handshake.take(FromRadio::ConfigComplete(5)), Progress::Going);
        assert!(!handshake.is_answered());
    }

    #[tokio::test(start_paused = true)]
    async fn a_radio_that_hides_its_settings_may_send_nothing() {
        let mut handshake = Handshake::begin(5, Instant::now());
        handshake.take(FromRadio::MyInfo(NodeNum(7)));
        handshake.take(FromRadio::Channel(Channel {
            index: 8,
            name: String::new(),
            primary: true,
        }));
        let Progress::Complete(info) = handshake.take(FromRadio::ConfigComplete(5)) else {
            panic!("not complete")
        };
        assert_eq!((info.lora.region, info.owner.num), (0, 7));
        assert!(!info.lora.tx_enabled && info.channels.is_empty() && info.public_key.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn another_number_in_the_middle_is_another_radio() {
        let mut handshake = Handshake::begin(5, Instant::now());
        for frame in told() {
            handshake.take(frame);
        }
        handshake.take(FromRadio::MyInfo(NodeNum(9)));
        let Progress::Complete(info) = handshake.take(FromRadio::ConfigComplete(5)) else {
            panic!("not complete")
        };
        assert_eq!((info.my_node, info.owner.num, info.public_key), (NodeNum(9), 9, None));
        assert!(info.nodes.is_empty() && info.channels.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn nodes_are_kept_up_to_a_limit() {
        let mut handshake = Handshake::begin(5, Instant::now());
        handshake.take(FromRadio::MyInfo(NodeNum(7)));
        for num in 0..600 {
            handshake.take(FromRadio::NodeInfo(NodeInfo { num: 1000 + num, ..Default::default() }));
        }
        let Progress::Complete(info) = handshake.take(FromRadio::ConfigComplete(5)) else {
            panic!("not complete")
        };
        assert_eq!((info.nodes.len(), info.nodes[499].num), (MAX_NODES, 1499));
    }

    #[tokio::test(start_paused = true)]
    async fn the_radio_is_asked_again_every_five_seconds_until_it_names_itself() {
        let start = Instant::now();
        let mut handshake = Handshake::begin(5, start);
        assert!(!handshake.ask_again(start + ASK_AGAIN - Duration::from_millis(1)));
        assert!(handshake.ask_again(start + ASK_AGAIN));
        assert!(!handshake.ask_again(start + ASK_AGAIN));
        assert!(handshake.ask_again(start + 2 * ASK_AGAIN));
        handshake.take(FromRadio::MyInfo(NodeNum(7)));
        assert!(!handshake.ask_again(start + 3 * ASK_AGAIN));
        assert!(!handshake.expired(start + COMPLETE - Duration::from_millis(1)));
        assert!(handshake.expired(start + COMPLETE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_radio_that_starts_over_is_believed_from_its_last_beginning() {
        let mut handshake = Handshake::begin(5, Instant::now());
        for frame in told().into_iter().chain(told()) {
            handshake.take(frame);
        }
        let Progress::Complete(info) = handshake.take(FromRadio::ConfigComplete(5)) else {
            panic!("not complete")
        };
        assert_eq!((info.nodes.len(), info.channels.len()), (1, 1));
    }

    #[test]
    fn nonces_have_no_meaning_of_their_own() {
        for _ in 0..1000 {
            let nonce = Handshake::fresh_nonce();
            assert!(nonce != 0 && !SPECIAL.contains(&nonce));
        }
    }
}
