//! HPCC's packets.

use flowloom_core::wire_format;

use crate::disciplines::{Instrumented, Telemetry};
wire_format! {
    /// What a packet is. Packets of a flow are numbered from 0.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Kind {
        /// A data packet.
        Data {
            /// Its number.
            number: u32,
            /// How many packets the flow has.
            packets: u32,
        },
        /// The answer to a data packet.
        Ack {
            /// All packets below this one have arrived.
            cumulative: u32,
            /// The answered packet came after a gap and was thrown away: the sender must go back to `cumulative`.
            nack: bool,
        },
    }

    impl Wire for Kind {
        fn is_valid(&self) -> bool {
            match *self {
                Kind::Data { number, packets } => number < packets,
                _ => true,
            }
        }
    }
}

impl Default for Kind {
    fn default() -> Kind {
        Kind::Ack { cumulative: 0, nack: false }
    }
}

wire_format! {
    /// HPCC's header.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Header {
        /// What the packet is.
        pub kind: Kind,
        /// The records of the ports on the data packet's path. An acknowledgement returns them.
        pub telemetry: Telemetry,
    }
}

impl Instrumented for Header {
    #[inline]
    fn telemetry(&mut self) -> Option<&mut Telemetry> {
        matches!(self.kind, Kind::Data { .. }).then_some(&mut self.telemetry)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::disciplines::HopRecord;
    use crate::trial::wire_format_holds;

    /// Any records at all.
    pub fn telemetries() -> impl Strategy<Value = Telemetry> {
        (prop::collection::vec(any::<u64>(), 0..=Telemetry::HOPS), 0_u16..1 << 12).prop_map(|(records, path)| {
            let mut telemetry = Telemetry::default();
            let tags = std::iter::once(path).chain(std::iter::repeat(0));
            for (bits, tag) in records.into_iter().zip(tags) {
                telemetry.push(HopRecord::from_bits(bits), tag, Telemetry::HOPS as u8);
            }
            telemetry
        })
    }

    /// Every header that can be encoded.
    pub fn headers() -> impl Strategy<Value = Header> {
        let kinds = prop_oneof![
            (any::<u32>(), any::<u32>())
                .prop_filter("numbers are below the count", |(number, packets)| number < packets)
                .prop_map(|(number, packets)| Kind::Data { number, packets }),
            (any::<u32>(), any::<bool>()).prop_map(|(cumulative, nack)| Kind::Ack { cumulative, nack }),
        ];
        (kinds, telemetries()).prop_map(|(kind, telemetry)| Header { kind, telemetry })
    }

    #[test]
    fn the_wire_format_holds() {
        wire_format_holds(headers());
    }

    /// Two cache lines in the pool, with the rest of the packet.
    #[test]
    fn a_header_takes_little_memory() {
        assert!(size_of::<Header>() <= 64, "{} B", size_of::<Header>());
    }
}
