//! `tombolo check`: is this machine ready? A line for each part, with what to do where it is not.
//!
//! Owns the questions and how the answers are printed. Changes nothing: no file, no setting, no radio.

mod files;
mod servers;
mod tools;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use super::run::runtime;
use crate::assistant::backends::Backend as _;
use crate::assistant::backends::ollama::{self, Ollama};
use crate::assistant::backends::openai::Openai;
use crate::config::{self, AssistantConfig, CloudPolicy, Config, PortSpec, Protocol};
use crate::radio::known::KnownRadio;
use crate::radio::settings::compare::{differences, printable, region_words};
use crate::radio::settings::session::Session;
use crate::radio::settings::{Wanted, udev};
use crate::radio::transport::Connector;
use crate::radio::{MIN_FIRMWARE, RadioInfo, firmware_version, station};
use crate::rpc::auth::Role;
use crate::rpc::auth::passwords::Passwords;
use crate::secrets::{SecretName, Secrets};
use crate::{backup, gateway, store, telemetry};

/// Arguments of `tombolo check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration [default: $TOMBOLO_CONFIG, else /etc/tombolo/tombolo.toml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// How one part is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    /// As it should be.
    Good(String),
    /// It works; this should be known.
    Note(String),
    /// It keeps the daemon from its work.
    Bad(String),
}

