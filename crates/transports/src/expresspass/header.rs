//! ExpressPass's header.

use flowloom_core::{Time, wire_format};

wire_format! {
    /// The kinds of packets. Packets of a flow are numbered from 0.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Header {
        /// CREDIT_REQUEST: the sender wants credits.
        Request {
            /// Packets of the flow.
            packets: u32,
            /// Packets that are still to be sent.
            remaining: u32,
        },
        /// Permission to send one packet.
        Credit {
            /// The credit's sequence number.
            credit: u32,
            /// When the receiver sent it, by the receiver's clock.
            sent: Time,
        },
        /// One packet of the flow.
        Data {
            /// The packet's number.
            number: u32,
            /// Packets of the flow.
            packets: u32,
            /// The sequence number of the credit that it answers.
            credit: u32,
            /// When the receiver sent that credit.
            sent: Time,
        },
        /// CREDIT_STOP: the sender needs no more credits than are under way.
        Stop {
            /// Packets of the flow.
            packets: u32,
            /// The sender has sent all packets, and the acknowledgement is late.
            again: bool,
        },
        /// A packet is missing: the sender is to continue from there.
        Nack {
            /// The least packet that is missing.
            from: u32,
        },
        /// The receiver has the whole flow.
        Ack,
    }

    impl Wire for Header {
        fn is_valid(&self) -> bool {
            match *self {
                Header::Request { packets, remaining } => (1..=packets).contains(&remaining),
                Header::Data { number, packets, .. } => number < packets,
                Header::Stop { packets, .. } => packets > 0,
                _ => true,
            }
        }
    }
}
