//! The sending end of Fastpass's flows.

use std::collections::VecDeque;

use flowloom_core::{Bytes, Duration, Event, Flow, FlowId, Gauge, NodeId, Packet, Readings, Site, Time};

use super::arbiter::beginning;
use super::config::{MOST_DOUBLINGS, Spans};
use super::header::Slots;
use super::{Config, Header, ScheduleStart};
use crate::toolkit::{FlowTable, Framing, Outbox, RangeSet, Timers, earliest};

/// One flow that is being sent. Packets are numbered from 0.
struct Sending {
    flow: FlowId,
    dst: NodeId,
    size: Bytes,
    packets: u32,
    /// The absolute deadline in microseconds; `u32::MAX` without one.
    deadline: u32,
    acked: RangeSet,
    /// The next packet to send. After the last one it is the first unacknowledged one.
    next: u32,
    /// One past the highest packet ever sent.
    sent: u32,
    /// Grants that the sender still expects.
    wanted: u32,
    /// Requests since the last grant.
    unanswered: u8,
}

impl Sending {
    /// The packet for a slot: the next one that is not acknowledged, cyclically.
    fn pick(&mut self) -> u32 {
        let start = if self.next < self.packets { self.next } else { 0 };
        let unacked = |from: u32| if self.acked.contains(from) { self.acked.next_missing_after(from) } else { from };
        let pick = match unacked(start) {
            number if number < self.packets => number,
            _ => self.acked.first_missing(),
        };
        self.next = pick + 1;
        pick
    }
}

/// All flows that this node sends, and the slots it was granted.
pub(super) struct Sender {
    framing: Framing,
    arbiter: NodeId,
    epoch: Duration,
    slots: u32,
    start: ScheduleStart,
    ack_wait: Duration,
    request_timeout: Duration,
    flows: FlowTable<Sending>,
    /// When to request what is missing, by slot of `flows`.
    timers: Timers,
    last_epoch: Option<u64>,
    /// Future slots, in order of time.
    coming: VecDeque<(Time, FlowId)>,
    /// Slots whose time has come, and whose packet waits for the NIC.
    ready: VecDeque<FlowId>,
}

impl Sender {
    /// # Panics
    /// If the network has no control host.
    pub(super) fn new(config: &Config, site: &Site<'_>, spans: &Spans, framing: Framing) -> Sender {
        Sender {
            framing,
            arbiter: site.network.control_host().expect("Fastpass has an arbiter"),
            epoch: spans.epoch,
            slots: config.epoch_slots,
            start: config.schedule_start,
            ack_wait: spans.ack_wait,
            request_timeout: spans.request_timeout,
            flows: FlowTable::default(),
            timers: Timers::default(),
            last_epoch: None,
            coming: VecDeque::new(),
            ready: VecDeque::new(),
        }
    }

    pub(super) fn open(&mut self, now: Time, flow: &Flow, out: &mut Outbox<Header>) {
        let deadline = flow.deadline.map_or(u32::MAX, |at| u32::try_from(at.as_ps() / 1_000_000).unwrap_or(u32::MAX));
        let state = Sending {
            flow: flow.id,
            dst: flow.dst,
            size: flow.size,
            packets: self.framing.packets(flow.size),
            deadline,
            acked: RangeSet::default(),
            next: 0,
            sent: 0,
            wanted: 0,
            unanswered: 0,
        };
        let slot = self.flows.insert(flow.id, state);
        self.request(now, slot, out);
    }

    /// Requests as many slots as packets are unacknowledged.
    fn request(&mut self, now: Time, slot: u32, out: &mut Outbox<Header>) {
        let state = &mut self.flows[slot];
        state.wanted = state.packets - state.acked.len();
        self.timers.set(slot, now + self.request_timeout * (1 << state.unanswered.min(MOST_DOUBLINGS)));
        state.unanswered = state.unanswered.saturating_add(1);
        let header = Header::Request { to: state.dst, remaining: state.wanted, deadline: state.deadline };
        out.packets.push_back(self.framing.control(state.flow, self.arbiter, header));
    }

    /// Makes the arbiter forget a flow.
    fn forget(&self, flow: FlowId, out: &mut Outbox<Header>) {
        let header = Header::Request { to: self.arbiter, remaining: 0, deadline: u32::MAX };
        out.packets.push_back(self.framing.control(flow, self.arbiter, header));
    }

