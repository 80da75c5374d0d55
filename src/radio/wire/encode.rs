//! What this program says to the radio: the payloads of `ToRadio` frames.
//!
//! Owns their form. Must not choose packet ids, budgets or destinations.

use meshtastic::protobufs as radio;
use prost::Message as _;
use radio::to_radio::PayloadVariant;

use super::super::{Outbound, port};
use crate::node::{NodeNum, PacketId, PublicKey};

/// Written at every opening: completes a frame that an earlier client left half-written, being more than
/// any frame can owe.
pub const FLUSH: [u8; 516] = [0xC3; 516];

fn to_radio(variant: PayloadVariant) -> Vec<u8> {
    radio::ToRadio { payload_variant: Some(variant) }.encode_to_vec()
}

/// Asks for everything that the radio knows, ended by `config_complete_id` with the same nonce.
pub fn want_config(nonce: u32) -> Vec<u8> {
    to_radio(PayloadVariant::WantConfigId(nonce))
}

/// Keeps the connection from being closed for idleness. Nonce 0: nonce 1 would make the radio
/// broadcast its own node info.
pub fn heartbeat() -> Vec<u8> {
    to_radio(PayloadVariant::Heartbeat(radio::Heartbeat { nonce: 0 }))
}

/// Says goodbye.
pub fn disconnect() -> Vec<u8> {
    to_radio(PayloadVariant::Disconnect(true))
}

/// A packet to send. `my_node` becomes `from`: with another value the radio's refusals are sent over
/// the air to that node and never reach us.
pub fn packet(my_node: NodeNum, outbound: &Outbound) -> Vec<u8> {
    let inner = radio::Data {
        portnum: outbound.port,
        payload: outbound.bytes.clone(),
        want_response: outbound.want_response,
        reply_id: outbound.reply_id.map_or(0, |id| id.0),
        emoji: u32::from(outbound.emoji), // a flag, not a code point
        ..Default::default()
    };
    to_radio(PayloadVariant::Packet(radio::MeshPacket {
        from: my_node.0,
        to: outbound.to.0,
        channel: outbound.channel,
        id: outbound.id.0,
        hop_limit: outbound.hop_limit,
        want_ack: outbound.want_ack,
        // Priority stays unset: the radio gives texts a higher one than a client may ask for.
        pki_encrypted: outbound.pki_key.is_some(),
        public_key: outbound.pki_key.map_or_else(Vec::new, |key| key.0.to_vec()),
        payload_variant: Some(radio::mesh_packet::PayloadVariant::Decoded(inner)),
        ..Default::default()
    }))
}

/// Sets the radio's clock; seconds since 1970.
pub fn set_time(my_node: NodeNum, id: PacketId, unix_seconds: u32) -> Vec<u8> {
    admin(my_node, id, radio::admin_message::PayloadVariant::SetTimeOnly(unix_seconds))
}

/// Puts a node with its key into the radio's own table, where it is kept as a favourite: without an
/// entry the radio can't encrypt to that node.
pub fn add_contact(
    my_node: NodeNum,
    id: PacketId,
    node: NodeNum,
    long_name: &str,
    key: &PublicKey,
) -> Vec<u8> {
    let user = radio::User {
        id: node.to_string(),
        long_name: cut(long_name, LONG_NAME_MAX),
        short_name: format!("{:04x}", node.0 & 0xffff),
        public_key: key.0.to_vec(),
        ..Default::default()
    };
    let contact = radio::SharedContact { node_num: node.0, user: Some(user), ..Default::default() };
    admin(my_node, id, radio::admin_message::PayloadVariant::AddContact(contact))
}

/// Bytes that the firmware takes for a long name; a longer one makes it drop the whole message.
pub const LONG_NAME_MAX: usize = 39;

fn admin(my_node: NodeNum, id: PacketId, message: radio::admin_message::PayloadVariant) -> Vec<u8> {
    let message = radio::AdminMessage { payload_variant: Some(message), ..Default::default() };
    admin_bytes(my_node, id, message.encode_to_vec())
}

/// An `AdminMessage` to our own radio.
pub(super) fn admin_bytes(my_node: NodeNum, id: PacketId, message: Vec<u8>) -> Vec<u8> {
    packet(
        my_node,
        &Outbound {
            to: my_node,
            channel: 0,
            id,
            port: port::ADMIN,
            bytes: message,
            want_ack: true,
            want_response: false,
            hop_limit: 0, // it stays in the radio
            reply_id: None,
            emoji: false,
            pki_key: None,
        },
    )
}

/// The longest start of `name` that has at most `max` bytes and ends at a character border.
fn cut(name: &str, max: usize) -> String {
    let end = (0..=max.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    name.get(..end.unwrap_or(0)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_at_39_bytes_and_at_a_character_border() {
        assert_eq!(cut(&"x".repeat(39), LONG_NAME_MAX).len(), 39);
        assert_eq!(cut(&"x".repeat(40), LONG_NAME_MAX).len(), 39);
        assert_eq!(cut(&format!("{}é", "x".repeat(38)), LONG_NAME_MAX), "x".repeat(38));
        assert_eq!(cut("", LONG_NAME_MAX), "");
    }
}
