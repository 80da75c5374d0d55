//! What a simulated mesh consists of: our radio, its channels, and the peers around it.
//!
//! Owns these types and their defaults. Must not hold any running state.

use std::time::Duration;

use meshtastic::protobufs::config;
use meshtastic::protobufs::config::device_config::Role;
use meshtastic::protobufs::config::lo_ra_config::{ModemPreset, RegionCode};
use sha2::{Digest, Sha256};
use tombolo_hw::preset::Preset;

use crate::node::{NodeNum, PublicKey};

/// A simulated mesh, before it starts. Everything random in it follows from `seed`.
#[derive(Debug, Clone)]
pub struct SimConfig {
    /// Our radio's number.
    pub num: NodeNum,
    /// Our radio's long name.
    pub name: String,
    /// At most four bytes.
    pub short_name: String,
    /// Our radio's public key.
    pub key: PublicKey,
    /// What the radio says of its firmware.
    pub firmware: String,
    /// The radio takes settings only from its administrators, and says nothing to others'.
    pub managed: bool,
    /// `Config.DeviceConfig.Role`. The default is `CLIENT_MUTE`, as a gateway should be.
    pub role: i32,
    /// How it modulates, and what it may.
    pub lora: SimLora,
    /// At most eight; the first is the primary one.
    pub channels: Vec<SimChannel>,
    /// The other nodes.
    pub peers: Vec<SimPeer>,
    /// Chance that one hop between relays loses a packet, 0..=1.
    pub hop_loss: f32,
    /// Relays know the way to each node, and repeat a direct packet once that they don't hear passed on.
    pub routes: bool,
    /// Chance that a packet which came over relays comes a second time, 0..=1.
    pub duplicates: f32,
    /// Chance that a packet goes to another client of the same radio (a phone on Bluetooth) instead of
    /// this one, 0..=1.
    pub stolen: f32,
    /// What begins while our radio transmits or hears something else is lost to it.
    pub collisions: bool,
    /// Packets that the radio keeps for a client. Boards of the classic ESP32 keep 8.
    pub phone_queue: usize,
    /// How often the radio looks after its client. Boards: a few ms; the native program: 100 ms.
    pub poll: Duration,
    /// How much later than its bytes a packet may be looked at by the firmware's 2 s rule. With the
    /// measured 250 ms, texts 2.05 s apart are refused now and then, and 2.3 s apart never.
    pub jitter: Duration,
    /// The air runs so many times faster than the law of physics: for tests on a real clock. Airtime
    /// is accounted as if it did not. The 2 s rule and all other timers of the firmware stay.
    pub speed: u32,
    /// Log text between the frames, as serial firmware sends it.
    pub debug_text: bool,
    /// A reboot closes the link (native USB, TCP). False: a UART bridge, which stays open.
    pub reboot_closes: bool,
    /// How long the radio is gone when it reboots by itself.
    pub boot_time: Duration,
    /// Same seed and same calls, same mesh.
    pub seed: u64,
}

impl Default for SimConfig {
    fn default() -> SimConfig {
        SimConfig {
            num: NodeNum(0x70b0_1001),
            name: "Tombolo Node".to_owned(),
            short_name: "TMB".to_owned(),
            key: key_for("Tombolo Node"),
            firmware: "2.7.26.54e0d8d".to_owned(),
            managed: false,
            role: Role::ClientMute as i32,
            lora: SimLora::default(),
            channels: vec![SimChannel::named(""), SimChannel::named("bots")],
            peers: vec![
                SimPeer { hops: 1, ..SimPeer::new("Ana", NodeNum(0xa1b2_c3d4)) },
                SimPeer::new("Ben", NodeNum(0xb0b0_b0b2)),
                SimPeer::new("Mallory", NodeNum(0x0bad_cafe)),
            ],
            hop_loss: 0.0,
            routes: true,
            duplicates: 0.0,
            stolen: 0.0,
            collisions: false,
            phone_queue: 8,
            poll: Duration::from_millis(5),
            jitter: Duration::from_millis(250),
            speed: 1,
            debug_text: false,
            reboot_closes: true,
            boot_time: Duration::from_secs(3),
            seed: 1,
        }
    }
}

