//! Settings of the radio as bytes: what is kept of a handshake, and how a change is written back.
//!
//! Owns the field numbers. A change is appended to the original bytes of its message, where the last
//! value of a field wins: fields that this program doesn't know go back as they came. Must not read,
//! keep or write the security settings, but for whether the radio is managed from elsewhere.

use meshtastic::protobufs::config::device_config::Role;
use prost::Message as _;
use prost::encoding;

use super::{encode, overlay};
use crate::node::{NodeNum, PacketId};

/// What one frame of a handshake says of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// `DeviceConfig`, as it came.
    Device(Vec<u8>),
    /// `LoRaConfig`, as it came.
    Lora(Vec<u8>),
    /// A node's `User`, as it came.
    User(NodeNum, Vec<u8>),
    /// Is Bluetooth on?
    Bluetooth(bool),
    /// Does the radio sleep to save power?
    PowerSaving(bool),
    /// Does it take settings only from its administrators? Then it ignores its own client's.
    Managed(bool),
}

/// What of it matters for settings; `None` for every other frame.
pub fn kept(payload: &[u8]) -> Option<Kept> {
    use overlay::from_radio::Variant;
    use overlay::kept_config::Variant as Config;
    match overlay::FromRadio::decode(payload).ok()?.variant? {
        Variant::NodeInfo(bytes) => {
            let node = overlay::KeptNodeInfo::decode(bytes.as_slice()).ok()?;
            Some(Kept::User(NodeNum(node.num), node.user))
        }
        Variant::Config(bytes) => {
            let config = overlay::KeptConfig::decode(bytes.as_slice()).ok()?;
            Some(match config.variant? {
                Config::Device(bytes) => Kept::Device(bytes),
                Config::Lora(bytes) => Kept::Lora(bytes),
                Config::Bluetooth(flag) => Kept::Bluetooth(flag.on),
                Config::Power(flag) => Kept::PowerSaving(flag.on),
                Config::Security(flags) => Kept::Managed(flags.is_managed),
            })
        }
        _ => None,
    }
}

/// One changed field of `LoRaConfig`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoraChange {
    /// `RegionCode`.
    Region(i32),
    /// `ModemPreset`, and its coding rate: firmware 2.7 puts 4/5 in place of an unset one, and that
    /// then overrides the preset's.
    Preset {
        /// The code.
        code: i32,
        /// 5..=8.
        coding_rate: u8,
    },
    /// 1..=7.
    HopLimit(u32),
}

/// `LoRaConfig` with these changes.
pub fn lora_with(original: &[u8], changes: &[LoraChange]) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for change in changes {
        match *change {
            LoraChange::Region(code) => encoding::int32::encode(7, &code, &mut bytes),
            LoraChange::Preset { code, coding_rate } => {
                encoding::bool::encode(1, &true, &mut bytes);
                encoding::int32::encode(2, &code, &mut bytes);
                encoding::uint32::encode(5, &u32::from(coding_rate), &mut bytes);
            }
            LoraChange::HopLimit(hops) => encoding::uint32::encode(8, &hops, &mut bytes),
        }
    }
    bytes
}

/// `DeviceConfig` with another role.
pub fn device_with(original: &[u8], role: i32) -> Vec<u8> {
    let mut bytes = original.to_vec();
    encoding::int32::encode(1, &role, &mut bytes);
    bytes
}

/// `User` with another long name.
pub fn user_with(original: &[u8], long_name: &str) -> Vec<u8> {
    let mut bytes = original.to_vec();
    encoding::string::encode(2, &long_name.to_owned(), &mut bytes);
    bytes
}

/// What our own radio is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Keep what follows in memory until [`Request::Commit`].
    Begin,
    /// Save, and restart.
    Commit,
    /// A whole `LoRaConfig`.
    Lora(Vec<u8>),
    /// A whole `DeviceConfig`.
    Device(Vec<u8>),
    /// A whole `User`.
    Owner(Vec<u8>),
    /// Restart after so many seconds; what was not committed is forgotten.
    Restart(i32),
}

impl Request {
    /// For people.
    pub fn words(&self) -> &'static str {
        match self {
            Request::Begin => "the begin of the changes",
            Request::Commit => "the end of the changes",
            Request::Lora(_) => "the LoRa settings",
            Request::Device(_) => "the role",
            Request::Owner(_) => "the name",
            Request::Restart(_) => "the restart",
        }
    }
}

