//! pHost's header.

use flowloom_core::{Bytes, Time, Wire};

use crate::toolkit::{put_u32, take_u32};

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

const RTS: u32 = 1;
const TOKEN: u32 = 2;
const DATA: u32 = 3;
const ACK: u32 = 4;

fn halves(word: u64) -> [u32; 2] {
    [(word >> 32) as u32, word as u32]
}

fn whole(high: u32, low: u32) -> u64 {
    (u64::from(high) << 32) | u64::from(low)
}

/// A word for the kind, then the kind's fields.
impl Wire for Header {
    const MAX_BYTES: usize = 28;

    fn encode(&self, out: &mut [u8]) -> usize {
        match *self {
            Header::Rts { size, deadline, coflow, tenant } => {
                let ([size_high, size_low], [deadline_high, deadline_low]) = (halves(size.get()), halves(deadline.as_ps()));
                put_u32(out, &[RTS, size_high, size_low, deadline_high, deadline_low, coflow, u32::from(tenant)])
            }
            Header::Token { packet, serial, remaining, class } => {
                put_u32(out, &[TOKEN, packet, serial, remaining, u32::from(class)])
            }
            Header::Data { packet, serial, size } => {
                let [high, low] = halves(size.get());
                put_u32(out, &[DATA, packet, serial, high, low])
            }
            Header::Ack => put_u32(out, &[ACK]),
        }
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let [kind] = take_u32(bytes)?;
        match kind {
            RTS => {
                let [_, size_high, size_low, deadline_high, deadline_low, coflow, tenant] = take_u32(bytes)?;
                let deadline = Time::from_ps(whole(deadline_high, deadline_low));
                let size = Bytes::new(whole(size_high, size_low));
                Some((Header::Rts { size, deadline, coflow, tenant: tenant.try_into().ok()? }, 28))
            }
            TOKEN => {
                let [_, packet, serial, remaining, class] = take_u32(bytes)?;
                Some((Header::Token { packet, serial, remaining, class: class.try_into().ok()? }, 20))
            }
            DATA => {
                let [_, packet, serial, high, low] = take_u32(bytes)?;
                Some((Header::Data { packet, serial, size: Bytes::new(whole(high, low)) }, 20))
            }
            ACK => Some((Header::Ack, 4)),
            _ => None,
        }
    }
}
