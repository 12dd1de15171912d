//! Which packets of a flow were sent, have arrived, or are lost.

use crate::toolkit::RangeSet;

/// The packets of one flow, numbered from 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    acked: RangeSet,
    /// One past the highest packet ever sent.
    sent: u32,
    /// Packets below this one that are not acknowledged are lost, or were lost and have been resent.
    lost_below: u32,
    /// All lost packets below this one have been resent.
    resent_below: u32,
}

impl Scoreboard {
    /// The first packet that has not been acknowledged.
    #[inline]
    pub fn first_missing(&self) -> u32 {
        self.acked.first_missing()
    }
    /// One past the highest packet ever sent.
    #[inline]
    pub fn sent(&self) -> u32 {
        self.sent
    }
    /// How many packets have been acknowledged.
    #[inline]
    pub fn acked(&self) -> u32 {
        self.acked.len()
    }

    /// Packets from `from` to `to` that are not acknowledged.
    fn unacked(&self, from: u32, to: u32) -> u32 {
        let from = from.max(self.first_missing());
        if to <= from {
            return 0;
        }
        let islands = self.acked.len() > self.first_missing();
        to - from - if islands { self.acked.count_in(from..to) } else { 0 }
    }

    /// Lost packets that have not been resent.
    #[inline]
    fn to_resend(&self) -> u32 {
        if self.resent_below >= self.lost_below { 0 } else { self.unacked(self.resent_below, self.lost_below) }
    }

    /// Packets that are neither acknowledged nor lost.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.sent - self.acked.len() - self.to_resend()
    }

    /// Of `packets`, those that are still to be sent, or to be sent again.
    #[inline]
    pub fn unsent(&self, packets: u32) -> u32 {
        packets - self.sent + self.to_resend()
    }

    /// Notes the packets that an acknowledgement names. Returns how many of them are new; `None` if it names packets that were never sent.
    #[inline]
    pub fn acknowledge(&mut self, cumulative: u32, blocks: impl Iterator<Item = std::ops::Range<u32>>) -> Option<u32> {
        if cumulative > self.sent {
            return None;
        }
        let mut new = self.acked.insert_below(cumulative);
        for block in blocks.filter(|block| block.end <= self.sent) {
            new += self.acked.insert_range(block);
        }
        Some(new)
    }

    /// Takes packets for lost if `threshold` packets beyond them have arrived. Returns whether there are any new ones.
    pub fn find_lost(&mut self, threshold: u32) -> bool {
        if self.acked.len() == self.first_missing() {
            return false;
        }
        let edge = self.acked.highest(threshold).unwrap_or(0);
        let found = self.unacked(self.lost_below, edge) > 0;
        self.lost_below = self.lost_below.max(edge);
        found
    }

    /// Takes all packets below `end` that were not acknowledged for lost, those that were resent included.
    pub fn lose_below(&mut self, end: u32) {
        self.lost_below = self.lost_below.max(end.min(self.sent));
        self.resent_below = self.first_missing();
    }

    /// The next packet to send: the first lost one, or else a new one of `packets`.
    #[inline]
    pub fn pick(&mut self, packets: u32) -> Option<u32> {
        let mut next = self.resent_below.max(self.first_missing());
        if next < self.lost_below {
            if self.acked.contains(next) {
                next = self.acked.next_missing_after(next);
            }
            if next < self.lost_below {
                self.resent_below = next + 1;
                return Some(next);
            }
            self.resent_below = self.lost_below;
        }
        (self.sent < packets).then(|| {
            self.sent += 1;
            self.sent - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn acknowledge(board: &mut Scoreboard, cumulative: u32, blocks: &[(u32, u32)]) -> Option<u32> {
        board.acknowledge(cumulative, blocks.iter().map(|(start, end)| *start..*end))
    }

    /// Ten packets; 2, 3 and 6 are lost.
    #[test]
    fn three_packets_beyond_a_missing_one_show_that_it_is_lost() {
        let mut board = Scoreboard::default();
        let sent: Vec<_> = std::iter::from_fn(|| board.pick(10)).collect();
        assert_eq!(sent, (0..10).collect::<Vec<_>>());
        assert_eq!(acknowledge(&mut board, 2, &[]), Some(2));
        assert_eq!(acknowledge(&mut board, 2, &[(4, 6)]), Some(2));
        assert!(!board.find_lost(3));
        assert_eq!(acknowledge(&mut board, 2, &[(7, 8), (4, 6)]), Some(1));
        assert!(board.find_lost(3)); // the third packet from above is 4
        assert_eq!(board.in_flight(), 3); // 6, 8, 9
        assert_eq!([board.pick(10), board.pick(10), board.pick(10)], [Some(2), Some(3), None]);
        assert_eq!(board.in_flight(), 5);
        assert_eq!(acknowledge(&mut board, 2, &[(7, 10)]), Some(2));
        assert!(board.find_lost(3));
        assert_eq!((board.in_flight(), board.pick(10), board.in_flight()), (2, Some(6), 3));
        assert!(!board.find_lost(3), "each packet is found lost once");
        board.lose_below(10);
        assert_eq!(board.in_flight(), 0);
        assert_eq!(std::iter::from_fn(|| board.pick(10)).collect::<Vec<_>>(), [2, 3, 6]);
        assert_eq!(acknowledge(&mut board, 11, &[]), None);
        assert_eq!(acknowledge(&mut board, 10, &[]), Some(3));
        assert_eq!((board.in_flight(), board.pick(10)), (0, None));
    }

    #[derive(Clone, Copy, PartialEq, Debug)]
    enum State {
        Flying,
        Lost,
        Acked,
    }

    proptest! {
        /// It agrees with a state per packet, whatever is acknowledged and taken for lost.
        #[test]
        fn agrees_with_a_state_per_packet(steps in prop::collection::vec((0_u8..6, 0_u32..40, 0_u32..6), 0..120)) {
            let mut board = Scoreboard::default();
            let mut model: BTreeMap<u32, State> = BTreeMap::new();
            for (what, n, length) in steps {
                match what {
                    0 => {
                        let end = n.min(board.sent());
                        acknowledge(&mut board, 0, &[(end.saturating_sub(length), end)]);
                        model.range_mut(end.saturating_sub(length)..end).for_each(|(_, state)| *state = State::Acked);
                    }
                    1 => {
                        let end = n.min(board.sent());
                        board.lose_below(end);
                        // What was taken for lost before and resent is lost again.
                        let below = board.lost_below;
                        for (_, state) in model.range_mut(..below).filter(|(_, state)| **state != State::Acked) {
                            *state = State::Lost;
                        }
                    }
                    _ => {
                        let expected = model.iter().find(|(_, state)| **state == State::Lost).map(|(number, _)| *number);
                        let expected = expected.or((model.len() < 40).then_some(model.len() as u32));
                        prop_assert_eq!(board.pick(40), expected);
                        if let Some(number) = expected {
                            model.insert(number, State::Flying);
                        }
                    }
                }
                let flying = model.values().filter(|state| **state == State::Flying).count();
                prop_assert_eq!(board.in_flight() as usize, flying);
            }
        }
    }
}
