//! The receiving end of flows whose every data packet says which it is and how many there are.

use std::collections::VecDeque;

use flowloom_core::{Duration, Event, FlowId, Packet, Time};

use super::{FlowTable, RangeSet, TimeWait};

/// One flow that is being received.
#[derive(Clone, Debug)]
struct Receiving {
    arrived: RangeSet,
    packets: u32,
}

/// All flows that a node receives, and those it has just finished receiving. Reports each byte once.
#[derive(Clone, Debug)]
pub struct Reassembly {
    flows: FlowTable<Receiving>,
    finished: TimeWait,
}

impl Reassembly {
    /// Remembers finished flows for `span` after the last sign of them.
    pub fn new(span: Duration) -> Reassembly {
        Reassembly { flows: FlowTable::default(), finished: TimeWait::new(span) }
    }

    /// Takes in data packet `number` of `packets` (see [`Framing::data`](super::Framing::data)), reports what is new, and
    /// returns the cumulative acknowledgement: all packets below it have arrived. `None` where the packet contradicts itself
    /// or others of its flow.
    #[inline]
    pub fn receive<H>(
        &mut self,
        now: Time,
        packet: &Packet<H>,
        number: u32,
        packets: u32,
        events: &mut VecDeque<Event>,
    ) -> Option<u32> {
        if number >= packets {
            return None;
        }
        let flow = packet.flow;
        let slot = match self.flows.slot_of(flow) {
            Some(slot) if self.flows[slot].packets != packets => return None,
            Some(slot) => slot,
            None if self.finished.refresh(now, flow) => return Some(packets),
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
        }
        Some(cumulative)
    }

    /// The cumulative acknowledgement of a flow of `packets` packets that was asked about; opens no flow.
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
    use crate::parts::Framing;

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
                let cumulative = reassembly.receive(Time::ZERO, &packet(number), number, 10, &mut events);
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
                prop_assert_eq!(cumulative, Some(missing));
                prop_assert_eq!(reassembly.cumulative(Time::ZERO, FlowId(3), 10), missing);
                prop_assert_eq!(reassembly.flows.len() + reassembly.finished.len(), 1);
            }
        }
    }

    #[test]
    fn contradictions_are_ignored_and_open_nothing() {
        let mut reassembly = Reassembly::new(Duration::from_ms(1));
        let mut events = VecDeque::new();
        assert_eq!(reassembly.receive(Time::ZERO, &packet(5), 5, 5, &mut events), None);
        assert!(reassembly.flows.is_empty());
        assert_eq!(reassembly.receive(Time::ZERO, &packet(5), 5, 10, &mut events), Some(0));
        assert_eq!(reassembly.receive(Time::ZERO, &packet(6), 6, 11, &mut events), None);
        assert_eq!(events.len(), 1);
    }
}
