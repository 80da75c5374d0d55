//! Tools of Model Context Protocol servers.
//!
//! Owns which of their tools are offered: those that the operator marked in the configuration, whose words
//! are the ones that were pinned. What a server says of its own tools' safety counts for nothing; what it
//! answers is foreign text, and bounded. A server that is down takes none of its tools away: a call says so.

pub mod pins;
mod result;
mod server;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use self::pins::{Definition, Learnt, Pins};
use self::server::Server;
use crate::assistant::tools::{ForeignDescription, ToolDef, ToolSource};
use crate::config::mcp::{McpServer, McpTool};
use crate::store::StoreError;

/// Names as models take them.
const MAX_NAME: usize = 64;

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
        let servers = servers
            .iter()
            .map(|config| {
                let server = Arc::new(Server::new(config.clone()));
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
        for server in &self.servers {
            for tool in &server.config.tools {
                let Some((category, destructive)) = marks(tool) else { continue };
                let Some(pinned) = pins.current(&server.config.name, &tool.name) else { continue };
                let about = ForeignDescription {
                    name: offered_name(&server.config.name, &tool.name),
                    description: pinned.description.clone(),
                    parameters: pinned.parameters.clone(),
                    category,
                    destructive,
                };
                let (server, name, hash) = (server.clone(), tool.name.clone(), pinned.hash());
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
                            return Err(
                                "the tool has changed and waits for the operator".to_owned()
                            );
                        }
                        server.call(&name, arguments).await
                    })
                }));
            }
        }
        tools
    }
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
        let Some((_, definition)) = listed.iter().find(|(name, _)| *name == tool.name) else {
            warn!(server = config.name, tool = tool.name, "the server has no such tool");
            continue;
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
