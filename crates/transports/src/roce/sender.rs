//! The sending end: packets that leave at a rate, windows, and the recovery of losses.

use std::collections::VecDeque;

use flowloom_core::{Bytes, Duration, Event, Flow, FlowId, Gauge, NodeId, Packet, Rate, Readings, Site, Time};

use super::{Envelope, Kind, Recovery, Service};
use crate::toolkit::{FlowTable, Framing, IndexedHeap, RangeSet, Timers, earliest};

/// Decides how fast a flow may send.
pub trait Controller: Send + 'static {
    /// What the flows of a host have in common.
    type Rules: Send;
    /// The transport's header.
    type Header: Envelope;
    /// Whether it has timers of its own.
    const TIMED: bool;

    /// The state of a new flow.
    fn new(rules: &Self::Rules) -> Self;
    /// How many bytes on the wire may be under way. A flow may exceed it by less than one packet, and may always have one packet under way.
    fn window(&self, rules: &Self::Rules) -> f64;
    /// The time from the start of a packet to that of the next one, if the packet takes `line` at the rate of the NIC.
    fn gap(&self, rules: &Self::Rules, line: Duration) -> Duration;
    /// Handles an acknowledgement of all packets below `acknowledged`. Packet `next` is to be sent next.
    fn on_ack(
        &mut self,
        rules: &Self::Rules,
        now: Time,
        acknowledged: u32,
        next: u32,
        report: &<Self::Header as Envelope>::Report,
    );
    /// Notes that a packet of this size on the wire leaves.
    fn on_sent(&mut self, rules: &Self::Rules, bytes: u32) {
        let _ = (rules, bytes);
    }
    /// Handles a report of congestion.
    fn on_congestion(&mut self, rules: &Self::Rules, now: Time) {
        let _ = (rules, now);
    }
    /// When [`Controller::on_timer`] is to be called next.
    fn timer(&self) -> Option<Time> {
        None
    }
    /// Handles what is due.
    fn on_timer(&mut self, rules: &Self::Rules, now: Time) {
        let _ = (rules, now);
    }
}

/// One flow that is being sent. Packets are numbered from 0.
struct Sending<C> {
    dst: NodeId,
    size: Bytes,
    packets: u32,
    /// All packets below this one have arrived.
    acknowledged: u32,
    /// One past the highest packet ever sent.
    sent: u32,
    /// Packets from this one up to `lost_below` that have not arrived are lost, and are sent again before new ones. There are none if it is not less.
    repaired: u32,
    /// See `repaired`.
    lost_below: u32,
    /// Packets that have arrived after a gap, if the receiver keeps them.
    arrived: RangeSet,
    /// One past the last packet that has asked for an acknowledgement.
    asked: u32,
    control: C,
    /// When the last packet left according to the rate, and the time that it takes at the rate of the NIC.
    paced: (Time, Duration),
    /// Consecutive timeouts.
    timeouts: u32,
}

impl<C> Sending<C> {
    /// The packet to send next.
    #[inline]
    fn next(&self) -> u32 {
        if self.repaired >= self.lost_below { self.sent } else { self.next_lost() }
    }

    #[cold]
    fn next_lost(&self) -> u32 {
        let holds = self.arrived.contains(self.repaired);
        let next = if holds { self.arrived.next_missing_after(self.repaired) } else { self.repaired };
        if next < self.lost_below { next } else { self.sent }
    }

    /// Notes that all packets below this one have arrived.
    #[inline]
    fn acknowledge(&mut self, cumulative: u32) {
        if cumulative <= self.acknowledged {
            return;
        }
        self.acknowledged = cumulative;
        self.repaired = self.repaired.max(cumulative);
        self.timeouts = 0;
        if !self.arrived.is_empty() {
            self.arrived.insert_below(cumulative);
        }
    }

    /// Takes all packets that are under way for lost.
    fn go_back(&mut self) {
        (self.repaired, self.lost_below) = (self.acknowledged, self.sent);
    }
}

