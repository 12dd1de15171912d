//! Pause frames.

use flowloom_core::{Bytes, Ecn, FlowId, NodeId, Packet};

use crate::disciplines::ClassSet;

/// A pause frame, which says of every class whether it is stopped. As in the standard, one frame is for all classes; so a frame also
/// repairs what an earlier frame failed to say.
///
/// A link frame needs a transport's header, which nobody reads. `flow` is that of the packet for which the frame is sent, so that observers can
/// say for whom a link was stopped, or [`NOBODY`].
pub(super) fn pause_frame<H>(flow: FlowId, header: H, from: NodeId, size_bytes: u32, stopped: ClassSet) -> Packet<H> {
    Packet {
        flow,
        src: from,
        dst: NodeId::LINK,
        size_bytes,
        payload_bytes: 0,
        class: 0,
        ecn: Ecn::NotCapable,
        retransmission: false,
        corrupt: false,
        offset: encoded(stopped),
        header,
    }
}

/// The flow of pause frames that are sent for no packet.
pub const NOBODY: FlowId = FlowId(u32::MAX);

/// The field of a frame that says which classes are stopped.
pub(super) fn encoded(stopped: ClassSet) -> Bytes {
    Bytes::new(u64::from(stopped.0))
}

/// The classes that a pause frame stops; all others may go on. `None` if the packet is no pause frame.
#[inline]
pub fn stopped_by<H>(packet: &Packet<H>) -> Option<ClassSet> {
    (packet.dst == NodeId::LINK).then(|| ClassSet(packet.offset.get() as u8))
}
