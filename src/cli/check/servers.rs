//! What the tools need of other programs: services, a Bitcoin node, Model Context Protocol servers.
//!
//! Owns a line each. Asks those that answer a question without changing anything; starts none.

use super::{Found, Line};
use crate::config::Config;
use crate::secrets::Secrets;
use crate::tools::{bitcoin, system};

/// Nothing configured: no line.
pub(super) async fn lines(config: &Config) -> Vec<Line> {
    let mut lines = Vec::new();
    lines.extend(services(config).await.map(|found| ("services", found)));
    lines.extend(bitcoin(config).await.map(|found| ("bitcoin", found)));
    lines.extend(mcp::lines(config).await.into_iter().map(|found| ("mcp", found)));
    lines
}

async fn services(config: &Config) -> Option<Found> {
    let services = &config.tools.services;
    if services.is_empty() {
        return None;
    }
    Some(match system::missing_services(services).await {
        Ok(missing) if missing.is_empty() => Found::Good(format!("{} known here", services.len())),
        Ok(missing) => Found::Bad(format!(
            "tools.services: this machine has no {}; see: systemctl list-units --type=service --all",
            missing.join(", ")
        )),
        Err(why) => Found::Note(format!("not looked for: {why}")),
    })
}

async fn bitcoin(config: &Config) -> Option<Found> {
    let node = config.tools.bitcoin.as_ref()?;
    if let Some(cookie) = &node.cookie
        && let Err(error) = std::fs::File::open(cookie)
    {
        return Some(Found::Bad(format!(
            "this user can't read {}: {error}; is the Bitcoin node running, and is this user in its group?",
            cookie.display()
        )));
    }
    // Opening makes the folder: not the business of a check.
    if !config.data_dir.join("secrets").exists() {
        let words = format!("{}: looked for once the daemon has made its data folder", node.url);
        return Some(Found::Note(words));
    }
    let Ok(secrets) = Secrets::open(&config.data_dir) else {
        return Some(Found::Note("not looked for: see secrets".to_owned()));
    };
    let probed = bitcoin::probe(node, config.tools.wallet.as_deref(), &secrets).await;
    Some(match probed {
        Ok(words) => Found::Good(format!("{}: {words}", node.url)),
        Err(why) => Found::Bad(format!("{}: {why}", node.url)),
    })
}

#[cfg(not(feature = "mcp"))]
mod mcp {
    use super::{Config, Found};

    pub async fn lines(config: &Config) -> Vec<Found> {
        let wrong =
            "this program was built without the feature mcp: take [[mcp]] out of the configuration";
        let any = (!config.mcp.is_empty()).then(|| Found::Bad(wrong.to_owned()));
        any.into_iter().collect()
    }
}

#[cfg(feature = "mcp")]
mod mcp {
    use std::time::Duration;

    use super::{Config, Found};
    use crate::assistant::http::{HttpClient, exchange};
    use crate::config::mcp::McpServer;
    use crate::gateway;
    use crate::tools::mcp::condition::{Condition, Conditions};
    use crate::tools::mcp::offers;
    use crate::tools::mcp::pins::Pins;

    const TIME: Duration = Duration::from_secs(3);

    /// A line a server.
    pub async fn lines(config: &Config) -> Vec<Found> {
        let running = gateway::is_running(&config.data_dir);
        let conditions = Conditions::read(&config.data_dir);
        let mut lines = Vec::new();
        for server in &config.mcp {
            let name = &server.name;
            let found = match conditions.get(name).filter(|_| running) {
                Some(Condition { why_not: Some(why), .. }) => Err(why.clone()),
                Some(Condition { why_not: None, .. }) => Ok("there".to_owned()),
                None => look(server).await,
            };
            lines.push(match found {
                Err(why) => Found::Bad(format!("{name}: {why}")),
                Ok(words) => match not_offered(config, server) {
                    None => Found::Good(format!("{name}: {words}")),
                    Some(not) => Found::Note(format!("{name}: {words}; {not}")),
                },
            });
        }
        lines
    }

    /// As far as it can be told without starting it.
    async fn look(server: &McpServer) -> Result<String, String> {
        if let Some(program) = server.command.first() {
            return match rustix::fs::access(program.as_str(), rustix::fs::Access::EXEC_OK) {
                Ok(()) => Ok(format!("{program} can be run; it was not started")),
                Err(rustix::io::Errno::NOENT) => Err(format!("there is no program {program}")),
                Err(error) => Err(format!("this user can't run {program}: {error}")),
            };
        }
        let url = server.url.as_deref().unwrap_or_default();
        let client = HttpClient::new(url).get().map_err(|e| e.to_string())?.clone();
        match exchange(client.get(url), TIME).await {
            Ok(_) => Ok(format!("{url} answers")),
            Err(error) => Err(format!("{url}: {error}")),
        }
    }

    /// Of its tools those that are not offered, with the first reason.
    fn not_offered(config: &Config, server: &McpServer) -> Option<String> {
        if server.tools.is_empty() {
            return Some("no tool of it is named in [[mcp.tools]]".to_owned());
        }
        let unmarked: Vec<&str> = server
            .tools
            .iter()
            .filter(|tool| crate::tools::mcp::marks(tool).is_none())
            .map(|tool| tool.name.as_str())
            .collect();
        if !unmarked.is_empty() {
            return Some(format!(
                "not offered for want of category or destructive: {}",
                unmarked.join(", ")
            ));
        }
        // Opening sets a broken file aside: not the business of a check.
        let path = config.data_dir.join("mcp.json");
        let text = std::fs::read(&path).ok()?;
        Pins::look(&text).ok()?;
        let pins = Pins::open(&config.data_dir).ok()?;
        let offers = offers(config.mcp.iter(), &pins);
        let offer = offers.iter().find(|offer| offer.server == server.name && offer.shown.is_err());
        let why = offer.and_then(|offer| Some((offer.tool, offer.shown.as_ref().err()?)));
        why.map(|(tool, why)| format!("{tool} is not offered: {why}"))
    }
}
