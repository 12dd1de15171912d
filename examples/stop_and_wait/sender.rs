//! The sending end.

use flowloom_core::{Event, Flow, FlowId, Time};

use super::host::Outbox;
use super::{Config, Header};
use crate::toolkit::{FlowTable, Framing, IndexedHeap, RangeSet};

/// One flow that is being sent. Packets are numbered from 0.
struct Sending {
    flow: Flow,
    packets: u32,
    /// The next packet that has not been sent yet.
    next: u32,
    acked: RangeSet,
}

/// All flows that this node sends.
pub(super) struct Sender {
    config: Config,
    framing: Framing,
    flows: FlowTable<Sending>,
    /// By slot of the flow table: when its flow times out.
    timers: IndexedHeap<Time>,
}

impl Sender {
    pub(super) fn new(config: &Config, framing: Framing) -> Sender {
        Sender { config: config.clone(), framing, flows: FlowTable::default(), timers: IndexedHeap::default() }
    }

    pub(super) fn open(&mut self, now: Time, flow: &Flow, out: &mut Outbox) {
        let packets = self.framing.packets(flow.size);
        let slot = self.flows.insert(flow.id, Sending { flow: *flow, packets, next: 0, acked: RangeSet::default() });
        self.advance(now, slot, out);
    }

    pub(super) fn handle_ack(&mut self, now: Time, flow: FlowId, number: u32, out: &mut Outbox) {
        // The flow may have finished, and a real network may deliver what nobody sent.
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let state = &mut self.flows[slot];
        if number >= state.next || !state.acked.insert(number) {
            return;
        }
        if state.acked.is_complete(state.packets) {
            self.flows.remove(slot);
            self.timers.remove(slot);
            out.events.push_back(Event::Acknowledged { flow });
        } else {
            self.advance(now, slot, out);
        }
    }

    /// Sends what the window allows, and restarts the timer.
    fn advance(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        let end = state.packets.min(state.acked.first_missing().saturating_add(self.config.window));
        for number in state.next..end {
            send(&self.framing, state, number, false, out);
        }
        state.next = end;
        self.timers.set(slot, now + self.config.rto);
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.timers.peek().map(|(at, _)| at)
    }

    /// Sends again, for each flow that is due, what was sent and not acknowledged.
    pub(super) fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        while let Some((_, slot)) = self.timers.peek().filter(|(at, _)| *at <= now) {
            let state = &self.flows[slot];
            for number in (state.acked.first_missing()..state.next).filter(|number| !state.acked.contains(*number)) {
                send(&self.framing, state, number, true, out);
            }
            self.timers.set(slot, now + self.config.rto);
        }
    }
}

fn send(framing: &Framing, state: &Sending, number: u32, retransmission: bool, out: &mut Outbox) {
    let Sending { flow, packets, .. } = state;
    let mut packet = framing.data(flow.id, flow.dst, flow.size, number, Header::Data { number, packets: *packets });
    packet.retransmission = retransmission;
    out.packets.push_back(packet);
}
