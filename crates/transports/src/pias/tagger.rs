//! The class of each packet: the shim below TCP.

use std::collections::BTreeMap;

use flowloom_core::{Bytes, Event, FlowId};

/// Tags packets by how much of their flow was sent before them (§III-B1, §IV-A1).
#[derive(Debug)]
pub struct Tagger {
    thresholds: Vec<u64>,
    /// Timeouts in a row after which a flow counts as new, 0 for never.
    aging: u32,
    /// For each flow that was starved, the offset from which it counts; `None` until its next packet gives it.
    aged: BTreeMap<FlowId, Option<u64>>,
}

impl Tagger {
    /// A tagger with ascending thresholds.
    pub fn new(thresholds: &[Bytes], aging: u32) -> Tagger {
        Tagger { thresholds: thresholds.iter().map(|bytes| bytes.get()).collect(), aging, aged: BTreeMap::new() }
    }

    /// Replaces the thresholds.
    pub fn set_thresholds(&mut self, thresholds: impl Iterator<Item = u64>) {
        self.thresholds.clear();
        self.thresholds.extend(thresholds);
    }

    /// The class of a packet that begins at `offset` of its flow. A retransmission keeps its class, because its offset is the same.
    #[inline]
    pub fn class(&mut self, flow: FlowId, offset: u64) -> u8 {
        let sent = if self.aged.is_empty() { offset } else { self.sent_since_aging(flow, offset) };
        self.class_after(sent)
    }

    /// The class of a packet before which this much of its flow counts as sent.
    #[inline]
    fn class_after(&self, sent: u64) -> u8 {
        self.thresholds.iter().filter(|threshold| sent > **threshold).count() as u8
    }

    #[cold]
    fn sent_since_aging(&mut self, flow: FlowId, offset: u64) -> u64 {
        match self.aged.get_mut(&flow) {
            Some(from) => offset.saturating_sub(*from.get_or_insert(offset)),
            None => offset,
        }
    }

    /// Detects starvation: a flow with `aging` timeouts in a row counts as new (§III-B3).
    #[inline]
    pub fn observe(&mut self, event: &Event) {
        match event {
            Event::TimedOut { flow, in_a_row } if self.aging > 0 && in_a_row.is_multiple_of(self.aging) => {
                self.aged.insert(*flow, None);
            }
            Event::Acknowledged { flow } if !self.aged.is_empty() => {
                self.aged.remove(flow);
            }
            _ => {}
        }
    }

    /// The class that a packet at `offset` would have, without counting it as sent.
    pub fn class_at(&self, flow: FlowId, offset: u64) -> u8 {
        self.class_after(match self.aged.get(&flow) {
            Some(from) => offset.saturating_sub(from.unwrap_or(offset)),
            None => offset,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowId = FlowId(3);

    #[test]
    fn a_packet_that_begins_at_the_threshold_is_still_above_it() {
        let mut tagger = Tagger::new(&[10_000, 20_000, 20_000].map(Bytes::new), 0);
        let classes = [0, 9_999, 10_000, 10_001, 20_000, 20_001, 1 << 40].map(|offset| tagger.class(FLOW, offset));
        assert_eq!(classes, [0, 0, 0, 1, 1, 3, 3]);
        assert_eq!(Tagger::new(&[], 0).class(FLOW, 1 << 40), 0);
    }

    #[test]
    fn a_starved_flow_counts_from_where_it_stands() {
        let mut tagger = Tagger::new(&[Bytes::new(10_000)], 2);
        tagger.observe(&Event::TimedOut { flow: FLOW, in_a_row: 1 });
        assert_eq!(tagger.class(FLOW, 50_000), 1);
        tagger.observe(&Event::TimedOut { flow: FLOW, in_a_row: 2 });
        let classes = [50_000, 60_000, 60_001, 40_000].map(|offset| tagger.class(FLOW, offset));
        assert_eq!(classes, [0, 0, 1, 0]);
        assert_eq!(tagger.class(FlowId(4), 50_000), 1, "others are as they were");
        tagger.observe(&Event::TimedOut { flow: FLOW, in_a_row: 4 });
        assert_eq!(tagger.class(FLOW, 90_000), 0, "again after two more");
        tagger.observe(&Event::Acknowledged { flow: FLOW });
        assert!(tagger.aged.is_empty());
    }
}
