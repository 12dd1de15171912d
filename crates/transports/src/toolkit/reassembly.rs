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

impl Receiving {
    /// Whether packet `number` of `packets` may come from a sender that has not told its flow's end when it sent the packet.
    #[cold]
    fn may_be_open(&self, number: u32, packets: u32) -> bool {
        packets == Reassembly::OPEN && number < self.packets
    }
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
    /// The number of packets of a flow whose end is not known yet; see [`Reassembly::end`].
    pub const OPEN: u32 = u32::MAX;

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
            Some(slot) if self.flows[slot].packets != packets && !self.flows[slot].may_be_open(number, packets) => return None,
            Some(slot) => slot,
            None if self.finished.refresh(now, flow) => return Some(complete),
            None => self.flows.insert(flow, Receiving { arrived: RangeSet::default(), packets }),
        };
        let state = &mut self.flows[slot];
        if state.arrived.insert(number) {
            events.push_back(Event::Delivered { flow, offset: packet.offset, bytes: packet.payload() });
        }
        let cumulative = state.arrived.first_missing();
        if cumulative == state.packets {
            self.finish(now, slot, events);
            return Some(complete);
        }
        Some(Arrival { cumulative, arrived: Some(&self.flows[slot].arrived) })
    }

    fn finish(&mut self, now: Time, slot: u32, events: &mut VecDeque<Event>) {
        let flow = self.flows.flow_of(slot);
        events.push_back(Event::Received { flow });
        self.flows.remove(slot);
        self.finished.insert(now, flow);
    }

    /// A flow whose end was not known turns out to have `packets` packets, before, between or after these. If all have arrived, it is complete.
    /// Otherwise, the answer is that of [`Reassembly::query`]. A number that contradicts what has arrived is ignored.
    pub fn end(&mut self, now: Time, flow: FlowId, packets: u32, events: &mut VecDeque<Event>) -> Arrival<'_> {
        match self.flows.slot_of(flow) {
            Some(slot) => {
                let state = &mut self.flows[slot];
                if state.packets == Self::OPEN && state.arrived.end() <= packets {
                    state.packets = packets;
                    if state.arrived.is_complete(packets) {
                        self.finish(now, slot, events);
                    }
                }
            }
            // The end may overtake all packets.
            None if !self.finished.contains(flow) => {
                self.flows.insert(flow, Receiving { arrived: RangeSet::default(), packets });
            }
            None => {}
        }
        self.query(now, flow, packets)
    }

    /// Forgets a flow that its sender has given up. Late packets do not open it again.
    pub fn abandon(&mut self, now: Time, flow: FlowId) {
        if let Some(slot) = self.flows.slot_of(flow) {
            self.flows.remove(slot);
            self.finished.insert(now, flow);
        }
    }

    /// The state that answers a query about a flow of `packets` packets. It opens no flow.
    pub fn query(&mut self, now: Time, flow: FlowId, packets: u32) -> Arrival<'_> {
        if self.finished.refresh(now, flow) {
            return Arrival { cumulative: packets, arrived: None };
        }
        let arrived = self.flows.slot_of(flow).map(|slot| &self.flows[slot].arrived);
        Arrival { cumulative: arrived.map_or(0, RangeSet::first_missing), arrived }
    }

    /// The cumulative acknowledgement that answers such a query.
    pub fn cumulative(&mut self, now: Time, flow: FlowId, packets: u32) -> u32 {
        self.query(now, flow, packets).cumulative
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

    /// The end overtakes the only packet of a flow. Late packets and ends of a finished flow open nothing.
    #[test]
    fn an_end_may_come_first() {
        let mut reassembly = Reassembly::new(Duration::from_ms(1));
        let mut events = VecDeque::new();
        assert_eq!(reassembly.end(Time::ZERO, FlowId(3), 1, &mut events).cumulative, 0);
        assert!(reassembly.receive(Time::ZERO, &packet(0), 0, Reassembly::OPEN, &mut events).unwrap().arrived.is_none());
        assert!(reassembly.end(Time::ZERO, FlowId(3), 1, &mut events).arrived.is_none());
        assert_eq!((events.len(), reassembly.flows.len(), reassembly.finished.len()), (2, 0, 1));
    }

    /// Packets of a flow whose end is not known, of which the last comes before or after the end.
    #[test]
    fn an_open_flow_is_complete_when_its_end_is_known_and_all_packets_are_there() {
        for last in [false, true] {
            let mut reassembly = Reassembly::new(Duration::from_ms(1));
            let mut events = VecDeque::new();
            let open = Reassembly::OPEN;
            for number in 0..if last { 10 } else { 9 } {
                assert!(reassembly.receive(Time::ZERO, &packet(number), number, open, &mut events).unwrap().arrived.is_some());
            }
            // An end before what has arrived is none.
            assert!(reassembly.end(Time::ZERO, FlowId(3), 8, &mut events).arrived.is_some());
            assert_eq!(reassembly.end(Time::ZERO, FlowId(3), 10, &mut events).arrived.is_none(), last);
            assert_eq!(
                reassembly.receive(Time::ZERO, &packet(9), 10, open, &mut events).map(|arrival| arrival.cumulative),
                last.then_some(open)
            );
            let arrival = reassembly.receive(Time::ZERO, &packet(9), 9, open, &mut events).unwrap();
            assert!(arrival.arrived.is_none());
            assert_eq!(events.iter().filter(|event| matches!(event, Event::Received { .. })).count(), 1);
            assert_eq!((events.len(), reassembly.flows.len()), (11, 0));
        }
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
