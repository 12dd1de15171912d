//! Flows that start when others have been received: closed loops.

use flowloom_core::{Duration, FlowId};

use crate::calendar::Payload;

/// What starts after a flow was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Successor {
    /// The flow that starts.
    pub flow: FlowId,
    /// How long after the last byte's arrival at the receiver; above zero.
    pub think: Duration,
}

/// Who waits for whom. Waiting flows have the last ids, and no event before their predecessors are received.
#[derive(Default)]
pub(crate) struct Followers {
    /// By flow; empty where none waits.
    pub successors: Vec<Option<Successor>>,
    /// The first flow that waits.
    pub first: u32,
}

impl Followers {
    pub fn of(&self, flow: FlowId) -> Option<Successor> {
        self.successors.get(flow.0 as usize).copied().flatten()
    }

    /// The payload of events about a waiting flow. A flow id does not fit: there may be more flows than payloads.
    pub fn payload(&self, flow: FlowId) -> Payload {
        flow.0 - self.first
    }

    pub fn flow(&self, payload: Payload) -> FlowId {
        FlowId(self.first + payload)
    }
}
