//! The transports on the simulated network: what they must show that two hosts alone do not.

#[path = "../common/mod.rs"]
mod common;
mod equals;
mod fastpass;
mod pfabric;
mod phost;
mod pias;
mod survival;
mod tcp;
