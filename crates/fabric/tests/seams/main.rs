//! The core traits support schemes that need more than hosts and queues: one toy scheme of each kind, with a known answer.

mod arbitrators;
#[path = "../common/mod.rs"]
mod common;
mod limiter;
mod pair;
mod paths;
mod pause;
mod shared_memory;
mod switch_state;
mod telemetry;
mod trimming;
