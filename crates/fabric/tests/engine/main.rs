//! The engine against answers that were found without it.

#[path = "../common/mod.rs"]
mod common;
mod faults;
mod loops;
mod order;
mod queueing;
mod routing;
mod service;
mod timers;
mod unloaded;