/// A part and how it is.
type Line = (&'static str, Found);

/// Prints the lines; exit code 1 if one part is bad.
pub fn run(args: Args) -> Result<ExitCode> {
    telemetry::start("error");
    let path = config::path(args.config);
    let config = match config::load(&path) {
        Ok(config) => config,
        Err(fault) => {
            let words = super::whole(&fault.into());
            print(&[("configuration", Found::Bad(words))]);
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut lines = vec![("configuration", Found::Good(path.display().to_string()))];
    lines.push(("data folder", data_folder(&config.data_dir)));
    lines.extend(secrets(&config));
    // Whoever can't look into the folder is told so above, and knows nothing of what is in it.
    if !config.data_dir.exists() || is_readable(&config.data_dir) {
        lines.extend(files::lines(&config.data_dir));
    }
    lines.extend(tools::lines(&config));
    lines.extend(runtime()?.block_on(async {
        let (radio, model, other, servers) = tokio::join!(
            radio(&config),
            ollama(&config.assistant),
            openai(&config),
            servers::lines(&config)
        );
        let model = or_note(model, other_leg(&config, other.as_ref()));
        [("radio", radio), ("ollama", model)]
            .into_iter()
            .chain(other.map(|found| ("openai", found)))
            .chain(servers)
    }));
    print(&lines);
    let bad = lines.iter().any(|(_, found)| matches!(found, Found::Bad(_)));
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(lines: &[Line]) {
    for (part, found) in lines {
        let (mark, words) = match found {
            Found::Good(words) => ("ok", words),
            Found::Note(words) => ("note", words),
            Found::Bad(words) => ("FAILED", words),
        };
        // A part is one line, whatever its words are.
        let words = words.lines().collect::<Vec<_>>().join("; ");
        // Who reads only the first lines closes the pipe; the exit code is theirs all the same.
        let _ = writeln!(std::io::stdout(), "{mark:<7}{part:<14}{words}");
    }
}

fn data_folder(folder: &Path) -> Found {
    let shown = folder.display();
    if !folder.exists() {
        let above = folder.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
        return if is_writable(above) {
            Found::Note(format!("{shown} is not there yet; the daemon will make it"))
        } else {
            Found::Bad(format!(
                "{shown} is not there and this user can't make it; run: install -d -m 700 -o USER {shown}"
            ))
        };
    }
    if !folder.is_dir() {
        return Found::Bad(format!("{shown} is not a folder"));
    }
    match store::is_private(folder) {
        Err(error) => Found::Bad(format!("{:#}", anyhow::Error::from(error))),
        Ok(false) => Found::Bad(format!("others can read {shown}; run: chmod 700 {shown}")),
        Ok(true) if !is_writable(folder) => Found::Bad(format!(
            "this user can't write to {shown}: run the check as the daemon's user"
        )),
        Ok(true) if is_full(backup::free_in(folder)) => Found::Bad(format!(
            "no space is left for {shown}: nothing can be accepted or sent until there is"
        )),
        Ok(true) if gateway::is_running(folder) => {
            Found::Good(format!("{shown}, held by a running daemon"))
        }
        Ok(true) => Found::Good(shown.to_string()),
    }
}

/// Less than this, in bytes, and the next file may not fit.
const LEAST_FREE: u64 = 1 << 20;

fn is_full(free: Option<u64>) -> bool {
    free.is_some_and(|free| free < LEAST_FREE)
}

fn is_readable(folder: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(folder, Access::READ_OK | Access::EXEC_OK).is_ok()
}

fn is_writable(folder: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

fn secrets(config: &Config) -> [Line; 2] {
    // Opening makes the folder: not the business of a check.
    if !config.data_dir.join("secrets").exists() {
        return [
            (
                "secrets",
                Found::Note("none stored; a password can be set at the first start".to_owned()),
            ),
            ("claude", Found::Good("no key: this leg is off".to_owned())),
        ];
    }
    let opened = (|| -> Result<_> {
        let secrets = Secrets::open(&config.data_dir)?;
        let passwords = Passwords::new(secrets.clone());
        passwords.stored(Role::Viewer)?;
        Ok((passwords.stored(Role::Operator)?, secrets.read(SecretName::ClaudeApiKey)?))
    })();
    match opened {
        Err(error) => {
            let words = format!("{error:#}");
            [
                ("secrets", Found::Bad(words)),
                ("claude", Found::Note("not looked for: see secrets".to_owned())),
            ]
        }
        Ok((password, key)) => {
            let secrets = match password {
                Some(_) => Found::Good("closed to others".to_owned()),
                None => Found::Note(
                    "no operator password yet: tombolo operator set-password".to_owned(),
                ),
            };
            let claude = match (key.is_some(), config.assistant.cloud) {
                (false, _) => "no key: this leg is off",
                (true, CloudPolicy::None) => "a key, and assistant.cloud lets nobody use it",
                (true, CloudPolicy::Operator) => "a key, for the operator's questions only",
                (true, CloudPolicy::All) => {
                    "a key; questions that no local model answers leave this machine"
                }
            };
            [("secrets", secrets), ("claude", Found::Good(claude.to_owned()))]
        }
    }
}

async fn radio(config: &Config) -> Found {
    if config.radio.port == PortSpec::Sim {
        return Found::Note("the simulated one: nothing goes on the air".to_owned());
    }
    if gateway::is_running(&config.data_dir) {
        // Opening it a second time would spoil the daemon's stream, or take a network radio's only slot.
        return Found::Note("in use by the running daemon, so it was not opened".to_owned());
    }
    let Some(connector) = Connector::to(&config.radio.port) else {
        return Found::Bad("this port can't be opened".to_owned());
    };
    let properties =
        connector.device().map(|d| udev::properties(Path::new("/"), &d)).unwrap_or_default();
    let wanted = match Wanted::resolve(&config.radio.settings, &properties) {
        Ok(wanted) => wanted,
        Err(faults) => {
            let words: Vec<String> = faults.iter().map(ToString::to_string).collect();
            return Found::Bad(words.join("; "));
        }
    };
    match Session::open(&connector).await {
        Err(error) => Found::Bad(error.to_string()),
        Ok(session) => {
            let found = radio_state(&session.info, &wanted);
            let known = KnownRadio::open(&config.data_dir);
            let info = session.info.clone();
            session.leave().await;
            match known.map(|known| known.refuses(&info)) {
                Err(error) => Found::Bad(format!("{error}: {}", error.source)),
                Ok(Some(refused)) => Found::Bad(refused.to_string()),
                Ok(None) => found,
            }
        }
    }
}

fn radio_state(info: &RadioInfo, wanted: &Wanted) -> Found {
    let firmware = printable(&info.firmware);
    let who = format!(
        "{} \"{}\", firmware {firmware}, region {}",
        info.my_node,
        printable(&info.owner.long_name),
        region_words(info.lora.region)
    );
    if info.lora.region == 0 {
        return Found::Bad(format!("{who}: nothing is sent until a region is set"));
    }
    if let Err(unidentified) = station::identified(info) {
        return Found::Bad(format!("{who}: nothing is sent: {unidentified}"));
    }
    let (major, minor, patch) = MIN_FIRMWARE;
    let needs = format!("{major}.{minor}.{patch}");
    match firmware_version(&info.firmware) {
        None => return Found::Bad(format!("{who}: it does not say that it is {needs} or newer")),
        Some(version) if version < MIN_FIRMWARE => {
            return Found::Bad(format!("{who}: update the radio to {needs} or newer"));
        }
        Some(_) => {}
    }
    let mut notes = differences(wanted, info);
    for (wrong, note) in [
        (info.owner.licensed, "licensed mode: nobody can be verified"),
        (info.public_key.is_none(), "no key of its own: nobody can be verified"),
        (!info.lora.tx_enabled, "its transmitter is switched off"),
        (info.lora.override_duty_cycle, "the duty cycle is overridden: the daemon will not send"),
    ] {
        if wrong {
            notes.push(note.to_owned());
        }
    }
    if notes.is_empty() {
        Found::Good(who)
    } else {
        Found::Note(format!("{who}: {}", notes.join("; ")))
    }
}

/// A leg behind the first that answers everybody's questions, by its name; none where there is no key, or the
/// configuration keeps peers from it. `openai`: what was found of that leg.
fn other_leg(config: &Config, openai: Option<&Found>) -> Option<&'static str> {
    let all = config.assistant.cloud == CloudPolicy::All;
    // Opening makes the folder: not the business of a check.
    let secrets = config.data_dir.join("secrets").exists().then(|| Secrets::open(&config.data_dir));
    let claude = secrets
        .and_then(Result::ok)
        .is_some_and(|secrets| matches!(secrets.read(SecretName::ClaudeApiKey), Ok(Some(_))));
    let local = config.assistant.openai.as_ref().is_some_and(|openai| openai.local);
    if all && claude {
        Some("Claude")
    } else if (all || local) && matches!(openai, Some(Found::Good(_))) {
        Some("the OpenAI-compatible leg")
    } else {
        None
    }
}

/// Without a local model the node still answers where another leg does.
fn or_note(found: Found, leg: Option<&str>) -> Found {
    match (found, leg) {
        (Found::Bad(words), Some(leg)) => {
            Found::Note(format!("{words} (until then every question goes to {leg})"))
        }
        (found, _) => found,
    }
}

/// `None` where no such server is configured.
async fn openai(config: &Config) -> Option<Found> {
    let openai = config.assistant.openai.as_ref()?;
    let (url, model) = (&openai.url, &openai.model);
    // Opening makes the folder: not the business of a check.
    if !config.data_dir.join("secrets").exists() {
        return Some(if openai.local {
            Found::Note(format!("{url}: looked for once the daemon has made its data folder"))
        } else {
            Found::Bad(format!("{url}: no key in secrets/openai-api-key"))
        });
    }
    let leg = match Secrets::open(&config.data_dir) {
        Ok(secrets) => Openai::new(openai, secrets),
        Err(_) => return Some(Found::Note("not looked for: see secrets".to_owned())),
    };
    Some(match leg.there().await {
        Err(error) => Found::Bad(format!("{url}: {error}")),
        Ok(_) if openai.local => Found::Good(format!("{url} is there, for {model}")),
        Ok(_) => Found::Good(match config.assistant.cloud {
            CloudPolicy::None => "a key, and assistant.cloud lets nobody use it".to_owned(),
            _ => format!("a key for {url}, {model}; it is not tried, for that costs money"),
        }),
    })
}

async fn ollama(config: &AssistantConfig) -> Found {
    let (url, model) = (&config.ollama.url, &config.ollama.model);
    let models = match ollama::models(url).await {
        Ok(models) => models,
        Err(error) => return Found::Bad(format!("{url}: {error}; is Ollama running?")),
    };
    let is_there =
        models.iter().any(|name| name == model || name.strip_suffix(":latest") == Some(model));
    if !is_there {
        let there = if models.is_empty() { "none".to_owned() } else { models.join(", ") };
        return Found::Bad(format!(
            "{url} has no {model} (it has {there}); run: ollama pull {model}"
        ));
    }
    let leg = Ollama::new(&config.ollama);
    let tools = leg.model_supports_tools().await;
    if tools.is_ok() && leg.is_cloud() {
        let who = match config.cloud {
            CloudPolicy::None => "nobody's questions are given to it (assistant.cloud is \"none\")",
            CloudPolicy::Operator => "only the operator's questions are given to it",
            CloudPolicy::All => "questions leave this machine",
        };
        return Found::Note(format!("{model} of {url} runs in Ollama's cloud: {who}"));
    }
    match tools {
        Err(error) => Found::Bad(format!("{url}, {model}: {error}")),
        Ok(true) => Found::Good(format!("{url} has {model}, which can call tools")),
        Ok(false) if config.ollama.protocol == Protocol::Json => {
            Found::Good(format!("{url} has {model}; tools are offered as JSON"))
        }
        Ok(false) => Found::Note(format!(
            "{url} has {model}, which can't call tools: it answers without them"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeNum;
    use crate::radio::{LoraSettings, NodeInfo};

    #[test]
    fn a_disk_without_room_for_a_file_is_full_and_one_that_does_not_tell_is_not() {
        let full = [Some(0), Some(LEAST_FREE - 1), Some(LEAST_FREE), None].map(is_full);
        assert_eq!(full, [true, true, false, false]);
    }

    #[test]
    fn a_licensed_station_that_does_not_identify_itself_is_bad_and_another_only_noted() {
        let state = |announces_every_s| {
            let owner =
                NodeInfo { long_name: "N0CALL".to_owned(), licensed: true, ..NodeInfo::default() };
            let info = RadioInfo {
                session: 0,
                port: String::new(),
                my_node: NodeNum(7),
                public_key: None,
                owner,
                firmware: "2.7.26".to_owned(),
                role: 0,
                announces_every_s,
                lora: LoraSettings { region: 34, tx_enabled: true, ..LoraSettings::default() },
                channels: Vec::new(),
                nodes: Vec::new(),
            };
            radio_state(&info, &Wanted::default())
        };
        assert!(matches!(state(600), Found::Note(words) if words.contains("licensed mode")));
        assert!(matches!(state(601), Found::Bad(words) if words.contains("every 601 s")));
    }
}