/// The payload of the frame.
pub fn request(my_node: NodeNum, id: PacketId, request: &Request) -> Vec<u8> {
    use overlay::written_admin::Variant;
    use overlay::written_config::Variant as Config;
    let config = |variant| Variant::SetConfig(overlay::WrittenConfig { variant: Some(variant) });
    let variant = match request {
        Request::Begin => Variant::BeginEditSettings(true),
        Request::Commit => Variant::CommitEditSettings(true),
        Request::Lora(bytes) => config(Config::Lora(bytes.clone())),
        Request::Device(bytes) => config(Config::Device(bytes.clone())),
        Request::Owner(bytes) => Variant::SetOwner(bytes.clone()),
        Request::Restart(seconds) => Variant::RebootSeconds(*seconds),
    };
    let message = overlay::WrittenAdmin { variant: Some(variant) };
    encode::admin_bytes(my_node, id, message.encode_to_vec())
}

/// The roles that can be wished for, without those that the firmware has given up.
pub const ROLES: [&str; 11] = [
    "CLIENT",
    "CLIENT_MUTE",
    "ROUTER",
    "TRACKER",
    "SENSOR",
    "TAK",
    "CLIENT_HIDDEN",
    "LOST_AND_FOUND",
    "TAK_TRACKER",
    "ROUTER_LATE",
    "CLIENT_BASE",
];

/// The code of one of [`ROLES`].
pub fn role_code(name: &str) -> Option<i32> {
    ROLES.contains(&name).then(|| Role::from_str_name(name)).flatten().map(|role| role as i32)
}

/// The name of a role; `None` for one that is newer than this program.
pub fn role_name(code: i32) -> Option<&'static str> {
    Role::try_from(code).ok().map(|role| role.as_str_name())
}

#[cfg(test)]
mod tests {
    use meshtastic::protobufs as radio;
    use proptest::prelude::*;
    use radio::admin_message::PayloadVariant as Admin;

    use super::*;

    /// A field that no version of the protobufs has.
    const UNKNOWN: [u8; 5] = [0xfa, 0x3e, 0x02, 0xab, 0xcd]; // 1007: two bytes

    fn lora() -> radio::config::LoRaConfig {
        radio::config::LoRaConfig {
            use_preset: false,
            modem_preset: 4,
            region: 1,
            hop_limit: 5,
            coding_rate: 6,
            tx_power: 27,
            tx_enabled: true,
            ignore_incoming: vec![7, 8],
            ..Default::default()
        }
    }

    fn holds_unknown(bytes: &[u8]) -> bool {
        bytes.windows(UNKNOWN.len()).any(|window| window == UNKNOWN)
    }

    #[test]
    fn only_the_changed_fields_change_and_unknown_ones_stay() {
        let mut original = lora().encode_to_vec();
        original.extend(UNKNOWN);
        let changed = lora_with(
            &original,
            &[
                LoraChange::Region(3),
                LoraChange::Preset { code: 0, coding_rate: 5 },
                LoraChange::HopLimit(3),
            ],
        );
        assert!(holds_unknown(&changed));
        let expected = radio::config::LoRaConfig {
            use_preset: true,
            modem_preset: 0, // the default of the field, and written all the same
            region: 3,
            hop_limit: 3,
            coding_rate: 5,
            ..lora()
        };
        assert_eq!(radio::config::LoRaConfig::decode(changed.as_slice()).unwrap(), expected);
        assert_eq!(lora_with(&original, &[]), original);

        let device =
            radio::config::DeviceConfig { role: 2, tzdef: "UTC".into(), ..Default::default() };
        let mut original = device.encode_to_vec();
        original.extend(UNKNOWN);
        let changed = device_with(&original, 0);
        assert!(holds_unknown(&changed));
        assert_eq!(
            radio::config::DeviceConfig::decode(changed.as_slice()).unwrap(),
            radio::config::DeviceConfig { role: 0, ..device }
        );

        let user = radio::User {
            long_name: "Old".to_owned(),
            short_name: "OLD".to_owned(),
            is_unmessagable: Some(false),
            ..Default::default()
        };
        let mut original = user.encode_to_vec();
        original.extend(UNKNOWN);
        let changed = user_with(&original, "Hilltop");
        assert!(holds_unknown(&changed));
        let read = radio::User::decode(changed.as_slice()).unwrap();
        assert_eq!(read, radio::User { long_name: "Hilltop".to_owned(), ..user });
    }

