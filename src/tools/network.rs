//! `network`: the mesh as this node hears it, and the machine's own interfaces.
//!
//! Owns the tools and their words. What the mesh side knows comes through [`Mesh`]: this module knows no
//! radio. Names of nodes are whatever their owners wrote; they are cleaned, quoted and bounded, and every
//! result that holds one is marked as foreign.

mod interfaces;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use self::interfaces::Interfaces;
use super::system::span;
use crate::assistant::PermissionCategory;
use crate::assistant::tools::{Description, ToolDef};
use crate::invisible;
use crate::node::NodeNum;

/// Nodes that are listed without a wish of the caller's.
const DEFAULT_NODES: usize = 10;
/// Nodes that are listed at most.
const MAX_NODES: usize = 40;
/// Characters shown of a foreign name. On the air a long name has 39 bytes.
const MAX_NAME: usize = 40;
/// Nodes that are named when a name fits several.
const MAX_CANDIDATES: usize = 5;

/// An answer to come.
pub type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// What the mesh side can be asked. The same answers that `mesh.nodes` and `mesh.airtime` show.
pub trait Mesh: Send + Sync {
    /// The nodes that are known, the one heard last first.
    fn nodes(&self) -> Asked<'_, Vec<KnownNode>>;
    /// How much of the air is used.
    fn airtime(&self) -> Asked<'_, Airtime>;
    /// The present, Unix seconds.
    fn now(&self) -> u64;
}

/// A node. Everything but `contact` is a claim of somebody.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KnownNode {
    /// Its number.
    pub number: u32,
    /// Untrusted text.
    pub long_name: String,
    /// Untrusted text.
    pub short_name: String,
    /// The operator's own name for it, when it is a contact.
    pub contact: Option<String>,
    /// Unix seconds, 0 for never.
    pub last_heard: u64,
    /// dB.
    pub snr: Option<f32>,
    /// Hops, where known.
    pub hops: Option<u32>,
    /// Percent; above 100 means mains.
    pub battery: Option<u32>,
}

/// The air of the last hour.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Airtime {
    /// Milliseconds sent by us.
    pub used_ms: u64,
    /// Milliseconds that the law allows; `None` while the region is unset.
    pub limit_ms: Option<u64>,
    /// Milliseconds of it that replies may use.
    pub share_ms: Option<u64>,
    /// Percent of the last minute in which the channel was busy.
    pub channel_percent: Option<f32>,
    /// Why nothing is sent now.
    pub paused: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodesArguments {
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeArguments {
    node: String,
}

/// All of the category.
pub(super) fn tools(mesh: &Arc<dyn Mesh>) -> Vec<ToolDef> {
    vec![
        nodes_tool(mesh.clone()),
        node_tool(mesh.clone()),
        airtime_tool(mesh.clone()),
        interfaces_tool(Interfaces::here()),
    ]
}

fn nodes_tool(mesh: Arc<dyn Mesh>) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Network,
        "mesh_nodes",
        "Radio nodes that this node knows, last heard first.",
    )
    .taking(json!({"limit": {"type": "integer", "minimum": 1, "maximum": MAX_NODES}}), &[]);
    ToolDef::new(about, move |NodesArguments { limit }| {
        let mesh = mesh.clone();
        Box::pin(async move {
            Ok(list(&mesh.nodes().await?, limit.unwrap_or(DEFAULT_NODES), mesh.now()))
        })
    })
}

fn node_tool(mesh: Arc<dyn Mesh>) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Network,
        "mesh_node",
        "One radio node: signal (SNR), hops, battery, last heard.",
    )
    .taking(
        json!({"node": {"type": "string", "description": "Id (!a1b2c3d4) or name"}}),
        &["node"],
    );
    ToolDef::new(about, move |NodeArguments { node }| {
        let mesh = mesh.clone();
        Box::pin(async move { one(&mesh.nodes().await?, &node, mesh.now()) })
    })
}

fn airtime_tool(mesh: Arc<dyn Mesh>) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Network,
        "mesh_airtime",
        "How much radio airtime was used in the last hour, and what is left.",
    );
    ToolDef::new(about, move |NoArguments {}| {
        let mesh = mesh.clone();
        Box::pin(async move { Ok(air(&mesh.airtime().await?)) })
    })
    .with_own_results()
}

fn interfaces_tool(interfaces: Interfaces) -> ToolDef {
    let about = Description::reads(
        PermissionCategory::Network,
        "network_interfaces",
        "This machine's network interfaces: state, addresses, traffic.",
    );
    ToolDef::new(about, move |NoArguments {}| {
        let interfaces = interfaces.clone();
        Box::pin(super::blocking(move || interfaces.words()))
    })
    .with_own_results()
}

