//! What switch ports share.

mod drop_tail;
#[cfg(test)]
pub(crate) mod rig;
mod strict_priority;

pub use drop_tail::DropTail;
pub use strict_priority::{Buffer, StrictPriority};
