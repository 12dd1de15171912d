//! The packets of arbitration.

use flowloom_core::{Bytes, FlowId, LinkId, NodeId, Packet, Rate, WireProfile};

use super::arbiter::Share;
use super::course::Course;
use super::header::{Asking, Header};
use super::stamp::Stamp;
use crate::toolkit::Framing;

/// Messages about no flow.
const NO_FLOW: FlowId = FlowId(0);

/// Makes the messages that one node sends to arbitrators and to hosts. They have the highest class (A15).
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages {
    framing: Framing,
    size: u32,
}

impl Messages {
    /// Messages of `size`, but no smaller than a control packet.
    pub fn new(framing: Framing, size: Bytes, wire: &WireProfile) -> Messages {
        Messages { framing, size: u32::try_from(size.max(wire.control).get()).expect("a message is a packet") }
    }

    /// Of each message, on the wire.
    pub fn size(&self) -> Bytes {
        Bytes::new(self.size.into())
    }

    fn message(&self, flow: FlowId, to: NodeId, header: Header) -> Packet<Header> {
        Packet { size_bytes: self.size, ..self.framing.control(flow, to, header) }
    }

    pub fn ask(&self, course: Course, to: NodeId, stamp: Stamp, asking: Asking, so_far: Share) -> Packet<Header> {
        let Course { flow, src, dst, half } = course;
        let (queue, rate) = (so_far.queue, so_far.rate.into());
        self.message(flow, to, Header::Ask { half, src, dst, stamp, asking, queue, rate })
    }
    pub fn share(&self, course: Course, to: NodeId, stamp: Stamp, share: Share) -> Packet<Header> {
        let Course { flow, src, dst, half } = course;
        self.message(flow, to, Header::Share { half, src, dst, stamp, queue: share.queue, rate: share.rate.into() })
    }
    pub fn leave(&self, course: Course, to: NodeId, stamp: Stamp) -> Packet<Header> {
        let Course { flow, src, dst, half } = course;
        self.message(flow, to, Header::Leave { half, src, dst, stamp })
    }
    pub fn report(&self, to: NodeId, link: LinkId, stamp: Stamp, demand: Rate) -> Packet<Header> {
        self.message(NO_FLOW, to, Header::Report { link, stamp, demand: demand.into() })
    }
    pub fn capacity(&self, to: NodeId, link: LinkId, stamp: Stamp, rate: Rate) -> Packet<Header> {
        self.message(NO_FLOW, to, Header::Capacity { link, stamp, rate: rate.into() })
    }
}
