//! pHost's header.

use flowloom_core::{Bytes, Time, wire_format};

wire_format! {
    /// The five kinds of packets (§3.1, Algorithms 1 and 2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Header {
        /// Request to send: a flow wants tokens.
        Rts {
            /// The flow's size.
            size: Bytes,
            /// The flow's deadline; [`Time::MAX`] without one.
            deadline: Time,
            /// The payload of the flow's coflow, in full packets; 2^32 - 1 stands for more.
            coflow: u32,
            /// The flow's tenant.
            tenant: u16,
        },
        /// Permission to send one packet.
        Token {
            /// The packet's number.
            packet: u32,
            /// Counts the flow's tokens from 1, free tokens first; the data packet repeats it.
            serial: u32,
            /// Packets of the flow that the receiver still misses.
            remaining: u32,
            /// The class in which the packet is to be sent.
            class: u8,
        },
        /// One packet of the flow. It also serves as an RTS if the receiver has not seen one.
        Data {
            /// The packet's number.
            packet: u32,
            /// The serial number of the token that it answers.
            serial: u32,
            /// The flow's size.
            size: Bytes,
        },
        /// The receiver has the whole flow.
        Ack,
    }
}
