//! Helpers of the fabric's tests.
#![allow(dead_code)] // no test target uses all of them

pub mod blast;
pub mod depth;
pub mod networks;
pub mod tandem;
pub mod watch;
