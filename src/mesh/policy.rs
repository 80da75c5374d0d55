//! Policy: who is answered, and with which authority.
//!
//! Owns the way from an [`Envelope`], a [`Peer`] and the configured lists to a [`CallerScope`]. It is given no
//! text, so no words can change what it decides. Must not know budgets, queues or the air.

use super::identity::Peer;
use super::inbox::{Envelope, Ignored};
use crate::assistant::{Assurance, CallerScope, CategorySet};
use crate::config::{Asker, MeshConfig};

/// Is the sender on the list of those who are refused: by the number that it claims, by the one that its contact is
/// configured under, or by a key that it proved or signed with? It wins over everything.
pub fn is_denied(config: &MeshConfig, envelope: &Envelope, peer: &Peer) -> bool {
    config.denied_askers.iter().any(|asker| match asker {
        Asker::Node(number) => *number == envelope.from || peer.contact == Some(*number),
        Asker::Key(key) => envelope.proven_key == Some(*key) || envelope.signed_key == Some(*key),
    })
}

/// The caller's scope, or why there is no answer.
///
/// Only a verified peer carries grants. With `trusted_only` everybody else meets silence: a signature names a
/// contact, and that is no authority, so `Signed` is treated as `Unverified` here, and channels stay silent.
pub fn scope(
    config: &MeshConfig,
    envelope: &Envelope,
    peer: &Peer,
) -> Result<CallerScope, Ignored> {
    if !config.enabled {
        return Err(Ignored::Disabled);
    }
    if is_denied(config, envelope, peer) {
        return Err(Ignored::Denied);
    }
    if peer.suspended {
        return Err(Ignored::Suspended);
    }
    if envelope.mqtt && !config.answer_mqtt {
        return Err(Ignored::Mqtt);
    }
    if let Some(channel) = &envelope.channel
        && !config.channels.contains(&channel.name)
    {
        return Err(Ignored::ChannelNotListed);
    }
    if peer.assurance != Assurance::Verified && config.trusted_only {
        return Err(Ignored::NotVerified);
    }
    Ok(CallerScope::Mesh {
        peer_id: peer.id.clone(),
        name: peer.name.clone(),
        assurance: peer.assurance,
        granted: match peer.assurance {
            Assurance::Verified => peer.grants.clone(),
            Assurance::Signed | Assurance::Unverified => CategorySet::new(),
        },
    })
}

#[cfg(test)]
mod tests;
