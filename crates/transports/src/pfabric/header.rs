//! pFabric's packets.

use flowloom_core::Wire;

use crate::toolkit::{put_u32, take_u32};

/// pFabric's header. Packets of a flow are numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// A piece of the flow.
    Data {
        /// Smaller is better; see [`Priority`](super::Priority).
        priority: u32,
        /// The packet's number.
        number: u32,
        /// The number of packets of the flow.
        packets: u32,
    },
    /// Requests an acknowledgement. It has no payload.
    Probe {
        /// The number of packets of the flow.
        packets: u32,
    },
    /// Answers every data packet and probe.
    Ack {
        /// All packets below this one have arrived.
        cumulative: u32,
        /// The packet that is acknowledged, none for a probe.
        answers: Option<u32>,
    },
}

impl Header {
    /// The priority number by which ports order packets. Acknowledgements and probes are better than any data.
    #[inline]
    pub fn priority(&self) -> u32 {
        match self {
            Header::Data { priority, .. } => *priority,
            Header::Probe { .. } | Header::Ack { .. } => 0,
        }
    }
}

const DATA: u8 = 1;
const PROBE: u8 = 2;
const ACK: u8 = 3;
const ACK_OF_PROBE: u8 = 4;

impl Wire for Header {
    const MAX_BYTES: usize = 13;

    fn encode(&self, out: &mut [u8]) -> usize {
        let (kind, fields, count) = match *self {
            Header::Data { priority, number, packets } => (DATA, [priority, number, packets], 3),
            Header::Probe { packets } => (PROBE, [packets, 0, 0], 1),
            Header::Ack { cumulative, answers: Some(number) } => (ACK, [cumulative, number, 0], 2),
            Header::Ack { cumulative, answers: None } => (ACK_OF_PROBE, [cumulative, 0, 0], 1),
        };
        out[0] = kind;
        put_u32(&mut out[1..], &fields[..count]) + 1
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let (kind, rest) = bytes.split_first()?;
        Some(match *kind {
            DATA => {
                let [priority, number, packets] = take_u32(rest)?;
                (number < packets).then_some((Header::Data { priority, number, packets }, 13))?
            }
            PROBE => {
                let [packets] = take_u32(rest)?;
                (packets > 0).then_some((Header::Probe { packets }, 5))?
            }
            ACK => {
                let [cumulative, number] = take_u32(rest)?;
                (Header::Ack { cumulative, answers: Some(number) }, 9)
            }
            ACK_OF_PROBE => {
                let [cumulative] = take_u32(rest)?;
                (Header::Ack { cumulative, answers: None }, 5)
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
            (any::<u32>(), places()).prop_map(|(priority, (number, packets))| Header::Data { priority, number, packets }),
            places().prop_map(|(_, packets)| Header::Probe { packets }),
            (numbers(), prop::option::of(numbers())).prop_map(|(cumulative, answers)| Header::Ack { cumulative, answers }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(header in headers(), rest in prop::collection::vec(any::<u8>(), 0..8)) {
            written_is_read(header, &rest)?;
        }

        #[test]
        fn whatever_is_read_can_be_written_again(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            read_is_written::<Header>(&bytes)?;
        }
    }

    #[test]
    fn the_layout_is_big_endian() {
        let mut bytes = [0; Header::MAX_BYTES];
        assert_eq!(Header::Data { priority: 1, number: 2, packets: 0x0102_0304 }.encode(&mut bytes), 13);
        assert_eq!(bytes, [1, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4]);
        assert!(size_of::<Header>() <= 16);
    }
}
