//! A scenario file: who is in the simulated mesh, and who says what when.
//!
//! Owns the file's form and its errors, and playing it; what can happen is in `acts`. Everything is checked
//! when it is read, so that nothing in it can stop a running simulation. Times are in seconds after the start:
//! ```toml
//! seed = 1                 # also: speed, hop_loss, duplicates, collisions, stolen
//! [radio]
//! region = "EU_868"        # also: name, preset, channels, debug_text, firmware, relays, bridge
//! [[peer]]                 # without any, the default ones
//! name = "Ana"
//! id = "!a1b2c3d4"
//! hops = 1                 # also: key, known, snr, loss, ack_loss, reachable, metres, beacon
//! [[say]]
//! at = 5
//! peer = "Ana"
//! text = "!ai ping"        # also: every, channel, claims
//! [[change]]
//! at = 60
//! peer = "Ana"
//! reachable = false        # or: drop_acks, forgets_our_key, loss
//! [[learn_key]]            # our radio holds that peer's key for the number, as from a NodeInfo
//! at = 80
//! id = "!0bad0001"
//! peer = "Ana"
//! [[reboot]]
//! at = 90
//! downtime = 5
//! [[drop_link]]
//! at = 120
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;
use tombolo_hw::lora::Modem;
use tombolo_hw::preset::Preset;
use tombolo_hw::region::Region;

use super::Sim;
use super::acts::{
    Act, ChangeLine, DropLine, LearnKeyLine, Line, RebootLine, SayLine, When, chance, seconds,
};
use super::config::{SimChannel, SimConfig, SimPeer};
use crate::node::{NodeNum, PublicKey};

/// Most peers.
const MAX_PEERS: usize = 1000;

/// A checked scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The mesh.
    pub config: SimConfig,
    steps: Vec<Step>,
}

/// What is wrong with a scenario file, and what would be right.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct ScenarioError {
    path: PathBuf,
    problem: String,
}

