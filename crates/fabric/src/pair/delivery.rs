//! The delivery of a flow.

use std::collections::BTreeMap;

use flowloom_core::{Bytes, Duration, Flow, Time};

/// The delivery of a flow that was opened.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The flow.
    pub flow: Flow,
    /// Payload bytes delivered so far.
    pub bytes: Bytes,
    /// When the receiver had the whole flow.
    pub received: Option<Time>,
    /// When the sender learned that.
    pub acknowledged: Option<Time>,
    /// When the sender gave it up.
    pub aborted: Option<Time>,
    /// Delivered ranges, start to end, joined where they touch.
    ranges: BTreeMap<u64, u64>,
}

impl Delivery {
    pub(super) fn new(flow: Flow) -> Delivery {
        Delivery { flow, bytes: Bytes::ZERO, received: None, acknowledged: None, aborted: None, ranges: BTreeMap::new() }
    }

    /// From the flow's start until the receiver had all of it.
    ///
    /// # Panics
    /// If the flow is not complete.
    pub fn fct(&self) -> Duration {
        self.received.expect("the flow is complete") - self.flow.start
    }

    /// Notes an [`Event::Delivered`](flowloom_core::Event::Delivered).
    pub(super) fn deliver(&mut self, offset: u64, bytes: u64) {
        let id = self.flow.id.0;
        assert!(self.received.is_none(), "flow {id}: bytes after the last");
        assert!(offset + bytes <= self.flow.size.get(), "flow {id}: bytes beyond its end");
        self.bytes += Bytes::new(bytes);
        if bytes == 0 {
            return;
        }
        let (mut start, mut end) = (offset, offset + bytes);
        if let Some((before, before_end)) = self.ranges.range(..end).next_back().map(|(a, b)| (*a, *b)) {
            assert!(before_end <= start, "flow {id}: bytes {start}..{end} delivered twice");
            if before_end == start {
                self.ranges.remove(&before);
                start = before;
            }
        }
        if let Some(after_end) = self.ranges.remove(&end) {
            end = after_end;
        }
        self.ranges.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::{FlowId, NodeId};

    use super::*;

    fn delivery(size: u64) -> Delivery {
        let (src, dst) = (NodeId(0), NodeId(1));
        let (id, size, start) = (FlowId(0), Bytes::new(size), Time::ZERO);
        Delivery::new(Flow { id, src, dst, size, start, deadline: None, tenant: 0, coflow: None, background: false })
    }

    #[test]
    fn pieces_in_any_order_are_joined() {
        let mut delivery = delivery(100);
        for (offset, bytes) in [(50, 10), (0, 10), (60, 40), (20, 30), (10, 10), (100, 0)] {
            delivery.deliver(offset, bytes);
        }
        assert_eq!(delivery.bytes, Bytes::new(100));
        assert_eq!(delivery.ranges, BTreeMap::from([(0, 100)]));
    }

    #[test]
    #[should_panic(expected = "bytes 15..25 delivered twice")]
    fn an_overlap_is_noticed() {
        let mut delivery = delivery(100);
        delivery.deliver(20, 10);
        delivery.deliver(15, 10);
    }

    #[test]
    #[should_panic(expected = "beyond its end")]
    fn bytes_beyond_the_end_are_noticed() {
        delivery(100).deliver(95, 6);
    }
}
