//! What can happen in a simulated mesh: somebody says something, a peer changes, the radio or its link goes down.
//!
//! Owns the words for that, their checks, and doing it. A scenario file says them with times; `tombolo sim
//! --control` takes them one JSON object a line, without:
//! ```json
//! {"say": {"peer": "Ana", "text": "!ai ping"}}
//! {"say": {"peer": "Mallory", "text": "!ai ping", "claims": "!a1b2c3d4", "channel": 1}}
//! {"change": {"peer": "Ana", "reachable": false, "drop_acks": true, "forgets_our_key": false, "loss": 0.5}}
//! {"learn_key": {"id": "!a1b2c3d4", "peer": "Mallory"}}
//! {"reboot": {"downtime": 2}}
//! {"drop_link": {}}
//! ```

use std::time::Duration;

use serde::Deserialize;

use super::config::SimConfig;
use super::peers::text_data;
use super::{SayTo, Saying, Sim, air};
use crate::node::{NodeNum, PublicKey};

/// The longest time that can be given: a year, in seconds.
const MAX_SECONDS: f64 = 31_536_000.0;

/// Something that can happen, checked against the mesh that it is for.
#[derive(Debug, Clone, PartialEq)]
pub struct Act(Deed);

#[derive(Debug, Clone, PartialEq)]
enum Deed {
    Say { peer: String, saying: Saying },
    Change(ChangeLine),
    LearnKey { id: NodeNum, key: Option<PublicKey> },
    Reboot { downtime: Duration },
    DropLink,
}

/// When it happens. Only a scenario says that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct When {
    pub at: Option<f64>,
    pub every: Option<f64>,
}

/// A command, as it is written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Command {
    Say(SayLine),
    Change(ChangeLine),
    LearnKey(LearnKeyLine),
    Reboot(RebootLine),
    DropLink(DropLine),
}

/// A table of a scenario, or what stands in a command.
pub(super) trait Line {
    /// When it is to happen.
    fn when(&self) -> When;
    /// What is to happen, if it can.
    fn act(self, mesh: &SimConfig) -> Result<Act, String>;
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SayLine {
    at: Option<f64>,
    every: Option<f64>,
    peer: String,
    text: String,
    channel: Option<u32>,
    claims: Option<NodeNum>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeLine {
    at: Option<f64>,
    peer: String,
    reachable: Option<bool>,
    drop_acks: Option<bool>,
    forgets_our_key: Option<bool>,
    loss: Option<f32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LearnKeyLine {
    at: Option<f64>,
    id: NodeNum,
    peer: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RebootLine {
    at: Option<f64>,
    #[serde(default)]
    downtime: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DropLine {
    at: Option<f64>,
}

impl Act {
    /// Reads a command: one JSON object with one key, what happens.
    ///
    /// # Errors
    /// Says what is wrong, and what would be right.
    pub fn parse(text: &str, mesh: &SimConfig) -> Result<Act, String> {
        let command: Command = serde_json::from_str(text).map_err(|e| {
            format!(
                "{e}. A command is like {{\"say\": {{\"peer\": \"Ana\", \"text\": \"!ai ping\"}}}}"
            )
        })?;
        match command {
            Command::Say(line) => now(line, mesh),
            Command::Change(line) => now(line, mesh),
            Command::LearnKey(line) => now(line, mesh),
            Command::Reboot(line) => now(line, mesh),
            Command::DropLink(line) => now(line, mesh),
        }
    }

    /// Does it, on a simulation that was started with the mesh it was checked against.
    pub fn perform(&self, sim: &Sim) {
        match &self.0 {
            Deed::Say { peer, saying } => {
                sim.say_with(peer, saying.clone());
            }
            Deed::Change(change) => sim.set_peer(&change.peer, |spec| {
                spec.reachable = change.reachable.unwrap_or(spec.reachable);
                spec.drop_acks = change.drop_acks.unwrap_or(spec.drop_acks);
                spec.forgets_our_key = change.forgets_our_key.unwrap_or(spec.forgets_our_key);
                spec.loss = change.loss.unwrap_or(spec.loss);
            }),
            Deed::LearnKey { id, key } => sim.learn_key(*id, *key),
            Deed::Reboot { downtime } => sim.reboot(*downtime),
            Deed::DropLink => sim.drop_link(),
        }
    }
}

fn now(line: impl Line, mesh: &SimConfig) -> Result<Act, String> {
    let When { at, every } = line.when();
    if at.is_some() || every.is_some() {
        return Err(
            "`at` and `every` are for a scenario file: a command is done at once".to_owned()
        );
    }
    line.act(mesh)
}

impl Line for SayLine {
    fn when(&self) -> When {
        When { at: self.at, every: self.every }
    }

    fn act(self, mesh: &SimConfig) -> Result<Act, String> {
        known(mesh, &self.peer)?;
        let to = match self.channel {
            None => SayTo::Direct,
            Some(index @ 0..=7) => SayTo::Channel(index),
            Some(_) => {
                return Err("channel is 0 to 7; left out, it is a direct message".to_owned());
            }
        };
        let data = text_data(self.text.as_bytes(), 0, false);
        if air::frame_len(&data, to == SayTo::Direct).is_none() {
            return Err(format!("`{}…` is too long for one packet", first_words(&self.text)));
        }
        let saying = Saying { claims: self.claims, ..Saying::new(to, self.text) };
        Ok(Act(Deed::Say { peer: self.peer, saying }))
    }
}

impl Line for ChangeLine {
    fn when(&self) -> When {
        When { at: self.at, every: None }
    }

    fn act(self, mesh: &SimConfig) -> Result<Act, String> {
        known(mesh, &self.peer)?;
        chance("loss", self.loss.unwrap_or(0.0))?;
        Ok(Act(Deed::Change(self)))
    }
}

impl Line for LearnKeyLine {
    fn when(&self) -> When {
        When { at: self.at, every: None }
    }

    fn act(self, mesh: &SimConfig) -> Result<Act, String> {
        known(mesh, &self.peer)?;
        let key = mesh.peers.iter().find(|p| p.name == self.peer).and_then(|p| p.key);
        Ok(Act(Deed::LearnKey { id: self.id, key }))
    }
}

impl Line for RebootLine {
    fn when(&self) -> When {
        When { at: self.at, every: None }
    }

    fn act(self, _: &SimConfig) -> Result<Act, String> {
        Ok(Act(Deed::Reboot { downtime: seconds("downtime", self.downtime)? }))
    }
}

impl Line for DropLine {
    fn when(&self) -> When {
        When { at: self.at, every: None }
    }

    fn act(self, _: &SimConfig) -> Result<Act, String> {
        Ok(Act(Deed::DropLink))
    }
}

fn first_words(text: &str) -> String {
    text.chars().take(30).collect()
}

fn known(mesh: &SimConfig, peer: &str) -> Result<(), String> {
    if mesh.peers.iter().any(|p| p.name == peer) {
        return Ok(());
    }
    let names: Vec<_> = mesh.peers.iter().map(|p| p.name.as_str()).collect();
    Err(format!("no peer `{peer}`: {}", names.join(", ")))
}

/// A time that a mesh can wait.
pub(super) fn seconds(key: &str, value: f64) -> Result<Duration, String> {
    if (0.0..=MAX_SECONDS).contains(&value) {
        Ok(Duration::from_secs_f64(value))
    } else {
        Err(format!("{key} is seconds, from 0 to {MAX_SECONDS}"))
    }
}

/// A probability.
pub(super) fn chance(key: &str, value: f32) -> Result<f32, String> {
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(format!("{key} is from 0 to 1")) }
}

#[cfg(test)]
mod tests;
