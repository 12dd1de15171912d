//! HPCC's packets.

use flowloom_core::Wire;

use crate::disciplines::{Instrumented, Telemetry};
use crate::toolkit::{put_u32, take_u32};

/// What a packet is. Packets of a flow are numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A data packet.
    Data {
        /// Its number.
        number: u32,
        /// How many packets the flow has.
        packets: u32,
    },
    /// The answer to a data packet.
    Ack {
        /// All packets below this one have arrived.
        cumulative: u32,
        /// The answered packet came after a gap and was thrown away: the sender must go back to `cumulative`.
        nack: bool,
    },
}

impl Default for Kind {
    fn default() -> Kind {
        Kind::Ack { cumulative: 0, nack: false }
    }
}

/// HPCC's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// What the packet is.
    pub kind: Kind,
    /// The records of the ports on the data packet's path. An acknowledgement returns them.
    pub telemetry: Telemetry,
}

impl Instrumented for Header {
    #[inline]
    fn telemetry(&mut self) -> Option<&mut Telemetry> {
        matches!(self.kind, Kind::Data { .. }).then_some(&mut self.telemetry)
    }
}

const DATA: u32 = 1;
const ACK: u32 = 2;
const NACK: u32 = 3;
/// The words of the longest header before the records.
const MOST_WORDS: usize = 3;

impl Wire for Header {
    const MAX_BYTES: usize = 4 * (MOST_WORDS + 1 + 2 * Telemetry::HOPS);

    fn encode(&self, out: &mut [u8]) -> usize {
        let mut length = match self.kind {
            Kind::Data { number, packets } => put_u32(out, &[DATA, number, packets]),
            Kind::Ack { cumulative, nack } => put_u32(out, &[if nack { NACK } else { ACK }, cumulative]),
        };
        let (words, count) = self.telemetry.words();
        length += put_u32(&mut out[length..], &words[..count]);
        length
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let [kind, first] = take_u32(bytes)?;
        let (kind, length) = match kind {
            DATA => {
                let [packets] = take_u32(&bytes[8..])?;
                ((first < packets).then_some(Kind::Data { number: first, packets })?, 12)
            }
            ACK | NACK => (Kind::Ack { cumulative: first, nack: kind == NACK }, 8),
            _ => return None,
        };
        let word = |index: usize| take_u32(&bytes[(length + 4 * index).min(bytes.len())..]).map(|[word]| word);
        let (telemetry, words) = Telemetry::read(word)?;
        Some((Header { kind, telemetry }, length + 4 * words))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::disciplines::HopRecord;
    use crate::trial::{read_is_written, written_is_read};

    /// Any records at all.
    pub fn telemetries() -> impl Strategy<Value = Telemetry> {
        (prop::collection::vec(any::<u64>(), 0..=Telemetry::HOPS), 0_u16..1 << 12).prop_map(|(records, path)| {
            let mut telemetry = Telemetry::default();
            let tags = std::iter::once(path).chain(std::iter::repeat(0));
            for (bits, tag) in records.into_iter().zip(tags) {
                telemetry.push(HopRecord::from_bits(bits), tag, Telemetry::HOPS as u8);
            }
            telemetry
        })
    }

    /// Every header that can be encoded.
    pub fn headers() -> impl Strategy<Value = Header> {
        let kinds = prop_oneof![
            (any::<u32>(), any::<u32>())
                .prop_filter("numbers are below the count", |(number, packets)| number < packets)
                .prop_map(|(number, packets)| Kind::Data { number, packets }),
            (any::<u32>(), any::<bool>()).prop_map(|(cumulative, nack)| Kind::Ack { cumulative, nack }),
        ];
        (kinds, telemetries()).prop_map(|(kind, telemetry)| Header { kind, telemetry })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(header in headers(), rest in prop::collection::vec(any::<u8>(), 0..8)) {
            written_is_read(header, &rest)?;
        }

        #[test]
        fn whatever_is_read_can_be_written_again(
            kind in 0_u32..5,
            fields in any::<[u8; 4]>(),
            count in 0_u32..8,
            bytes in prop::collection::vec(any::<u8>(), 0..70),
        ) {
            let count = (count << 12 | 7).to_be_bytes();
            let kind = kind.to_be_bytes();
            read_is_written::<Header>(&[&kind, &fields, &bytes[..]].concat())?;
            read_is_written::<Header>(&[&kind, &fields, &count, &bytes[..]].concat())?;
            read_is_written::<Header>(&[&kind, &fields, &u32::MAX.to_be_bytes(), &count, &bytes[..]].concat())?;
        }
    }

    /// Two cache lines in the pool, with the rest of the packet.
    #[test]
    fn a_header_takes_little_memory() {
        assert!(size_of::<Header>() <= 64, "{} B", size_of::<Header>());
    }
}
