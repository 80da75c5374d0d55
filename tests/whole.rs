//! Whole-program tests: one binary, a module a subject.

// The allowance for tests in `clippy.toml` reaches only functions that are marked as tests.
#![allow(clippy::unwrap_used)]

mod python_client;
