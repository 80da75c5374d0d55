//! (being written)
use super::*;
/// Leg.
pub struct Claude;
impl Backend for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }
    fn is_cloud(&self) -> bool {
        false
    }
    fn available(&self) -> Answer<'_, Capabilities> {
        Box::pin(async { Err(BackendError::Unreachable(String::new())) })
    }
    fn send<'a>(&'a self, _: Request<'a>) -> Answer<'a, BackendTurn> {
        Box::pin(async { Err(BackendError::Unreachable(String::new())) })
    }
}
impl Claude {
    /// New.
    pub fn new(_: &crate::config::ClaudeConfig, _: crate::secrets::Secrets) -> Self {
        Self
    }
}
