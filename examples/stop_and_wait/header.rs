//! Stop-and-wait's packets.

use flowloom_core::Wire;

use crate::toolkit::{put_u32, take_u32};

/// What a packet is. Packets of a flow are numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// A piece of the flow.
    Data {
        /// Which packet this is.
        number: u32,
        /// How many the flow has.
        packets: u32,
    },
    /// Packet `number` has arrived.
    Ack {
        /// Which packet is meant.
        number: u32,
    },
}

const DATA: u8 = 1;
const ACK: u8 = 2;

impl Wire for Header {
    const MAX_BYTES: usize = 9;

    fn encode(&self, out: &mut [u8]) -> usize {
        let (kind, fields, count) = match *self {
            Header::Data { number, packets } => (DATA, [number, packets], 2),
            Header::Ack { number } => (ACK, [number, 0], 1),
        };
        out[0] = kind;
        put_u32(&mut out[1..], &fields[..count]) + 1
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let (kind, rest) = bytes.split_first()?;
        match *kind {
            DATA => {
                let [number, packets] = take_u32(rest)?;
                (number < packets).then_some((Header::Data { number, packets }, 9))
            }
            ACK => {
                let [number] = take_u32(rest)?;
                Some((Header::Ack { number }, 5))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trial::{read_is_written, written_is_read};

    fn headers() -> impl Strategy<Value = Header> {
        let data = (any::<u32>(), 1..=u32::MAX).prop_map(|(n, packets)| Header::Data { number: n % packets, packets });
        prop_oneof![data, any::<u32>().prop_map(|number| Header::Ack { number })]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(header in headers(), rest in prop::collection::vec(any::<u8>(), 0..8)) {
            written_is_read(header, &rest)?;
        }

        #[test]
        fn whatever_is_read_can_be_written_again(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            read_is_written::<Header>(&bytes)?;
        }
    }

    #[test]
    fn the_layout_is_big_endian() {
        let mut bytes = [0; Header::MAX_BYTES];
        assert_eq!(Header::Data { number: 2, packets: 0x0102_0304 }.encode(&mut bytes), 9);
        assert_eq!(bytes, [1, 0, 0, 0, 2, 1, 2, 3, 4]);
    }
}
