//! Packets for the tests of this module, written by hand. Test code only.

use crate::node::{NodeNum, PacketId, PublicKey};
use crate::radio::{Data, Inbound, Payload, port};

/// A key.
pub const KEY_A: PublicKey = PublicKey([0xaa; 32]);
/// Another.
pub const KEY_B: PublicKey = PublicKey([0xbb; 32]);
/// A third.
pub const KEY_M: PublicKey = PublicKey([0x4d; 32]);

/// A plain text as received by LoRa, not encrypted to a key, id 1.
pub fn text_packet(from: NodeNum, to: NodeNum, text: &str) -> Inbound {
    Inbound {
        from,
        to,
        id: PacketId(1),
        channel: 0,
        hop_limit: 3,
        hop_start: 3,
        want_ack: false,
        via_mqtt: false,
        transport: 1,
        pki_encrypted: false,
        public_key: None,
        xeddsa_signed: false,
        rx_snr: 6.25,
        rx_rssi: -45,
        rx_time: None,
        payload: Payload::Data(Data {
            port: port::TEXT_MESSAGE,
            bytes: text.as_bytes().to_vec(),
            ..Data::default()
        }),
    }
}

/// A direct message that our radio decrypted with that key.
pub fn pki_packet(from: NodeNum, to: NodeNum, key: PublicKey, id: u32, text: &str) -> Inbound {
    Inbound {
        id: PacketId(id),
        pki_encrypted: true,
        public_key: Some(key),
        ..text_packet(from, to, text)
    }
}
