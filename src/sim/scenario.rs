//! (soon)
use super::SimConfig;

/// Peers and timed sayings from a file.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The mesh.
    pub config: SimConfig,
}

/// What is wrong with a scenario file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ScenarioError(String);
