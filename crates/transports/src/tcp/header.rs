//! TCP's packets, as far as congestion, loss and delivery are concerned.

use std::ops::Range;

use flowloom_core::{Layout, Wire, wire_format};

use crate::toolkit::RangeSet;

wire_format! {
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

    impl Wire for Header {
        fn is_valid(&self) -> bool {
            match *self {
                Header::Data { number, packets } => number < packets,
                _ => true,
            }
        }
    }
}

/// The number of blocks that fit an acknowledgement: as many as TCP's options hold beside timestamps (RFC 2018 §3).
pub const MOST_BLOCKS: usize = 3;

wire_format! {
    /// The packets of a range, counted from the cumulative acknowledgement.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    struct Block {
        start: u16,
        end: u16,
    }

    impl Wire for Block {
        /// A block begins beyond the first missing packet, and is not empty.
        fn is_valid(&self) -> bool {
            0 < self.start && self.start < self.end
        }
    }
}

/// Selective acknowledgement: ranges of packets that arrived beyond a missing one, relative to the cumulative acknowledgement. The
/// first one holds the packet that is acknowledged (RFC 2018 §4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Blocks([Block; MOST_BLOCKS]);

impl Blocks {
    /// No blocks.
    pub const NONE: Blocks = Blocks([Block { start: 0, end: 0 }; MOST_BLOCKS]);

    /// The first few of `ranges`, which lie above `cumulative`. Blocks that begin 2¹⁶ packets or more beyond it are left out.
    pub fn new(cumulative: u32, ranges: impl Iterator<Item = Range<u32>>) -> Blocks {
        let mut blocks = Blocks::NONE;
        let near = ranges.filter_map(|range| {
            let start = u16::try_from(range.start - cumulative).ok()?;
            Some(Block { start, end: u16::try_from(range.end - cumulative).unwrap_or(u16::MAX) })
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

    /// Those that are given.
    fn given(&self) -> &[Block] {
        &self.0[..self.0.iter().take_while(|block| block.end > 0).count()]
    }

    /// The ranges, given the cumulative acknowledgement they came with.
    pub fn ranges(&self, cumulative: u32) -> impl Iterator<Item = Range<u32>> {
        let absolute = move |offset: u16| cumulative.saturating_add(u32::from(offset));
        self.given().iter().map(move |block| absolute(block.start)..absolute(block.end))
    }
}

impl Wire for Blocks {
    const LAYOUT: Layout = Layout::List(&Block::LAYOUT);
    const MAX_BYTES: usize = 1 + MOST_BLOCKS * Block::MAX_BYTES;

    fn encode(&self, out: &mut [u8]) -> usize {
        wire_format::encode_list(self.given(), out)
    }
    fn decode(bytes: &[u8]) -> Option<(Blocks, usize)> {
        wire_format::decode_list(bytes).map(|(blocks, _, length)| (Blocks(blocks), length))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trial::wire_format_holds;

    fn headers() -> impl Strategy<Value = Header> {
        let block =
            (1_u16..u16::MAX, 1_u16..100).prop_map(|(start, length)| Block { start, end: start.saturating_add(length) });
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

    #[test]
    fn the_wire_format_holds() {
        wire_format_holds(headers());
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
