//! Names of things on the mesh: node numbers, packet ids, public keys.
//!
//! Owns their text forms. Knows no radio and no wire format.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// A node number. It is a claim of the sender, never an identity: on a channel anybody can write
/// any number, and from firmware 2.8 on it changes with the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeNum(pub u32);

impl NodeNum {
    /// Everyone who hears it.
    pub const BROADCAST: NodeNum = NodeNum(u32::MAX);

    /// False for the broadcast address and for the numbers below 4, which the firmware reserves.
    pub fn is_peer(self) -> bool {
        self != NodeNum::BROADCAST && self.0 >= 4
    }
}

impl fmt::Display for NodeNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "!{:08x}", self.0)
    }
}

impl fmt::Debug for NodeNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a node id looks like, for the message about one that doesn't.
#[derive(Debug, Clone, thiserror::Error)]
#[error("`{0}` is not a node id: write `!` and eight hexadecimal digits, for instance `!a1b2c3d4`")]
pub struct BadNodeNum(String);

impl FromStr for NodeNum {
    type Err = BadNodeNum;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix('!').filter(|d| d.len() == 8 && d.is_ascii());
        digits
            .and_then(|d| u32::from_str_radix(d, 16).ok())
            .filter(|_| !text.contains('+'))
            .map(NodeNum)
            .ok_or_else(|| BadNodeNum(text.chars().take(40).collect()))
    }
}

impl Serialize for NodeNum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NodeNum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The id of one packet, chosen by its sender; 0 means that it has none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct PacketId(pub u32);

impl fmt::Display for PacketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for PacketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The points of Curve25519 whose order is small, and the forms of them above the field's size.
const SMALL_ORDER: [[u8; 32]; 7] = {
    const fn near(last: u8) -> [u8; 32] {
        let mut point = [0xff; 32];
        point[0] = last;
        point[31] = 0x7f;
        point
    }
    let mut one = [0; 32];
    one[0] = 1;
    [
        [0; 32],
        one,
        [
            0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f,
            0xc4, 0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16,
            0x5f, 0x49, 0xb8, 0x00,
        ],
        [
            0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83,
            0xef, 0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd,
            0xd0, 0x9f, 0x11, 0x57,
        ],
        near(0xec),
        near(0xed),
        near(0xee),
    ]
};

/// An X25519 public key: what a peer *is*. Written in base64, as Meshtastic's apps do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// `None` unless there are exactly 32 bytes, and they are no point of small order (all zero is one): with such a
    /// key anybody can compute what it encrypts.
    pub fn from_slice(bytes: &[u8]) -> Option<PublicKey> {
        let key: [u8; 32] = bytes.try_into().ok()?;
        let mut point = key;
        point[31] &= 0x7f; // X25519 leaves the highest bit out
        (!SMALL_ORDER.contains(&point)).then_some(PublicKey(key))
    }

    /// Sixteen hexadecimal digits in groups of four, from SHA-256: for people to compare.
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::digest(self.0);
        digest[..8]
            .chunks(2)
            .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint())
    }
}

/// What a key looks like, for the message about one that doesn't.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "not a public key: write the 44 characters of base64 that the phone app shows (32 bytes, and no point of small order such as all zero)"
)]
pub struct BadPublicKey;

impl FromStr for PublicKey {
    type Err = BadPublicKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = BASE64.decode(text.trim()).map_err(|_| BadPublicKey)?;
        PublicKey::from_slice(&bytes).ok_or(BadPublicKey)
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_id_is_a_bang_and_eight_digits() {
        assert_eq!("!a1b2c3d4".parse::<NodeNum>().unwrap(), NodeNum(0xa1b2_c3d4));
        for wrong in ["a1b2c3d4", "!a1b2c3d", "!a1b2c3d45", "!a1b2c3dg", "!+1b2c3d4", "", "!äääää"]
        {
            assert!(wrong.parse::<NodeNum>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_survives_its_text_form_and_zero_is_none() {
        let key = PublicKey([7; 32]);
        assert_eq!(key.to_string().parse::<PublicKey>().unwrap(), key);
        assert!(PublicKey::from_slice(&[0; 32]).is_none());
        assert!(PublicKey::from_slice(&[7; 31]).is_none());
        for mut point in SMALL_ORDER {
            assert!(PublicKey::from_slice(&point).is_none());
            point[31] |= 0x80;
            assert!(PublicKey::from_slice(&point).is_none());
            point[1] ^= 2;
            assert!(PublicKey::from_slice(&point).is_some());
        }
    }
}
