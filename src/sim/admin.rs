//! Settings of our simulated radio, as its client reads and writes them.
//!
//! Owns the answers to `AdminMessage`s and what reboots the radio. Only the client on the line is
//! served; nothing that comes over the air is.

use std::time::Duration;

use meshtastic::Message as _;
use meshtastic::protobufs::{
    AdminMessage, Config, Data, DeviceUiConfig, MeshPacket, ModuleConfig, NodeInfo, PortNum,
    SharedContact, admin_message::PayloadVariant as Admin, config, mesh_packet, routing,
};

use super::world::{Event, World};
use crate::node::PublicKey;

/// A change that needs a reboot causes it so much later.
const REBOOT_AFTER: Duration = Duration::from_secs(7);

impl World {
    /// A packet of the client to its own radio.
    pub fn own_node_gets(&mut self, packet: MeshPacket) {
        self.queue_status(0, packet.id);
        let Some(mesh_packet::PayloadVariant::Decoded(data)) = &packet.payload_variant else {
            return;
        };
        if data.portnum != PortNum::AdminApp as i32 {
            // Delivered, though nobody will ever show it.
            if packet.want_ack {
                self.tell_self(routing::Error::None as i32, packet.id);
            }
            return;
        }
        if is_managed(&self.device.configs) {
            return; // without a word
        }
        let message = AdminMessage::decode(data.payload.as_slice());
        let result = match message.ok().and_then(|m| m.payload_variant) {
            Some(request) => self.admin(request, packet.id),
            None => Err(routing::Error::BadRequest),
        };
        match result {
            Ok(Some(answer)) => self.admin_answer(answer, packet.id),
            Ok(None) if packet.want_ack => self.tell_self(0, packet.id),
            Ok(None) => {}
            Err(reason) => self.tell_self(reason as i32, packet.id),
        }
    }

    fn admin_answer(&mut self, answer: Admin, request_id: u32) {
        let message = AdminMessage {
            // Nobody checks it on the local line; clients copy it.
            session_passkey: vec![0x5e; 8],
            payload_variant: Some(answer),
        };
        let packet = MeshPacket {
            from: self.device.num,
            to: self.device.num,
            id: self.rng.id(),
            rx_time: self.radio_time(),
            hop_limit: self.device.lora().hop_limit,
            priority: mesh_packet::Priority::Reliable as i32,
            payload_variant: Some(mesh_packet::PayloadVariant::Decoded(Data {
                portnum: PortNum::AdminApp as i32,
                payload: message.encode_to_vec(),
                request_id,
                ..Data::default()
            })),
            ..MeshPacket::default()
        };
        self.show_client(packet, false);
    }

