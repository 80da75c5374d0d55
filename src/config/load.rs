//! Reading the configuration: the file, then the environment over it, then the rules between keys.
//!
//! Owns the errors that stop a start: each names the file, the line, the key and what would be right.
//! Never repeats a line of the file: somebody may have put a secret there by mistake.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use super::{Config, check};

/// Variables that begin like a key and are none.
const NOT_KEYS: [&str; 2] = ["TOMBOLO_CONFIG", "TOMBOLO_LOG"];

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error(
        "no configuration at {}: write one (docs/operator-guide.md shows all keys), or name another with --config",
        path.display()
    )]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file could not be read.
    #[error("reading {}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something in it is wrong: one line a fault, each `file:line: key: what would be right`.
    #[error("{}", faults.join("\n"))]
    Wrong {
        /// The faults.
        faults: Vec<String>,
    },
}

/// Where the configuration is: `--config`, else `$TOMBOLO_CONFIG`, else `/etc/tombolo/tombolo.toml`.
pub fn path(given: Option<PathBuf>) -> PathBuf {
    given
        .or_else(|| std::env::var_os("TOMBOLO_CONFIG").map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from("/etc/tombolo/tombolo.toml"))
}

/// Reads the file, then the environment over it.
pub fn load(path: &Path) -> Result<Config, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => ConfigError::Missing { path: path.to_owned() },
        _ => ConfigError::Unreadable { path: path.to_owned(), source },
    })?;
    // A variable that is not UTF-8 can't be one of ours.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let config = parse(&text, &path.display().to_string(), environment)?;
    Ok(Config { file: Some(path.to_owned()), ..config })
}

/// The same from a text. `name` stands for the file in errors.
pub fn parse(
    text: &str,
    name: &str,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    let mut config: Config = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        let key = key_at(text, line);
        one(format!("{name}:{line}: {key}{}", explain(error.message())))
    })?;

    let mut table: Table =
        toml::from_str(text).map_err(|e| one(format!("{name}: {}", e.message())))?;
    let mut set_by: Vec<(String, String)> = Vec::new();
    for (variable, value) in environment {
        if NOT_KEYS.contains(&variable.as_str()) {
            continue;
        }
        let Some(keys) = keys_of(&variable) else { continue };
        put(&mut table, &keys, value_of(&value));
        config = Config::deserialize(Value::Table(table.clone())).map_err(|error| {
            one(format!(
                "environment variable {variable} (key {}): {}",
                keys.join("."),
                explain(error.message())
            ))
        })?;
        set_by.push((keys.join("."), variable));
    }

    let faults: Vec<String> = check::faults(&config)
        .into_iter()
        .map(|check::Fault { key, right }| {
            if let Some(variable) = variable_of(&set_by, key) {
                return format!("environment variable {variable} (key {key}): {right}");
            }
            match line_of(text, key) {
                Some(line) => format!("{name}:{line}: {key}: {right}"),
                None => format!("{name}: {key}: {right}"),
            }
        })
        .collect();
    if faults.is_empty() { Ok(config) } else { Err(ConfigError::Wrong { faults }) }
}

/// The variable that a key's value comes from: one for it, for the section that it is in, or for a part of it.
fn variable_of<'a>(set_by: &'a [(String, String)], key: &str) -> Option<&'a str> {
    let within = |one: &str, other: &str| {
        one.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let found = set_by.iter().rev().find(|(set, _)| within(key, set) || within(set, key));
    found.map(|(_, variable)| variable.as_str())
}

fn one(fault: String) -> ConfigError {
    ConfigError::Wrong { faults: vec![fault] }
}

/// `TOMBOLO_DATA_DIR` and every `TOMBOLO_SECTION__KEY`; other variables with the prefix are not keys.
fn keys_of(variable: &str) -> Option<Vec<String>> {
    let rest = variable.strip_prefix("TOMBOLO_")?;
    let keys: Vec<String> = rest.split("__").map(str::to_ascii_lowercase).collect();
    (keys.len() > 1 || keys == ["data_dir"]).then_some(keys)
}

