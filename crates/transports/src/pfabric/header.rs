//! pFabric's packets.

use flowloom_core::wire_format;

wire_format! {
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
            /// The label of its path, if senders choose paths.
            path: Option<u16>,
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

    impl Wire for Header {
        fn is_valid(&self) -> bool {
            match *self {
                Header::Data { number, packets, .. } => number < packets,
                Header::Probe { packets } => packets > 0,
                _ => true,
            }
        }
        #[inline]
        fn path_label(&self) -> Option<u16> {
            match *self {
                Header::Data { path, .. } => path,
                _ => None,
            }
        }
    }
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

#[cfg(test)]
pub(super) mod tests {
    use flowloom_core::Wire;
    use proptest::prelude::*;

    use super::*;
    use crate::trial::{numbers, places, wire_format_holds};

    pub fn headers() -> impl Strategy<Value = Header> {
        prop_oneof![
            (any::<u32>(), places(), prop::option::of(any::<u16>()))
                .prop_map(|(priority, (number, packets), path)| Header::Data { priority, number, packets, path }),
            places().prop_map(|(_, packets)| Header::Probe { packets }),
            (numbers(), prop::option::of(numbers())).prop_map(|(cumulative, answers)| Header::Ack { cumulative, answers }),
        ]
    }

    #[test]
    fn the_wire_format_holds() {
        wire_format_holds(headers());
    }

    #[test]
    fn the_layout_is_big_endian() {
        let mut bytes = [0; Header::MAX_BYTES];
        let header = |path| Header::Data { priority: 1, number: 2, packets: 0x0102_0304, path };
        assert_eq!(header(None).encode(&mut bytes), 14);
        assert_eq!(bytes, [0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 0, 0, 0]);
        assert_eq!(header(Some(0x0506)).encode(&mut bytes), 16);
        assert_eq!(bytes, [0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4, 1, 5, 6]);
        assert!(size_of::<Header>() <= 16);
    }
}
