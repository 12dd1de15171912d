//! The receiving end of flows. Every data packet carries its number and the number of packets of its flow.

use std::collections::VecDeque;

use flowloom_core::{Duration, Event, FlowId, Packet, Time};

use super::{FlowTable, RangeSet, TimeWait};

/// One flow that is being received.
#[derive(Clone, Debug)]
struct Receiving {
    arrived: RangeSet,
    packets: u32,
}

/// The state of a received flow after one of its packets arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// All packets below this one have arrived: the cumulative acknowledgement.
    pub cumulative: u32,
    /// The packets that have arrived, `None` if all have.
    pub arrived: Option<&'a RangeSet>,
}

/// All flows that a node receives, and those that have just finished. Each byte is reported once.
#[derive(Clone, Debug)]
pub struct Reassembly {
    flows: FlowTable<Receiving>,
    finished: TimeWait,
}

impl Reassembly {
    /// Remembers finished flows for `span` after their last packet.
    pub fn new(span: Duration) -> Reassembly {
        Reassembly { flows: FlowTable::default(), finished: TimeWait::new(span) }
    }

    /// Handles data packet `number` of `packets` (see [`Framing::data`](super::Framing::data)), reports new bytes, and returns the
    /// flow's state. Returns `None` if the packet contradicts itself or other packets of its flow.
    #[inline]
    pub fn receive<H>(
        &mut self,
        now: Time,
        packet: &Packet<H>,
        number: u32,
        packets: u32,
        events: &mut VecDeque<Event>,
    ) -> Option<Arrival<'_>> {
        let complete = Arrival { cumulative: packets, arrived: None };
        if number >= packets {
            return None;
        }
        let flow = packet.flow;
        let slot = match self.flows.slot_of(flow) {
            Some(slot) if self.flows[slot].packets != packets => return None,
            Some(slot) => slot,
            None if self.finished.refresh(now, flow) => return Some(complete),
            None => self.flows.insert(flow, Receiving { arrived: RangeSet::default(), packets }),
        };
        let state = &mut self.flows[slot];
        if state.arrived.insert(number) {
            events.push_back(Event::Delivered { flow, offset: packet.offset, bytes: packet.payload() });
        }
        let cumulative = state.arrived.first_missing();
        if cumulative == packets {
            events.push_back(Event::Received { flow });
            self.flows.remove(slot);
            self.finished.insert(now, flow);
            return Some(complete);
        }
        Some(Arrival { cumulative, arrived: Some(&self.flows[slot].arrived) })
    }

    /// Forgets a flow that its sender has given up. Late packets do not open it again.
    pub fn abandon(&mut self, now: Time, flow: FlowId) {
        if let Some(slot) = self.flows.slot_of(flow) {
            self.flows.remove(slot);
            self.finished.insert(now, flow);
        }
    }

    /// The cumulative acknowledgement that answers a query about a flow of `packets` packets. It opens no flow.
    pub fn cumulative(&mut self, now: Time, flow: FlowId, packets: u32) -> u32 {
        if self.finished.refresh(now, flow) {
            return packets;
        }
        self.flows.slot_of(flow).map_or(0, |slot| self.flows[slot].arrived.first_missing())
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::{Bytes, NodeId, WireProfile};
    use proptest::prelude::*;

    use super::*;
    use crate::toolkit::Framing;

    const SIZE: Bytes = Bytes::new(1460 * 9 + 7);

    fn packet(number: u32) -> Packet<()> {
        Framing::new(NodeId(0), &WireProfile::IP_1500).data(FlowId(3), NodeId(1), SIZE, number, ())
    }

    proptest! {
        #[test]
        fn each_byte_is_reported_once_and_the_end_once(numbers in prop::collection::vec(0_u32..10, 0..60)) {
            let mut reassembly = Reassembly::new(Duration::from_ms(1));
            let mut events = VecDeque::new();
            let mut seen = Vec::new();
            for number in numbers {
                let arrival = reassembly.receive(Time::ZERO, &packet(number), number, 10, &mut events).unwrap();
                let (cumulative, count) = (arrival.cumulative, arrival.arrived.map(RangeSet::len));
                if !seen.contains(&number) {
                    seen.push(number);
                    let (offset, bytes) = (packet(number).offset, packet(number).payload());
                    prop_assert_eq!(events.pop_front(), Some(Event::Delivered { flow: FlowId(3), offset, bytes }));
                    if seen.len() == 10 {
                        prop_assert_eq!(events.pop_front(), Some(Event::Received { flow: FlowId(3) }));
                    }
                }
                prop_assert_eq!(events.pop_front(), None);
                let missing = (0..10).find(|number| !seen.contains(number)).unwrap_or(10);
                prop_assert_eq!(cumulative, missing);
                prop_assert_eq!(count, (seen.len() < 10).then_some(seen.len() as u32));
                prop_assert_eq!(reassembly.cumulative(Time::ZERO, FlowId(3), 10), missing);
                prop_assert_eq!(reassembly.flows.len() + reassembly.finished.len(), 1);
            }
        }
    }

    #[test]
    fn an_abandoned_flow_leaves_nothing_and_late_packets_do_not_open_it() {
        let mut reassembly = Reassembly::new(Duration::from_ms(1));
        let mut events = VecDeque::new();
        reassembly.abandon(Time::ZERO, FlowId(3));
        assert!(reassembly.finished.is_empty(), "it was never opened");
        reassembly.receive(Time::ZERO, &packet(0), 0, 10, &mut events);
        reassembly.abandon(Time::ZERO, FlowId(3));
        reassembly.receive(Time::ZERO, &packet(1), 1, 10, &mut events);
        assert_eq!((reassembly.flows.len(), events.len()), (0, 1));
    }

    #[test]
    fn contradictions_are_ignored_and_open_nothing() {
        let mut reassembly = Reassembly::new(Duration::from_ms(1));
        let mut events = VecDeque::new();
        let mut cumulative = |number, packets| {
            let packet = packet(number);
            reassembly.receive(Time::ZERO, &packet, number, packets, &mut events).map(|arrival| arrival.cumulative)
        };
        assert_eq!(cumulative(5, 5), None);
        assert_eq!(cumulative(5, 10), Some(0));
        assert_eq!(cumulative(6, 11), None);
        assert_eq!(events.len(), 1);
        assert_eq!(reassembly.flows.len(), 1);
    }
}
