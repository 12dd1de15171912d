//! Data structures that schemes share. None of them uses a keyed hash or allocates per packet. Memory follows the flows in progress and
//! those that finished recently (see [`TimeWait`]).

mod flow_map;
mod flow_table;
mod framing;
mod heap;
mod outbox;
mod path_deck;
mod random;
mod range_set;
mod reassembly;
mod time_wait;
mod timers;

pub use flow_map::FlowMap;
pub use flow_table::FlowTable;
pub use framing::Framing;
pub use heap::IndexedHeap;
pub use outbox::Outbox;
pub use path_deck::{PathDealer, PathDeck};
pub use random::RandomStream;
pub use range_set::RangeSet;
pub use reassembly::{Arrival, Reassembly};
pub use time_wait::TimeWait;
pub use timers::Timers;

use flowloom_core::Time;

/// The earlier of two deadlines that may not exist.
#[inline]
pub fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
