//! The chain of legs: which one answers.
//!
//! Owns the order, what is skipped and why. A reason is kept for each leg that did not answer, for the log
//! and for the operator. Knows no wire format.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;
use tracing::warn;

use super::backends::{Backend, BackendError, BackendTurn, Request};
use super::{LegReason, ModelPlace};

/// A leg that took this long to fail would cost every turn as much: it rests.
const SLOW_FAILURE: Duration = Duration::from_secs(2);
/// How long it rests.
const REST: Duration = Duration::from_secs(30);
/// And at most, where its server wished for longer.
const LONGEST_REST: Duration = Duration::from_secs(3600);
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
    /// `ready`, `failing`, `resting` or `unavailable`.
    pub state: String,
    /// Why it is not `ready`.
    pub reason: Option<String>,
}

/// The legs, in the order in which they are tried.
pub struct Legs {
    legs: Vec<Leg>,
}

struct Leg {
    backend: Box<dyn Backend>,
    health: Mutex<Health>,
}

#[derive(Debug, Default, Clone)]
struct Health {
    failed: Option<String>,
    rests_until: Option<Instant>,
}

/// Where a turn stands in the chain: a leg that failed it is not asked again in the same turn.
pub struct Walk<'a> {
    legs: &'a Legs,
    /// The legs in the order of this turn: those that rest are asked where nobody else answers.
    order: Vec<usize>,
    /// Where in `order` it stands.
    next: usize,
    cloud: bool,
    /// When the turn ends. A leg behind which others stand gets three quarters of what is left.
    pub deadline: Option<Instant>,
    /// What the failed legs come to, for the caller.
    pub nobody: Nobody,
    /// A local leg without tools, kept for the end.
    without_tools: Option<usize>,
    /// Has the turn come down to the leg without tools?
    pub toolless: bool,
    /// Why the legs before did not answer.
    pub reasons: Vec<LegReason>,
}

/// Why nobody answered, the most telling reason last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nobody {
    /// No model was reached.
    NoModel,
    /// One was, and its answers were of no use.
    NoUse,
    /// The question fits no model.
    TooMuch,
}

impl Legs {
    /// In that order.
    pub fn new(backends: Vec<Box<dyn Backend>>) -> Legs {
        let legs =
            backends.into_iter().map(|backend| Leg { backend, health: Mutex::default() }).collect();
        Legs { legs }
    }

    /// Begins a turn. `cloud`: may this caller's text leave the operator's machines?
    pub fn select_backend(&self, cloud: bool) -> Walk<'_> {
        let (mut order, mut resting, mut offline) = (Vec::new(), Vec::new(), Vec::new());
        let mut reasons = Vec::new();
        for (index, leg) in self.legs.iter().enumerate() {
            if leg.backend.name() == OFFLINE {
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
        Walk {
            legs: self,
            order,
            next: 0,
            cloud,
            deadline: None,
            nobody: Nobody::NoModel,
            without_tools: None,
            toolless: false,
            reasons,
        }
    }

    /// Where the first model runs that is there; `cloud`: may this caller's text go there?
    pub async fn place(&self, cloud: bool) -> ModelPlace {
        for leg in &self.legs {
            let backend = &leg.backend;
            let resting = leg.rests().is_some();
            let barred = backend.is_cloud() && !cloud;
            if backend.name() == OFFLINE || resting || barred || backend.there().await.is_err() {
                continue;
            }
            return if backend.is_cloud() { ModelPlace::Cloud } else { ModelPlace::Local };
        }
        ModelPlace::Off
    }

    /// Asks each leg whether it is there.
    pub async fn states(&self) -> Vec<LegState> {
        let mut states = Vec::new();
        for leg in &self.legs {
            let health = leg.health();
            let name = leg.backend.name().to_owned();
            let (state, reason) = if leg.rests().is_some() {
                ("resting", health.failed)
            } else {
                match (leg.backend.there().await, health.failed) {
                    (Err(error), _) => ("unavailable", Some(error.to_string())),
                    (Ok(_), Some(failed)) => ("failing", Some(failed)),
                    (Ok(capabilities), None) if !capabilities.tools => {
                        ("ready", Some(BackendError::NoTools.to_string()))
                    }
                    (Ok(_), None) => ("ready", None),
                }
            };
            states.push(LegState { name, state: state.to_owned(), reason });
        }
        states
    }
}

impl Walk<'_> {
    /// One request, to the first leg that answers it. `None`: no leg did; see `reasons`.
    pub async fn send(&mut self, request: Request<'_>) -> Option<(&'static str, BackendTurn)> {
        while let Some(index) = self.order.get(self.next).copied() {
            let leg = self.legs.legs.get(index)?;
            match self.try_leg(leg, index, request).await {
                Ok(turn) => {
                    // It rested, and was asked for want of others.
                    self.reasons.retain(|reason| reason.leg != leg.backend.name());
                    return Some((leg.backend.name(), turn));
                }
                Err(reason) => {
                    self.note(leg, reason);
                    self.next += 1;
                }
            }
        }
        // At last the local model that can't use tools.
        let leg = self.legs.legs.get(self.without_tools?)?;
        let bare = Request { tools: &[], ..request };
        match ask(leg, bare, None).await {
            Ok(turn) => {
                self.toolless = true;
                Some((leg.backend.name(), turn))
            }
            Err(error) => {
                self.note(leg, error.to_string());
                self.without_tools = None;
                None
            }
        }
    }

