//! The contacts as they are shown.
//!
//! Owns the way from an [`Entry`] to its view, and what the operator should look at. Changes nothing.

use super::{Contacts, Entry, Pin, Source};
use crate::config::{Asker, MeshConfig};
use crate::mesh::names::{self, Likeness};
use crate::mesh::view::{AnsweringView, ContactView, DeniedView};

impl Contacts {
    /// Who is answered, as `mesh.assistant-status` shows it. `configured` is what the configuration says, `effective` what
    /// is in force.
    pub fn answering(&self, configured: &MeshConfig, effective: &MeshConfig) -> AnsweringView {
        let source = |here: bool| if here { Source::Node } else { Source::Configuration }.as_str();
        let denied = |asker: &Asker| DeniedView {
            asker: asker.to_string(),
            source: source(!configured.denied_askers.contains(asker)),
        };
        AnsweringView {
            enabled: effective.enabled,
            trusted_only: effective.trusted_only,
            allowed_contacts: self.view(effective),
            denied_askers: effective.denied_askers.iter().map(Asker::to_string).collect(),
            denied: effective.denied_askers.iter().map(denied).collect(),
            enabled_source: source(self.book.enabled.is_some()),
            trusted_only_source: source(self.book.trusted_only.is_some()),
            trigger: effective.trigger.clone(),
            channels: effective.channels.clone(),
            pairing: None,
            warnings: self.warnings(configured),
        }
    }

    /// What is odd about the contacts, and which settings stand twice.
    pub fn warnings(&self, configured: &MeshConfig) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        for (name, here, there) in [
            ("enabled", self.book.enabled, configured.enabled),
            ("trusted_only", self.book.trusted_only, configured.trusted_only),
        ] {
            if let Some(here) = here.filter(|here| *here != there) {
                warnings.push(format!(
                    "`{name}` was set to {here} on this node: the configuration's {there} does not count"
                ));
            }
        }
        let likeness: Vec<Likeness> =
            self.entries.iter().map(|entry| Likeness::of(&entry.name)).collect();
        for (at, (entry, mine)) in self.entries.iter().zip(&likeness).enumerate() {
            let before = self.entries.iter().zip(&likeness).take(at);
            for (other, _) in before.filter(|(_, theirs)| mine.is_like(theirs)) {
                warnings.push(looks_like(&entry.name, other));
            }
        }
        warnings
    }

    /// What an operator should know who gives that name to the contact `own` (or to a new one).
    pub fn about_name(&self, name: &str, own: Option<crate::node::NodeNum>) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some((one, other)) = names::mixed_scripts(name) {
            warnings.push(format!("`{name}` mixes {one} and {other} letters"));
        }
        let others = self.entries.iter().filter(|entry| Some(entry.id) != own);
        warnings.extend(
            others
                .filter(|other| names::look_alike(name, &other.name))
                .map(|other| looks_like(name, other)),
        );
        warnings
    }

    fn view(&self, effective: &MeshConfig) -> Vec<ContactView> {
        let view = |contact: &Entry| ContactView {
            id: contact.number,
            name: contact.name.clone(),
            key: contact.pin.key().map(|key| key.to_string()),
            fingerprint: contact.pin.key().map(|key| key.fingerprint()),
            pin: match contact.pin {
                Pin::None => "none",
                Pin::Configured(_) => "configured",
                Pin::Learned { confirmed: true, .. } => "confirmed",
                Pin::Learned { confirmed: false, .. } => "unconfirmed",
            },
            foreign_fingerprint: contact.foreign.map(|key| key.fingerprint()),
            grants: contact.grants.iter().map(ToString::to_string).collect(),
            grants_source: "default",
            suspended: contact.suspended,
            denied: is_denied(contact, effective),
            source: contact.source.as_str(),
            queries: None,
        };
        self.entries.iter().map(view).collect()
    }
}

/// Would no message of that contact be answered, for it is denied?
pub(super) fn is_denied(contact: &Entry, effective: &MeshConfig) -> bool {
    effective.denied_askers.iter().any(|asker| match asker {
        Asker::Node(number) => *number == contact.number || *number == contact.id,
        Asker::Key(key) => contact.pin.key() == Some(*key),
    })
}

fn looks_like(name: &str, other: &Entry) -> String {
    if name == other.name {
        format!("two contacts are called `{name}`; the other is {}", other.number)
    } else {
        format!("`{name}` looks like `{}`, the contact {}", other.name, other.number)
    }
}
