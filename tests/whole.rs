//! Whole-program tests: one binary, a module a subject.
// A helper that fails fails its test, and tests lay out files of their own.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod backends;
mod operator_password;
mod rpc_authorisation;
mod rpc_chat;
mod rpc_contract;
mod rpc_leg;
mod rpc_node;
mod rpc_pages;
mod rpc_refusals;
mod rpc_sessions;
mod support;
