//! Helpers of the whole-program tests.

pub mod ollama;
#[cfg(any())]
pub mod world;