    async fn try_leg(
        &mut self,
        leg: &Leg,
        index: usize,
        request: Request<'_>,
    ) -> Result<BackendTurn, String> {
        let backend = &leg.backend;
        if backend.is_cloud() && !self.cloud {
            return Err("this caller's questions don't go to the cloud".to_owned());
        }
        let asked = match backend.available().await {
            Ok(capabilities) if capabilities.tools || request.tools.is_empty() => {
                ask(leg, request, self.share_of_time().await).await
            }
            Ok(_) => Err(BackendError::NoTools),
            Err(error) => Err(error),
        };
        if asked == Err(BackendError::NoTools) && !backend.is_cloud() {
            self.without_tools = Some(index);
        }
        if backend.name() != OFFLINE {
            self.nobody = self.nobody.max(match &asked {
                Err(BackendError::Broken(_)) => Nobody::NoUse,
                Err(BackendError::TooLong) => Nobody::TooMuch,
                _ => Nobody::NoModel,
            });
        }
        asked.map_err(|error| error.to_string())
    }

    /// How long the present leg may take; `None` where no other model stands behind it.
    async fn share_of_time(&self) -> Option<Duration> {
        let left = self.deadline?.saturating_duration_since(Instant::now());
        for index in self.order.iter().skip(self.next + 1) {
            let backend = &self.legs.legs.get(*index)?.backend;
            let barred = backend.is_cloud() && !self.cloud;
            if backend.name() != OFFLINE && !barred && backend.available().await.is_ok() {
                return Some(left / 4 * 3);
            }
        }
        None
    }

    fn note(&mut self, leg: &Leg, reason: String) {
        let name = leg.backend.name();
        warn!(leg = name, reason, "a leg did not answer");
        // Now it was asked all the same, and the new reason counts.
        self.reasons.retain(|known| known.leg != name || !known.reason.starts_with(RESTS));
        self.reasons.push(LegReason { leg: name.to_owned(), reason });
    }
}

impl Leg {
    fn health(&self) -> Health {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why it rests, if it does.
    fn rests(&self) -> Option<String> {
        let health = self.health();
        health.rests_until.filter(|until| *until > Instant::now())?;
        Some(health.failed.unwrap_or_default())
    }

    fn set_health(&self, health: Health) {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner) = health;
    }
}

/// Asks a leg, within that time; an answer of no use gets it a second try.
async fn ask(
    leg: &Leg,
    request: Request<'_>,
    within: Option<Duration>,
) -> Result<BackendTurn, BackendError> {
    let begun = Instant::now();
    let tries = async {
        let mut outcome = leg.backend.send(request).await;
        for _ in 1..TRIES {
            if matches!(outcome, Err(BackendError::Broken(_))) && leg.backend.repeats() {
                outcome = leg.backend.send(request).await;
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
    let health = match &outcome {
        Err(error @ BackendError::Overloaded { retry_after: Some(wish) }) => Health {
            failed: Some(error.to_string()),
            rests_until: Some(Instant::now() + (*wish).min(LONGEST_REST)),
        },
        Err(error @ (BackendError::Unreachable(_) | BackendError::Overloaded { .. })) => Health {
            failed: Some(error.to_string()),
            rests_until: (begun.elapsed() >= SLOW_FAILURE).then(|| Instant::now() + REST),
        },
        Err(
            error @ (BackendError::Auth(_)
            | BackendError::NoModel(_)
            | BackendError::Refused { .. }),
        ) => Health { failed: Some(error.to_string()), rests_until: None },
        // The model's own fault says nothing of the leg.
        Err(BackendError::Broken(_) | BackendError::NoTools | BackendError::TooLong) => {
            leg.health()
        }
        Ok(_) => Health::default(),
    };
    leg.set_health(health);
    outcome
}