/// A TOML value where it is one (`7`, `true`, `["a"]`), else the text itself.
fn value_of(text: &str) -> Value {
    toml::from_str::<Table>(&format!("v = {text}"))
        .ok()
        .and_then(|mut table| if table.len() == 1 { table.remove("v") } else { None })
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

fn put(table: &mut Table, keys: &[String], value: Value) {
    let [first, rest @ ..] = keys else { return };
    if rest.is_empty() {
        table.insert(first.clone(), value);
        return;
    }
    let entry = table.entry(first.clone()).or_insert_with(|| Value::Table(Table::new()));
    if !entry.is_table() {
        *entry = Value::Table(Table::new());
    }
    if let Value::Table(inner) = entry {
        put(inner, rest, value);
    }
}

/// One line, in words for people.
fn explain(message: &str) -> String {
    let line = message.lines().collect::<Vec<_>>().join(" ");
    if let Some(rest) = line.strip_prefix("unknown field ") {
        return format!("unknown key {rest}");
    }
    let right = match line.rsplit_once(", expected ").map(|(_, kind)| kind) {
        Some("u16" | "u32" | "u64" | "usize") => "write a whole number, 0 or more",
        Some("i32" | "i64") => "write a whole number",
        Some("f32" | "f64") => "write a number",
        Some("a boolean") => "write true or false",
        Some("a string" | "path string") => "write a text in quotes",
        Some("a sequence") => "write a list in square brackets",
        _ if line.starts_with("invalid socket address") => {
            "write an address and a port, such as \"127.0.0.1:7373\""
        }
        _ => return line,
    };
    let wrong = line.rsplit_once(", expected ").map_or(line.as_str(), |(wrong, _)| wrong);
    format!("{wrong}: {right}")
}

fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|b| *b == b'\n').count() + 1
}

/// The dotted key that stands at a line, with `: ` behind it; empty where none does.
fn key_at(text: &str, wanted: usize) -> String {
    keys_by_line(text)
        .into_iter()
        .find(|(line, _)| *line == wanted)
        .map_or_else(String::new, |(_, key)| format!("{key}: "))
}

fn line_of(text: &str, key: &str) -> Option<usize> {
    keys_by_line(text).into_iter().find(|(_, k)| k == key).map(|(line, _)| line)
}

