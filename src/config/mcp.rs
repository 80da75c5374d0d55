//! `[[mcp]]`: a Model Context Protocol server as a source of tools.
//!
//! Owns its keys and what is impossible in them. What a tool may do is said here, by the operator: a tool
//! without a category or without a mark is never offered, whatever the server says of it.

use serde::Deserialize;

use super::check::is_base_url;
use crate::assistant::PermissionCategory;
use crate::assistant::http::is_private_way;
use crate::invisible::word;

/// What the node's own tools begin with: a tool of a server would be hidden by one of them.
const OURS: [&str; 11] = [
    "ai",
    "app",
    "bitcoin",
    "documents",
    "files",
    "media",
    "mesh",
    "network",
    "notes",
    "system",
    "wallet",
];

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpServer {
    /// `[a-z0-9_]`, 1 to 24: its tools are offered as `NAME_TOOL`.
    pub name: String,
    /// A program and its arguments, spoken to over its standard input and output.
    #[serde(default)]
    pub command: Vec<String>,
    /// Or the address of a streamable HTTP server.
    pub url: Option<String>,
    /// Names of environment variables that the program gets beside `PATH`, `HOME` and `LANG`.
    #[serde(default)]
    pub environment: Vec<String>,
    /// How long a call may take, 1 to 120 seconds.
    #[serde(default = "default_timeout")]
    pub timeout_s: u64,
    /// What of it may be offered.
    #[serde(default)]
    pub tools: Vec<McpTool>,
}

/// One tool of it. Without both marks it is not offered.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpTool {
    /// As the server calls it.
    pub name: String,
    /// Which grant it needs.
    pub category: Option<PermissionCategory>,
    /// Does it change something?
    pub destructive: Option<bool>,
}

fn is_variable(name: &str) -> bool {
    let first = name.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.len() <= 128
}

fn default_timeout() -> u64 {
    20
}

impl McpServer {
    /// What would be right, where something is wrong. `twice`: an earlier one has the same name.
    pub(super) fn fault(&self, twice: bool) -> Option<String> {
        let name = &self.name;
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || name.len() > 24 || !name.chars().all(fits) {
            return Some("name: write 1 to 24 of a-z, 0-9 and _".to_owned());
        }
        if OURS.contains(&name.as_str()) {
            return Some(format!(
                "server \"{name}\": the node's own tools begin so; give the server another name"
            ));
        }
        let right = |words: &str| Some(format!("server \"{name}\": {words}"));
        if twice {
            return right("the name stands here twice; give each server its own");
        }
        match (self.command.first(), &self.url) {
            (None, None) => {
                return right("write command = [\"/path/to/program\", …] or url = \"http://…\"");
            }
            (Some(_), Some(_)) => return right("write command or url, not both"),
            (Some(program), None) if !program.starts_with('/') => {
                return right("command: write the whole path of the program");
            }
            (None, Some(url)) if !is_base_url(url) => {
                return right(
                    "url: write http://host:port/path or https://host/path, without a user name, a query or a fragment",
                );
            }
            (None, Some(url)) if !is_private_way(url) => {
                return right(
                    "url: write https://, or a server of this machine: what tools say would cross the network in the clear",
                );
            }
            _ => {}
        }
        if let Some(wrong) = self.environment.iter().find(|name| !is_variable(name)) {
            let name = wrong.split('=').next().unwrap_or_default();
            return Some(match wrong.contains('=') && is_variable(name) {
                true => format!(
                    "server \"{}\": environment: write only the name, \"{name}\": the value is taken from the daemon's own \
                     environment (Environment= or EnvironmentFile= of its unit), for no secret stands in this file",
                    self.name
                ),
                false => format!(
                    "server \"{}\": environment: `{}` is no name of a variable: write letters, digits and _, such as \
                     \"API_KEY\"",
                    self.name,
                    // What may be a value is not repeated.
                    word(name, 60)
                ),
            });
        }
        if !(1..=120).contains(&self.timeout_s) {
            return right("timeout_s: write 1 to 120");
        }
        let mut seen = std::collections::BTreeSet::new();
        if self.tools.iter().any(|tool| tool.name.is_empty() || !seen.insert(&tool.name)) {
            return right("tools: write the name of each tool once");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn faults_of(text: &str) -> Result<Vec<McpServer>, String> {
        config::parse(text, "t.toml", []).map(|config| config.mcp).map_err(|e| e.to_string())
    }

    #[test]
    fn a_server_is_a_program_or_an_address() {
        let servers = faults_of(
            "[[mcp]]\nname = \"weather\"\ncommand = [\"/bin/weather\", \"-x\"]\ntimeout_s = 120\nenvironment = [\"API_KEY\", \"_x1\"]\n\
             [[mcp.tools]]\nname = \"forecast\"\ncategory = \"search\"\ndestructive = false\n\
             [[mcp.tools]]\nname = \"unmarked\"\n\
             [[mcp]]\nname = \"near\"\nurl = \"http://127.0.0.1:9000/mcp\"\n",
        )
        .unwrap();
        assert_eq!(servers.len(), 2);
        assert_eq!(servers[0].tools[0].category, Some(PermissionCategory::Search));
        assert_eq!((servers[0].tools[1].category, servers[0].tools[1].destructive), (None, None));
        assert_eq!(servers[1].timeout_s, 20);
    }

    #[test]
    fn what_is_impossible_is_answered_with_what_would_be_right() {
        let longest = "a".repeat(24);
        let of = |rest: &str| format!("[[mcp]]\nname = \"a\"\n{rest}\n");
        let named = |name: &str| format!("[[mcp]]\nname = \"{name}\"\ncommand = [\"/x\"]\n");
        assert!(faults_of(&named(&longest)).is_ok());
        for (text, words) in [
            (named(&format!("{longest}a")), "1 to 24"),
            (named("files"), "another name"),
            (named(""), "1 to 24"),
            (named("A"), "1 to 24"),
            (named("a") + &named("a"), "twice"),
            (of(""), "write command"),
            (of("command = [\"/x\"]\nurl = \"http://127.0.0.1/\""), "not both"),
            (of("command = [\"x\"]"), "whole path"),
            (of("url = \"ftp://x\""), "url:"),
            (of("url = \"http://198.51.100.7/mcp\""), "https://"),
            (
                of("command = [\"/x\"]\nenvironment = [\"API_KEY=canary\"]"),
                "write only the name, \"API_KEY\": the value is taken from the daemon's own environment",
            ),
            (of("command = [\"/x\"]\nenvironment = [\"A B\"]"), "`A B` is no name of a variable"),
            (of("command = [\"/x\"]\nenvironment = [\"\"]"), "no name of a variable"),
            (of("command = [\"/x\"]\nenvironment = [\"1=x\"]"), "`1` is no name of a variable"),
            (of("command = [\"/x\"]\ntimeout_s = 0"), "1 to 120"),
            (of("command = [\"/x\"]\ntimeout_s = 121"), "1 to 120"),
            (of("command = [\"/x\"]\ntools = [{ name = \"t\" }, { name = \"t\" }]"), "once"),
            (
                of("command = [\"/x\"]\ntools = [{ name = \"t\", category = \"weather\" }]"),
                "mcp.tools: unknown variant `weather`",
            ),
        ] {
            let error = faults_of(&text).unwrap_err();
            assert!(error.contains(words) && error.contains("mcp"), "{text}: {error}");
            assert!(!error.contains("canary"), "a value is repeated: {error}");
        }
    }
}
