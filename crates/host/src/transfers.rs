//! The data of flows that are being sent and received.

use std::collections::{BTreeMap, HashMap};

use flowloom_core::{FlowId, NodeId, Packet};

/// The flows that this node sends, until they are acknowledged.
#[derive(Default, Debug)]
pub struct Outgoing {
    flows: HashMap<FlowId, (NodeId, Vec<u8>)>,
}

impl Outgoing {
    /// How many flows are not yet acknowledged.
    pub fn len(&self) -> usize {
        self.flows.len()
    }
    /// The destination of a flow that is not yet acknowledged.
    pub fn destination(&self, flow: FlowId) -> Option<NodeId> {
        self.flows.get(&flow).map(|(dst, _)| *dst)
    }
    /// Adds a flow with its data.
    pub fn insert(&mut self, flow: FlowId, dst: NodeId, data: Vec<u8>) {
        self.flows.insert(flow, (dst, data));
    }
    /// Removes a flow.
    pub fn remove(&mut self, flow: FlowId) {
        self.flows.remove(&flow);
    }
    /// A packet's payload. `None` if the flow was acknowledged after the packet was created, or does not have these bytes.
    pub fn payload<H>(&self, packet: &Packet<H>) -> Option<&[u8]> {
        if packet.payload_bytes == 0 {
            return Some(&[]);
        }
        let start = usize::try_from(packet.offset.get()).ok()?;
        let (_, data) = self.flows.get(&packet.flow)?;
        data.get(start..start.checked_add(packet.payload_bytes as usize)?)
    }
}

/// Reassembles the data of one flow. It uses memory only for bytes that have arrived, whatever offset a datagram claims.
#[derive(Default, Debug)]
struct Assembly {
    /// The bytes from the start of the flow to the first hole.
    front: Vec<u8>,
    /// The bytes after holes, by offset.
    ahead: BTreeMap<u64, Vec<u8>>,
    /// Whether reported byte ranges overlap or were not in their packet.
    broken: bool,
}

impl Assembly {
    fn insert(&mut self, offset: u64, bytes: &[u8]) {
        if offset != self.front.len() as u64 {
            self.broken |= offset < self.front.len() as u64 || self.ahead.insert(offset, bytes.to_vec()).is_some();
            return;
        }
        self.front.extend_from_slice(bytes);
        while let Some(next) = self.ahead.first_entry()
            && *next.key() <= self.front.len() as u64
        {
            self.broken |= *next.key() < self.front.len() as u64;
            self.front.extend(next.remove());
        }
    }
}

/// The flows that this node receives, until they are complete.
#[derive(Default, Debug)]
pub struct Incoming {
    flows: HashMap<FlowId, Assembly>,
}

impl Incoming {
    /// Adds new bytes at `offset` of the flow. `None` means that the endpoint reported bytes that were not in the packet; the flow then
    /// never becomes complete.
    pub fn insert(&mut self, flow: FlowId, offset: u64, bytes: Option<&[u8]>) {
        let assembly = self.flows.entry(flow).or_default();
        match bytes {
            Some(bytes) => assembly.insert(offset, bytes),
            None => assembly.broken = true,
        }
    }

    /// Removes a flow and returns its data; `None` if it has a hole or an overlap.
    pub fn finish(&mut self, flow: FlowId) -> Option<Vec<u8>> {
        let assembly = self.flows.remove(&flow).unwrap_or_default();
        (assembly.ahead.is_empty() && !assembly.broken).then_some(assembly.front)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_in_any_order_make_the_flow(
            data in prop::collection::vec(any::<u8>(), 1..300),
            piece in 1_usize..20,
            order in prop::collection::vec(any::<u32>(), 300),
        ) {
            let mut pieces: Vec<(usize, &[u8])> = data.chunks(piece).enumerate().map(|(n, bytes)| (n * piece, bytes)).collect();
            pieces.sort_by_key(|(offset, _)| order[*offset]);
            let mut incoming = Incoming::default();
            for (offset, bytes) in &pieces {
                incoming.insert(FlowId(1), *offset as u64, Some(bytes));
            }
            prop_assert_eq!(incoming.finish(FlowId(1)), Some(data));
        }

        #[test]
        fn a_missing_or_repeated_piece_is_detected(pieces in 2_u64..20, wrong in 0_u64..20, missing: bool) {
            // The size of the flow is not known here, so a missing last piece cannot be detected.
            let wrong = if missing { wrong % (pieces - 1) } else { wrong % pieces };
            let mut incoming = Incoming::default();
            for n in 0..pieces {
                let copies = match (n == wrong, missing) {
                    (false, _) => 1,
                    (true, true) => 0,
                    (true, false) => 2,
                };
                for _ in 0..copies {
                    incoming.insert(FlowId(1), n * 3, Some(b"abc"));
                }
            }
            prop_assert_eq!(incoming.finish(FlowId(1)), None);
        }
    }

    #[test]
    fn overlaps_and_bytes_that_never_arrived_break_a_flow() {
        let mut incoming = Incoming::default();
        incoming.insert(FlowId(1), 2, Some(b"cd"));
        incoming.insert(FlowId(1), 0, Some(b"abc"));
        assert_eq!(incoming.finish(FlowId(1)), None);
        incoming.insert(FlowId(2), 0, Some(b"ab"));
        incoming.insert(FlowId(2), 2, None);
        assert_eq!(incoming.finish(FlowId(2)), None);
        assert!(incoming.flows.is_empty());
    }

    #[test]
    fn an_empty_flow_is_complete_without_a_piece() {
        assert_eq!(Incoming::default().finish(FlowId(1)), Some(Vec::new()));
    }
}
