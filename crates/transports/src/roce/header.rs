//! The packets of transports over RoCE.

use flowloom_core::wire_format;

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
            /// Whether it asks for an acknowledgement.
            asks: bool,
        },
        /// All packets below a number have arrived.
        Ack {
            /// This number.
            cumulative: u32,
        },
        /// A packet came after a gap: packet `cumulative` is missing.
        Nack {
            /// All packets below this one have arrived.
            cumulative: u32,
            /// The packet that came.
            arrived: u32,
        },
        /// A packet of the flow was marked by a congested port (RoCE's CNP).
        Congestion,
    }

    impl Wire for Kind {
        fn is_valid(&self) -> bool {
            match *self {
                Kind::Data { number, packets, .. } => number < packets,
                Kind::Nack { cumulative, arrived } => cumulative < arrived,
                _ => true,
            }
        }
    }
}

impl Default for Kind {
    fn default() -> Kind {
        Kind::Ack { cumulative: 0 }
    }
}

/// A header of one of these packets.
pub trait Envelope: flowloom_core::Wire + Copy + Send + 'static {
    /// What acknowledgements bring back from data packets.
    type Report: Copy;
    /// A header. New data packets have `None`.
    fn new(kind: Kind, report: Option<Self::Report>) -> Self;
    /// What the packet is.
    fn kind(&self) -> Kind;
    /// What a data packet has collected, or an acknowledgement brings back.
    fn report(&self) -> &Self::Report;
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trial::wire_format_holds;

    /// Every kind that can be encoded.
    pub fn kinds() -> impl Strategy<Value = Kind> {
        let pairs = (any::<u32>(), any::<u32>()).prop_filter("the first is below the second", |(low, high)| low < high);
        prop_oneof![
            (pairs.clone(), any::<bool>()).prop_map(|((number, packets), asks)| Kind::Data { number, packets, asks }),
            any::<u32>().prop_map(|cumulative| Kind::Ack { cumulative }),
            pairs.prop_map(|(cumulative, arrived)| Kind::Nack { cumulative, arrived }),
            Just(Kind::Congestion),
        ]
    }

    #[test]
    fn the_wire_format_holds() {
        wire_format_holds(kinds());
    }
}
