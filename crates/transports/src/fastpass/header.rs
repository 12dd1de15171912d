//! Fastpass's packets.

use flowloom_core::{FlowId, NodeId, Wire};

use crate::toolkit::{put_u32, take_u32};

/// The most slots of an epoch: a schedule must fit into a control packet.
pub const MOST_SLOTS: usize = 8;

/// The flow of each slot of an epoch. Flow ids are below `u32::MAX`, which stands for no flow. So the eight slots take 32 bytes, as on
/// a real network; every packet of the scheme takes as much memory as its largest header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slots([u32; MOST_SLOTS]);

impl Slots {
    /// No slot is granted.
    pub const EMPTY: Slots = Slots([u32::MAX; MOST_SLOTS]);

    /// Gives slot `index` to a flow.
    ///
    /// # Panics
    /// If `index` is above 7.
    pub fn grant(&mut self, index: usize, flow: FlowId) {
        self.0[index] = flow.0;
    }
    /// The granted slots in order, with their flows.
    pub fn granted(&self) -> impl Iterator<Item = (usize, FlowId)> {
        self.0.into_iter().enumerate().filter(|(_, flow)| *flow != u32::MAX).map(|(index, flow)| (index, FlowId(flow)))
    }
}

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

const REQUEST: u8 = 1;
const SCHEDULE: u8 = 2;
const DATA: u8 = 3;
const ACK: u8 = 4;

impl Wire for Header {
    const MAX_BYTES: usize = 1 + 4 + 4 * MOST_SLOTS;

    fn encode(&self, out: &mut [u8]) -> usize {
        let (kind, fields) = out.split_first_mut().expect("room for a header");
        let (tag, length) = match *self {
            Header::Request { to, remaining, deadline } => (REQUEST, put_u32(fields, &[to.0, remaining, deadline])),
            Header::Schedule { epoch, slots } => {
                let before = put_u32(fields, &[epoch]);
                (SCHEDULE, before + put_u32(&mut fields[before..], &slots.0))
            }
            Header::Data { number, packets } => (DATA, put_u32(fields, &[number, packets])),
            Header::Ack { cumulative, number } => (ACK, put_u32(fields, &[cumulative, number])),
        };
        *kind = tag;
        1 + length
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let (kind, fields) = bytes.split_first()?;
        Some(match *kind {
            REQUEST => {
                let [to, remaining, deadline] = take_u32(fields)?;
                (Header::Request { to: NodeId(to), remaining, deadline }, 13)
            }
            SCHEDULE => {
                let [epoch] = take_u32(fields)?;
                (Header::Schedule { epoch, slots: Slots(take_u32(&fields[4..])?) }, Self::MAX_BYTES)
            }
            DATA => {
                let [number, packets] = take_u32(fields)?;
                (number < packets).then_some((Header::Data { number, packets }, 9))?
            }
            ACK => {
                let [cumulative, number] = take_u32(fields)?;
                (Header::Ack { cumulative, number }, 9)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trial::{numbers, places, read_is_written, written_is_read};

    pub fn headers() -> impl Strategy<Value = Header> {
        prop_oneof![
            (numbers(), numbers(), numbers()).prop_map(|(to, remaining, deadline)| Header::Request {
                to: NodeId(to),
                remaining,
                deadline
            }),
            (numbers(), prop::array::uniform(numbers()))
                .prop_map(|(epoch, slots)| Header::Schedule { epoch, slots: Slots(slots) }),
            places().prop_map(|(number, packets)| Header::Data { number, packets }),
            (numbers(), numbers()).prop_map(|(cumulative, number)| Header::Ack { cumulative, number }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(header in headers(), rest in prop::collection::vec(any::<u8>(), 0..8)) {
            written_is_read(header, &rest)?;
        }

        #[test]
        fn whatever_is_read_can_be_written_again(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            read_is_written::<Header>(&bytes)?;
        }
    }

    #[test]
    fn a_schedule_takes_the_bytes_of_eight_flow_ids_and_keeps_their_slots() {
        let mut slots = Slots::EMPTY;
        slots.grant(2, FlowId(0x0102_0304));
        slots.grant(7, FlowId(5));
        assert_eq!(slots.granted().collect::<Vec<_>>(), [(2, FlowId(0x0102_0304)), (7, FlowId(5))]);
        let mut bytes = [0; Header::MAX_BYTES];
        assert_eq!(Header::Schedule { epoch: 9, slots }.encode(&mut bytes), 37);
        assert_eq!(bytes[..5], [2, 0, 0, 0, 9]);
        assert_eq!(bytes[13..17], [1, 2, 3, 4]);
        assert_eq!(size_of::<Header>(), 40);
    }
}