#[derive(Debug, Clone)]
struct Step {
    at: Duration,
    /// Again and again, so much later each time.
    every: Option<Duration>,
    act: Act,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    seed: Option<u64>,
    speed: Option<u32>,
    hop_loss: Option<f32>,
    duplicates: Option<f32>,
    collisions: bool,
    stolen: Option<f32>,
    radio: RadioLine,
    peer: Vec<PeerLine>,
    say: Vec<SayLine>,
    change: Vec<ChangeLine>,
    learn_key: Vec<LearnKeyLine>,
    reboot: Vec<RebootLine>,
    drop_link: Vec<DropLine>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RadioLine {
    name: Option<String>,
    region: Option<String>,
    preset: Option<String>,
    channels: Option<Vec<String>>,
    debug_text: bool,
    /// `2.7…` or `2.8…`: the simulator behaves as that does.
    firmware: Option<String>,
    /// It passes on what others send.
    relays: bool,
    /// A UART bridge: its port stays there when the radio restarts.
    bridge: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerLine {
    name: String,
    id: NodeNum,
    key: Option<PublicKey>,
    #[serde(default = "yes")]
    known: bool,
    #[serde(default)]
    hops: u32,
    snr: Option<f32>,
    loss: Option<f32>,
    /// From our radio, or from the relay next to it: signal and loss follow, where they are not given.
    metres: Option<f32>,
    /// Its telemetry is broadcast so often.
    beacon: Option<f64>,
    #[serde(default)]
    ack_loss: f32,
    #[serde(default = "yes")]
    reachable: bool,
}

fn yes() -> bool {
    true
}

impl Scenario {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Names the file, the place and what would be right.
    pub fn read(path: &Path) -> Result<Scenario, ScenarioError> {
        let wrong = |problem| ScenarioError { path: path.to_owned(), problem };
        let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
        Scenario::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Scenario, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
        let mut config = SimConfig::default();
        config.seed = file.seed.unwrap_or(config.seed);
        config.speed = file.speed.unwrap_or(config.speed);
        config.hop_loss = chance("hop_loss", file.hop_loss.unwrap_or(0.0))?;
        config.duplicates = chance("duplicates", file.duplicates.unwrap_or(0.0))?;
        config.collisions = file.collisions;
        config.stolen = chance("stolen", file.stolen.unwrap_or(0.0))?;
        radio(&mut config, file.radio)?;
        if !file.peer.is_empty() {
            let modem = Preset::from_code(config.lora.preset).map(|preset| preset.modem(false));
            config.peers = peers(file.peer, modem)?;
        }
        let mut steps = Vec::new();
        plan(&mut steps, "say", file.say, &config)?;
        plan(&mut steps, "change", file.change, &config)?;
        plan(&mut steps, "learn_key", file.learn_key, &config)?;
        plan(&mut steps, "reboot", file.reboot, &config)?;
        plan(&mut steps, "drop_link", file.drop_link, &config)?;
        Ok(Scenario { config, steps })
    }

    /// Plays it on a simulation that was started with its `config`; ends with the last step.
    pub async fn play(self, sim: &Sim) {
        let begun = Instant::now();
        let mut steps = self.steps;
        loop {
            let next = steps.iter().enumerate().min_by_key(|(_, step)| step.at);
            let Some(place) = next.map(|(place, _)| place) else { return };
            let mut step = steps.remove(place);
            tokio::time::sleep_until(begun + step.at).await;
            step.act.perform(sim);
            if let Some(every) = step.every {
                step.at += every;
                steps.push(step);
            }
        }
    }
}

/// Adds the steps of one kind of table.
fn plan<L: Line>(
    steps: &mut Vec<Step>,
    table: &str,
    lines: Vec<L>,
    config: &SimConfig,
) -> Result<(), String> {
    for line in lines {
        let When { at, every } = line.when();
        let at = at.ok_or_else(|| format!("[[{table}]] needs `at`, in seconds after the start"))?;
        let at = seconds("at", at)?;
        let every = every.map(|every| seconds("every", every)).transpose()?;
        if every.is_some_and(|every| every.is_zero()) {
            return Err("every is more than 0 seconds".to_owned());
        }
        steps.push(Step { at, every, act: line.act(config)? });
    }
    Ok(())
}

fn radio(config: &mut SimConfig, line: RadioLine) -> Result<(), String> {
    if let Some(name) = line.name {
        config.name = name;
    }
    if let Some(name) = line.region {
        let names = || Region::all().map(|r| r.name).collect::<Vec<_>>().join(", ");
        config.lora.region = match (name.as_str(), Region::from_name(&name)) {
            ("UNSET", _) => 0,
            (_, Some(region)) => region.code,
            (_, None) => return Err(format!("no region `{name}`: UNSET, {}", names())),
        };
    }
    if let Some(name) = line.preset {
        let names = || Preset::all().map(Preset::name).collect::<Vec<_>>().join(", ");
        config.lora.preset = Preset::from_name(&name)
            .map(Preset::code)
            .ok_or_else(|| format!("no preset `{name}`: {}", names()))?;
    }
    if let Some(channels) = line.channels {
        if channels.is_empty() || channels.len() > 8 {
            return Err("a radio has one to eight channels".to_owned());
        }
        config.channels = channels.iter().map(|name| SimChannel::named(name)).collect();
    }
    config.debug_text = line.debug_text;
    if let Some(firmware) = line.firmware {
        if !firmware.starts_with("2.7.") && !firmware.starts_with("2.8.") {
            return Err(format!("no firmware `{firmware}`: 2.7.x or 2.8.x"));
        }
        config.firmware = firmware;
    }
    if line.relays {
        config.role = 0; // CLIENT
    }
    config.reboot_closes = !line.bridge;
    Ok(())
}

fn peers(lines: Vec<PeerLine>, modem: Option<Modem>) -> Result<Vec<SimPeer>, String> {
    if lines.len() > MAX_PEERS {
        return Err(format!("at most {MAX_PEERS} peers"));
    }
    let mut peers: Vec<SimPeer> = Vec::new();
    for line in lines {
        if !line.id.is_peer() {
            return Err(format!("peer `{}`: {} is a reserved number", line.name, line.id));
        }
        if peers.iter().any(|p| p.name == line.name || p.num == line.id) {
            return Err(format!("peer `{}`: its name or its id is there twice", line.name));
        }
        if line.hops > 7 {
            return Err(format!("peer `{}`: hops is 0 to 7", line.name));
        }
        let mut plain = SimPeer::new(&line.name, line.id);
        if let Some(metres) = line.metres {
            if !(1.0..=100_000.0).contains(&metres) {
                return Err(format!("peer `{}`: metres is 1 to 100000", line.name));
            }
            plain = modem.map_or(plain.clone(), |modem| plain.at(metres, &modem));
        }
        let beacon = line.beacon.map(|every| seconds("beacon", every)).transpose()?;
        if beacon.is_some_and(|every| every < Duration::from_secs(1)) {
            return Err(format!("peer `{}`: beacon is 1 second or more", line.name));
        }
        peers.push(SimPeer {
            key: line.key.or(plain.key),
            known: line.known,
            hops: line.hops,
            snr: line.snr.unwrap_or(plain.snr),
            loss: chance("loss", line.loss.unwrap_or(plain.loss))?,
            beacon,
            ack_loss: chance("ack_loss", line.ack_loss)?,
            reachable: line.reachable,
            ..plain
        });
    }
    Ok(peers)
}

#[cfg(test)]
mod tests;
