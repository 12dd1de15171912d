//! Homa's header.

use flowloom_core::{Bytes, Wire};

use crate::toolkit::{put_u32, take_u32};

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

const DATA: u32 = 1;
const GRANT: u32 = 2;
const RESEND: u32 = 3;
const BUSY: u32 = 4;
const QUERY: u32 = 5;
const ACK: u32 = 6;

fn halves(bytes: Bytes) -> [u32; 2] {
    [(bytes.get() >> 32) as u32, bytes.get() as u32]
}

fn whole(high: u32, low: u32) -> Bytes {
    Bytes::new((u64::from(high) << 32) | u64::from(low))
}

/// A word for the kind, then the kind's fields.
impl Wire for Header {
    const MAX_BYTES: usize = 20;

    fn encode(&self, out: &mut [u8]) -> usize {
        match *self {
            Header::Data { packet, unscheduled, size } => {
                let [high, low] = halves(size);
                put_u32(out, &[DATA, packet, unscheduled, high, low])
            }
            Header::Grant { end, level } => put_u32(out, &[GRANT, end, u32::from(level)]),
            Header::Resend { first, end, level } => put_u32(out, &[RESEND, first, end, u32::from(level)]),
            Header::Busy => put_u32(out, &[BUSY]),
            Header::Query { unscheduled, size } => {
                let [high, low] = halves(size);
                put_u32(out, &[QUERY, unscheduled, high, low])
            }
            Header::Ack => put_u32(out, &[ACK]),
        }
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let [kind] = take_u32(bytes)?;
        match kind {
            DATA => {
                let [_, packet, unscheduled, high, low] = take_u32(bytes)?;
                Some((Header::Data { packet, unscheduled, size: whole(high, low) }, 20))
            }
            GRANT => {
                let [_, end, level] = take_u32(bytes)?;
                Some((Header::Grant { end, level: level.try_into().ok()? }, 12))
            }
            RESEND => {
                let [_, first, end, level] = take_u32(bytes)?;
                Some((Header::Resend { first, end, level: level.try_into().ok()? }, 16))
            }
            BUSY => Some((Header::Busy, 4)),
            QUERY => {
                let [_, unscheduled, high, low] = take_u32(bytes)?;
                Some((Header::Query { unscheduled, size: whole(high, low) }, 16))
            }
            ACK => Some((Header::Ack, 4)),
            _ => None,
        }
    }
}
