//! Closed loops: flows that start when others have been received.

use std::sync::Arc;

use flowloom_core::{Duration, Flow, FlowId, NodeId};

use crate::calendar::Payload;

/// The flow that starts after another one was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Successor {
    /// The flow that starts.
    pub flow: FlowId,
    /// The time from the arrival of the last byte at the receiver until the start; above zero.
    pub think: Duration,
}

/// Which flow waits for which. Waiting flows have the largest ids, and no events until their predecessors are received.
#[derive(Default)]
pub(crate) struct Followers {
    /// The successor of each flow; empty if no flow waits.
    pub successors: Arc<[Option<Successor>]>,
    /// The id of the first waiting flow.
    pub first: u32,
    /// The sources of the waiting flows, in order of their ids.
    pub sources: Vec<NodeId>,
}

impl Followers {
    pub fn successor_of(&self, flow: FlowId) -> Option<Successor> {
        self.successors.get(flow.0 as usize).copied().flatten()
    }

    /// The payload of the event that starts a waiting flow. It is not the flow id, because there may be more flows than payloads.
    pub fn payload(&self, flow: FlowId) -> Payload {
        flow.0 - self.first
    }

    /// Notes one flow more, which waits until its start, and returns the payload of the event that starts it.
    pub fn add(&mut self, flow: &Flow) -> Payload {
        self.sources.push(flow.src);
        self.payload(flow.id)
    }

    /// The source of a waiting flow.
    pub fn source(&self, flow: FlowId) -> NodeId {
        self.sources[self.payload(flow) as usize]
    }

    pub fn flow(&self, payload: Payload) -> FlowId {
        FlowId(self.first + payload)
    }
}
