//! Tombolo ties a LoRa mesh to one node: peers' questions come in over a Meshtastic radio,
//! one shared assistant loop answers them, and the answer goes out in as little airtime as it can.
//!
//! The modules stand in reading order: names first, then the way a question takes.

// Tests make the files that they need in the plain way.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod clock;
pub mod config;
pub mod invisible;
pub mod node;
pub mod secrets;
pub mod store;

pub mod assistant;
pub mod mesh;
pub mod radio;
pub mod rpc;
pub mod tools;
pub mod web;

pub mod backup;
pub mod cli;
pub mod gateway;
pub mod sim;
pub mod telemetry;
