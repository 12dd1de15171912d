//! Nodes that go down for a while.

use flowloom_core::{NodeId, Time};

use crate::calendar::Payload;

/// A node's endpoint is down for a while and comes back without its state. A switch goes on forwarding: only its control endpoint is
/// down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outage {
    /// The node.
    pub node: NodeId,
    /// When it goes down, after everything else that happens at this time.
    pub from: Time,
    /// When it comes up, after everything else that happens at this time.
    pub to: Time,
}

impl Outage {
    pub(crate) const DOWN: Payload = 0;
    pub(crate) const UP: Payload = 1;
}
