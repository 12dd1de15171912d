//! What the fabric's tests share.
#![allow(dead_code)] // every test target uses a part of it

pub mod blast;
pub mod depth;
pub mod networks;
pub mod tandem;
pub mod watch;
