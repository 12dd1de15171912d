//! Fastpass's packets.

use flowloom_core::{FlowId, NodeId, wire_format};

/// The most slots of an epoch: a schedule must fit into a control packet.
pub const MOST_SLOTS: usize = 8;

const NOBODY: FlowId = FlowId(u32::MAX);

wire_format! {
    /// The flow of each slot of an epoch. Flow ids are below `u32::MAX`, which stands for no flow. So the eight slots take 32 bytes, as on
    /// a real network; every packet of the scheme takes as much memory as its largest header.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Slots {
        flows: [FlowId; MOST_SLOTS],
    }
}

impl Slots {
    /// No slot is granted.
    pub const EMPTY: Slots = Slots { flows: [NOBODY; MOST_SLOTS] };

    /// Gives slot `index` to a flow.
    ///
    /// # Panics
    /// If `index` is above 7.
    pub fn grant(&mut self, index: usize, flow: FlowId) {
        self.flows[index] = flow;
    }
    /// The granted slots in order, with their flows.
    pub fn granted(&self) -> impl Iterator<Item = (usize, FlowId)> {
        self.flows.into_iter().enumerate().filter(|(_, flow)| *flow != NOBODY)
    }
}

wire_format! {
    /// Fastpass's header. Packets of a flow are numbered from 0.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Header {
        /// From a sender to the arbiter: the flow wants this many slots, whatever it requested before. With 0 slots, the arbiter forgets
        /// the flow.
        Request {
            /// The flow's destination.
            to: NodeId,
            /// Packets to be granted.
            remaining: u32,
            /// The absolute deadline in microseconds; `u32::MAX` without one.
            deadline: u32,
        },
        /// From the arbiter to a sender: which of its flows may send a packet in each slot of an epoch.
        Schedule {
            /// Epochs are counted from the beginning of time.
            epoch: u32,
            /// The flow of each slot.
            slots: Slots,
        },
        /// A piece of the flow.
        Data {
            /// The packet's number.
            number: u32,
            /// The number of packets of the flow.
            packets: u32,
        },
        /// Answers every data packet.
        Ack {
            /// All packets below this one have arrived.
            cumulative: u32,
            /// The packet that is acknowledged.
            number: u32,
        },
    }

    impl Wire for Header {
        fn is_valid(&self) -> bool {
            match *self {
                Header::Data { number, packets, .. } => number < packets,
                _ => true,
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use flowloom_core::Wire;
    use proptest::prelude::*;

    use super::*;
    use crate::trial::{numbers, places, wire_format_holds};

    pub fn headers() -> impl Strategy<Value = Header> {
        prop_oneof![
            (numbers(), numbers(), numbers()).prop_map(|(to, remaining, deadline)| Header::Request {
                to: NodeId(to),
                remaining,
                deadline
            }),
            (numbers(), prop::array::uniform8(numbers()))
                .prop_map(|(epoch, flows)| Header::Schedule { epoch, slots: Slots { flows: flows.map(FlowId) } }),
            places().prop_map(|(number, packets)| Header::Data { number, packets }),
            (numbers(), numbers()).prop_map(|(cumulative, number)| Header::Ack { cumulative, number }),
        ]
    }

    #[test]
    fn the_wire_format_holds() {
        wire_format_holds(headers());
    }

    #[test]
    fn a_schedule_takes_the_bytes_of_eight_flow_ids_and_keeps_their_slots() {
        let mut slots = Slots::EMPTY;
        slots.grant(2, FlowId(0x0102_0304));
        slots.grant(7, FlowId(5));
        assert_eq!(slots.granted().collect::<Vec<_>>(), [(2, FlowId(0x0102_0304)), (7, FlowId(5))]);
        let mut bytes = [0; Header::MAX_BYTES];
        assert_eq!(Header::Schedule { epoch: 9, slots }.encode(&mut bytes), 38);
        assert_eq!(bytes[..5], [1, 0, 0, 0, 9]);
        assert_eq!(bytes[14..18], [1, 2, 3, 4]);
        assert_eq!(size_of::<Header>(), 40);
    }
}
