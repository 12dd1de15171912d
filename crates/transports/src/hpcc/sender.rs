//! The sending end of HPCC's flows: windows, pacing, and going back to what was lost.

use std::collections::VecDeque;

use flowloom_core::{Bytes, Duration, Event, Flow, FlowId, Gauge, NodeId, Packet, Rate, Readings, Site, Time};

use super::config::Spans;
use super::window::{Rules, Window};
use super::{Config, Header, Kind};
use crate::disciplines::Telemetry;
use crate::toolkit::{FlowTable, Framing, IndexedHeap, earliest};

/// One flow that is being sent. Packets are numbered from 0.
struct Sending {
    dst: NodeId,
    size: Bytes,
    packets: u32,
    /// All packets below this one have arrived.
    acknowledged: u32,
    /// The packet to send next.
    next: u32,
    /// One past the highest packet ever sent.
    sent: u32,
    window: Window,
    /// When the last packet left according to the rate, and the time that it takes at the rate of the NIC.
    paced: (Time, Duration),
    /// When the flow times out. Its timer in the heap may be earlier, never later.
    due: Time,
    /// Consecutive timeouts.
    timeouts: u32,
}

/// All flows that this node sends.
pub(super) struct Sender {
    framing: Framing,
    rate: Rate,
    /// The size of a full packet on the wire, in bytes, and its time at the rate of the NIC.
    full: f64,
    full_time: Duration,
    spans: Spans,
    rules: Rules,
    flows: FlowTable<Sending>,
    /// When each flow may send its next packet. Flows without packets, or whose window is full, are not in it.
    departures: IndexedHeap<Time>,
    /// By slot, when to check a flow's [`Sending::due`].
    timers: IndexedHeap<Time>,
    /// The time of the last call.
    clock: Time,
}

impl Sender {
    pub fn new(config: &Config, spans: &Spans, framing: Framing, site: &Site<'_>) -> Sender {
        let (rate, full) = (site.line_rate(), site.wire.full);
        Sender {
            framing,
            rate,
            full: full.get() as f64,
            full_time: rate.transmit_time(full),
            spans: *spans,
            rules: config.rules(spans, site),
            flows: FlowTable::default(),
            departures: IndexedHeap::default(),
            timers: IndexedHeap::default(),
            clock: Time::ZERO,
        }
    }

    /// Must precede every other call at `now`.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        self.clock = now;
    }

    pub fn open(&mut self, now: Time, flow: &Flow) {
        let due = now + self.spans.rto(0);
        let state = Sending {
            dst: flow.dst,
            size: flow.size,
            packets: self.framing.packets(flow.size),
            acknowledged: 0,
            next: 0,
            sent: 0,
            window: Window::new(&self.rules),
            paced: (now, Duration::ZERO),
            due,
            timeouts: 0,
        };
        let slot = self.flows.insert(flow.id, state);
        self.timers.set(slot, due);
        self.plan(slot);
    }

    /// Sets when the flow's next packet may leave.
    #[inline]
    fn plan(&mut self, slot: u32) {
        let state = &self.flows[slot];
        let in_flight = f64::from(state.next - state.acknowledged) * self.full;
        if state.next < state.packets && in_flight < state.window.bytes() {
            let (last, line) = state.paced;
            self.departures.set(slot, last + state.window.gap(&self.rules, line));
        } else {
            self.departures.remove(slot);
        }
    }

    /// Handles an acknowledgement of all packets below `cumulative`, or with `nack` a report that this one is missing.
    #[inline]
    pub fn handle_ack(
        &mut self,
        now: Time,
        flow: FlowId,
        cumulative: u32,
        nack: bool,
        report: &Telemetry,
        events: &mut VecDeque<Event>,
    ) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let state = &mut self.flows[slot];
        // A real network may acknowledge what was never sent.
        if cumulative > state.sent {
            return;
        }
        if cumulative >= state.packets {
            self.flows.remove(slot);
            self.departures.remove(slot);
            self.timers.remove(slot);
            events.push_back(Event::Acknowledged { flow });
            return;
        }
        if cumulative > state.acknowledged {
            state.acknowledged = cumulative;
            state.next = state.next.max(cumulative);
            state.timeouts = 0;
        }
        if nack && cumulative == state.acknowledged {
            state.next = cumulative;
        }
        state.due = now + self.spans.rto(state.timeouts);
        state.window.on_ack(&self.rules, now, cumulative, state.next, report);
        self.plan(slot);
    }

    /// Whether a packet may have to leave.
    #[inline]
    pub fn may_transmit(&self) -> bool {
        self.departures.peek().is_some_and(|(at, _)| at <= self.clock)
    }

    /// The packet that leaves now: of the flow that could have sent for the longest time.
    #[inline]
    pub fn data(&mut self, now: Time) -> Option<Packet<Header>> {
        let (at, slot) = self.departures.peek().filter(|(at, _)| *at <= now)?;
        let flow = self.flows.flow_of(slot);
        let state = &mut self.flows[slot];
        let number = state.next;
        let header = Header { kind: Kind::Data { number, packets: state.packets }, telemetry: Telemetry::default() };
        let mut packet = self.framing.data(flow, state.dst, state.size, number, header);
        packet.class = Config::DATA_CLASS;
        packet.retransmission = number < state.sent;
        let line = if number + 1 < state.packets { self.full_time } else { self.rate.transmit_time(packet.size()) };
        // A packet that leaves a little late does not delay the next one, but a flow does not catch up on more than one.
        let late = now - at;
        state.paced = (if late <= state.window.gap(&self.rules, line) { at } else { now }, line);
        if state.next == state.acknowledged {
            state.due = now + self.spans.rto(state.timeouts);
        }
        state.next += 1;
        state.sent = state.sent.max(state.next);
        self.plan(slot);
        Some(packet)
    }

    /// When the next packet may leave or the next flow times out, later than the last call.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        // A departure that is due waits for the NIC, which asks for it.
        let departure = self.departures.peek().map(|(at, _)| at).filter(|at| *at > self.clock);
        let timer = self.timers.peek().map(|(at, _)| at);
        earliest(departure, timer)
    }

    /// Goes back to the first unacknowledged packet of each flow that times out. Windows stay as they are: only reports change them.
    pub fn handle_timeout(&mut self, now: Time, events: &mut VecDeque<Event>) {
        while let Some(slot) = self.timers.expired(now, |slot| self.flows[slot].due) {
            let flow = self.flows.flow_of(slot);
            let state = &mut self.flows[slot];
            if state.next > state.acknowledged {
                state.timeouts += 1;
                state.next = state.acknowledged;
                events.push_back(Event::TimedOut { flow, in_a_row: state.timeouts });
            }
            state.due = now + self.spans.rto(state.timeouts);
            self.timers.set(slot, self.flows[slot].due);
            self.plan(slot);
        }
    }

    /// Tells the window of a flow, what it has on its way, and the rate at which its packets are paced.
    pub fn gauge(&self, flow: FlowId, readings: &mut Readings<'_>) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let (state, payload) = (&self.flows[slot], self.framing.full_payload() as f64);
        readings.tell(Gauge::WINDOW, state.window.bytes() * payload / self.full);
        readings.tell(Gauge::IN_FLIGHT, f64::from(state.next.saturating_sub(state.acknowledged)) * payload);
        let pace = self.full_time.as_ps() as f64 / state.window.gap(&self.rules, self.full_time).as_ps().max(1) as f64;
        readings.tell(Gauge::RATE, self.rate.as_bps() as f64 * 1e-9 * pace.min(1.0));
    }
}
