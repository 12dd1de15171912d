//! NDP's header.

use flowloom_core::wire_format;

wire_format! {
    /// What has happened to a data packet.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Part {
        /// It is as it was sent.
        Whole,
        /// A switch has cut off its payload.
        Cut,
        /// Its payload was cut off, and a switch has returned the header to the sender. That happens to a packet only once.
        Returned,
    }
}

wire_format! {
    /// The four kinds of packets (§3).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Header {
        /// One packet of a flow.
        Data {
            /// What is left of it.
            part: Part,
            /// The label of its path, if senders choose paths.
            path: Option<u16>,
            /// The packet's number, counted from 0.
            number: u32,
            /// The number of packets of the flow.
            packets: u32,
        },
        /// A data packet has arrived.
        Ack {
            /// The packet's number.
            number: u32,
            /// All packets below this one have arrived.
            cumulative: u32,
            /// How many pulls the receiver has sent to this flow, the one in this packet included.
            pulls: u32,
            /// How many pulls this flow has had or waits for.
            queued: u32,
        },
        /// A data packet has arrived without its payload.
        Nack {
            /// The packet's number.
            number: u32,
            /// As in [`Header::Ack`].
            pulls: u32,
            /// As in [`Header::Ack`].
            queued: u32,
        },
        /// The flow may send as many packets as `pulls` has grown since the sender last heard of it.
        Pull {
            /// How many pulls the receiver has sent to this flow, this one included.
            pulls: u32,
        },
    }

    impl Wire for Header {
        /// A returned header does not go where its label leads, and control packets have none.
        #[inline]
        fn path_label(&self) -> Option<u16> {
            match *self {
                Header::Data { part: Part::Whole | Part::Cut, path, .. } => path,
                _ => None,
            }
        }
    }
}
