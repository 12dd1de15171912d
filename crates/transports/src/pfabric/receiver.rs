//! The receiving end of pFabric's flows.

use flowloom_core::{Event, Packet, Time};

use super::{Config, Header, Outbox};
use crate::parts::{FlowTable, Framing, RangeSet, TimeWait};

/// One flow that is being received.
struct Receiving {
    arrived: RangeSet,
    packets: u32,
}

/// All flows that this node receives.
pub(super) struct Receiver {
    framing: Framing,
    flows: FlowTable<Receiving>,
    finished: TimeWait,
}

impl Receiver {
    pub(super) fn new(config: &Config, framing: Framing) -> Receiver {
        Receiver { framing, flows: FlowTable::default(), finished: TimeWait::new(config.time_wait) }
    }

    pub(super) fn handle_data(&mut self, now: Time, packet: &Packet<Header>, number: u32, packets: u32, out: &mut Outbox) {
        let flow = packet.flow;
        if number >= packets {
            return;
        }
        let slot = match self.flows.slot_of(flow) {
            Some(slot) if self.flows[slot].packets != packets => return,
            Some(slot) => slot,
            None if self.finished.refresh(now, flow) => return self.acknowledge(packet, packets, Some(number), out),
            None => self.flows.insert(flow, Receiving { arrived: RangeSet::default(), packets }),
        };
        let state = &mut self.flows[slot];
        if state.arrived.insert(number) {
            out.events.push_back(Event::Delivered { flow, offset: packet.offset, bytes: packet.payload() });
        }
        let cumulative = state.arrived.first_missing();
        if cumulative == packets {
            out.events.push_back(Event::Received { flow });
            self.flows.remove(slot);
            self.finished.insert(now, flow);
        }
        self.acknowledge(packet, cumulative, Some(number), out);
    }

    /// A probe is answered with what has arrived, and opens no flow.
    pub(super) fn handle_probe(&mut self, now: Time, packet: &Packet<Header>, packets: u32, out: &mut Outbox) {
        let cumulative = if self.finished.refresh(now, packet.flow) {
            packets
        } else {
            self.flows.slot_of(packet.flow).map_or(0, |slot| self.flows[slot].arrived.first_missing())
        };
        self.acknowledge(packet, cumulative, None, out);
    }

    fn acknowledge(&self, packet: &Packet<Header>, cumulative: u32, answers: Option<u32>, out: &mut Outbox) {
        out.packets.push_back(self.framing.control(packet.flow, packet.src, Header::Ack { cumulative, answers }));
    }
}
