//! PASE.
#![allow(dead_code)]

mod arbiter;
mod config;
mod control;
mod course;
mod delegation;
mod header;
mod messages;
mod paths;
mod ranking;

pub use arbiter::{Arbiter, Request, Rounding, Rules, Share};
pub use config::{Arbitration, Config, Criterion, Demand, Probing};
pub use control::Control;
pub use course::{Course, Half};
pub use header::Header;
