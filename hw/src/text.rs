//! Text sizes: how many bytes of UTF-8 one packet carries, and what it then weighs on air.
//!
//! Owns the derivation from the LoRa frame. Measured on firmware 2.7.26: the last size of each kind
//! that the radio takes, and the next is refused as too large.

/// A LoRa frame in all.
pub const MAX_FRAME: usize = 255;
/// The mesh header before the encoded `Data`: to 4, from 4, id 4, flags, channel hash, next hop and
/// relay node 1 each.
pub const MESH_HEADER: usize = 16;

/// `portnum`: a tag and a value below 128.
const PORT: usize = 2;
/// `bitfield`, which the sending radio always adds: a tag and a value.
const BITFIELD: usize = 2;
/// `reply_id`: a tag and a fixed 32-bit number.
const REPLY: usize = 5;
/// Encryption to a key: 8 bytes of authentication, 4 of nonce.
const PKI: usize = 12;
/// The signature that firmware 2.8 puts on broadcasts: tag, length, 64 bytes.
const SIGNATURE: usize = 66;

/// How a text travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// To one node, encrypted to its key.
    Direct,
    /// To one node, without its key.
    DirectPlain,
    /// To a channel.
    Channel,
    /// To a channel, signed (firmware 2.8 signs what still fits).
    ChannelSigned,
}

impl PacketKind {
    const fn extra(self) -> usize {
        match self {
            PacketKind::Direct => PKI,
            PacketKind::DirectPlain | PacketKind::Channel => 0,
            PacketKind::ChannelSigned => SIGNATURE,
        }
    }
}

/// Bytes on air of one packet with a text of that many bytes. May be above [`MAX_FRAME`]: such a text
/// does not fit.
#[must_use]
pub const fn frame_len(kind: PacketKind, text_len: usize, reply: bool) -> usize {
    // Tag and length; the length takes a second byte from 128 on, and an empty text is left out.
    let prefix = match text_len {
        0 => 0,
        1..=127 => 2,
        _ => 3,
    };
    MESH_HEADER + PORT + prefix + text_len + BITFIELD + if reply { REPLY } else { 0 } + kind.extra()
}

/// The longest text of a packet, bytes; `reply`: it names the text that it answers.
#[must_use]
pub const fn max_text(kind: PacketKind, reply: bool) -> usize {
    let mut len = MAX_FRAME;
    while frame_len(kind, len, reply) > MAX_FRAME {
        len -= 1;
    }
    len
}

/// What a part of an answer may hold in a direct message. Below the radio's limit for the sake of
/// delivery, as the field's own apps do it; a reply still fits.
pub const DIRECT_BUDGET: usize = 200;
/// What a part may hold on a channel, so that newer firmware still signs it, reply or not.
pub const CHANNEL_BUDGET: usize = 160;

// 255 - 16 - 2 - 3 - 2 - 12
const _: () = assert!(max_text(PacketKind::Direct, false) == 220);
const _: () = assert!(max_text(PacketKind::Direct, true) == 215);
// 255 - 16 - 2 - 3 - 2
const _: () = assert!(max_text(PacketKind::DirectPlain, false) == 232);
const _: () = assert!(max_text(PacketKind::DirectPlain, true) == 227);
const _: () = assert!(max_text(PacketKind::Channel, false) == 232);
const _: () = assert!(max_text(PacketKind::Channel, true) == 227);
// 255 - 16 - 2 - 3 - 2 - 66
const _: () = assert!(max_text(PacketKind::ChannelSigned, false) == 166);
const _: () = assert!(max_text(PacketKind::ChannelSigned, true) == 161);

const _: () = assert!(DIRECT_BUDGET <= max_text(PacketKind::Direct, true));
const _: () = assert!(CHANNEL_BUDGET <= max_text(PacketKind::ChannelSigned, true));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_text_fits_and_one_byte_more_does_not() {
        use PacketKind::*;
        for kind in [Direct, DirectPlain, Channel, ChannelSigned] {
            for reply in [false, true] {
                let max = max_text(kind, reply);
                assert_eq!(frame_len(kind, max, reply), MAX_FRAME, "{kind:?} {reply}");
                assert!(frame_len(kind, max + 1, reply) > MAX_FRAME, "{kind:?} {reply}");
            }
        }
    }

    #[test]
    fn the_length_prefix_grows_with_the_text() {
        for (text, frame) in [(0, 20), (1, 23), (127, 149), (128, 151), (232, 255)] {
            assert_eq!(frame_len(PacketKind::Channel, text, false), frame, "{text}");
        }
    }
}