    fn admin(&mut self, request: Admin, _id: u32) -> Result<Option<Admin>, routing::Error> {
        match request {
            Admin::GetOwnerRequest(_) => {
                return Ok(Some(Admin::GetOwnerResponse(self.device.owner.clone())));
            }
            Admin::GetDeviceMetadataRequest(_) => {
                return Ok(Some(Admin::GetDeviceMetadataResponse(self.device.metadata())));
            }
            Admin::GetChannelRequest(number) => {
                // One more than the index, for 0 is not sent.
                let place = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
                let channel = place.and_then(|place| self.device.channels.get(place));
                return channel
                    .cloned()
                    .map(|c| Some(Admin::GetChannelResponse(c)))
                    .ok_or(routing::Error::BadRequest);
            }
            Admin::GetConfigRequest(which) => {
                let place = usize::try_from(which).ok();
                let found = place.and_then(|place| self.device.configs.get(place)).cloned();
                return found
                    .map(|c| Some(Admin::GetConfigResponse(Config { payload_variant: Some(c) })))
                    .ok_or(routing::Error::BadRequest);
            }
            Admin::GetModuleConfigRequest(which) => {
                let place = usize::try_from(which).ok();
                let found = place.and_then(|place| self.device.modules.get(place)).cloned();
                return Ok(Some(Admin::GetModuleConfigResponse(ModuleConfig {
                    payload_variant: found,
                })));
            }
            Admin::GetUiConfigRequest(_) => {
                return Ok(Some(Admin::GetUiConfigResponse(DeviceUiConfig::default())));
            }
            Admin::SetTimeOnly(unix) => self.clock = Some((self.now_us, unix)),
            Admin::AddContact(contact) => self.add_contact(contact),
            Admin::RemoveByNodenum(num) => self.device.nodes.retain(|n| n.info.num != num),
            Admin::NodedbReset(_) => {
                self.device.nodes.clear();
                self.plan_reboot(REBOOT_AFTER);
            }
            Admin::BeginEditSettings(_) => self.device.begin(),
            Admin::CommitEditSettings(_) => {
                self.device.saved = None;
                self.plan_reboot(REBOOT_AFTER);
            }
            Admin::SetOwner(owner) => {
                if owner.long_name.trim().is_empty() && !owner.short_name.is_empty() {
                    return Err(routing::Error::BadRequest);
                }
                let kept = &mut self.device.owner;
                let before = kept.clone();
                if !owner.long_name.is_empty() {
                    kept.long_name = owner.long_name;
                }
                if !owner.short_name.is_empty() {
                    kept.short_name = owner.short_name;
                }
                kept.is_licensed = owner.is_licensed;
                if *kept != before {
                    self.changed();
                }
            }
            Admin::SetChannel(channel) => {
                let place = usize::try_from(channel.index).ok();
                let Some(slot) = place.and_then(|place| self.device.channels.get_mut(place)) else {
                    return Err(routing::Error::BadRequest);
                };
                *slot = channel;
            }
            Admin::SetConfig(Config { payload_variant: Some(wanted) }) => self.set_config(wanted),
            Admin::SetModuleConfig(ModuleConfig { payload_variant: Some(wanted) }) => {
                let kind = std::mem::discriminant(&wanted);
                if let Some(kept) =
                    self.device.modules.iter_mut().find(|m| std::mem::discriminant(*m) == kind)
                {
                    *kept = wanted;
                }
                self.changed();
            }
            Admin::RebootSeconds(seconds) => {
                self.plan_reboot(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
            }
            Admin::SetFavoriteNode(num) => self.favourite(num, true),
            Admin::RemoveFavoriteNode(num) => self.favourite(num, false),
            _ => return Err(routing::Error::BadRequest),
        }
        Ok(None)
    }

    fn favourite(&mut self, num: u32, favourite: bool) {
        if let Some(node) = self.device.node_mut(num) {
            node.info.is_favorite = favourite;
        }
    }

    /// A contact's key, given by the client, takes the place of the one the radio had.
    fn add_contact(&mut self, contact: SharedContact) {
        let before = self.device.node(contact.node_num).map(|n| n.info.clone());
        self.device.remember(NodeInfo {
            num: contact.node_num,
            user: contact.user,
            is_favorite: true,
            is_ignored: contact.should_ignore,
            is_key_manually_verified: contact.manually_verified,
            ..before.unwrap_or_default()
        });
    }

    fn set_config(&mut self, mut wanted: config::PayloadVariant) {
        let kind = std::mem::discriminant(&wanted);
        let Some(place) =
            self.device.configs.iter().position(|c| std::mem::discriminant(c) == kind)
        else {
            return;
        };
        let Some(before) = self.device.configs.get(place).cloned() else { return };
        if let config::PayloadVariant::Lora(lora) = &mut wanted {
            // An unset rate becomes 5, and then overrides the preset's own.
            lora.coding_rate = if lora.coding_rate == 0 { 5 } else { lora.coding_rate };
            lora.hop_limit = if lora.hop_limit > 7 { 3 } else { lora.hop_limit };
            let first = matches!(&before, config::PayloadVariant::Lora(l) if l.region == 0);
            if first && lora.region != 0 {
                lora.tx_enabled = true;
            }
        }
        if let config::PayloadVariant::Security(security) = &wanted
            && let Some(key) = PublicKey::from_slice(&security.public_key)
        {
            self.device.key = key;
            self.device.owner.public_key = key.0.to_vec();
        }
        if let config::PayloadVariant::Device(device) = &wanted {
            self.device.owner.role = device.role;
        }
        let reboots = reboots(&before, &wanted, self.device.firmware.starts_with("2.8."));
        if let Some(slot) = self.device.configs.get_mut(place) {
            *slot = wanted;
        }
        if reboots {
            self.changed();
        }
    }

    /// A change that needs a reboot. Between begin and commit it waits for the commit.
    fn changed(&mut self) {
        if self.device.saved.is_none() {
            self.plan_reboot(REBOOT_AFTER);
        }
    }

    fn plan_reboot(&mut self, after: Duration) {
        let (boot, downtime) = (self.boot, self.config.boot_time);
        self.after(super::world::micros(after), Event::Reboot { boot, downtime });
    }
}

/// Does the radio ignore settings of its own client?
fn is_managed(configs: &[config::PayloadVariant]) -> bool {
    configs.iter().any(|c| matches!(c, config::PayloadVariant::Security(s) if s.is_managed))
}

/// Which changes the firmware reboots for. 2.8 applies those of the modem at once.
fn reboots(before: &config::PayloadVariant, after: &config::PayloadVariant, is_2_8: bool) -> bool {
    use config::PayloadVariant as C;
    match (before, after) {
        (C::Lora(_), C::Lora(_)) if is_2_8 => false,
        (C::Security(_), _) => is_2_8,
        (C::Lora(old), C::Lora(new)) => {
            // These apply at once; anything else is a parameter of the modem.
            let same = config::LoRaConfig {
                hop_limit: old.hop_limit,
                ignore_mqtt: old.ignore_mqtt,
                config_ok_to_mqtt: old.config_ok_to_mqtt,
                override_duty_cycle: old.override_duty_cycle,
                ..new.clone()
            };
            same != *old
        }
        (C::Device(old), C::Device(new)) => {
            (old.role, old.rebroadcast_mode, old.button_gpio, old.buzzer_gpio)
                != (new.role, new.rebroadcast_mode, new.button_gpio, new.buzzer_gpio)
        }
        (C::Position(_), _) | (C::Network(_), _) | (C::Bluetooth(_), _) => true,
        (C::Power(old), C::Power(new)) => old.is_power_saving != new.is_power_saving,
        _ => false,
    }
}
