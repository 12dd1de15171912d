//! TOP's header.

use flowloom_core::{Time, wire_format};

use crate::toolkit::Reassembly;

wire_format! {
    /// The kinds of packets. Packets of a flow are numbered from 0.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Header {
        /// SYNC: the sender has a flow and wants tokens.
        Sync {
            /// Packets of the flow, [`Reassembly::OPEN`] if that is not known.
            packets: u32,
            /// Packets that are still to be sent.
            remaining: u32,
            /// Packets that follow without tokens.
            unscheduled: u32,
            /// The deadline in picoseconds, or the packets of the coflow, if priorities follow from that.
            urgency: u64,
        },
        /// Permission to send one packet.
        Token {
            /// The token's sequence number.
            token: u32,
            /// When the receiver sent it, by the receiver's clock.
            sent: Time,
            /// What an ideal port sorts tokens by, the smallest first.
            key: u64,
        },
        /// One packet of the flow.
        Data {
            /// The packet's number.
            number: u32,
            /// Packets of the flow, [`Reassembly::OPEN`] if that is not known.
            packets: u32,
            /// The sequence number of the token that it answers.
            token: u32,
            /// When the receiver sent that token, by the receiver's clock. [`Header::UNSCHEDULED`] if there was none.
            sent: Time,
        },
        /// FIN: the sender has sent all packets.
        Fin {
            /// Packets of the flow.
            packets: u32,
            /// The acknowledgement is late.
            again: bool,
        },
        /// A packet is missing: the sender is to send it again.
        Nack {
            /// The packet's number.
            number: u32,
        },
        /// The receiver has the whole flow.
        Ack,
    }

    impl Wire for Header {
        fn is_valid(&self) -> bool {
            match *self {
                Header::Sync { packets, remaining, unscheduled, .. } => packets > 0 && remaining <= packets && unscheduled <= packets,
                Header::Data { number, packets, .. } => number < packets,
                Header::Fin { packets, .. } => packets > 0 && packets != Reassembly::OPEN,
                _ => true,
            }
        }
    }
}

impl Header {
    /// Stands for the time of a token where there was none.
    pub const UNSCHEDULED: Time = Time::MAX;

    /// What an ideal port sorts tokens by.
    pub(super) fn key(&self) -> u64 {
        if let Header::Token { key, .. } = *self { key } else { u64::MAX }
    }
}
