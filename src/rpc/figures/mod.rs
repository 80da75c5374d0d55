//! Counts of what the node did, since its start and by the hour.
//!
//! Owns the counting: `metrics` prints the counts, `mesh.history` shows the hours. Every family has a
//! bounded number of labels, and none of them is a peer's name, a text or anything that a stranger
//! chooses. Knows no radio; the time is an argument.

pub mod hours;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::assistant::{ChatReply, ToolRecord};
use crate::mesh::inbox::Ignored;
use crate::mesh::view::{Delivery, MeshEvent};
use crate::rpc::error::RpcError;
use hours::Hours;

/// Turns up to so many seconds, for the histogram of how long they took.
pub const BUCKETS_S: [f64; 11] = [0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0];
/// Different labels of one family at most; what is past it is counted as `other`.
const MAX_LABELS: usize = 400;

/// Whose turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Peers'.
    Mesh,
    /// The operator's.
    Operator,
}

impl Side {
    /// As a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Side::Mesh => "mesh",
            Side::Operator => "operator",
        }
    }
}

/// How many of each; the labels are in the order of the family's.
pub type Family = BTreeMap<Vec<String>, u64>;

/// How long turns took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// In each bucket, not summed up; the last is past all bounds.
    pub counts: [u64; BUCKETS_S.len() + 1],
    /// Seconds of all.
    pub sum_s: f64,
}

impl Histogram {
    fn add(&mut self, millis: u64) {
        // Exact up to 285,000 years.
        #[allow(clippy::cast_precision_loss)]
        let seconds = millis as f64 / 1000.0;
        let index = BUCKETS_S.iter().position(|bound| seconds <= *bound).unwrap_or(BUCKETS_S.len());
        if let Some(count) = self.counts.get_mut(index) {
            *count += 1;
        }
        self.sum_s += seconds;
    }
}

/// Everything that is counted.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Caller and outcome.
    pub turns: Family,
    /// By caller.
    pub took: BTreeMap<Side, Histogram>,
    /// By leg.
    pub answers: Family,
    /// Texts that could have been questions, by why they were not answered.
    pub refused: Family,
    /// Caller, category and outcome.
    pub tools: Family,
    /// Parts handed to the radio.
    pub parts: u64,
    /// Their time on air, without the radio's own repeats, µs.
    pub parts_airtime_us: u64,
    /// What was learnt of parts, by state.
    pub part_states: Family,
    /// By kind.
    pub security: Family,
    /// Distress texts, by assurance.
    pub distress: Family,
    /// Method and outcome.
    pub calls: Family,
    /// By the hour.
    pub hours: Hours,
}

/// The counts of one node.
#[derive(Debug, Default)]
pub struct Figures(Mutex<Counts>);

impl Figures {
    /// Goes on with the hours of an earlier run.
    pub fn with(hours: Hours) -> Figures {
        Figures(Mutex::new(Counts { hours, ..Counts::default() }))
    }

    /// How things stand.
    pub fn counts(&self) -> Counts {
        self.lock().clone()
    }

    /// Something happened on the mesh, at that Unix time.
    pub fn mesh(&self, event: &MeshEvent, unix_ms: u64) {
        let mut counts = self.lock();
        match event {
            MeshEvent::Heard { ignored: Some(cause), .. } => {
                add(&mut counts.refused, &[&slug(cause)]);
                if is_refusal(cause) {
                    counts.hours.at(unix_ms).refused += 1;
                }
            }
            MeshEvent::TurnEnded { backend, tools, millis, answered, .. } => {
                let outcome = if *answered { "answered" } else { "failed" };
                counts.turn(Side::Mesh, outcome, backend, tools, *millis);
                if *answered {
                    counts.hours.at(unix_ms).answered += 1;
                }
            }
            MeshEvent::PartSent { airtime_us, .. } => {
                counts.parts += 1;
                counts.parts_airtime_us += u64::from(*airtime_us);
            }
            MeshEvent::PartState { delivery, .. } => {
                add(&mut counts.part_states, &[state_of(delivery)]);
            }
            MeshEvent::Distress { assurance, cleared: false, .. } => {
                add(&mut counts.distress, &[&word(assurance)]);
            }
            MeshEvent::Security { kind, .. } => add(&mut counts.security, &[&slug(kind)]),
            _ => {}
        }
    }

    /// A turn of the operator's ended.
    pub fn operator_turn(&self, reply: &ChatReply, millis: u64) {
        let outcome = word(&reply.status);
        self.lock().turn(Side::Operator, &outcome, &reply.backend, &reply.tools, millis);
    }

    /// A call ended. `method` is a name of the table, or nothing where there is no such method.
    pub fn call(&self, method: Option<&'static str>, result: &Result<Value, RpcError>) {
        let outcome = match result {
            Ok(_) => "ok",
            Err(error) => error.code.name(),
        };
        add(&mut self.lock().calls, &[method.unwrap_or("none"), outcome]);
    }

