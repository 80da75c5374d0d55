//! The chain of legs: which ones there are, and how they are.
//!
//! Owns the order, and what is known of each leg from outside. Which one answers a turn is in [`walk`], when a leg
//! rests in [`health`]. Knows no wire format.

pub mod health;
pub mod speed;
pub mod walk;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::backends::{Backend, BackendError, BackendTurn, Capabilities, Request, Turn};
use super::{LegReason, ModelPlace};
use health::Health;
use speed::Speed;
pub use walk::{Nobody, Walk};

/// How the reason of a leg begins that was not asked yet because it rests.
const RESTS: &str = "rests after a failure: ";
/// The leg without a model.
const OFFLINE: &str = "offline";
/// A leg gets this many tries at an answer of some use.
const TRIES: usize = 2;

/// One leg as it is seen from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LegState {
    /// `ollama`, `claude`, `openai` or `offline`.
    pub name: String,
    /// `ready`; `failing` (its last use failed, and it is asked again), `resting` (the same, and it is not asked
    /// yet while another answers), `unavailable` (it does not answer now) or `unconfigured`.
    pub state: String,
    /// Why it is not `ready`, or what it can't do.
    pub reason: Option<String>,
    /// Seconds until it is asked again; only of one that rests.
    pub rests_for_s: Option<u64>,
    /// What its last answers took, in the middle; `None` before the first.
    pub median_ms: Option<u64>,
}

/// The legs, in the order in which they are tried.
pub struct Legs {
    legs: Vec<Leg>,
}

struct Leg {
    backend: Box<dyn Backend>,
    health: Mutex<Health>,
    speed: Mutex<Speed>,
}

impl Legs {
    /// In that order.
    pub fn new(backends: Vec<Box<dyn Backend>>) -> Legs {
        let leg = |backend| Leg { backend, health: Mutex::default(), speed: Mutex::default() };
        Legs { legs: backends.into_iter().map(leg).collect() }
    }

    /// Begins a turn. `cloud`: may this caller's text leave the operator's machines?
    pub fn select_backend(&self, cloud: bool) -> Walk<'_> {
        let (mut order, mut resting, mut offline) = (Vec::new(), Vec::new(), Vec::new());
        let mut reasons = Vec::new();
        for (index, leg) in self.legs.iter().enumerate() {
            if leg.is_offline() {
                offline.push(index);
            } else if let Some(reason) = leg.rests() {
                resting.push(index);
                let reason = format!("{RESTS}{reason}");
                reasons.push(LegReason { leg: leg.backend.name().to_owned(), reason });
            } else {
                order.push(index);
            }
        }
        order.append(&mut resting);
        order.append(&mut offline);
        Walk::new(self, order, cloud, reasons)
    }

    /// Where the first model runs that is there; `cloud`: may this caller's text go there?
    pub async fn place(&self, cloud: bool) -> ModelPlace {
        for leg in &self.legs {
            let backend = &leg.backend;
            let barred = || backend.is_cloud() && !cloud;
            let passed_over = leg.is_offline() || leg.rests().is_some() || barred();
            // Some say only when they are asked where they send what they are given.
            if passed_over || backend.there().await.is_err() || barred() {
                continue;
            }
            return if backend.is_cloud() { ModelPlace::Cloud } else { ModelPlace::Local };
        }
        ModelPlace::Off
    }

    /// Asks each leg whether it is there, all at once; not those that rest.
    pub async fn states(&self) -> Vec<LegState> {
        futures_util::future::join_all(self.legs.iter().map(Leg::state)).await
    }

    /// A text of the first local model that is there, for the node's own use: without tools, and never from a cloud.
    /// `None`: no local model gave one.
    pub async fn local_text(&self, system: &str, question: String) -> Option<String> {
        let history = [Turn::User(question)];
        let request = Request { system, tools: &[], history: &history };
        for leg in &self.legs {
            let passed_over = leg.is_offline() || leg.backend.is_cloud() || leg.rests().is_some();
            // Some say only when they are asked where they send what they are given.
            if passed_over || leg.available().await.is_err() || leg.backend.is_cloud() {
                continue;
            }
            if let Ok(BackendTurn::Text(text)) = leg.ask(request, None).await {
                return Some(text);
            }
        }
        None
    }
}

impl Leg {
    /// How it is now, seen from outside.
    async fn state(&self) -> LegState {
        let health = self.health();
        let rest = health.rest(Instant::now());
        let (state, reason) = match rest {
            Some(_) => ("resting", health.failed),
            None => match (self.backend.there().await, health.failed) {
                (Err(error @ BackendError::Unconfigured(_)), _) => {
                    ("unconfigured", Some(error.to_string()))
                }
                (Err(error), _) => ("unavailable", Some(error.to_string())),
                (Ok(_), Some(failed)) => ("failing", Some(failed)),
                (Ok(capabilities), None) if !capabilities.tools => {
                    ("ready", Some(BackendError::NoTools.to_string()))
                }
                (Ok(_), None) => ("ready", None),
            },
        };
        LegState {
            name: self.backend.name().to_owned(),
            state: state.to_owned(),
            reason,
            // Rounded up: it is not asked before.
            rests_for_s: rest.map(|rest| rest.as_secs() + u64::from(rest.subsec_nanos() > 0)),
            median_ms: self.speed.lock().unwrap_or_else(PoisonError::into_inner).median_ms(),
        }
    }

    fn is_offline(&self) -> bool {
        self.backend.name() == OFFLINE
    }

    fn health(&self) -> Health {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why it rests, if it does.
    fn rests(&self) -> Option<String> {
        let health = self.health();
        health.rest(Instant::now())?;
        Some(health.failed.unwrap_or_default())
    }

    /// Whether it can be asked; a failure counts as one of the leg.
    async fn available(&self) -> Result<Capabilities, BackendError> {
        let begun = Instant::now();
        let outcome = self.backend.available().await;
        if let Err(error) = &outcome {
            self.failed(error, begun);
        }
        outcome
    }

    /// Asks it, within that time; an answer of no use gets it a second try.
    async fn ask(
        &self,
        request: Request<'_>,
        within: Option<Duration>,
    ) -> Result<BackendTurn, BackendError> {
        let begun = Instant::now();
        let tries = async {
            let mut outcome = self.backend.send(request).await;
            for _ in 1..TRIES {
                if matches!(outcome, Err(BackendError::Broken(_))) && self.backend.repeats() {
                    outcome = self.backend.send(request).await;
                }
            }
            outcome
        };
        let outcome = match within {
            None => tries.await,
            Some(within) => tokio::time::timeout(within, tries).await.unwrap_or_else(|_| {
                let words = format!("no answer within {} s", within.as_secs());
                Err(BackendError::Unreachable(words))
            }),
        };
        match &outcome {
            Ok(_) => {
                self.set_health(Health::default());
                let mut speed = self.speed.lock().unwrap_or_else(PoisonError::into_inner);
                speed.answered(begun.elapsed());
            }
            Err(error) => self.failed(error, begun),
        }
        outcome
    }

    fn failed(&self, error: &BackendError, begun: Instant) {
        if self.is_offline() {
            return;
        }
        let now = Instant::now();
        self.set_health(self.health().after(error, now.saturating_duration_since(begun), now));
    }

    fn set_health(&self, health: Health) {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner) = health;
    }
}

#[cfg(test)]
mod tests;
