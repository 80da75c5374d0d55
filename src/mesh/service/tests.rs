//! The service as a whole: link events in, packets out, with a scripted assistant and a paused clock.

mod authority;
mod bench;
mod confirm;
mod evil;
mod fairness;
mod halt;
mod manners;
mod orders;
mod radio;
mod restart;
mod sim;
mod status;
