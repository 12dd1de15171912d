//! Nodes that pause their neighbours without need, as a broken NIC does.

use std::collections::VecDeque;

use flowloom_core::{Duration, NodeId, Time};

/// A node stops all classes of all its neighbours for a while, although its memory is not full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Storm {
    /// The node.
    pub node: NodeId,
    /// When it sends its first pause frame.
    pub from: Time,
    /// When it tells its neighbours to go on.
    pub to: Time,
    /// The time from one frame to the next, above zero.
    pub every: Duration,
}

/// The storms of one port that are not over.
#[derive(Clone, Debug)]
pub(super) struct Storms {
    /// In order of time.
    left: VecDeque<Storm>,
    /// When the next frame is due.
    next: Time,
}

impl Storms {
    /// The storms of a node, which do not touch each other; `None` if there are none.
    pub fn of(node: NodeId, storms: &[Storm]) -> Option<Storms> {
        let mut left: Vec<Storm> = storms.iter().filter(|storm| storm.node == node).copied().collect();
        left.sort_by_key(|storm| storm.from);
        let next = left.first()?.from;
        Some(Storms { left: left.into(), next })
    }

    /// When the next frame is due.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Whether every frame must stop all classes now.
    pub fn rages(&self, now: Time) -> bool {
        self.left.front().is_some_and(|storm| storm.from <= now && now < storm.to)
    }

    /// Whether a frame is due now; if so, it is taken as sent.
    pub fn take_due(&mut self, now: Time) -> bool {
        if now < self.next {
            return false;
        }
        match self.left.front() {
            // A frame that has waited for a packet on the wire does not delay the next one.
            Some(storm) if now < storm.to => self.next = (self.next + storm.every).max(now).min(storm.to),
            _ => {
                self.left.pop_front();
                self.next = self.left.front().map_or(Time::MAX, |storm| storm.from);
            }
        }
        true
    }

    /// Whether nothing is left to send.
    pub fn are_over(&self) -> bool {
        self.left.is_empty()
    }
}
