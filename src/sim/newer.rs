//! What firmware 2.8 does otherwise than 2.7.
//!
//! Owns those differences that are more than a condition at their place: the longer handshake, and the packets of
//! other nodes that are given again after it. Everything else is the same firmware.

use meshtastic::protobufs::{MeshPacket, mesh_packet};

use super::device::ONLY_CONFIG;
use super::world::World;

/// `FromRadio.region_presets`, a field that the protobuf types don't have, empty.
const REGION_PRESETS: [u8; 3] = [0x9a, 0x01, 0x00];

/// 2.8 or later, by what a radio says of itself.
pub(super) fn is_2_8(firmware: &str) -> bool {
    let mut numbers = firmware.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (2, 8)
}

impl World {
    pub fn is_2_8(&self) -> bool {
        is_2_8(&self.device.firmware)
    }

    /// Behind the metadata.
    pub fn region_presets(&self) {
        if self.is_2_8()
            && let Some(conn) = &self.phone.conn
        {
            conn.push_frame(&REGION_PRESETS);
        }
    }

    /// After the handshake: the last position and telemetry of each node as ordinary packets, under ids of its own and
    /// without anything of a reception. A client must not take them for news.
    pub fn replay(&mut self, nonce: u32) {
        if !self.is_2_8() || nonce == ONLY_CONFIG {
            return;
        }
        let cached: Vec<_> = self
            .device
            .nodes
            .iter()
            .filter_map(|node| Some((node.info.num, node.info.last_heard, node.cached.clone()?)))
            .collect();
        for (from, rx_time, data) in cached {
            let packet = MeshPacket {
                from,
                to: u32::MAX,
                id: self.rng.id(),
                rx_time,
                payload_variant: Some(mesh_packet::PayloadVariant::Decoded(data)),
                ..MeshPacket::default()
            };
            // Straight to the line: the small queue is for what is new.
            self.frame(meshtastic::protobufs::from_radio::PayloadVariant::Packet(packet));
        }
    }
}
