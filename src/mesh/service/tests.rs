//! The service as a whole: link events in, packets out, with a scripted assistant and a paused clock.

mod authority;
mod bench;
mod commands;
mod decisions;
mod fairness;
mod halt;
mod manners;
mod orders;
mod pairing;
mod restart;
mod sending;
mod sim;
mod status;
