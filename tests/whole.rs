//! Whole-program tests: one binary, a module a subject.

// The allowances for tests in `clippy.toml` reach only functions that are marked as tests, not their
// helpers; and tests lay out files of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod support;

mod agent;
mod backends;
mod chat_command;
mod claude;
mod conversation;
mod demo;
mod flood;
mod identity;
#[cfg(feature = "mcp")]
mod mcp;
mod operator_password;
mod program;
mod python_client;
mod radio_settings;
mod recorded_answers;
mod restart;
mod rpc_authorisation;
mod rpc_chat;
mod rpc_contract;
mod rpc_leg;
mod rpc_node;
mod rpc_pages;
mod rpc_refusals;
mod rpc_sessions;
