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