fn keys_by_line(text: &str) -> Vec<(usize, String)> {
    let mut section = String::new();
    let mut keys = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.split(']').next()) {
            // `[[a]]` is one of several.
            section = name.trim_start_matches('[').trim().to_owned();
            keys.push((index + 1, section.clone()));
        } else if let Some((key, _)) = line.split_once('=') {
            let key = key.trim();
            if key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) {
                let dotted =
                    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
                keys.push((index + 1, dotted));
            }
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::config::{Asker, PortSpec};
    use crate::node::NodeNum;

    fn parse_with(text: &str, environment: &[(&str, &str)]) -> Result<Config, String> {
        let environment: HashMap<String, String> =
            environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        parse(text, "t.toml", environment).map_err(|e| e.to_string())
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(parse_with("", &[]).unwrap(), Config::default());
    }

    #[test]
    fn the_documented_example_is_read() {
        let text = r#"
            data_dir = "/var/lib/tombolo"
            [radio]
            port = "tcp://host:4403"
            [radio.settings]
            region = "EU_868"
            apply = false
            [mesh]
            allowed_contacts = ["!a1b2c3d4", { id = "!b0b0b0b2", grants = ["system", "ai_local"] }]
            denied_askers = ["!0badcafe"]
            [airtime]
            share = 0.25
            [assistant]
            cloud = "operator"
            [assistant.ollama]
            model = "qwen3:4b"
            [http]
            hosts = ["node.local:7373"]
        "#;
        let config = parse_with(text, &[]).unwrap();
        assert_eq!(config.radio.port, PortSpec::Tcp("host:4403".to_owned()));
        assert_eq!(config.mesh.allowed_contacts.len(), 2);
        assert_eq!(config.mesh.denied_askers, vec![Asker::Node(NodeNum(0x0bad_cafe))]);
    }

    #[test]
    fn a_wrong_key_or_value_names_file_line_key_and_what_would_be_right() {
        for (text, line, words) in [
            ("[radio]\nprot = \"auto\"", 2, &["unknown key `prot`", "port"][..]),
            ("[radio]\nport = \"ttyUSB0\"", 2, &["radio.port", "tcp://host:4403"]),
            ("[radio]\nport = 7", 2, &["radio.port", "a text in quotes"]),
            ("\n[airtime]\nshare = \"much\"", 3, &["airtime.share", "write a number"]),
            ("[airtime]\nshare = 1.01", 2, &["airtime.share", "at most 1"]),
            ("[airtime]\nmax_parts = 0", 2, &["airtime.max_parts", "1 to 9"]),
            ("[mesh]\ntrigger = \"\"", 2, &["mesh.trigger", "!ai"]),
            ("[mesh]\nallowed_contacts = [\"Ana\"]", 2, &["allowed_contacts", "!a1b2c3d4"]),
            ("[mesh]\nallowed_contacts = [\"!a1b2c3d4\", \"!a1b2c3d4\"]", 2, &["twice"]),
            ("[assistant]\ncloud = \"some\"", 2, &["assistant.cloud", "operator"]),
            ("[assistant.ollama]\nurl = \"localhost:11434\"", 2, &["url", "http://"]),
            ("[http]\nlisten = \"7373\"", 2, &["http.listen", "socket address"]),
            ("[mesh", 1, &["t.toml:1"]),
            ("[http]\nlisten = \"localhost\"", 2, &["http.listen", "127.0.0.1:7373"]),
            ("[mesh]\nqueries_per_hour = -1", 2, &["mesh.queries_per_hour", "a whole number"]),
            ("[mesh]\nenabled = 1", 2, &["mesh.enabled", "true or false"]),
            ("data_dir = 5", 1, &["data_dir", "a text in quotes"]),
            ("[mesh]\nchannels = 5", 2, &["mesh.channels", "square brackets"]),
        ] {
            let error = parse_with(text, &[]).expect_err(text);
            assert!(error.starts_with(&format!("t.toml:{line}: ")), "{text}: {error}");
            for word in words {
                assert!(error.contains(word), "{text}: {error} lacks {word}");
            }
        }
    }

    #[test]
    fn limits_come_in_pairs() {
        for (text, good) in [
            ("[airtime]\nshare = 1.0", true),
            ("[airtime]\nshare = 1.000001", false),
            ("[airtime]\nshare = 0.000001", true),
            ("[airtime]\nshare = 0.0", false),
            ("[airtime]\nshare = nan", false),
            ("[airtime]\nmax_parts = 9", true),
            ("[airtime]\nmax_parts = 10", false),
            ("[assistant.claude]\nurl = \"http://127.0.0.1:80\"", true),
            ("[assistant.claude]\nurl = \"http://[::1]:80\"", true),
            ("[assistant.claude]\nurl = \"https://10.0.0.1\"", true),
            ("[assistant.claude]\nurl = \"http://10.0.0.1\"", false),
            ("[assistant.claude]\nurl = \"http://127.0.0.1.evil.example\"", false),
            ("[assistant.openai]\nmodel = \"m\"\nurl = \"https://10.0.0.1/v1\"", true),
            ("[assistant.openai]\nmodel = \"m\"\nurl = \"http://127.0.0.1:80/v1\"", true),
            ("[assistant.openai]\nmodel = \"m\"\nurl = \"http://10.0.0.1/v1\"", false),
            ("[assistant.openai]\nmodel = \"m\"\nurl = \"http://10.0.0.1/v1\"\nlocal = true", true),
            ("[assistant.openai]\nmodel = \"\"\nurl = \"https://10.0.0.1/v1\"", false),
            ("[assistant]\ncloud_content = [\"files\", \"wallet\"]", true),
            (
                "[assistant]\ncloud_content = [\"files\", \"media\", \"notes\", \"search\", \"wallet\"]",
                true,
            ),
            ("[assistant]\ncloud_content = [\"system\"]", false),
            ("[assistant]\nhistory_days = 0", true),
            ("[assistant]\nhistory_days = 36500", true),
            ("[assistant]\nhistory_days = 36501", false),
            ("[mesh]\nqueries_per_hour = 1", true),
            ("[mesh]\nqueries_per_hour = 0", false),
            ("[radio.settings]\nhop_limit = 7", true),
            ("[radio.settings]\nhop_limit = 8", false),
            ("[mesh]\ntrigger = \"12345678901234567890\"", true),
            ("[mesh]\ntrigger = \"123456789012345678901\"", false),
        ] {
            assert_eq!(parse_with(text, &[]).is_ok(), good, "{text}");
        }
    }

    #[test]
    fn the_environment_wins_and_its_errors_name_the_variable() {
        let config = parse_with(
            "[http]\nlisten = \"127.0.0.1:1\"",
            &[
                ("TOMBOLO_HTTP__LISTEN", "127.0.0.1:2"),
                ("TOMBOLO_DATA_DIR", "/tmp/t"),
                ("TOMBOLO_MESH__ALLOWED_CONTACTS", "[\"!a1b2c3d4\"]"),
                ("TOMBOLO_MESH__TRUSTED_ONLY", "false"),
                ("TOMBOLO_ASSISTANT__OLLAMA__MODEL", "qwen3:4b"),
                ("TOMBOLO_CONFIG", "x"),
                ("TOMBOLO_LOG", "debug"),
                ("TOMBOLOX", "x"),
            ],
        )
        .unwrap();
        assert_eq!(config.http.listen.port(), 2);
        assert_eq!(config.data_dir, PathBuf::from("/tmp/t"));
        assert_eq!(config.mesh.allowed_contacts.len(), 1);
        assert!(!config.mesh.trusted_only);
        assert_eq!(config.assistant.ollama.model, "qwen3:4b");

        for (variable, value, key) in [
            ("TOMBOLO_AIRTIME__SHARE", "2", "airtime.share"),
            ("TOMBOLO_MESH__QUERIES_PER_HOUR", "0", "mesh.queries_per_hour"),
            // A whole section at once.
            ("TOMBOLO_AIRTIME", "{ share = 2.0 }", ""),
        ] {
            // The file's own value is right, and stands on a line that is not to blame.
            let text = "[airtime]\nshare = 0.5\n[mesh]\nqueries_per_hour = 20";
            match parse_with(text, &[(variable, value)]) {
                Ok(_) => assert!(key.is_empty(), "no variable of ours"),
                Err(error) => {
                    let words = format!("environment variable {variable} (key {key}): write");
                    assert!(error.starts_with(&words), "{error}");
                }
            }
        }
        let error = parse_with("[airtime]\nshare = 2", &[("TOMBOLO_MESH__QUERIES_PER_HOUR", "5")])
            .unwrap_err();
        assert!(error.contains(":2: airtime.share"), "the file is to blame: {error}");
        let error = parse_with("", &[("TOMBOLO_HTTP__LISTNE", "x")]).unwrap_err();
        assert!(error.contains("TOMBOLO_HTTP__LISTNE") && error.contains("listen"), "{error}");
    }

    #[test]
    fn an_error_does_not_repeat_the_line() {
        let error = parse_with("[assistant.claude]\napi_key = \"sk-canary\"", &[]).unwrap_err();
        assert!(error.contains("unknown key `api_key`") && !error.contains("sk-canary"), "{error}");
    }
}
