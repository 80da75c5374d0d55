//! Who is answered, as it is shown.
//!
//! Owns these serialised forms. Decides nothing.

use serde::Serialize;

use crate::mesh::pairing::PairingView;
use crate::node::NodeNum;

/// The mesh's part of `mesh.assistant-status`.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct AnsweringView {
    /// Are peers answered at all?
    pub enabled: bool,
    /// Only contacts are.
    pub trusted_only: bool,
    /// The contacts: id, name, whether a key is pinned.
    pub allowed_contacts: Vec<ContactView>,
    /// Numbers or keys that are refused.
    pub denied_askers: Vec<String>,
    /// The same, with where each stands.
    pub denied: Vec<DeniedView>,
    /// Where `enabled` comes from: `configuration` or `node`.
    pub enabled_source: &'static str,
    /// Where `trusted_only` comes from.
    pub trusted_only_source: &'static str,
    /// The open pairing, without its code.
    pub pairing: Option<PairingView>,
    /// What is odd about the contacts: twins, names that look alike, settings that stand twice.
    pub warnings: Vec<String>,
    /// The trigger.
    pub trigger: String,
    /// Channels where it is answered.
    pub channels: Vec<String>,
}

/// One who is refused.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeniedView {
    /// A node id or a key.
    pub asker: String,
    /// `configuration`, or `node` for one that was denied here and may be taken back here.
    pub source: &'static str,
}

/// One contact.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContactView {
    /// Its number, a hint.
    pub id: NodeNum,
    /// What to call it.
    pub name: String,
    /// The pinned key, in base64.
    pub key: Option<String>,
    /// The fingerprint of the pinned key.
    pub fingerprint: Option<String>,
    /// `configured`, `unconfirmed` (pinned at first message, not yet confirmed), `confirmed` or `none`.
    pub pin: &'static str,
    /// The fingerprint of a foreign key that was seen under its number.
    pub foreign_fingerprint: Option<String>,
    /// Granted categories, as they count now.
    pub grants: Vec<String>,
    /// From where: `default`, `configuration` or `grants.json`.
    pub grants_source: &'static str,
    /// Not answered, until the operator takes that back.
    pub suspended: bool,
    /// Refused, by its number or its key.
    pub denied: bool,
    /// `configuration`, or `node` for one that was added here.
    pub source: &'static str,
    /// What it asked in the rolling hour; `None` while it has no key, for nobody has proved to be it.
    pub queries: Option<Quota>,
}

/// Questions in the rolling hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Quota {
    /// That count now.
    pub used: u32,
    /// That may be asked; `None` for as many as one likes.
    pub limit: Option<u32>,
}