    /// How busy the channel was, percent.
    pub fn channel(&self, percent: f32, unix_ms: u64) {
        self.lock().hours.at(unix_ms).busy(percent);
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn turn(&mut self, side: Side, outcome: &str, leg: &str, tools: &[ToolRecord], millis: u64) {
        add(&mut self.turns, &[side.as_str(), outcome]);
        self.took.entry(side).or_default().add(millis);
        if !leg.is_empty() {
            add(&mut self.answers, &[leg]);
        }
        for tool in tools {
            let category = tool.category.map_or("none", |category| category.as_str());
            add(&mut self.tools, &[side.as_str(), category, &word(&tool.outcome)]);
        }
    }
}

fn add(family: &mut Family, labels: &[&str]) {
    let mut labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
    if family.len() >= MAX_LABELS && !family.contains_key(&labels) {
        labels.iter_mut().for_each(|label| "other".clone_into(label));
    }
    let count = family.entry(labels).or_default();
    *count = count.saturating_add(1);
}

/// A reason for people as a label.
fn slug(text: &str) -> String {
    let plain = text.chars().take(64).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    plain.collect::<String>().to_ascii_lowercase()
}

/// An enum of the contract by its word there.
fn word<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => "other".to_owned(),
    }
}

fn state_of(delivery: &Delivery) -> &'static str {
    match delivery {
        Delivery::Queued => "queued",
        Delivery::Sent => "sent",
        Delivery::Relayed => "relayed",
        Delivery::Delivered => "delivered",
        Delivery::NotConfirmed => "not_confirmed",
        Delivery::Waiting(_) => "waiting",
        Delivery::Failed(_) => "failed",
        Delivery::Cancelled => "cancelled",
    }
}

/// Was a question refused, or was it none, or one that is answered already?
fn is_refusal(cause: &str) -> bool {
    [
        Ignored::Disabled,
        Ignored::Denied,
        Ignored::Mqtt,
        Ignored::ChannelNotListed,
        Ignored::NotVerified,
        Ignored::OverBudget,
        Ignored::Busy,
        Ignored::Storage,
        Ignored::Loop,
        Ignored::Stopped,
        Ignored::TooOld,
    ]
    .iter()
    .any(|reason| reason.as_str() == cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assistant::{Assurance, ChatStatus, PermissionCategory, ToolOutcome, TurnId};
    use crate::node::NodeNum;

    fn heard(ignored: Option<Ignored>) -> MeshEvent {
        MeshEvent::Heard {
            from: NodeNum(7),
            name: "Ana <evil>".to_owned(),
            assurance: Assurance::Unverified,
            channel: None,
            text: "canary".to_owned(),
            ignored: ignored.map(|reason| reason.to_string()),
        }
    }

    fn ended(answered: bool, millis: u64) -> MeshEvent {
        let record =
            |name: &str, category, outcome| ToolRecord { name: name.to_owned(), category, outcome };
        MeshEvent::TurnEnded {
            turn_id: TurnId("m-1".to_owned()),
            answered,
            backend: if answered { "ollama".to_owned() } else { String::new() },
            tools: vec![
                record("disk", Some(PermissionCategory::System), ToolOutcome::Ran),
                record("made up \" by a model", None, ToolOutcome::Unknown),
            ],
            millis,
            parts: 1,
        }
    }

    fn of(family: &Family, labels: &[&str]) -> u64 {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        family.get(&labels).copied().unwrap_or_default()
    }

    #[test]
    fn what_happens_is_counted_and_nothing_that_a_stranger_chose_is_a_label() {
        let figures = Figures::default();
        let now = 1_700_000_000_000;
        for event in [
            heard(None),
            heard(Some(Ignored::NotVerified)),
            heard(Some(Ignored::NotVerified)),
            heard(Some(Ignored::Replay)),
            heard(Some(Ignored::NoTrigger)),
            ended(true, 900),
            ended(false, 301_000),
        ] {
            figures.mesh(&event, now);
        }
        let counts = figures.counts();
        assert_eq!(of(&counts.refused, &["not_a_verified_contact"]), 2);
        assert_eq!(of(&counts.refused, &["replay"]), 1);
        assert_eq!(of(&counts.turns, &["mesh", "answered"]), 1);
        assert_eq!(of(&counts.turns, &["mesh", "failed"]), 1);
        assert_eq!(of(&counts.answers, &["ollama"]), 1);
        assert_eq!(of(&counts.tools, &["mesh", "system", "ran"]), 2);
        assert_eq!(of(&counts.tools, &["mesh", "none", "unknown"]), 2);
        let hour = &counts.hours.last_day(now)[23];
        assert_eq!((hour.answered, hour.refused), (1, 2), "a replay is no refusal");
        let shown = format!("{counts:?}");
        for foreign in ["canary", "evil", "made up"] {
            assert!(!shown.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_turn_falls_into_its_bucket() {
        let mut histogram = Histogram::default();
        for millis in [0, 250, 251, 300_000, 300_001] {
            histogram.add(millis);
        }
        assert_eq!(histogram.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert!((histogram.sum_s - 600.502).abs() < 1e-9);
    }

    #[test]
    fn labels_are_bounded() {
        let mut family = Family::new();
        for n in 0..MAX_LABELS + 5 {
            add(&mut family, &["x", &n.to_string()]);
        }
        assert_eq!(family.len(), MAX_LABELS + 1);
        assert_eq!(of(&family, &["other", "other"]), 5);
        add(&mut family, &["x", "0"]);
        assert_eq!(of(&family, &["x", "0"]), 2);
    }

    #[test]
    fn words_are_those_of_the_contract() {
        assert_eq!(word(&ChatStatus::Stopped), "stopped");
        assert_eq!(word(&ToolOutcome::NeedsConfirmation), "needs_confirmation");
        for delivery in [Delivery::NotConfirmed, Delivery::Waiting(String::new())] {
            let json = serde_json::to_value(&delivery).unwrap();
            assert_eq!(json["state"], state_of(&delivery));
        }
    }
}
