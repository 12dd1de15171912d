//! Flows, and what an endpoint reports about them.

use crate::{Bytes, NodeId, Time};

/// Identifies a flow at both of its ends, for the whole run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FlowId(pub u32);

/// What a flow knows of its coflow: the flows that the application needs together, such as the answers to one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coflow {
    /// Its number in the run.
    pub number: u32,
    /// Payload bytes of all its flows together.
    pub size: Bytes,
    /// When it arrives: when its first flow starts.
    pub start: Time,
}

/// One transfer of `size` bytes from `src` to `dst`, handed to the source at `start`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Unique in the run.
    pub id: FlowId,
    /// The sending host.
    pub src: NodeId,
    /// The receiving host.
    pub dst: NodeId,
    /// Payload bytes; a flow of zero bytes is sent as one packet without payload.
    pub size: Bytes,
    /// When the application hands the flow to the source.
    pub start: Time,
    /// When the application needs it complete, as an absolute time.
    pub deadline: Option<Time>,
    /// The tenant that owns it, for policies that share capacity between tenants.
    pub tenant: u16,
    /// The coflow it belongs to.
    pub coflow: Option<Coflow>,
    /// Whether it is background traffic, which the application does not wait for: a run ends when all other flows are over.
    pub background: bool,
}

impl Flow {
    /// Payload bytes of its coflow. A flow without a coflow counts as a coflow.
    pub fn coflow_size(&self) -> Bytes {
        self.coflow.map_or(self.size, |coflow| coflow.size)
    }
}

/// Why a flow was given up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AbortReason {
    /// It has missed its deadline, or would miss it.
    Deadline,
    /// One of its ends is down.
    NodeDown,
}

impl AbortReason {
    /// All reasons.
    pub const ALL: [AbortReason; 2] = [AbortReason::Deadline, AbortReason::NodeDown];
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            AbortReason::Deadline => "deadline",
            AbortReason::NodeDown => "node_down",
        }
    }
}

/// What an [`Endpoint`](crate::Endpoint) reports to its driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// At the receiver: these payload bytes of the flow arrived for the first time, in the packet just handled. Each byte is
    /// reported once.
    Delivered {
        /// The flow.
        flow: FlowId,
        /// The offset of the first of them in the flow.
        offset: Bytes,
        /// How many there are.
        bytes: Bytes,
    },
    /// At the receiver: every byte of the flow has arrived.
    Received {
        /// The flow.
        flow: FlowId,
    },
    /// At the sender: the flow's retransmission timer expired.
    TimedOut {
        /// The flow.
        flow: FlowId,
        /// How many times in a row it has expired without progress in between, this time included.
        in_a_row: u32,
    },
    /// At the sender: it knows that every byte has arrived, and has deleted its state of the flow.
    Acknowledged {
        /// The flow.
        flow: FlowId,
    },
    /// At the sender: it has given the flow up and deleted its state. The flow is over, but not finished; it is not acknowledged later.
    Aborted {
        /// The flow.
        flow: FlowId,
        /// Why.
        reason: AbortReason,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run keeps a few copies of every flow.
    #[test]
    fn a_flow_takes_little_memory() {
        assert!(size_of::<Flow>() <= 80, "{} B", size_of::<Flow>());
    }
}
