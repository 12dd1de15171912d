//! ExpressPass's header.

use flowloom_core::{Time, Wire};

use crate::toolkit::{put_u32, take_u32};

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

const REQUEST: u32 = 1;
const CREDIT: u32 = 2;
const DATA: u32 = 3;
const STOP: u32 = 4;
const NACK: u32 = 5;
const ACK: u32 = 6;

fn halves(time: Time) -> [u32; 2] {
    [(time.as_ps() >> 32) as u32, time.as_ps() as u32]
}

fn whole(high: u32, low: u32) -> Time {
    Time::from_ps((u64::from(high) << 32) | u64::from(low))
}

/// A word for the kind, then the kind's fields.
impl Wire for Header {
    const MAX_BYTES: usize = 24;

    fn encode(&self, out: &mut [u8]) -> usize {
        match *self {
            Header::Request { packets, remaining } => put_u32(out, &[REQUEST, packets, remaining]),
            Header::Credit { credit, sent } => {
                let [high, low] = halves(sent);
                put_u32(out, &[CREDIT, credit, high, low])
            }
            Header::Data { number, packets, credit, sent } => {
                let [high, low] = halves(sent);
                put_u32(out, &[DATA, number, packets, credit, high, low])
            }
            Header::Stop { packets, again } => put_u32(out, &[STOP, packets, u32::from(again)]),
            Header::Nack { from } => put_u32(out, &[NACK, from]),
            Header::Ack => put_u32(out, &[ACK]),
        }
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let [kind] = take_u32(bytes)?;
        match kind {
            REQUEST => {
                let [_, packets, remaining] = take_u32(bytes)?;
                (1..=packets).contains(&remaining).then_some((Header::Request { packets, remaining }, 12))
            }
            CREDIT => {
                let [_, credit, high, low] = take_u32(bytes)?;
                Some((Header::Credit { credit, sent: whole(high, low) }, 16))
            }
            DATA => {
                let [_, number, packets, credit, high, low] = take_u32(bytes)?;
                (number < packets).then_some((Header::Data { number, packets, credit, sent: whole(high, low) }, 24))
            }
            STOP => {
                let [_, packets, again] = take_u32(bytes)?;
                (packets > 0 && again < 2).then_some((Header::Stop { packets, again: again == 1 }, 12))
            }
            NACK => {
                let [_, from] = take_u32(bytes)?;
                Some((Header::Nack { from }, 8))
            }
            ACK => Some((Header::Ack, 4)),
            _ => None,
        }
    }
}
