//! What is certain about the radio: stream framing, LoRa airtime, presets, regions, text sizes, the
//! duty ledger's arithmetic, and the boards' USB ids.
//!
//! Invariant: no allocation, no clock, no I/O, no floating point, no panic. Time is an argument, so
//! that the same code runs on a microcontroller beside the radio. This crate is the only place that
//! knows a LoRa constant.
#![cfg_attr(not(test), no_std)]

pub mod frame;

pub mod lora;
pub mod preset;
pub mod region;
pub mod slot;
pub mod text;

pub mod duty;

pub mod board;

pub use lora::Modem;
pub use preset::Preset;
pub use region::Region;
