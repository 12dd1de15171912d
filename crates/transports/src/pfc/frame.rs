//! Pause frames.

use flowloom_core::{Bytes, Ecn, NodeId, Packet};

use crate::disciplines::ClassSet;

/// A pause frame, which says of every class whether it is stopped. As in the standard, one frame is for all classes; so a frame also
/// repairs what an earlier frame failed to say.
///
/// A link frame needs a transport's header, and takes that of `cause`, the packet for which it is sent. Nobody reads the header. The frame
/// also keeps the flow of `cause`, so that observers can say for whom a link was stopped.
pub(super) fn pause_frame<H: Copy>(cause: &Packet<H>, from: NodeId, size_bytes: u32, stopped: ClassSet) -> Packet<H> {
    Packet {
        flow: cause.flow,
        src: from,
        dst: NodeId::LINK,
        size_bytes,
        payload_bytes: 0,
        class: 0,
        ecn: Ecn::NotCapable,
        retransmission: false,
        corrupt: false,
        offset: encoded(stopped),
        header: cause.header,
    }
}

/// The field of a frame that says which classes are stopped.
pub(super) fn encoded(stopped: ClassSet) -> Bytes {
    Bytes::new(u64::from(stopped.0))
}

/// The classes that a pause frame stops; all others may go on. `None` if the packet is no pause frame.
#[inline]
pub fn stopped_by<H>(packet: &Packet<H>) -> Option<ClassSet> {
    (packet.dst == NodeId::LINK).then(|| ClassSet(packet.offset.get() as u8))
}
