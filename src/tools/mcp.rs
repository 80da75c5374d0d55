//! Tools of Model Context Protocol servers.
//!
//! Owns which of their tools are offered: those that the operator marked in the configuration, whose words
//! are the ones that were pinned. What a server says of its own tools' safety counts for nothing; what it
//! answers is foreign text, and bounded. A server that is down takes none of its tools away: a call says so.

pub mod bounds;
pub mod condition;
mod listener;
pub mod pins;
mod result;
mod server;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use self::condition::Conditions;
use self::pins::{Definition, Learnt, Pins};
use self::server::Server;
use crate::assistant::PermissionCategory;
use crate::assistant::tools::{ForeignDescription, ToolDef, ToolSource};
use crate::config::mcp::{McpServer, McpTool};
use crate::invisible::word;
use crate::store::StoreError;

/// Names as models take them.
const MAX_NAME: usize = 64;
/// Tools of a server that are named where the one that is configured is not among them.
const MAX_NAMED: usize = 12;

/// All servers of the configuration.
pub struct Hub {
    servers: Vec<Arc<Server>>,
    pins: Arc<Mutex<Pins>>,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("servers", &self.servers.len()).finish_non_exhaustive()
    }
}

impl Hub {
    /// Starts a task a server, which connects now and again whenever the connection ends.
    pub fn start(
        servers: &[McpServer],
        data_dir: &Path,
        cancel: &CancellationToken,
        tracker: &TaskTracker,
    ) -> Result<Arc<Hub>, StoreError> {
        let pins = Arc::new(Mutex::new(Pins::open(data_dir)?));
        let names = servers.iter().map(|server| server.name.as_str());
        let conditions = Arc::new(Conditions::new(data_dir, names));
        let servers = servers
            .iter()
            .map(|config| {
                let server = Arc::new(Server::new(config.clone(), conditions.clone()));
                let pins = pins.clone();
                let learn = move |tools: Vec<(String, Definition)>, config: &McpServer| {
                    learn(&pins, config, tools);
                };
                tracker.spawn(server.clone().run(learn, cancel.clone()));
                server
            })
            .collect();
        Ok(Arc::new(Hub { servers, pins }))
    }
}

impl ToolSource for Hub {
    fn tools(&self) -> Vec<ToolDef> {
        let mut pins = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
        // `tombolo mcp accept` writes the file of a running daemon.
        if let Err(error) = pins.refresh() {
            warn!(%error, "the pins of foreign tools could not be read again; the old ones count");
        }
        let mut tools = Vec::new();
        for offer in offers(self.servers.iter().map(|server| &server.config), &pins) {
            let Ok(shown) = offer.shown else { continue };
            let server = self.servers.iter().find(|server| server.config.name == offer.server);
            let (Some(server), Some(pinned)) = (server, pins.current(offer.server, offer.tool))
            else {
                continue;
            };
            let about = ForeignDescription {
                name: offer.name,
                description: shown.definition.description,
                parameters: shown.definition.parameters,
                category: shown.category,
                destructive: shown.destructive,
            };
            let (server, name, hash) = (server.clone(), offer.tool.to_owned(), pinned.hash());
            let pins = self.pins.clone();
            tools.push(ToolDef::foreign(about, move |arguments| {
                let (server, name, pins) = (server.clone(), name.clone(), pins.clone());
                let hash = hash.clone();
                Box::pin(async move {
                    // It may have changed since the turn began.
                    let same = pins
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .current(&server.config.name, &name)
                        .is_some_and(|now| now.hash() == hash);
                    if !same {
                        return Err("the tool has changed and waits for the operator".to_owned());
                    }
                    server.call(&name, arguments).await
                })
            }));
        }
        tools
    }
}

/// A tool of the configuration, and whether models are offered it.
#[derive(Debug)]
pub struct Offer<'a> {
    /// The server's name.
    pub server: &'a str,
    /// The tool, as the server calls it.
    pub tool: &'a str,
    /// The name under which a model sees it.
    pub name: String,
    /// What a model is shown; else why it is not offered, in words for the operator.
    pub shown: Result<Shown, String>,
}

/// What a model is shown of a tool, and what the operator says of it.
#[derive(Debug)]
pub struct Shown {
    /// Clean, and within bounds.
    pub definition: Definition,
    /// Which grant it needs.
    pub category: PermissionCategory,
    /// It is asked about before it runs.
    pub destructive: bool,
}