    /// Records when each granted slot begins. A schedule that is not newer than the last one is a duplicate or too late.
    pub(super) fn handle_schedule(&mut self, now: Time, epoch: u32, slots: &Slots, out: &mut Outbox<Header>) {
        let epoch = unfold(epoch, now.as_ps() / self.epoch.as_ps());
        if self.last_epoch.is_some_and(|last| epoch <= last) {
            return;
        }
        self.last_epoch = Some(epoch);
        let start = match self.start {
            ScheduleStart::Epoch => now.max(beginning(epoch, self.epoch)),
            ScheduleStart::Arrival => now,
        };
        let mut unknown = None;
        for (index, flow) in slots.granted() {
            let Some(slot) = self.flows.slot_of(flow) else {
                // The flow is acknowledged, but the arbiter does not know that yet.
                if unknown.replace(flow) != Some(flow) {
                    self.forget(flow, out);
                }
                continue;
            };
            let state = &mut self.flows[slot];
            state.unanswered = 0;
            let next = now + self.request_timeout;
            // A flow that has used all its slots waits for acknowledgements, which may take longer.
            let due = if state.wanted > 0 { next } else { next.max(self.timers.due(slot)) };
            self.timers.set(slot, due);
            let at = start + self.epoch * index as u64 / u64::from(self.slots);
            let last = self.coming.back().map_or(at, |(last, _)| *last);
            self.coming.push_back((at.max(last), flow));
        }
        self.release(now);
    }

    fn release(&mut self, now: Time) {
        while let Some((at, flow)) = self.coming.front().copied()
            && at <= now
        {
            self.coming.pop_front();
            self.ready.push_back(flow);
        }
    }

    /// The packet of the oldest slot whose time has come. If its flow has been acknowledged since, the slot stays empty.
    pub(super) fn transmit(&mut self, now: Time) -> Option<Packet<Header>> {
        let slot = loop {
            let flow = self.ready.pop_front()?;
            if let Some(slot) = self.flows.slot_of(flow) {
                break slot;
            }
        };
        let state = &mut self.flows[slot];
        let number = state.pick();
        let header = Header::Data { number, packets: state.packets };
        let mut packet = self.framing.data(state.flow, state.dst, state.size, number, header);
        packet.class = 1;
        packet.retransmission = number < state.sent;
        state.sent = state.sent.max(number + 1);
        state.wanted = state.wanted.saturating_sub(1);
        if state.wanted == 0 {
            // All requested slots are used. Packets that are not acknowledged soon are lost.
            self.timers.set(slot, now + self.ack_wait);
        }
        Some(packet)
    }

    pub(super) fn handle_ack(&mut self, flow: FlowId, cumulative: u32, number: u32, out: &mut Outbox<Header>) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let state = &mut self.flows[slot];
        if cumulative > state.packets || number >= state.packets {
            return;
        }
        state.acked.insert(number);
        state.acked.insert_below(cumulative);
        if state.acked.is_complete(state.packets) {
            self.flows.remove(slot);
            self.timers.remove(slot);
            self.forget(flow, out);
            out.events.push_back(Event::Acknowledged { flow });
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let timer = self.timers.next();
        let slot = self.coming.front().map(|(at, _)| *at);
        earliest(timer, slot)
    }

    pub(super) fn handle_timeout(&mut self, now: Time, out: &mut Outbox<Header>) {
        self.release(now);
        while let Some(slot) = self.timers.expired(now) {
            self.request(now, slot, out);
        }
    }

    /// Tells how many of its slots a flow has not used.
    pub(super) fn gauge(&self, flow: FlowId, readings: &mut Readings<'_>) {
        if self.flows.slot_of(flow).is_some() {
            let slots = self.coming.iter().map(|(_, other)| other).chain(&self.ready);
            readings.tell(Gauge::TOKENS, slots.filter(|other| **other == flow).count() as f64);
        }
    }
}

/// The epoch of which a header carries the low 32 bits: the one with these bits that is nearest to the present epoch.
fn unfold(low_bits: u32, present: u64) -> u64 {
    let ahead = low_bits.wrapping_sub(present as u32).cast_signed();
    present.checked_add_signed(i64::from(ahead)).unwrap_or(u64::from(low_bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_go_on_when_a_header_starts_again_from_zero() {
        const TURN: u64 = 1 << 32;
        for present in [0, 1, 7, TURN - 1, TURN, 5 * TURN + 3] {
            for epoch in present.saturating_sub(3)..present + 3 {
                assert_eq!(unfold(epoch as u32, present), epoch);
            }
        }
        // Nothing on a real network may panic.
        assert_eq!(unfold(u32::MAX, 0), u64::from(u32::MAX));
    }

    #[test]
    fn a_flow_takes_little_memory() {
        assert!(size_of::<Sending>() <= 128, "{} B", size_of::<Sending>());
    }
}
