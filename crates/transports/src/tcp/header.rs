//! TCP's packets, as far as congestion, loss and delivery are concerned.

use std::ops::Range;

use flowloom_core::Wire;

use crate::toolkit::{RangeSet, put_u32, take_u32};

/// The header. Packets of a flow are numbered from 0, and these numbers replace TCP's sequence space. A connection carries one message
/// at a time, so a segment never holds bytes of two messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Header {
    /// Opens a further connection.
    #[default]
    Syn,
    /// Answers a request for a connection.
    SynAck,
    /// A piece of the flow.
    Data {
        /// The packet's number.
        number: u32,
        /// The number of packets of the flow.
        packets: u32,
    },
    /// Acknowledges packets.
    Ack {
        /// ECN echo: the acknowledged packets arrived with congestion experienced (RFC 8257 §3.2).
        echo: bool,
        /// All packets below this one have arrived.
        cumulative: u32,
        /// Ranges that have arrived beyond it.
        blocks: Blocks,
    },
}

/// The number of blocks that fit an acknowledgement: as many as TCP's options hold beside timestamps (RFC 2018 §3).
pub const MOST_BLOCKS: usize = 3;

/// Selective acknowledgement: ranges of packets that arrived beyond a missing one, relative to the cumulative acknowledgement. The
/// first one holds the packet that is acknowledged (RFC 2018 §4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Blocks([(u16, u16); MOST_BLOCKS]);

impl Blocks {
    /// No blocks.
    pub const NONE: Blocks = Blocks([(0, 0); MOST_BLOCKS]);

    /// The first few of `ranges`, which lie above `cumulative`. Blocks that begin 2¹⁶ packets or more beyond it are left out.
    pub fn new(cumulative: u32, ranges: impl Iterator<Item = Range<u32>>) -> Blocks {
        let mut blocks = Blocks::NONE;
        let near = ranges.filter_map(|range| {
            let start = u16::try_from(range.start - cumulative).ok()?;
            Some((start, u16::try_from(range.end - cumulative).unwrap_or(u16::MAX)))
        });
        for (place, block) in blocks.0.iter_mut().zip(near) {
            *place = block;
        }
        blocks
    }

    /// The answer to packet `number`: its own block, then the highest other blocks. If packets keep their order, these have changed last.
    #[cold]
    pub fn answering(number: u32, cumulative: u32, arrived: &RangeSet) -> Blocks {
        let own = arrived.islands().find(|island| island.contains(&number));
        let others = arrived.islands().filter(|island| !island.contains(&number));
        Blocks::new(cumulative, own.into_iter().chain(others))
    }

    /// Writes the blocks and their count to the front of `out`, and returns the number of bytes written.
    pub(crate) fn encode(&self, out: &mut [u8]) -> usize {
        let count = self.0.iter().filter(|(_, end)| *end > 0).count();
        out[0] = count as u8;
        let mut length = 1;
        for (start, end) in &self.0[..count] {
            length += put_u32(&mut out[length..], &[u32::from(*start) << 16 | u32::from(*end)]);
        }
        length
    }

    /// Reads blocks from the front of `bytes`, and returns them with their length in bytes; `None` if they are not valid.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Blocks, usize)> {
        let count = usize::from(*bytes.first()?);
        let mut blocks = Blocks::NONE;
        let places = blocks.0.get_mut(..count)?;
        for (index, place) in places.iter_mut().enumerate() {
            let [block] = take_u32(bytes.get(1 + 4 * index..)?)?;
            *place = ((block >> 16) as u16, block as u16);
            // A block begins beyond the first missing packet, and is not empty.
            (place.0 > 0 && place.0 < place.1).then_some(())?;
        }
        Some((blocks, 1 + 4 * count))
    }

    /// The ranges, given the cumulative acknowledgement they came with.
    pub fn ranges(&self, cumulative: u32) -> impl Iterator<Item = Range<u32>> {
        let absolute = move |offset: u16| cumulative.saturating_add(u32::from(offset));
        self.0.into_iter().filter(|(_, end)| *end > 0).map(move |(start, end)| absolute(start)..absolute(end))
    }
}

const SYN: u8 = 1;
const SYN_ACK: u8 = 2;
const DATA: u8 = 3;
const ACK: u8 = 4;
const ACK_ECHO: u8 = 5;

impl Wire for Header {
    const MAX_BYTES: usize = 6 + 4 * MOST_BLOCKS;

    fn encode(&self, out: &mut [u8]) -> usize {
        match *self {
            Header::Syn => out[0] = SYN,
            Header::SynAck => out[0] = SYN_ACK,
            Header::Data { number, packets } => {
                out[0] = DATA;
                return 1 + put_u32(&mut out[1..], &[number, packets]);
            }
            Header::Ack { echo, cumulative, blocks } => {
                out[0] = if echo { ACK_ECHO } else { ACK };
                let length = 1 + put_u32(&mut out[1..], &[cumulative]);
                return length + blocks.encode(&mut out[length..]);
            }
        }
        1
    }

    fn decode(bytes: &[u8]) -> Option<(Header, usize)> {
        let (kind, rest) = bytes.split_first()?;
        Some(match *kind {
            SYN => (Header::Syn, 1),
            SYN_ACK => (Header::SynAck, 1),
            DATA => {
                let [number, packets] = take_u32(rest)?;
                (number < packets).then_some((Header::Data { number, packets }, 9))?
            }
            ACK | ACK_ECHO => {
                let [cumulative] = take_u32(rest)?;
                let (blocks, length) = Blocks::decode(&rest[4..])?;
                (Header::Ack { echo: *kind == ACK_ECHO, cumulative, blocks }, 5 + length)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trial::{read_is_written, written_is_read};

    fn headers() -> impl Strategy<Value = Header> {
        let block = (1_u16..u16::MAX, 1_u16..100).prop_map(|(start, length)| (start, start.saturating_add(length)));
        let blocks = prop::collection::vec(block, 0..=MOST_BLOCKS).prop_map(|list| {
            let mut blocks = Blocks::NONE;
            blocks.0[..list.len()].copy_from_slice(&list);
            blocks
        });
        prop_oneof![
            Just(Header::Syn),
            Just(Header::SynAck),
            (0..u32::MAX)
                .prop_flat_map(|packets| (0..=packets, Just(packets + 1)))
                .prop_map(|(number, packets)| Header::Data { number, packets }),
            (any::<bool>(), any::<u32>(), blocks).prop_map(|(echo, cumulative, blocks)| Header::Ack {
                echo,
                cumulative,
                blocks
            }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(header in headers(), rest in prop::collection::vec(any::<u8>(), 0..8)) {
            written_is_read(header, &rest)?;
        }

        #[test]
        fn whatever_is_read_can_be_written_again(bytes in prop::collection::vec(0_u8..8, 0..24)) {
            read_is_written::<Header>(&bytes)?;
        }
    }

    #[test]
    fn blocks_keep_their_order_and_those_far_away_are_left_out() {
        let ranges = [105..110, 70_000..70_001, 102..103, 120..80_000, 200..201];
        let blocks = Blocks::new(100, ranges.into_iter());
        assert_eq!(blocks.ranges(100).collect::<Vec<_>>(), [105..110, 102..103, 120..100 + 65_535]);
        assert_eq!(Blocks::new(7, std::iter::empty()).ranges(7).count(), 0);
    }

    #[test]
    fn a_header_leaves_a_packet_in_its_cache_line() {
        assert!(size_of::<Header>() <= 20, "{} B", size_of::<Header>());
    }
}
