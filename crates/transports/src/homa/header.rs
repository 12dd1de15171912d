//! Homa's header.

use flowloom_core::{Bytes, wire_format};

wire_format! {
    /// The kinds of packets (§3.1). Packets are numbered from 0 in each message.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Header {
        /// One packet of a message.
        Data {
            /// The packet's number.
            packet: u32,
            /// How many packets of the message are sent without a grant.
            unscheduled: u32,
            /// The message's size.
            size: Bytes,
        },
        /// The sender may send all packets below this one.
        Grant {
            /// The first packet that is not granted.
            end: u32,
            /// The level of the packets that this grant adds.
            level: u8,
        },
        /// The receiver misses packets that it has granted, or that need no grant.
        Resend {
            /// The first of them.
            first: u32,
            /// The first one after them.
            end: u32,
            /// Their level.
            level: u8,
        },
        /// The sender has the packets that were asked for, and sends those of other messages first.
        Busy,
        /// The sender has sent all that it may send, and has heard nothing since.
        Query {
            /// How many packets of the message are sent without a grant.
            unscheduled: u32,
            /// The message's size.
            size: Bytes,
        },
        /// The receiver has the whole message.
        Ack,
    }
}
