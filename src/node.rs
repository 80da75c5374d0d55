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

/// An X25519 public key: what a peer *is*. Written in base64, as Meshtastic's apps do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; 32]);

impl PublicKey {
    /// `None` unless there are exactly 32 bytes and they are not all zero.
    pub fn from_slice(bytes: &[u8]) -> Option<PublicKey> {
        let key: [u8; 32] = bytes.try_into().ok()?;
        (key != [0; 32]).then_some(PublicKey(key))
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
    "not a public key: write the 44 characters of base64 that the phone app shows (32 bytes, not all zero)"
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
    }
}
