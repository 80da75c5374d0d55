//! Our simulated radio's settings and the nodes that it knows, and how it tells a client of them.
//!
//! Owns what survives a reboot, and the contents and order of the handshake. Must not send anything.

use meshtastic::protobufs::{
    Channel, Config, Data, DeviceMetadata, DeviceMetrics, DeviceUiConfig, FileInfo, HardwareModel,
    ModuleConfig, MyNodeInfo, NodeInfo, Position, User, channel, config,
    from_radio::PayloadVariant, module_config,
};

use super::config::SimConfig;
use super::newer::is_2_8;
use super::settings::{channel_of, configs_of, modules};
use crate::node::PublicKey;
use tombolo_hw::lora::Modem;
use tombolo_hw::region::Region;

/// The nonce that asks for the settings only.
pub(super) const ONLY_CONFIG: u32 = 69420;
/// The nonce that asks for the nodes only.
pub(super) const ONLY_NODES: u32 = 69421;
/// Most nodes that the radio remembers; the one heard longest ago gives way.
const MAX_NODES: usize = 250;
const CHANNELS: usize = 8;

/// What a reboot keeps.
#[derive(Debug)]
pub(super) struct Device {
    pub num: u32,
    pub key: PublicKey,
    pub firmware: String,
    pub owner: User,
    pub channels: Vec<Channel>,
    pub configs: Vec<config::PayloadVariant>,
    pub modules: Vec<module_config::PayloadVariant>,
    pub nodes: Vec<KnownNode>,
    /// Between begin and commit nothing reboots, and nothing is saved: what a reboot brings back.
    pub saved: Option<Box<Saved>>,
}

/// The settings in the radio's flash while other ones are being edited.
#[derive(Debug)]
pub(super) struct Saved {
    key: PublicKey,
    owner: User,
    channels: Vec<Channel>,
    configs: Vec<config::PayloadVariant>,
    modules: Vec<module_config::PayloadVariant>,
}

/// A line of the radio's node table.
#[derive(Debug, Clone)]
pub(super) struct KnownNode {
    pub info: NodeInfo,
    /// Its last position or telemetry.
    pub cached: Option<Data>,
    /// Written to its flash. The table is saved at most once a minute.
    pub saved: bool,
}

/// The firmware's names for a node: its number in hex.
pub(super) fn user(num: u32, long: &str, short: &str, key: Option<PublicKey>) -> User {
    #[allow(deprecated)]
    User {
        id: format!("!{num:08x}"),
        long_name: long.to_owned(),
        short_name: short.to_owned(),
        macaddr: [&[0x02, 0x42][..], &num.to_be_bytes()].concat(),
        hw_model: HardwareModel::Portduino as i32,
        is_licensed: false,
        role: 0,
        public_key: key.map_or_else(Vec::new, |k| k.0.to_vec()),
        is_unmessagable: Some(false),
    }
}

impl Device {
    pub fn new(config: &SimConfig) -> Device {
        let num = config.num.0;
        let mut device = Device {
            num,
            key: config.key,
            firmware: config.firmware.clone(),
            owner: User {
                role: config.role,
                ..user(num, &config.name, &config.short_name, Some(config.key))
            },
            channels: (0..CHANNELS).map(|i| channel_of(config, i)).collect(),
            configs: configs_of(config),
            modules: modules(),
            nodes: Vec::new(),
            saved: None,
        };
        for peer in config.peers.iter().filter(|p| p.known) {
            let short: String = peer.name.chars().take(3).collect::<String>().to_uppercase();
            device.remember(NodeInfo {
                num: peer.num.0,
                user: Some(user(peer.num.0, &peer.name, &short, peer.key)),
                snr: peer.snr,
                hops_away: Some(peer.hops),
                ..NodeInfo::default()
            });
        }
        for node in &mut device.nodes {
            node.saved = true;
        }
        device
    }

    /// Later changes stay in memory until they are committed.
    pub fn begin(&mut self) {
        self.saved.get_or_insert_with(|| {
            Box::new(Saved {
                key: self.key,
                owner: self.owner.clone(),
                channels: self.channels.clone(),
                configs: self.configs.clone(),
                modules: self.modules.clone(),
            })
        });
    }

    /// Forgets what was not committed.
    pub fn restart(&mut self) {
        if let Some(saved) = self.saved.take() {
            let Saved { key, owner, channels, configs, modules } = *saved;
            (self.key, self.owner, self.channels) = (key, owner, channels);
            (self.configs, self.modules) = (configs, modules);
        }
        self.nodes.retain(|n| n.saved);
    }

    pub fn lora(&self) -> config::LoRaConfig {
        self.configs
            .iter()
            .find_map(|c| match c {
                config::PayloadVariant::Lora(lora) => Some(lora.clone()),
                _ => None,
            })
            .unwrap_or_default()
    }

