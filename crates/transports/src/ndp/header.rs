//! NDP's header.

use flowloom_core::Wire;

use crate::toolkit::{put_u32, take_u32};

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

const DATA: u32 = 1;
const ACK: u32 = 2;
const NACK: u32 = 3;
const PULL: u32 = 4;

/// On the wire, this is a packet without a path label.
const NO_PATH: u32 = 1 << u16::BITS;

impl Part {
    fn from_word(word: u32) -> Option<Part> {
        [Part::Whole, Part::Cut, Part::Returned].into_iter().find(|part| *part as u32 == word)
    }
}

/// A word for the kind, then the kind's fields.
impl Wire for Header {
    const MAX_BYTES: usize = 20;

    fn encode(&self, out: &mut [u8]) -> usize {
        match *self {
            Header::Data { part, path, number, packets } => {
                put_u32(out, &[DATA, part as u32, path.map_or(NO_PATH, u32::from), number, packets])
            }
            Header::Ack { number, cumulative, pulls, queued } => put_u32(out, &[ACK, number, cumulative, pulls, queued]),
            Header::Nack { number, pulls, queued } => put_u32(out, &[NACK, number, pulls, queued]),
            Header::Pull { pulls } => put_u32(out, &[PULL, pulls]),
        }
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let [kind] = take_u32(bytes)?;
        match kind {
            DATA => {
                let [_, part, path, number, packets] = take_u32(bytes)?;
                let path = if path == NO_PATH { None } else { Some(path.try_into().ok()?) };
                Some((Header::Data { part: Part::from_word(part)?, path, number, packets }, 20))
            }
            ACK => {
                let [_, number, cumulative, pulls, queued] = take_u32(bytes)?;
                Some((Header::Ack { number, cumulative, pulls, queued }, 20))
            }
            NACK => {
                let [_, number, pulls, queued] = take_u32(bytes)?;
                Some((Header::Nack { number, pulls, queued }, 16))
            }
            PULL => take_u32(bytes).map(|[_, pulls]| (Header::Pull { pulls }, 8)),
            _ => None,
        }
    }

    /// A returned header does not go where its label leads, and control packets have none.
    #[inline]
    fn path_label(&self) -> Option<u16> {
        match *self {
            Header::Data { part: Part::Whole | Part::Cut, path, .. } => path,
            _ => None,
        }
    }
}
