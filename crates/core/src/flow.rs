//! Flows, and what an endpoint reports about them.

use crate::{Bytes, NodeId, Time};

/// Names a flow for the whole run, at both ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FlowId(pub u32);

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
    /// When the application wants it complete, as an absolute instant.
    pub deadline: Option<Time>,
    /// Whose flow it is, for policies that share between tenants.
    pub tenant: u16,
    /// The request or coflow it belongs to.
    pub coflow: Option<u32>,
}

/// What an [`Endpoint`](crate::Endpoint) reports to whoever drives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// At the receiver: these payload bytes of the flow arrived for the first time, in the packet just handled. A byte is
    /// reported once.
    Delivered {
        /// The flow.
        flow: FlowId,
        /// Where the bytes lie in the flow.
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
        /// How many times in a row it has, this time included, without a sign of progress between.
        in_a_row: u32,
    },
    /// At the sender: it knows that every byte has arrived, and has forgotten the flow.
    Acknowledged {
        /// The flow.
        flow: FlowId,
    },
}
