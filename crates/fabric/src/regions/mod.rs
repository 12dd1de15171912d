//! One run in several regions: parts of the network that keep their own time, and send each other what crosses between them.

mod crew;
#[cfg(test)]
mod model;
mod pace;
mod partition;

use std::sync::Arc;

use flowloom_core::{FlowId, LinkId, NodeId, Packet, Time};

use crate::tasks::End;

pub(crate) use crew::{Crew, Report as Shift, Worker, each};
pub(crate) use pace::Pace;
pub(crate) use partition::Partition;

/// What threads synchronise with. `model` tests the same code with another one.
mod sync {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
    pub use std::sync::{Condvar, Mutex, MutexGuard};

    /// How often a thread looks whether the others have come before it sleeps: some ten microseconds.
    pub const SPINS: u32 = 500;
}

/// The number of a region.
pub(crate) type RegionId = u16;
/// Stands for the region of whoever asks.
pub(crate) const HERE: RegionId = RegionId::MAX;

/// Which nodes are in this region.
#[derive(Clone)]
pub(crate) struct Place {
    /// The number of this region.
    pub number: RegionId,
    partition: Option<Arc<Partition>>,
}

impl Place {
    /// The only region, with all nodes.
    pub const WHOLE: Place = Place { number: 0, partition: None };

    /// A region of a partition.
    pub fn of(partition: &Arc<Partition>, number: RegionId) -> Place {
        Place { number, partition: Some(partition.clone()) }
    }

    /// How many regions there are.
    pub fn regions(&self) -> usize {
        self.partition.as_ref().map_or(1, |partition| partition.count())
    }

    /// The region of a node, [`HERE`] if it is this one.
    pub fn away(&self, node: NodeId) -> RegionId {
        self.partition.as_ref().map(|partition| partition.region(node)).filter(|region| *region != self.number).unwrap_or(HERE)
    }

    /// Whether a node is in this region.
    pub fn is_here(&self, node: NodeId) -> bool {
        self.away(node) == HERE
    }
}

/// What crosses from one region to another.
pub(crate) struct Message<H> {
    /// When it has its effect there.
    pub due: Time,
    pub what: Matter<H>,
}

pub(crate) enum Matter<H> {
    /// A packet arrives at the end of a link.
    Packet(LinkId, Packet<H>),
    /// A task need no longer wait for another one, which is over here. It may have begun before: the two ends of a flow do not know of each other whether one of them has
    /// told it.
    Over {
        /// The task that waits.
        task: FlowId,
        /// What it has waited for.
        over: (FlowId, End),
    },
}

/// What a region has sent to each of the others and they have not taken.
pub(crate) struct Outbox<H> {
    messages: Vec<Vec<Message<H>>>,
    /// When the earliest message is due; [`Time::MAX`] if there is none.
    first_due: Time,
    /// How many messages the others have not been told of.
    sent: u64,
}

impl<H> Outbox<H> {
    pub fn new(regions: usize) -> Outbox<H> {
        Outbox { messages: (0..regions).map(|_| Vec::new()).collect(), first_due: Time::MAX, sent: 0 }
    }

    pub fn send(&mut self, to: RegionId, message: Message<H>) {
        self.first_due = self.first_due.min(message.due);
        self.sent += 1;
        self.messages[usize::from(to)].push(message);
    }

    /// When the earliest message since the last call is due, [`Time::MAX`] if there is none, and how many there are.
    pub fn take_news(&mut self) -> (Time, u64) {
        (std::mem::replace(&mut self.first_due, Time::MAX), std::mem::take(&mut self.sent))
    }

    /// The messages for each region, which are to be taken out.
    pub fn messages(&mut self) -> &mut [Vec<Message<H>>] {
        &mut self.messages
    }
}
