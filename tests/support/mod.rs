//! Helpers of the whole-program tests.

pub mod machine;

pub mod ollama;

pub mod scenes;

pub mod town;

pub mod world;