fn list(nodes: &[KnownNode], limit: usize, now: u64) -> String {
    let limit = limit.min(MAX_NODES);
    if nodes.is_empty() {
        return "no other node is known".to_owned();
    }
    let mut sorted: Vec<&KnownNode> = nodes.iter().collect();
    sorted.sort_by(|a, b| (b.last_heard, a.number).cmp(&(a.last_heard, b.number)));
    let mut lines: Vec<String> = sorted.iter().take(limit).map(|node| words(node, now)).collect();
    if nodes.len() > limit {
        lines.push(format!("[{} more]", nodes.len() - limit));
    }
    lines.join("\n")
}

/// The node that is meant: by its id, by the operator's name for it, by a whole name of its own, or by a
/// part of one that fits a single node.
fn one(nodes: &[KnownNode], wanted: &str, now: u64) -> Result<String, String> {
    let wanted = wanted.trim();
    let id = if wanted.starts_with('!') { wanted.to_owned() } else { format!("!{wanted}") };
    if let Ok(NodeNum(number)) = id.to_ascii_lowercase().parse() {
        let node = nodes.iter().find(|node| node.number == number);
        if let Some(node) = node {
            return Ok(words(node, now));
        }
        if wanted.starts_with('!') {
            return Err(format!("{} was never heard", NodeNum(number)));
        }
    }
    let wanted = wanted.to_lowercase();
    if wanted.is_empty() {
        return Err("`node` is empty; expected an id such as !a1b2c3d4, or a name".to_owned());
    }
    let is = |name: &str| name.to_lowercase() == wanted;
    let has = |name: &str| name.to_lowercase().contains(&wanted);
    let ways: [&dyn Fn(&KnownNode) -> bool; 3] = [
        &|node| node.contact.as_deref().is_some_and(is),
        &|node| is(&node.long_name) || is(&node.short_name),
        &|node| has(&node.long_name) || node.contact.as_deref().is_some_and(has),
    ];
    for way in ways {
        let found: Vec<&KnownNode> = nodes.iter().filter(|node| way(node)).collect();
        match found.as_slice() {
            [] => {}
            [node] => return Ok(words(node, now)),
            _ => {
                let named: Vec<String> =
                    found.iter().take(MAX_CANDIDATES).map(|node| words(node, now)).collect();
                return Err(format!(
                    "{} nodes have that name; ask again with an id:\n{}",
                    found.len(),
                    named.join("\n")
                ));
            }
        }
    }
    Err("no node of that name is known".to_owned())
}

fn words(node: &KnownNode, now: u64) -> String {
    let mut words = NodeNum(node.number).to_string();
    if let Some(contact) = &node.contact {
        words.push_str(&format!(" contact {}", quoted(contact)));
    }
    if !node.long_name.is_empty() {
        words.push_str(&format!(" calls itself {}", quoted(&node.long_name)));
    }
    if !node.short_name.is_empty() {
        words.push_str(&format!(" ({})", quoted(&node.short_name)));
    }
    match node.last_heard {
        0 => words.push_str(", never heard"),
        heard => words.push_str(&format!(", heard {} ago", span(now.saturating_sub(heard)))),
    }
    match node.hops {
        Some(0) => words.push_str(", direct"),
        Some(1) => words.push_str(", 1 hop"),
        Some(hops) => words.push_str(&format!(", {hops} hops")),
        None => {}
    }
    if let Some(snr) = node.snr.filter(|snr| snr.is_finite()) {
        words.push_str(&format!(", SNR {snr:.1} dB"));
    }
    match node.battery {
        Some(percent @ 0..=100) => words.push_str(&format!(", battery {percent} %")),
        Some(_) => words.push_str(", on mains"),
        None => {}
    }
    words
}

/// A foreign name as one quoted word: nothing in it ends the quotes, hides, or begins a line.
fn quoted(name: &str) -> String {
    let visible = invisible::visible(name);
    let plain = visible.chars().map(|c| match c {
        '"' | '\u{201c}' | '\u{201d}' => '\'',
        '\n' => ' ',
        c => c,
    });
    format!("\"{}\"", plain.take(MAX_NAME).collect::<String>().trim())
}

fn air(air: &Airtime) -> String {
    let seconds = |ms: u64| format!("{}.{} s", ms / 1000, ms % 1000 / 100);
    let mut words = format!("sent in the last hour: {}", seconds(air.used_ms));
    match (air.limit_ms, air.share_ms) {
        (Some(limit), Some(share)) => words.push_str(&format!(
            "\nleft for replies: {} of {} (the law allows {})",
            seconds(share.saturating_sub(air.used_ms)),
            seconds(share),
            seconds(limit)
        )),
        _ => words.push_str("\nthe radio's region is not set: nothing is sent"),
    }
    if let Some(percent) = air.channel_percent.filter(|percent| percent.is_finite()) {
        words.push_str(&format!("\nchannel busy: {percent:.0} %"));
    }
    if let Some(reason) = &air.paused {
        words.push_str(&format!("\npaused: {reason}"));
    }
    words
}

#[cfg(test)]
mod tests;
