//! Whole-program tests: one binary, a module a subject.
#![allow(clippy::unwrap_used)] // a helper that fails fails its test

mod rpc_authorisation;
mod rpc_chat;
mod rpc_contract;
mod rpc_desk;
mod rpc_node;
mod rpc_pages;
mod rpc_refusals;
mod rpc_sessions;
