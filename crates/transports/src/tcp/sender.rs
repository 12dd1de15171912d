//! The sending end of a host's flows.

use flowloom_core::{Event, Flow, FlowId, Time};

use super::connection::Connections;
use super::controllers::{Controller, Kind};
use super::header::Blocks;
use super::sending::{Phase, Sending, ecn};
use super::{Config, Header, Outbox};
use crate::toolkit::{FlowTable, Framing, IndexedHeap};

/// All flows that this node sends.
pub(super) struct Sender {
    config: Config,
    framing: Framing,
    /// Duplicate acknowledgements say something about losses.
    fast_retransmit: bool,
    connections: Connections,
    flows: FlowTable<Sending>,
    /// By slot, when to look at a flow's [`Sending::due`], which is all that acknowledgements move.
    timers: IndexedHeap<Time>,
}

impl Sender {
    pub(super) fn new(config: &Config, kind: Kind, framing: Framing, fast_retransmit: bool) -> Sender {
        Sender {
            config: config.clone(),
            framing,
            fast_retransmit,
            connections: Connections::new(kind),
            flows: FlowTable::default(),
            timers: IndexedHeap::default(),
        }
    }

    pub(super) fn open(&mut self, now: Time, flow: &Flow, out: &mut Outbox) {
        let (connection, needs_handshake) = self.connections.take(now, flow.dst, &self.config);
        let due = connection.rtt.due(now, &self.config);
        let phase = if needs_handshake { Phase::Connecting } else { Phase::Open };
        let slot = self.flows.insert(flow.id, Sending::new(flow, self.framing.packets(flow.size), connection, phase, due));
        self.timers.set(slot, due);
        if needs_handshake {
            self.request_connection(now, slot, out);
        } else {
            self.fill_window(now, slot, 0, out);
        }
    }

    fn request_connection(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        state.time_handshake(now);
        let mut packet = self.framing.control(state.flow, state.dst, Header::Syn);
        packet.ecn = ecn(state.connection.controller.reacts_to_marks());
        out.packets.push_back(packet);
    }

    /// The other end agrees on a connection.
    pub(super) fn handle_syn_ack(&mut self, now: Time, flow: FlowId, out: &mut Outbox) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let state = &mut self.flows[slot];
        if state.phase == Phase::Connecting {
            state.establish(now);
            state.due = state.connection.rtt.due(now, &self.config);
            self.fill_window(now, slot, 0, out);
        }
    }

    #[inline]
    pub(super) fn handle_ack(&mut self, now: Time, flow: FlowId, ack: (bool, u32, Blocks), out: &mut Outbox) {
        let (echo, cumulative, blocks) = ack;
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let state = &mut self.flows[slot];
        if cumulative > state.sent {
            return; // it claims what was never sent
        }
        let before = state.first_missing();
        let known = state.acked.len();
        if cumulative > before {
            state.acked.insert_below(cumulative);
        }
        for range in blocks.ranges(cumulative).filter(|range| range.end <= state.sent) {
            state.acked.insert_range(range);
        }
        let advance = state.first_missing() - before;
        state.inform_controller(advance, echo, &self.config);
        state.take_sample(now);
        if state.first_missing() == state.packets {
            return self.complete(now, slot, out);
        }
        if advance > 0 {
            state.timeouts = 0;
            state.duplicates = 0;
            state.due = state.connection.rtt.due(now, &self.config);
        }
        if echo && state.may_cut() {
            state.cut(now, &self.config, &self.framing);
        } else if advance > 0 && state.phase != Phase::Recovery && !echo {
            state.grow(advance, &self.config, &self.framing);
        }
        if state.phase == Phase::Open && !self.fast_retransmit {
            if advance > 0 {
                self.fill_window(now, slot, 0, out);
            }
            return;
        }
        let is_duplicate = advance == 0 && cumulative == before && (!self.config.sack || state.acked.len() > known);
        self.mind_losses(now, slot, advance, is_duplicate, out);
    }

    /// What an acknowledgement means for losses, and what may be sent now.
    fn mind_losses(&mut self, now: Time, slot: u32, advance: u32, is_duplicate: bool, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        match state.phase {
            Phase::Connecting => {}
            Phase::Loss => {
                state.leave_loss_if_complete();
                self.fill_window(now, slot, 0, out);
            }
            Phase::Open => {
                state.duplicates += u32::from(is_duplicate);
                if state.is_hole_lost(&self.config) {
                    state.enter_recovery(&self.config);
                    self.resend_first(now, slot, out);
                    self.recover(now, slot, out);
                } else {
                    let limited_transmit = if is_duplicate { state.duplicates.min(2) } else { 0 };
                    self.fill_window(now, slot, limited_transmit, out);
                }
            }
            Phase::Recovery => {
                if state.leave_recovery_if_complete(&self.config) {
                    return self.fill_window(now, slot, 0, out);
                }
                if !self.config.sack && advance > 0 {
                    state.deflate(advance);
                    self.resend_first(now, slot, out);
                } else if !self.config.sack && is_duplicate {
                    state.inflate();
                }
                self.recover(now, slot, out);
            }
        }
    }

    fn resend_first(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        let number = state.resend_first();
        out.packets.push_back(state.packet(now, number, &self.framing));
    }

    /// Sends what fast recovery allows.
    fn recover(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        if !self.config.sack {
            return self.fill_window(now, slot, 0, out);
        }
        let state = &mut self.flows[slot];
        while let Some(number) = state.next_in_recovery(&self.config) {
            out.packets.push_back(state.packet(now, number, &self.framing));
        }
    }

    /// Sends what the window allows.
    #[inline]
    fn fill_window(&mut self, now: Time, slot: u32, limited_transmit: u32, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        while let Some(number) = state.next_in_window(limited_transmit) {
            out.packets.push_back(state.packet(now, number, &self.framing));
        }
    }

    fn complete(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let state = self.flows.remove(slot);
        self.timers.remove(slot);
        self.connections.release(now, state.dst, state.connection, &self.config);
        out.events.push_back(Event::Acknowledged { flow: state.flow });
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.timers.peek().map(|(at, _)| at)
    }

    pub(super) fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        while let Some(slot) = self.timers.expired(now, |slot| self.flows[slot].due) {
            self.time_out(now, slot, out);
            self.timers.set(slot, self.flows[slot].due);
        }
    }

    fn time_out(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        state.timeouts += 1;
        out.events.push_back(Event::TimedOut { flow: state.flow, in_a_row: state.timeouts });
        if state.phase == Phase::Connecting {
            state.connection.rtt.back_off();
            state.due = state.connection.rtt.due(now, &self.config);
            return self.request_connection(now, slot, out);
        }
        state.time_out();
        state.due = state.connection.rtt.due(now, &self.config);
        self.fill_window(now, slot, 0, out);
    }
}