    pub fn region(&self) -> Option<&'static Region> {
        Region::from_code(self.lora().region)
    }

    pub fn modem(&self) -> Option<Modem> {
        let lora = self.lora();
        let wide = self.region().is_some_and(|r| r.wide);
        let newer = is_2_8(&self.firmware);
        let modem_of = if newer { Modem::from_settings_2_8 } else { Modem::from_settings };
        modem_of(
            lora.use_preset,
            lora.modem_preset,
            lora.bandwidth,
            lora.spread_factor,
            lora.coding_rate,
            wide,
        )
    }

    /// The name of an enabled channel.
    pub fn channel_name(&self, index: u32) -> Option<&str> {
        let channel = self.channels.get(usize::try_from(index).ok()?)?;
        if channel.role == channel::Role::Disabled as i32 {
            return None;
        }
        Some(channel.settings.as_ref().map_or("", |s| s.name.as_str()))
    }

    /// The index of an enabled channel.
    pub fn channel_index(&self, name: &str) -> Option<u32> {
        (0..8).find(|i| self.channel_name(*i) == Some(name))
    }

    pub fn node(&self, num: u32) -> Option<&KnownNode> {
        self.nodes.iter().find(|n| n.info.num == num)
    }

    pub fn node_mut(&mut self, num: u32) -> Option<&mut KnownNode> {
        self.nodes.iter_mut().find(|n| n.info.num == num)
    }

    /// The key that the radio holds for a node.
    pub fn key_of(&self, num: u32) -> Option<PublicKey> {
        PublicKey::from_slice(&self.node(num)?.info.user.as_ref()?.public_key)
    }

    /// Takes a line into the node table, in place of the one with this number.
    pub fn remember(&mut self, info: NodeInfo) {
        match self.node_mut(info.num) {
            Some(known) => (known.info, known.saved) = (info, false),
            None => {
                if self.nodes.len() >= MAX_NODES {
                    let oldest =
                        self.nodes.iter().enumerate().min_by_key(|(_, n)| n.info.last_heard);
                    if let Some((place, _)) = oldest {
                        self.nodes.remove(place);
                    }
                }
                self.nodes.push(KnownNode { info, cached: None, saved: false });
            }
        }
    }

    /// The radio's own line, as the handshake shows it.
    fn own_node(&self, metrics: DeviceMetrics) -> NodeInfo {
        NodeInfo {
            num: self.num,
            user: Some(self.owner.clone()),
            position: Some(Position::default()),
            device_metrics: Some(metrics),
            is_favorite: true,
            ..NodeInfo::default()
        }
    }

    pub fn metadata(&self) -> DeviceMetadata {
        DeviceMetadata {
            firmware_version: self.firmware.clone(),
            device_state_version: 24,
            has_wifi: true,
            role: self.owner.role,
            position_flags: 811,
            hw_model: HardwareModel::Portduino as i32,
            has_pkc: true,
            excluded_modules: 13632,
            ..DeviceMetadata::default()
        }
    }

    /// The whole answer to `want_config_id`, in the firmware's order.
    pub fn handshake(&self, nonce: u32, metrics: DeviceMetrics) -> Vec<PayloadVariant> {
        let mut frames = Vec::with_capacity(48 + self.nodes.len());
        let own = PayloadVariant::NodeInfo(self.own_node(metrics));
        if nonce == ONLY_NODES {
            frames.push(own);
        } else {
            frames.push(PayloadVariant::MyInfo(MyNodeInfo {
                my_node_num: self.num,
                min_app_version: 30200,
                pio_env: "native".to_owned(),
                device_id: Vec::new(),
                nodedb_count: u32::try_from(self.nodes.len() + 1).unwrap_or(u32::MAX),
                ..MyNodeInfo::default()
            }));
            frames.push(PayloadVariant::DeviceuiConfig(DeviceUiConfig {
                screen_brightness: 153,
                screen_timeout: 30,
                ..DeviceUiConfig::default()
            }));
            frames.push(own);
            frames.push(PayloadVariant::Metadata(self.metadata()));
            frames.extend(self.channels.iter().cloned().map(PayloadVariant::Channel));
            frames.extend(
                self.configs
                    .iter()
                    .map(|c| PayloadVariant::Config(Config { payload_variant: Some(c.clone()) })),
            );
            frames.extend(self.modules.iter().map(|m| {
                PayloadVariant::ModuleConfig(ModuleConfig { payload_variant: Some(m.clone()) })
            }));
            // Modules that this firmware was built without, or whose settings it hides: empty, but sent.
            for _ in 0..if is_2_8(&self.firmware) { 4 } else { 3 } {
                frames.push(PayloadVariant::ModuleConfig(ModuleConfig::default()));
            }
        }
        if nonce != ONLY_CONFIG {
            frames.extend(self.nodes.iter().map(|n| PayloadVariant::NodeInfo(n.info.clone())));
        }
        if nonce != ONLY_NODES {
            for (name, size) in [
                ("device.proto", 99),
                ("nodes.proto", 474),
                ("channels.proto", 98),
                ("config.proto", 171),
                ("module.proto", 100),
                ("transmit_history.dat", 13),
            ] {
                frames.push(PayloadVariant::FileInfo(FileInfo {
                    file_name: format!("/prefs/{name}"),
                    size_bytes: size,
                }));
            }
        }
        frames.push(PayloadVariant::ConfigCompleteId(nonce));
        frames
    }
}
