//! Cutting flows into packets.

use flowloom_core::{Bytes, Ecn, Flow, FlowId, NodeId, Packet, WireProfile};

/// Makes one node's packets with the sizes of a [`WireProfile`]. A packet has class 0, is not ECN-capable and is not marked as a
/// retransmission; callers change these fields.
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    src: NodeId,
    payload: u64,
    overhead: u32,
    control: u32,
}

impl Framing {
    /// Makes packets that `src` sends.
    pub fn new(src: NodeId, wire: &WireProfile) -> Framing {
        let narrow = |bytes: Bytes| u32::try_from(bytes.get()).expect("packets are below 4 GiB");
        Framing { src, payload: wire.payload().get(), overhead: narrow(wire.overhead), control: narrow(wire.control) }
    }

    /// The number of data packets of a flow of `size`: at least one, even if it is empty.
    ///
    /// # Panics
    /// If there are 2³² packets or more.
    pub fn packets(&self, size: Bytes) -> u32 {
        self.checked_packets(size).expect("a flow has fewer than 2^32 packets")
    }

    /// The same, or `None` if there are 2³² packets or more, which a header on a real network may claim.
    pub fn checked_packets(&self, size: Bytes) -> Option<u32> {
        u32::try_from(size.pieces(Bytes::new(self.payload))).ok()
    }

    /// The payload of the flow's coflow in full packets, at least one: a key of 32 bits for policies that serve small coflows first.
    /// Beyond 2³² - 1 packets, which are terabytes, all coflows are alike.
    pub fn coflow_packets(&self, flow: &Flow) -> u32 {
        self.checked_packets(flow.coflow_size()).unwrap_or(u32::MAX)
    }

    /// Payload of a full packet, in bytes.
    pub fn full_payload(&self) -> u64 {
        self.payload
    }

    /// Data packet `number`, counted from 0, of a flow of `size`.
    #[inline]
    pub fn data<H>(&self, flow: FlowId, dst: NodeId, size: Bytes, number: u32, header: H) -> Packet<H> {
        let offset = self.payload * u64::from(number);
        debug_assert!(offset <= size.get());
        let payload = (size.get() - offset).min(self.payload) as u32;
        let size_bytes = (payload + self.overhead).max(self.control);
        Packet { size_bytes, payload_bytes: payload, offset: Bytes::new(offset), ..self.control(flow, dst, header) }
    }

    /// A control packet.
    #[inline]
    pub fn control<H>(&self, flow: FlowId, dst: NodeId, header: H) -> Packet<H> {
        Packet {
            flow,
            src: self.src,
            dst,
            size_bytes: self.control,
            payload_bytes: 0,
            offset: Bytes::ZERO,
            class: 0,
            ecn: Ecn::NotCapable,
            retransmission: false,
            corrupt: false,
            header,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packets_tile_the_flow_and_fill_its_wire_bytes(size in 0_u64..20_000, profile in 0_usize..3) {
            let wire = WireProfile::ALL[profile];
            let framing = Framing::new(NodeId(3), &wire);
            let (size, mut end, mut on_wire) = (Bytes::new(size), Bytes::ZERO, Bytes::ZERO);
            for number in 0..framing.packets(size) {
                let packet = framing.data(FlowId(1), NodeId(4), size, number, ());
                prop_assert_eq!(packet.offset, end);
                end += packet.payload();
                on_wire += packet.size();
            }
            prop_assert_eq!(end, size);
            prop_assert_eq!(on_wire, wire.flow_wire_bytes(size));
        }
    }
}
