//! Rules that a type can't carry: ranges, and keys that contradict one another.
//!
//! Owns what is impossible. Does not look at the machine: whether a port or a server is there is not
//! its matter.

use std::collections::HashSet;

use super::{Config, KEPT_FROM_CLOUD, tools};
use crate::assistant::http::is_private_way;
use crate::radio::settings;

/// A hundred years, about.
const MAX_HISTORY_DAYS: u32 = 36_500;

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The dotted key.
    pub key: &'static str,
    /// What would be right.
    pub right: String,
}

/// All of them.
pub fn faults(config: &Config) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fault = |key, right: &str| faults.push(Fault { key, right: right.to_owned() });

    if !config.data_dir.is_absolute() {
        fault("data_dir", "write an absolute path, such as \"/var/lib/tombolo\"");
    }
    if !(config.airtime.share > 0.0 && config.airtime.share <= 1.0) {
        fault("airtime.share", "write a number above 0 and at most 1");
    }
    if !(1..=9).contains(&config.airtime.max_parts) {
        fault("airtime.max_parts", "write 1 to 9");
    }

    let trigger = &config.mesh.trigger;
    if trigger.is_empty() || trigger.len() > 20 || trigger.contains(char::is_whitespace) {
        fault("mesh.trigger", "write one word of 1 to 20 bytes, such as \"!ai\"");
    }
    if config.mesh.queries_per_hour == 0 {
        fault(
            "mesh.queries_per_hour",
            "write at least 1; to answer nobody, set mesh.enabled = false",
        );
    }
    let contacts = &config.mesh.allowed_contacts;
    let ids: HashSet<_> = contacts.iter().map(|contact| contact.id).collect();
    let keys: HashSet<_> = contacts.iter().filter_map(|contact| contact.key).collect();
    let keyed = contacts.iter().filter(|contact| contact.key.is_some()).count();
    if ids.len() < contacts.len() || keys.len() < keyed {
        fault(
            "mesh.allowed_contacts",
            "a contact stands here twice; write each id and each key once",
        );
    }
    if contacts.iter().any(|contact| !contact.id.is_peer()) {
        fault(
            "mesh.allowed_contacts",
            "the broadcast address and ids below !00000004 are no contacts",
        );
    }

    for wrong in settings::Wanted::from_file(&config.radio.settings).err().unwrap_or_default() {
        if let Some(field) = wrong.field {
            fault(field.key(), &wrong.right);
        }
    }

    for right in config.mcp.iter().enumerate().filter_map(|(at, server)| {
        let twice = config.mcp.iter().take(at).any(|other| other.name == server.name);
        server.fault(twice)
    }) {
        fault("mcp", &right);
    }

    let urls = [
        ("assistant.ollama.url", Some(&config.assistant.ollama.url)),
        ("assistant.claude.url", Some(&config.assistant.claude.url)),
        ("assistant.openai.url", config.assistant.openai.as_ref().map(|o| &o.url)),
    ];
    for (key, url) in urls {
        if let Some(url) = url
            && !is_base_url(url)
        {
            fault(
                key,
                "write http://host:port or https://host, without a user name, a query or a fragment",
            );
        }
    }
    if !is_private_way(&config.assistant.claude.url) {
        fault(
            "assistant.claude.url",
            "write https://: the key would cross the network in the clear",
        );
    }
    if let Some(openai) = &config.assistant.openai
        && !openai.local
        && !is_private_way(&openai.url)
    {
        fault(
            "assistant.openai.url",
            "write https://: key and questions would cross the network in the clear; for a server of your \
             own that needs no key, write local = true",
        );
    }
    let content = &config.assistant.cloud_content;
    if content.iter().any(|category| !KEPT_FROM_CLOUD.contains(category)) {
        fault(
            "assistant.cloud_content",
            "write some of \"files\", \"media\", \"notes\", \"search\" and \"wallet\": only their content is kept from a \
             cloud leg",
        );
    }
    if config.assistant.history_days > MAX_HISTORY_DAYS {
        fault("assistant.history_days", "write 1 to 36500, or 0 to keep transcripts for ever");
    }
    let models = [
        ("assistant.ollama.model", Some(&config.assistant.ollama.model)),
        ("assistant.claude.model", Some(&config.assistant.claude.model)),
        ("assistant.openai.model", config.assistant.openai.as_ref().map(|o| &o.model)),
    ];
    for (key, model) in models {
        if model.is_some_and(|m| m.trim().is_empty()) {
            fault(key, "write the name of a model");
        }
    }
    faults.extend(tools::faults(&config.tools, &config.data_dir));
    faults
}

pub(super) fn is_base_url(url: &str) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    })
}
