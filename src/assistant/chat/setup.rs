//! What a change of the configuration replaces: the legs, and who may use which.
//!
//! Owns the order of the legs. Sends nothing.

use std::sync::Arc;

use crate::assistant::backends::Backend;
use crate::assistant::backends::claude::Claude;
use crate::assistant::backends::offline::Offline;
use crate::assistant::backends::ollama;
use crate::assistant::backends::openai::Openai;
use crate::assistant::caller::{CallerScope, CategorySet, PermissionCategory};
use crate::assistant::legs::Legs;
use crate::assistant::models::ChosenModel;
use crate::config::{AssistantConfig, CloudPolicy, KEPT_FROM_CLOUD};
use crate::secrets::Secrets;

/// Made anew at every change; a turn that runs keeps its own.
pub(super) struct Setup {
    pub legs: Arc<Legs>,
    pub cloud: CloudPolicy,
    /// The categories whose content no cloud leg is given.
    pub kept: CategorySet,
    /// What the legs were made of; `None` where they were given.
    pub config: Option<AssistantConfig>,
    /// The local leg's model, and who chose it.
    pub model: Option<ChosenModel>,
}

impl Setup {
    /// May this caller's text leave the operator's machines?
    pub fn may_use_cloud(&self, scope: &CallerScope) -> bool {
        match self.cloud {
            CloudPolicy::None => false,
            CloudPolicy::Operator => scope.is_operator(),
            CloudPolicy::All => true,
        }
    }

    /// `chosen`: the model that the operator chose at the node.
    pub fn of(config: &AssistantConfig, chosen: Option<String>, secrets: &Secrets) -> Setup {
        let mut ollama = config.ollama.clone();
        let source = if chosen.is_some() { "node" } else { "configuration" };
        if let Some(chosen) = chosen {
            ollama.model = chosen;
        }
        let mut legs: Vec<Box<dyn Backend>> =
            vec![ollama::leg(&ollama), Box::new(Claude::new(&config.claude, secrets.clone()))];
        if let Some(openai) = &config.openai {
            legs.push(Box::new(Openai::new(openai, secrets.clone())));
        }
        legs.push(Box::new(Offline));
        Setup {
            legs: Arc::new(Legs::new(legs)),
            cloud: config.cloud,
            kept: kept(&config.cloud_content),
            config: Some(config.clone()),
            model: Some(ChosenModel { name: ollama.model, source }),
        }
    }
}

/// The categories whose content stays on the node, but for those that the operator has granted for the cloud.
pub(super) fn kept(granted: &[PermissionCategory]) -> CategorySet {
    KEPT_FROM_CLOUD.into_iter().filter(|category| !granted.contains(category)).collect()
}
