//! (being written)
use super::*;
/// Leg.
pub struct Ollama;
impl Backend for Ollama {
    fn name(&self) -> &'static str {
        "ollama"
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
impl Ollama {
    /// New.
    pub fn new(_: &crate::config::OllamaConfig) -> Self {
        Self
    }
}
/// Models.
pub async fn models(_: &str) -> Result<Vec<String>, BackendError> {
    Ok(vec![])
}