/// All flows that this node sends.
pub(super) struct Sender<C: Controller> {
    framing: Framing,
    rate: Rate,
    /// The size of a full packet on the wire, in bytes, and its time at the rate of the NIC.
    full: f64,
    full_time: Duration,
    service: Service,
    rules: C::Rules,
    flows: FlowTable<Sending<C>>,
    /// When each flow may send its next packet. Flows without packets, or whose window is full, are not in it.
    departures: IndexedHeap<Time>,
    timers: Timers,
    /// By slot, when a flow's controller has something to do.
    controls: IndexedHeap<Time>,
    /// The time of the last call.
    clock: Time,
}

impl<C: Controller> Sender<C> {
    pub fn new(service: &Service, rules: C::Rules, framing: Framing, site: &Site<'_>) -> Sender<C> {
        let (rate, full) = (site.line_rate(), site.wire.full);
        Sender {
            framing,
            rate,
            full: full.get() as f64,
            full_time: rate.transmit_time(full),
            service: *service,
            rules,
            flows: FlowTable::default(),
            departures: IndexedHeap::default(),
            timers: Timers::default(),
            controls: IndexedHeap::default(),
            clock: Time::ZERO,
        }
    }

    /// Must precede every other call at `now`.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        self.clock = now;
    }

    pub fn open(&mut self, now: Time, flow: &Flow) {
        let state = Sending {
            dst: flow.dst,
            size: flow.size,
            packets: self.framing.packets(flow.size),
            acknowledged: 0,
            sent: 0,
            repaired: 0,
            lost_below: 0,
            arrived: RangeSet::default(),
            asked: 0,
            control: C::new(&self.rules),
            paced: (now, Duration::ZERO),
            timeouts: 0,
        };
        let slot = self.flows.insert(flow.id, state);
        self.timers.set(slot, now + self.service.spans.rto(0));
        self.plan(slot);
    }

    /// Sets when the flow's next packet may leave.
    #[inline]
    fn plan(&mut self, slot: u32) {
        let state = &self.flows[slot];
        let next = state.next();
        if next < state.packets && self.has_room(state, next) {
            let (last, line) = state.paced;
            self.departures.set(slot, last + state.control.gap(&self.rules, line));
        } else {
            self.departures.remove(slot);
        }
    }

    /// Whether the window has room for packet `next`. A flow that waits for no acknowledgement may send one packet more, which asks for one: its window may have shrunk.
    #[inline]
    fn has_room(&self, state: &Sending<C>, next: u32) -> bool {
        self.in_window(state, next) || state.asked <= state.acknowledged
    }

    #[inline]
    fn in_window(&self, state: &Sending<C>, next: u32) -> bool {
        f64::from(next - state.acknowledged) * self.full < state.control.window(&self.rules)
    }

    /// Handles an acknowledgement of all packets below `cumulative`, or with `gap` a report that this one is missing and that one has come.
    #[inline]
    pub fn handle_ack(
        &mut self,
        now: Time,
        flow: FlowId,
        cumulative: u32,
        gap: Option<u32>,
        report: &<C::Header as Envelope>::Report,
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
            if C::TIMED {
                self.controls.remove(slot);
            }
            events.push_back(Event::Acknowledged { flow });
            return;
        }
        state.acknowledge(cumulative);
        if let Some(arrived) = gap {
            match self.service.reliability.recovery {
                Recovery::GoBackN if cumulative == state.acknowledged => state.go_back(),
                Recovery::Selective if arrived < state.sent && arrived > state.acknowledged => {
                    state.arrived.insert(arrived);
                    state.lost_below = state.lost_below.max(arrived);
                }
                _ => {}
            }
        }
        self.timers.set(slot, now + self.service.spans.rto(state.timeouts));
        let next = state.next();
        state.control.on_ack(&self.rules, now, cumulative, next, report);
        self.plan(slot);
    }

    /// Handles a report of congestion on the path of a flow.
    pub fn handle_congestion(&mut self, now: Time, flow: FlowId) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        self.flows[slot].control.on_congestion(&self.rules, now);
        self.set_control_timer(slot);
        self.plan(slot);
    }

    fn set_control_timer(&mut self, slot: u32) {
        match self.flows[slot].control.timer() {
            Some(at) => self.controls.set(slot, at),
            None => _ = self.controls.remove(slot),
        }
    }

    /// Whether a packet may have to leave.
    #[inline]
    pub fn may_transmit(&self) -> bool {
        self.departures.peek().is_some_and(|(at, _)| at <= self.clock)
    }

    /// The packet that leaves now: of the flow that could have sent for the longest time.
    #[inline]
    pub fn data(&mut self, now: Time) -> Option<Packet<C::Header>> {
        let (at, slot) = self.departures.peek().filter(|(at, _)| *at <= now)?;
        let flow = self.flows.flow_of(slot);
        let state = &self.flows[slot];
        let number = state.next();
        let is_last = number + 1 == state.packets;
        let is_turn = (number + 1).is_multiple_of(self.service.reliability.ack_every);
        let asks = is_turn || is_last || number < state.sent || !self.in_window(state, number + 1);
        let state = &mut self.flows[slot];
        let kind = Kind::Data { number, packets: state.packets, asks };
        let mut packet = self.framing.data(flow, state.dst, state.size, number, C::Header::new(kind, None));
        packet.class = self.service.data_class;
        packet.ecn = self.service.ecn;
        packet.retransmission = number < state.sent;
        let line = if is_last { self.rate.transmit_time(packet.size()) } else { self.full_time };
        // A packet that leaves a little late does not delay the next one, but a flow does not catch up on more than one.
        let late = now - at;
        state.paced = (if late <= state.control.gap(&self.rules, line) { at } else { now }, line);
        if number == state.acknowledged {
            self.timers.set(slot, now + self.service.spans.rto(state.timeouts));
        }
        if number < state.sent {
            state.repaired = number + 1;
        }
        state.sent = state.sent.max(number + 1);
        if asks {
            state.asked = number + 1;
        }
        state.control.on_sent(&self.rules, packet.size_bytes);
        self.plan(slot);
        Some(packet)
    }

    /// When the next packet may leave or something is due, later than the last call.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        // A departure that is due waits for the NIC, which asks for it.
        let departure = self.departures.peek().map(|(at, _)| at).filter(|at| *at > self.clock);
        let timer = earliest(departure, self.timers.next());
        if C::TIMED { earliest(timer, self.controls.peek().map(|(at, _)| at)) } else { timer }
    }

    /// Does what is due. A flow that times out sends again what has not arrived. Its rate and window stay as they are: only its controller changes them.
    pub fn handle_timeout(&mut self, now: Time, events: &mut VecDeque<Event>) {
        while let Some((_, slot)) = self.controls.peek().filter(|(at, _)| *at <= now) {
            self.flows[slot].control.on_timer(&self.rules, now);
            self.set_control_timer(slot);
            self.plan(slot);
        }
        while let Some(slot) = self.timers.expired(now) {
            let flow = self.flows.flow_of(slot);
            let state = &mut self.flows[slot];
            if state.next() > state.acknowledged {
                state.timeouts += 1;
                state.go_back();
                events.push_back(Event::TimedOut { flow, in_a_row: state.timeouts });
            }
            self.timers.set(slot, now + self.service.spans.rto(state.timeouts));
            self.plan(slot);
        }
    }

    /// Tells the window of a flow, what it has on its way, and the rate at which its packets are paced.
    pub fn gauge(&self, flow: FlowId, readings: &mut Readings<'_>) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let (state, payload) = (&self.flows[slot], self.framing.full_payload() as f64);
        readings.tell(Gauge::WINDOW, state.control.window(&self.rules) * payload / self.full);
        readings.tell(Gauge::IN_FLIGHT, f64::from(state.next().saturating_sub(state.acknowledged)) * payload);
        let pace = self.full_time.as_ps() as f64 / state.control.gap(&self.rules, self.full_time).as_ps().max(1) as f64;
        readings.tell(Gauge::RATE, self.rate.as_bps() as f64 * 1e-9 * pace.min(1.0));
    }
}
