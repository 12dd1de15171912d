//! pHost's header.

use flowloom_core::{Bytes, Time, Wire};

/// The five kinds of packets (§3.1, Algorithms 1 and 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// Request to send: a flow wants tokens.
    Rts {
        /// Of the flow.
        size: Bytes,
        /// [`Time::MAX`] without one.
        deadline: Time,
        /// Whose flow it is.
        tenant: u16,
    },
    /// Permission to send one packet.
    Token {
        /// Which packet.
        packet: u32,
        /// Counts the flow's tokens from 1, free tokens first; the data packet repeats it.
        serial: u32,
        /// Packets of the flow that the destination still misses.
        remaining: u32,
        /// The class the packet is to be sent in.
        class: u8,
    },
    /// One packet of the flow; an RTS too, where the destination has not seen one.
    Data {
        /// Which packet.
        packet: u32,
        /// Of the token it answers.
        serial: u32,
        /// Of the flow.
        size: Bytes,
    },
    /// The destination has the whole flow.
    Ack,
}

const RTS: u8 = 1;
const TOKEN: u8 = 2;
const DATA: u8 = 3;
const ACK: u8 = 4;

fn put<const N: usize>(out: &mut [u8], at: &mut usize, bytes: [u8; N]) {
    out[*at..*at + N].copy_from_slice(&bytes);
    *at += N;
}

fn take<const N: usize>(bytes: &[u8], at: &mut usize) -> Option<[u8; N]> {
    let piece = bytes.get(*at..*at + N)?.try_into().ok()?;
    *at += N;
    Some(piece)
}

impl Wire for Header {
    const MAX_BYTES: usize = 19;

    fn encode(&self, out: &mut [u8]) -> usize {
        let mut at = 0;
        match *self {
            Header::Rts { size, deadline, tenant } => {
                put(out, &mut at, [RTS]);
                put(out, &mut at, size.get().to_be_bytes());
                put(out, &mut at, deadline.as_ps().to_be_bytes());
                put(out, &mut at, tenant.to_be_bytes());
            }
            Header::Token { packet, serial, remaining, class } => {
                put(out, &mut at, [TOKEN, class]);
                put(out, &mut at, packet.to_be_bytes());
                put(out, &mut at, serial.to_be_bytes());
                put(out, &mut at, remaining.to_be_bytes());
            }
            Header::Data { packet, serial, size } => {
                put(out, &mut at, [DATA]);
                put(out, &mut at, packet.to_be_bytes());
                put(out, &mut at, serial.to_be_bytes());
                put(out, &mut at, size.get().to_be_bytes());
            }
            Header::Ack => put(out, &mut at, [ACK]),
        }
        at
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let mut at = 0;
        let [kind] = take(bytes, &mut at)?;
        let header = match kind {
            RTS => Header::Rts {
                size: Bytes::new(u64::from_be_bytes(take(bytes, &mut at)?)),
                deadline: Time::from_ps(u64::from_be_bytes(take(bytes, &mut at)?)),
                tenant: u16::from_be_bytes(take(bytes, &mut at)?),
            },
            TOKEN => {
                let [class] = take(bytes, &mut at)?;
                Header::Token {
                    class,
                    packet: u32::from_be_bytes(take(bytes, &mut at)?),
                    serial: u32::from_be_bytes(take(bytes, &mut at)?),
                    remaining: u32::from_be_bytes(take(bytes, &mut at)?),
                }
            }
            DATA => Header::Data {
                packet: u32::from_be_bytes(take(bytes, &mut at)?),
                serial: u32::from_be_bytes(take(bytes, &mut at)?),
                size: Bytes::new(u64::from_be_bytes(take(bytes, &mut at)?)),
            },
            ACK => Header::Ack,
            _ => return None,
        };
        Some((header, at))
    }
}
