//! One turn's way along the legs.
//!
//! Owns which leg is asked next, how long it may take, what is kept from a cloud leg, and why each leg that was passed
//! over did not answer. Knows no wire format.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, warn};

use super::{Leg, Legs, RESTS};
use crate::assistant::backends::{BackendError, BackendTurn, Request, ToolSpec, Turn};
use crate::assistant::caller::{CategorySet, PermissionCategory};
use crate::assistant::cloud::{CloudLog, Leaving};
use crate::assistant::{LegReason, TurnId};

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
    /// What must not reach a cloud leg.
    pub kept: Kept,
    /// Where it is written down what a cloud leg is sent, and for which turn.
    pub record: Option<(&'a CloudLog, TurnId)>,
}

/// What must not reach a cloud leg, and what the turn holds of it.
#[derive(Debug, Default)]
pub struct Kept {
    /// The categories whose content stays on the node.
    pub categories: CategorySet,
    /// Tools of these categories: a cloud leg is not offered them.
    pub tools: BTreeSet<String>,
    /// Entries of the history, by their place, that such content went into: a cloud leg is not given them.
    pub past: BTreeSet<usize>,
    /// What went into the entries that a cloud leg is given.
    pub public_past: CategorySet,
    /// What went into all entries: a local leg is given them all.
    pub whole_past: CategorySet,
    /// The categories of the tools that have run in this turn.
    pub seen: CategorySet,
    /// What went into the entries that a leg of this turn was given, and into what the question repeats: its words may be
    /// made of them.
    pub made_of: CategorySet,
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

impl Kept {
    /// The content of this turn that keeps it from a cloud leg.
    fn holds(&self) -> Option<PermissionCategory> {
        self.seen.union(&self.made_of).find(|category| self.categories.contains(category)).copied()
    }

    /// A leg has answered, or asks for a tool.
    fn answered(&mut self, cloud: bool) {
        let past = if cloud { &self.public_past } else { &self.whole_past };
        self.made_of.extend(past.iter().copied());
    }

    /// What of the request a cloud leg is given.
    fn public(&self, request: Request<'_>) -> (Vec<ToolSpec>, Vec<Turn>) {
        let tools = request.tools.iter().filter(|tool| !self.tools.contains(&tool.name));
        let turns =
            request.history.iter().enumerate().filter(|(place, _)| !self.past.contains(place));
        (tools.cloned().collect(), turns.map(|(_, turn)| turn.clone()).collect())
    }
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        legs: &'a Legs,
        order: Vec<usize>,
        cloud: bool,
        reasons: Vec<LegReason>,
    ) -> Walk<'a> {
        Walk {
            legs,
            order,
            next: 0,
            cloud,
            deadline: None,
            nobody: Nobody::NoModel,
            without_tools: None,
            toolless: false,
            reasons,
            kept: Kept::default(),
            record: None,
        }
    }

    /// One request, to the first leg that answers it. `None`: no leg did; see `reasons`.
    pub async fn send(&mut self, request: Request<'_>) -> Option<(&'static str, BackendTurn)> {
        while let Some(index) = self.order.get(self.next).copied() {
            let leg = self.legs.legs.get(index)?;
            match self.try_leg(leg, index, request).await {
                Ok(turn) => {
                    // It rested, and was asked for want of others.
                    self.reasons.retain(|reason| reason.leg != leg.backend.name());
                    self.kept.answered(leg.backend.is_cloud());
                    return Some((leg.backend.name(), turn));
                }
                Err(error) => {
                    self.note(leg, &error);
                    self.next += 1;
                }
            }
        }
        // At last the local model that can't use tools.
        let leg = self.legs.legs.get(self.without_tools?)?;
        let bare = Request { tools: &[], ..request };
        match leg.ask(bare, None).await {
            Ok(turn) => {
                self.toolless = true;
                self.kept.answered(false);
                Some((leg.backend.name(), turn))
            }
            Err(error) => {
                self.note(leg, &error);
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
    ) -> Result<BackendTurn, BackendError> {
        let backend = &leg.backend;
        let barred = || backend.is_cloud() && !self.cloud;
        let not_there = "this caller's questions don't go to the cloud";
        if barred() {
            return Err(BackendError::Unconfigured(not_there.to_owned()));
        }
        let asked = match leg.available().await {
            // Some say only now where they send what they are asked.
            Ok(_) if barred() => return Err(BackendError::Unconfigured(not_there.to_owned())),
            Ok(capabilities) if capabilities.tools || request.tools.is_empty() => {
                let within = self.share_of_time().await;
                if backend.is_cloud() {
                    self.ask_cloud(leg, request, within).await
                } else {
                    leg.ask(request, within).await
                }
            }
            Ok(_) => Err(BackendError::NoTools),
            Err(error) => Err(error),
        };
        if asked == Err(BackendError::NoTools) && !backend.is_cloud() {
            self.without_tools.get_or_insert(index);
        }
        if !leg.is_offline() {
            self.nobody = self.nobody.max(match &asked {
                Err(BackendError::Broken(_)) => Nobody::NoUse,
                Err(BackendError::TooLong) => Nobody::TooMuch,
                _ => Nobody::NoModel,
            });
        }
        asked
    }

    /// Asks a leg in the cloud: without what stays on the node, and only once it is written down what it is sent.
    async fn ask_cloud(
        &self,
        leg: &Leg,
        request: Request<'_>,
        within: Option<Duration>,
    ) -> Result<BackendTurn, BackendError> {
        if let Some(category) = self.kept.holds() {
            return Err(BackendError::Unconfigured(format!(
                "this turn holds {category} content, which stays on the node (assistant.cloud_content)"
            )));
        }
        let (tools, history) = self.kept.public(request);
        let request = Request { tools: &tools, history: &history, ..request };
        if let Some((log, turn)) = &self.record {
            let held = self.kept.seen.union(&self.kept.made_of).copied().collect();
            let leaving = Leaving::of(turn, leg.backend.name(), &history, &held);
            let bytes = leg.backend.size(request);
            if let Err(error) = log.add(leaving.bytes(bytes)) {
                warn!(%error, source = %error.source, "what leaves can't be written down");
                let words = "what leaves for the cloud can't be written down".to_owned();
                return Err(BackendError::Unconfigured(words));
            }
        }
        leg.ask(request, within).await
    }

    /// How long the present leg may take; `None` where no other model stands behind it.
    async fn share_of_time(&self) -> Option<Duration> {
        let left = self.deadline?.saturating_duration_since(Instant::now());
        for index in self.order.iter().skip(self.next + 1) {
            let leg = self.legs.legs.get(*index)?;
            let open = || !leg.backend.is_cloud() || (self.cloud && self.kept.holds().is_none());
            if !leg.is_offline() && open() && leg.backend.available().await.is_ok() && open() {
                return Some(left / 4 * 3);
            }
        }
        None
    }

    fn note(&mut self, leg: &Leg, error: &BackendError) {
        let (name, reason) = (leg.backend.name(), error.to_string());
        match error {
            // As the operator has it, at every turn.
            BackendError::Unconfigured(_) => debug!(leg = name, reason, "a leg was passed over"),
            _ if leg.is_offline() => debug!(leg = name, reason, "a leg was passed over"),
            _ => warn!(leg = name, reason, "a leg did not answer"),
        }
        // Now it was asked all the same, and the new reason counts.
        self.reasons.retain(|known| known.leg != name || !known.reason.starts_with(RESTS));
        self.reasons.push(LegReason { leg: name.to_owned(), reason });
    }
}
