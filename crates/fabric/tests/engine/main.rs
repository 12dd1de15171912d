//! Tests of the simulation engine against answers that were computed without it.

mod choices;
#[path = "../common/mod.rs"]
mod common;
mod ends;
mod faults;
mod loops;
mod order;
mod outages;
mod queueing;
mod regions;
mod reroute;
mod routing;
mod service;
mod timers;
mod unloaded;