    proptest! {
        #[test]
        fn the_last_value_wins_whatever_came_before(
            region in 0..40i32, code in 0..17i32, hops in 0..8u32, before in 0..40i32,
        ) {
            let original = radio::config::LoRaConfig { region: before, ..lora() }.encode_to_vec();
            let once = lora_with(&original, &[LoraChange::Region(before)]);
            let twice = lora_with(&once, &[
                LoraChange::HopLimit(hops),
                LoraChange::Preset { code, coding_rate: 8 },
                LoraChange::Region(region),
            ]);
            let read = radio::config::LoRaConfig::decode(twice.as_slice()).unwrap();
            prop_assert_eq!((read.region, read.modem_preset, read.hop_limit), (region, code, hops));
            prop_assert_eq!((read.use_preset, read.coding_rate), (true, 8));
            prop_assert_eq!(read.ignore_incoming, vec![7, 8]);
        }
    }

    fn admin_of(bytes: &[u8]) -> (radio::MeshPacket, Admin) {
        let frame = radio::ToRadio::decode(bytes).unwrap();
        let Some(radio::to_radio::PayloadVariant::Packet(packet)) = frame.payload_variant else {
            panic!("no packet")
        };
        let Some(radio::mesh_packet::PayloadVariant::Decoded(data)) = &packet.payload_variant
        else {
            panic!("not decoded")
        };
        assert_eq!(data.portnum, radio::PortNum::AdminApp as i32);
        let message = radio::AdminMessage::decode(data.payload.as_slice()).unwrap();
        (packet, message.payload_variant.unwrap())
    }

    #[test]
    fn requests_are_the_admin_messages_of_the_protobufs() {
        let (node, id) = (NodeNum(7), PacketId(9));
        let sent = |r: Request| admin_of(&request(node, id, &r));
        let (packet, message) = sent(Request::Begin);
        assert_eq!((packet.from, packet.to, packet.id, packet.want_ack), (7, 7, 9, true));
        assert_eq!(message, Admin::BeginEditSettings(true));
        assert_eq!(sent(Request::Commit).1, Admin::CommitEditSettings(true));
        assert_eq!(sent(Request::Restart(2)).1, Admin::RebootSeconds(2));
        let config = |variant| Admin::SetConfig(radio::Config { payload_variant: Some(variant) });
        assert_eq!(
            sent(Request::Lora(lora().encode_to_vec())).1,
            config(radio::config::PayloadVariant::Lora(lora()))
        );
        let device = radio::config::DeviceConfig { role: 1, ..Default::default() };
        assert_eq!(
            sent(Request::Device(device.encode_to_vec())).1,
            config(radio::config::PayloadVariant::Device(device))
        );
        let user = radio::User { long_name: "Hilltop".to_owned(), ..Default::default() };
        assert_eq!(sent(Request::Owner(user.encode_to_vec())).1, Admin::SetOwner(user));
    }

    #[test]
    fn the_private_key_is_not_kept() {
        let security = radio::config::SecurityConfig {
            private_key: vec![0x55; 32],
            is_managed: true,
            ..Default::default()
        };
        let frame = radio::FromRadio {
            id: 0,
            payload_variant: Some(radio::from_radio::PayloadVariant::Config(radio::Config {
                payload_variant: Some(radio::config::PayloadVariant::Security(security)),
            })),
        };
        assert_eq!(kept(&frame.encode_to_vec()), Some(Kept::Managed(true)));
    }

    #[test]
    fn every_role_has_a_code_and_that_code_the_name() {
        for name in ROLES {
            assert_eq!(role_name(role_code(name).unwrap()), Some(name));
        }
        for name in ["ROUTER_CLIENT", "REPEATER", "client", ""] {
            assert_eq!(role_code(name), None, "{name}");
        }
        assert_eq!(role_name(99), None);
    }
}
