//! Who asks, and what that caller may do.
//!
//! Owns [`CallerScope`], the only source of authority. It is built from a packet and the allowlists
//! (by `mesh::policy`) or from a session (by `rpc`), never from words. Knows no radio.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The category that a tool belongs to, and that a grant names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the names are the contract's words
pub enum PermissionCategory {
    Apps,
    System,
    Network,
    Wallet,
    Files,
    Media,
    Search,
    AiLocal,
    Notes,
    Bitcoin,
}

impl PermissionCategory {
    /// All ten, in the contract's order.
    pub const ALL: [PermissionCategory; 10] = [
        PermissionCategory::Apps,
        PermissionCategory::System,
        PermissionCategory::Network,
        PermissionCategory::Wallet,
        PermissionCategory::Files,
        PermissionCategory::Media,
        PermissionCategory::Search,
        PermissionCategory::AiLocal,
        PermissionCategory::Notes,
        PermissionCategory::Bitcoin,
    ];

    /// The contract's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            PermissionCategory::Apps => "apps",
            PermissionCategory::System => "system",
            PermissionCategory::Network => "network",
            PermissionCategory::Wallet => "wallet",
            PermissionCategory::Files => "files",
            PermissionCategory::Media => "media",
            PermissionCategory::Search => "search",
            PermissionCategory::AiLocal => "ai_local",
            PermissionCategory::Notes => "notes",
            PermissionCategory::Bitcoin => "bitcoin",
        }
    }
}

impl fmt::Display for PermissionCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The categories granted to a caller.
pub type CategorySet = BTreeSet<PermissionCategory>;

/// How sure we are of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Assurance {
    /// A claim.
    Unverified,
    /// A checked signature by the pinned key: under the contact's name, no authority.
    Signed,
    /// Decrypted with the pinned key.
    Verified,
}

/// A peer's identity as one opaque text: `key:` and base64 for a key that decrypted the message, `signed:` and
/// base64 for one that only signed it, `claim:` and a node id otherwise. The three never meet.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PeerId(pub String);

/// The id of a login, not of a token: a token may be renewed under it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub String);

/// Who asks, and with which authority. Resolved before any word is read, and fixed for the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerScope {
    /// A peer of the mesh.
    Mesh {
        /// Its identity.
        peer_id: PeerId,
        /// What to call it: the contact's name, or the node id.
        name: String,
        /// How sure we are.
        assurance: Assurance,
        /// What the operator granted; empty for everyone who is not `Verified`.
        granted: CategorySet,
    },
    /// The operator at the node.
    LocalOperator {
        /// The login.
        session_id: SessionId,
        /// What the operator's own grants allow.
        granted: CategorySet,
    },
}

impl CallerScope {
    /// The only authority that `execute_tool` reads. A mesh caller who is not `Verified` has none,
    /// whatever was written into its scope.
    pub fn granted_categories(&self) -> CategorySet {
        match self {
            CallerScope::Mesh { assurance: Assurance::Verified, granted, .. }
            | CallerScope::LocalOperator { granted, .. } => granted.clone(),
            CallerScope::Mesh { .. } => CategorySet::new(),
        }
    }

    /// The same caller, for a turn in which nothing is to be done.
    #[must_use]
    pub fn without_tools(mut self) -> CallerScope {
        match &mut self {
            CallerScope::Mesh { granted, .. } | CallerScope::LocalOperator { granted, .. } => {
                granted.clear();
            }
        }
        self
    }

    /// Whose transcript the turn belongs to; `None` for a caller without memory.
    pub fn history_key(&self) -> Option<HistoryKey> {
        match self {
            CallerScope::Mesh { assurance: Assurance::Verified, peer_id, .. } => {
                Some(HistoryKey::of("mesh", &peer_id.0))
            }
            CallerScope::Mesh { .. } => None,
            CallerScope::LocalOperator { session_id, .. } => {
                Some(HistoryKey::of("operator", &session_id.0))
            }
        }
    }

    /// Who it is, in one word: `operator`, or the peer's identity, `key:…`, `signed:…` or `claim:…`.
    pub fn caller(&self) -> &str {
        match self {
            CallerScope::Mesh { peer_id, .. } => &peer_id.0,
            CallerScope::LocalOperator { .. } => "operator",
        }
    }

    /// What to call it.
    pub fn name(&self) -> &str {
        match self {
            CallerScope::Mesh { name, .. } => name,
            CallerScope::LocalOperator { .. } => "operator",
        }
    }

    /// Is it the operator at the node?
    pub fn is_operator(&self) -> bool {
        matches!(self, CallerScope::LocalOperator { .. })
    }
}

/// Names one transcript: a fixed-length hash, so that nothing a caller sends becomes a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HistoryKey(String);

impl HistoryKey {
    fn of(kind: &str, id: &str) -> HistoryKey {
        let mut hash = Sha256::new();
        hash.update(kind.as_bytes());
        hash.update([0]);
        hash.update(id.as_bytes());
        HistoryKey(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