/// Every tool of these servers. The same for the daemon and for whoever lists them.
pub fn offers<'a>(servers: impl Iterator<Item = &'a McpServer>, pins: &Pins) -> Vec<Offer<'a>> {
    let (mut names, mut bytes) = (BTreeSet::new(), 0);
    let tools = servers.flat_map(|server| server.tools.iter().map(move |tool| (server, tool)));
    tools
        .map(|(server, tool)| {
            let name = offered_name(&server.name, &tool.name);
            let shown = shown(server, tool, pins).and_then(|shown| {
                if names.contains(&name) {
                    return Err("another tool before it comes to the same name".to_owned());
                }
                let with_it = bytes + bounds::bytes(&name, &shown.definition);
                if with_it > bounds::MAX_ALL_BYTES {
                    return Err(format!(
                        "the tools before it leave no room: all together may have {} bytes; list fewer, or put this one first",
                        bounds::MAX_ALL_BYTES
                    ));
                }
                bytes = with_it;
                names.insert(name.clone());
                Ok(shown)
            });
            Offer { server: &server.name, tool: &tool.name, name, shown }
        })
        .collect()
}

fn shown(server: &McpServer, tool: &McpTool, pins: &Pins) -> Result<Shown, String> {
    let (category, destructive) =
        marks(tool).ok_or("write its category and destructive = true or false")?;
    let pin = pins.get(&server.name, &tool.name).ok_or("the server has not been seen yet")?;
    if let Some(why) = &pin.refused {
        return Err(why.clone());
    }
    if pin.changed.is_some() {
        let what = match pin.accepted {
            Some(_) => "it is suspended, for its words have changed",
            None => "its words were never accepted",
        };
        return Err(format!(
            "{what}; read them, then: tombolo mcp accept {} {}",
            server.name, tool.name
        ));
    }
    let pinned = pin.accepted.as_ref().ok_or("the server has not been seen yet")?;
    Ok(Shown { definition: bounds::shown(pinned)?, category, destructive })
}

/// Both marks, or it is not offered.
pub fn marks(tool: &McpTool) -> Option<(crate::assistant::PermissionCategory, bool)> {
    Some((tool.category?, tool.destructive?))
}

/// The name under which a model sees it.
pub fn offered_name(server: &str, tool: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    format!("{server}_{tool}").chars().map(fits).take(MAX_NAME).collect()
}

fn learn(pins: &Mutex<Pins>, config: &McpServer, listed: Vec<(String, Definition)>) {
    let mut pins = pins.lock().unwrap_or_else(PoisonError::into_inner);
    for tool in &config.tools {
        let fit = match listed.iter().find(|(name, _)| *name == tool.name) {
            None => Err(format!("the server has no such tool; {}", named(&listed))),
            Some((_, definition)) => bounds::shown(definition).map(|_| definition),
        };
        let definition = match fit {
            Ok(definition) => definition,
            Err(why) => {
                warn!(server = config.name, tool = tool.name, why, "a foreign tool is not offered");
                if let Err(error) = pins.refuse(&config.name, &tool.name, &why) {
                    warn!(%error, "the pins of foreign tools could not be written");
                }
                continue;
            }
        };
        match pins.learn(&config.name, &tool.name, definition.clone()) {
            Ok(Learnt::Known) => {}
            Ok(Learnt::Pinned) => {
                tracing::info!(server = config.name, tool = tool.name, "a foreign tool was pinned");
            }
            Ok(Learnt::Suspended) => warn!(
                server = config.name,
                tool = tool.name,
                "the words of a foreign tool are not those that were pinned; it is suspended until `tombolo mcp accept`"
            ),
            Err(error) => warn!(%error, "the pins of foreign tools could not be written"),
        }
    }
}

/// The tools that a server has.
fn named(listed: &[(String, Definition)]) -> String {
    let mut names: Vec<String> =
        listed.iter().take(MAX_NAMED).map(|(name, _)| word(name, MAX_NAME)).collect();
    if listed.len() > MAX_NAMED {
        names.push(format!("{} more", listed.len() - MAX_NAMED));
    }
    if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_fit_for_models_and_no_longer_than_they_take() {
        assert_eq!(offered_name("weather", "get.forecast now"), "weather_get_forecast_now");
        assert_eq!(offered_name("a", &"x".repeat(62)).len(), 64);
        assert_eq!(offered_name("a", &"x".repeat(63)).len(), 64);
    }

    #[test]
    fn without_both_marks_a_tool_is_not_offered() {
        let category = Some(crate::assistant::PermissionCategory::Search);
        let tool = |category, destructive| McpTool { name: "t".to_owned(), category, destructive };
        assert!(marks(&tool(category, Some(false))).is_some());
        assert!(marks(&tool(category, None)).is_none());
        assert!(marks(&tool(None, Some(false))).is_none());
    }
}
