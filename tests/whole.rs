//! Whole-program tests: one binary, a module a subject.

// The allowances for tests in `clippy.toml` reach only functions that are marked as tests, not their
// helpers; and tests lay out files of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod support;

mod agent;
mod backends;
mod backup;
mod chat_command;
mod check_command;
mod claude;
mod confirm;
mod contacts;
mod conversation;
mod data_folder;
mod demo;
mod distress;
mod flood;
mod foreign_radio;
mod grants_command;
mod identity;
mod legs;
#[cfg(feature = "mcp")]
mod mcp;
mod measured;
mod openai;
mod operator_password;
mod program;
mod python_client;
mod radio_settings;
mod recorded_answers;
mod recorded_turns;
mod recordings_table;
mod restart;
mod rpc_authorisation;
mod rpc_chat;
mod rpc_connections;
mod rpc_contract;
mod rpc_events;
mod rpc_guide;
mod rpc_leg;
mod rpc_metrics;
mod rpc_node;
mod rpc_pages;
mod rpc_refusals;
mod rpc_roles;
mod rpc_sessions;
mod sim_command;
mod tools;