/// The radio's LoRa settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimLora {
    /// `RegionCode`; 0 is unset, and then nothing is sent or heard.
    pub region: i32,
    /// `ModemPreset`.
    pub preset: i32,
    /// Use `preset`; else the three values below, which otherwise only show.
    pub use_preset: bool,
    /// The bandwidth code (250, 125, 62…); 0 for the preset's own.
    pub bandwidth: u32,
    /// 7..=12; 0 for the preset's own.
    pub spread_factor: u32,
    /// 5..=8 replaces the preset's even with `use_preset`; 0 for the preset's own.
    pub coding_rate: u32,
    /// 1..=7.
    pub hop_limit: u32,
    /// False: the radio refuses to transmit.
    pub tx_enabled: bool,
    /// The radio ignores the duty cycle.
    pub override_duty_cycle: bool,
}

impl Default for SimLora {
    fn default() -> SimLora {
        SimLora {
            region: RegionCode::Eu868 as i32,
            preset: ModemPreset::LongFast as i32,
            use_preset: true,
            bandwidth: 0,
            spread_factor: 0,
            coding_rate: 0,
            hop_limit: 3,
            tx_enabled: true,
            override_duty_cycle: false,
        }
    }
}

impl SimLora {
    /// As the radio shows them: the firmware fills in the values of the preset.
    pub(super) fn shown(&self) -> config::LoRaConfig {
        let modem = Preset::from_code(self.preset).map(|preset| preset.modem(false));
        let or = |given: u32, own: Option<u32>| if given == 0 { own.unwrap_or(0) } else { given };
        config::LoRaConfig {
            use_preset: self.use_preset,
            modem_preset: self.preset,
            // The code is the kHz, rounded down.
            bandwidth: or(self.bandwidth, modem.map(|m| m.bandwidth_hz / 1000)),
            spread_factor: or(self.spread_factor, modem.map(|m| m.spreading_factor.into())),
            coding_rate: or(self.coding_rate, modem.map(|m| m.coding_rate.into())),
            region: self.region,
            hop_limit: self.hop_limit,
            tx_enabled: self.tx_enabled,
            tx_power: 27,
            override_duty_cycle: self.override_duty_cycle,
            ..config::LoRaConfig::default()
        }
    }
}

/// A channel. Two sides share it when the names are equal: the simulator has no keys of channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimChannel {
    /// Empty means the preset's own name.
    pub name: String,
    /// A slot without a channel.
    pub disabled: bool,
}

impl SimChannel {
    /// A channel that is in use.
    pub fn named(name: &str) -> SimChannel {
        SimChannel { name: name.to_owned(), disabled: false }
    }
}

/// Another node of the mesh. The fields may be changed while the mesh runs.
#[derive(Debug, Clone, PartialEq)]
pub struct SimPeer {
    /// How tests call it; also its long name.
    pub name: String,
    /// Its number.
    pub num: NodeNum,
    /// Its public key; `None` for a licensed station. Changing it later means that the peer made
    /// itself a new one, which our radio does not know of.
    pub key: Option<PublicKey>,
    /// Does our radio know it (and its key) from the start?
    pub known: bool,
    /// Relays in between; 0 for a neighbour.
    pub hops: u32,
    /// dB, as our radio hears it.
    pub snr: f32,
    /// dBm, as our radio hears it.
    pub rssi: i32,
    /// False: it hears nothing and is not heard. Relays on the way still relay.
    pub reachable: bool,
    /// Chance that its own leg loses a packet, 0..=1, both ways.
    pub loss: f32,
    /// It gets our texts, but its acks never arrive.
    pub drop_acks: bool,
    /// Chance that an ack of it gets lost, 0..=1.
    pub ack_loss: f32,
    /// It has lost our key: it refuses our direct messages until our NodeInfo reaches it, which
    /// sets this to false.
    pub forgets_our_key: bool,
    /// Names of the channels that it has; `None` for all of ours.
    pub channels: Option<Vec<String>>,
    /// It broadcasts its telemetry so often; `None`: never, so that it is heard only when it says something.
    pub beacon: Option<Duration>,
}

impl SimPeer {
    /// A reachable, known neighbour with a key of its own.
    pub fn new(name: &str, num: NodeNum) -> SimPeer {
        SimPeer {
            name: name.to_owned(),
            num,
            key: Some(key_for(name)),
            known: true,
            hops: 0,
            snr: 6.25,
            rssi: -45,
            reachable: true,
            loss: 0.0,
            drop_acks: false,
            ack_loss: 0.0,
            forgets_our_key: false,
            channels: None,
            beacon: None,
        }
    }
}

/// The invented public key that goes with a name. Nobody has its private half.
pub fn key_for(name: &str) -> PublicKey {
    PublicKey(invented(&format!("simulated public key of {name}")))
}

/// 32 bytes that follow from a text.
pub(super) fn invented(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}
