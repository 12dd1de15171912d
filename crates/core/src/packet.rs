//! Packets.

use crate::{Bytes, FlowId, NodeId};

/// The ECN field of the IP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ecn {
    /// The sender does not react to marks, so a switch must not mark the packet.
    #[default]
    NotCapable,
    /// A switch may mark the packet.
    Capable,
    /// The packet is marked: congestion experienced.
    Marked,
}

/// One packet. `H` is the transport's header; the network reads the other fields only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)] // the fields that every hop reads come first, the transport's header last
pub struct Packet<H> {
    /// The flow it belongs to.
    pub flow: FlowId,
    /// The node that created it.
    pub src: NodeId,
    /// The node it is for.
    pub dst: NodeId,
    /// All bytes it takes on a link, headers and framing included.
    pub size_bytes: u32,
    /// Payload bytes it carries; zero for control packets.
    pub payload_bytes: u32,
    /// Priority class; 0 is the highest.
    pub class: u8,
    /// The ECN field.
    pub ecn: Ecn,
    /// The sender has sent these payload bytes before.
    pub retransmission: bool,
    /// The packet was damaged on its way: the network still forwards it, and the receiving NIC discards it.
    pub corrupt: bool,
    /// The offset of its payload in the flow.
    pub offset: Bytes,
    /// The transport's own header.
    pub header: H,
}

impl<H> Packet<H> {
    /// Bytes on a link.
    #[inline]
    pub fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.size_bytes))
    }
    /// The same packet under another header.
    #[inline]
    pub fn with_header<G>(&self, header: G) -> Packet<G> {
        Packet {
            flow: self.flow,
            src: self.src,
            dst: self.dst,
            size_bytes: self.size_bytes,
            payload_bytes: self.payload_bytes,
            class: self.class,
            ecn: self.ecn,
            retransmission: self.retransmission,
            corrupt: self.corrupt,
            offset: self.offset,
            header,
        }
    }
    /// Bytes of payload.
    #[inline]
    pub fn payload(&self) -> Bytes {
        Bytes::new(u64::from(self.payload_bytes))
    }
}
