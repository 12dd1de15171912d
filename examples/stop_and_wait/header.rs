//! Stop-and-wait's packets.

use flowloom_core::wire_format;

wire_format! {
    /// What a packet is. Packets of a flow are numbered from 0.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Header {
        /// A piece of the flow.
        Data {
            /// Which packet this is.
            number: u32,
            /// How many the flow has.
            packets: u32,
        },
        /// Packet `number` has arrived.
        Ack {
            /// Which packet is meant.
            number: u32,
        },
    }

    impl Wire for Header {
        fn is_valid(&self) -> bool {
            match *self {
                Header::Data { number, packets } => number < packets,
                Header::Ack { .. } => true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::Wire;
    use proptest::prelude::*;

    use super::*;
    use crate::trial::wire_format_holds;

    fn headers() -> impl Strategy<Value = Header> {
        let data = (any::<u32>(), 1..=u32::MAX).prop_map(|(n, packets)| Header::Data { number: n % packets, packets });
        prop_oneof![data, any::<u32>().prop_map(|number| Header::Ack { number })]
    }

    #[test]
    fn the_wire_format_holds() {
        wire_format_holds(headers());
    }

    #[test]
    fn the_layout_is_big_endian() {
        let mut bytes = [0; Header::MAX_BYTES];
        assert_eq!(Header::Data { number: 2, packets: 0x0102_0304 }.encode(&mut bytes), 9);
        assert_eq!(bytes, [0, 0, 0, 0, 2, 1, 2, 3, 4]);
    }
}
