//! TOP's header.

use flowloom_core::{Time, Wire};

use crate::toolkit::{Reassembly, put_u32, take_u32};

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

impl Header {
    /// Stands for the time of a token where there was none.
    pub const UNSCHEDULED: Time = Time::MAX;

    /// What an ideal port sorts tokens by.
    pub(super) fn key(&self) -> u64 {
        if let Header::Token { key, .. } = *self { key } else { u64::MAX }
    }
}

const SYNC: u32 = 1;
const TOKEN: u32 = 2;
const DATA: u32 = 3;
const FIN: u32 = 4;
const NACK: u32 = 5;
const ACK: u32 = 6;

fn halves(word: u64) -> [u32; 2] {
    [(word >> 32) as u32, word as u32]
}

fn whole(high: u32, low: u32) -> u64 {
    (u64::from(high) << 32) | u64::from(low)
}

/// A word for the kind, then the kind's fields.
impl Wire for Header {
    const MAX_BYTES: usize = 24;

    fn encode(&self, out: &mut [u8]) -> usize {
        match *self {
            Header::Sync { packets, remaining, unscheduled, urgency } => {
                let [high, low] = halves(urgency);
                put_u32(out, &[SYNC, packets, remaining, unscheduled, high, low])
            }
            Header::Token { token, sent, key } => {
                let ([high, low], [above, below]) = (halves(sent.as_ps()), halves(key));
                put_u32(out, &[TOKEN, token, high, low, above, below])
            }
            Header::Data { number, packets, token, sent } => {
                let [high, low] = halves(sent.as_ps());
                put_u32(out, &[DATA, number, packets, token, high, low])
            }
            Header::Fin { packets, again } => put_u32(out, &[FIN, packets, u32::from(again)]),
            Header::Nack { number } => put_u32(out, &[NACK, number]),
            Header::Ack => put_u32(out, &[ACK]),
        }
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let [kind] = take_u32(bytes)?;
        match kind {
            SYNC => {
                let [_, packets, remaining, unscheduled, high, low] = take_u32(bytes)?;
                let sync = Header::Sync { packets, remaining, unscheduled, urgency: whole(high, low) };
                (packets > 0 && remaining <= packets && unscheduled <= packets).then_some((sync, 24))
            }
            TOKEN => {
                let [_, token, high, low, above, below] = take_u32(bytes)?;
                Some((Header::Token { token, sent: Time::from_ps(whole(high, low)), key: whole(above, below) }, 24))
            }
            DATA => {
                let [_, number, packets, token, high, low] = take_u32(bytes)?;
                let data = Header::Data { number, packets, token, sent: Time::from_ps(whole(high, low)) };
                (number < packets).then_some((data, 24))
            }
            FIN => {
                let [_, packets, again] = take_u32(bytes)?;
                (packets > 0 && packets != Reassembly::OPEN && again < 2)
                    .then_some((Header::Fin { packets, again: again == 1 }, 12))
            }
            NACK => {
                let [_, number] = take_u32(bytes)?;
                Some((Header::Nack { number }, 8))
            }
            ACK => Some((Header::Ack, 4)),
            _ => None,
        }
    }
}
