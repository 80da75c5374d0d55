//! The service as a whole: link events in, packets out, with a scripted assistant and a paused clock.

mod authority;
mod bench;
mod commands;
mod confirm;
mod decisions;
mod distress;
mod evil;
mod fairness;
mod halt;
mod manners;
mod orders;
mod pairing;
mod radio;
mod restart;
mod sending;
mod sim;
mod status;
