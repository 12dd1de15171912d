//! PASE.
#![allow(dead_code)]

mod arbiter;
mod ranking;

pub use arbiter::{Arbiter, Request, Rounding, Rules, Share};
