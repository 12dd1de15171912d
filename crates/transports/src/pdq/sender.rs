//! The sending end of PDQ's flows (§3.1).

use std::collections::HashMap;
use std::ops::Range;

use flowloom_core::{AbortReason, Bytes, Duration, Event, Flow, FlowId, Gauge, NodeId, Packet, Rate, Readings, Site, Time};

use super::config::{EarlyStartRtt, LinkRules, RTO_DOUBLINGS_MAX, Spans};
use super::link::Kind;
use super::{Config, Feedback, Header, Link, Pauser, Request};
use crate::toolkit::{FlowTable, Framing, IndexedHeap, Outbox, RangeSet, Timers};

/// One flow that is being sent. Packets are numbered from 0.
struct Sending {
    flow: FlowId,
    dst: NodeId,
    /// The index of the least round trip to the destination.
    least: u32,
    size: Bytes,
    packets: u32,
    /// [`Time::MAX`] without a deadline.
    deadline: Time,
    /// Whether the SYN is answered.
    open: bool,
    /// One past the highest packet ever sent.
    sent: u32,
    acked: RangeSet,
    /// Packets that are lost, apart from those in it that are acknowledged, and are not yet sent again.
    lost: Range<u32>,
    /// Losses below this packet were found by later acknowledgements.
    searched: u32,
    /// The rate that the network grants; zero while the flow is paused.
    rate: Rate,
    pauser: Option<Pauser>,
    /// The time between two probes.
    probe_interval: Duration,
    /// The last measured round-trip time.
    rtt: Duration,
    /// When the last packet left, data or probe.
    departed: Time,
    /// When the last data packet left according to the rate, and its size.
    paced: (Time, Bytes),
    /// A probe is not yet answered.
    probing: bool,
    /// Consecutive timeouts.
    timeouts: u32,
}

impl Sending {
    /// Packets that are to be sent, for the first time or again.
    fn remaining(&self) -> u32 {
        let again = if self.lost.is_empty() { 0 } else { self.lost.len() as u32 - self.acked.count_in(self.lost.clone()) };
        self.packets - self.sent + again
    }

    /// Whether an answer is missing.
    fn is_waiting(&self) -> bool {
        !self.open || self.probing || self.acked.len() < self.sent
    }

    /// When the next data packet may leave. `None` if the flow is paused.
    fn data_at(&self) -> Option<Time> {
        let (last, size) = self.paced;
        (self.rate > Rate::default()).then(|| last + self.rate.transmit_time(size))
    }

    /// When the next packet leaves. A flow whose rate allows less than a packet per round trip sends probes in between, since it would
    /// otherwise hear of a better rate too late.
    fn departure(&self) -> Option<Time> {
        if !self.open || self.remaining() == 0 {
            return None;
        }
        let probe_at = (!self.probing).then(|| self.departed + self.probe_interval);
        [self.data_at(), probe_at].into_iter().flatten().min()
    }

    /// The number of the packet to send next.
    fn next(&mut self) -> u32 {
        while self.lost.start < self.lost.end {
            let number = self.lost.start;
            if !self.acked.contains(number) {
                self.lost.start += 1;
                return number;
            }
            self.lost.start = self.acked.next_missing_after(number).min(self.lost.end);
        }
        self.sent += 1;
        self.sent - 1
    }

    /// Declares unacknowledged packets below `end` lost, apart from those that were found lost before. `start` is where to search.
    fn lose(&mut self, start: u32, end: u32) {
        self.searched = self.searched.max(end);
        if start < end {
            self.lost = if self.lost.is_empty() { start..end } else { self.lost.start.min(start)..self.lost.end.max(end) };
        }
    }
}

/// All flows that this node sends, and the flow list of its NIC.
pub(super) struct Sender {
    framing: Framing,
    flows: FlowTable<Sending>,
    /// When each flow's next packet leaves.
    departures: IndexedHeap<Time>,
    timers: Timers,
    /// The NIC is a link like those of switches.
    nic: Link,
    rules: LinkRules,
    /// The least round trips to destinations, in the order of their first flows; [`Duration::LONGEST`] until one is measured.
    least_rtts: Vec<Duration>,
    /// The indices of destinations in it.
    destinations: HashMap<NodeId, u32>,
    early_start_rtt: EarlyStartRtt,
    rate: Rate,
    /// The time of a full packet at this rate.
    packet_time: Duration,
    spans: Spans,
    rto_min: Duration,
    rto_rtts: f64,
    reordering: u32,
    handshake: bool,
    early_termination: bool,
    /// The time of the last call.
    clock: Time,
}

impl Sender {
    pub fn new(config: &Config, spans: Spans, framing: Framing, site: &Site<'_>) -> Sender {
        let rate = site.line_rate();
        Sender {
            framing,
            flows: FlowTable::default(),
            departures: IndexedHeap::default(),
            timers: Timers::default(),
            nic: Link::new(site.node, rate, spans.rtt),
            rules: config.link_rules(),
            least_rtts: Vec::new(),
            destinations: HashMap::new(),
            early_start_rtt: config.early_start_rtt,
            rate,
            packet_time: rate.transmit_time(site.wire.full),
            spans,
            rto_min: config.rto_min,
            rto_rtts: config.rto_rtts,
            reordering: config.reordering,
            handshake: config.handshake,
            early_termination: config.early_termination,
            clock: Time::ZERO,
        }
    }

    /// Must precede every other call at `now`.
    pub fn advance(&mut self, now: Time) {
        self.clock = now;
    }

    pub fn open(&mut self, now: Time, flow: &Flow, out: &mut Outbox<Header>) {
        let rtt = self.spans.rtt;
        let least = *self.destinations.entry(flow.dst).or_insert(self.least_rtts.len() as u32);
        if least as usize == self.least_rtts.len() {
            self.least_rtts.push(Duration::LONGEST);
        }
        let state = Sending {
            flow: flow.id,
            dst: flow.dst,
            least,
            size: flow.size,
            packets: self.framing.packets(flow.size),
            deadline: flow.deadline.unwrap_or(Time::MAX),
            open: !self.handshake,
            sent: 0,
            acked: RangeSet::default(),
            lost: 0..0,
            searched: 0,
            rate: Rate::default(),
            pauser: None,
            probe_interval: Duration::ZERO,
            rtt,
            departed: now,
            paced: (Time::ZERO, Bytes::ZERO),
            probing: false,
            timeouts: 0,
        };
        let slot = self.flows.insert(flow.id, state);
        self.timers.set(slot, now + self.timeout(slot));
        if self.handshake {
            self.greet(now, slot, out);
        } else {
            self.plan(slot);
        }
    }

    fn greet(&self, now: Time, slot: u32, out: &mut Outbox<Header>) {
        let state = &self.flows[slot];
        out.packets.push_back(self.framing.control(state.flow, state.dst, Header::Syn { sent: now }));
    }

    /// Sets when the flow's next packet leaves.
    fn plan(&mut self, slot: u32) {
        match self.flows[slot].departure() {
            Some(at) => self.departures.set(slot, at),
            None => {
                self.departures.remove(slot);
            }
        }
    }

    fn timeout(&self, slot: u32) -> Duration {
        let state = &self.flows[slot];
        let rto = state.rtt.checked_scale(self.rto_rtts).unwrap_or(Duration::LONGEST).max(self.rto_min);
        rto.checked_mul(1 << state.timeouts.min(RTO_DOUBLINGS_MAX)).unwrap_or(Duration::LONGEST).min(self.spans.rto_max)
    }

    fn measure(&mut self, now: Time, slot: u32, sent: Time) {
        let state = &mut self.flows[slot];
        state.rtt = now.saturating_since(sent).clamp(Duration::from_ps(1), self.spans.rto_max);
        state.timeouts = 0;
        let least = &mut self.least_rtts[state.least as usize];
        *least = state.rtt.min(*least);
        self.timers.set(slot, now + self.timeout(slot));
    }

    /// Handles the answer to a SYN: the flow may probe.
    pub fn handle_syn_ack(&mut self, now: Time, flow: FlowId, sent: Time, out: &mut Outbox<Header>) {
        let Some(slot) = self.flows.slot_of(flow).filter(|slot| !self.flows[*slot].open) else { return };
        self.measure(now, slot, sent);
        self.flows[slot].open = true;
        if !self.is_given_up(now, slot, out) {
            self.plan(slot);
        }
    }

    pub fn handle_ack(
        &mut self,
        now: Time,
        flow: FlowId,
        cumulative: u32,
        answers: Option<u32>,
        mut feedback: Feedback,
        out: &mut Outbox<Header>,
    ) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let state = &self.flows[slot];
        // A real network may acknowledge what was never sent.
        if !state.open || cumulative > state.sent || answers.is_some_and(|number| number >= state.sent) {
            return;
        }
        self.nic.reverse(&self.rules, now, flow, &mut feedback);
        self.measure(now, slot, feedback.sent);
        let state = &mut self.flows[slot];
        match answers {
            Some(number) => {
                state.acked.insert(number);
            }
            None => state.probing = false,
        }
        state.acked.insert_below(cumulative);
        if state.acked.is_complete(state.packets) {
            self.nic.remove(flow);
            self.forget(slot);
            out.events.push_back(Event::Acknowledged { flow });
            return;
        }
        state.rate = feedback.rate.min(self.rate);
        state.pauser = feedback.pauser;
        let interval = state.rtt.checked_scale(f64::from(feedback.probe_interval) / f64::from(Feedback::ROUND_TRIP));
        state.probe_interval = interval.unwrap_or(self.spans.rto_max).clamp(state.rtt, self.spans.rto_max);
        if self.reordering > 0
            && let Some(end) = state.acked.highest(self.reordering)
            && end > state.searched
        {
            state.lose(state.acked.first_missing().max(state.searched), end);
        }
        if !self.is_given_up(now, slot, out) {
            self.plan(slot);
        }
    }

    fn forget(&mut self, slot: u32) {
        self.flows.remove(slot);
        self.departures.remove(slot);
        self.timers.remove(slot);
    }

    /// Whether a packet may have to leave.
    pub fn may_transmit(&self) -> bool {
        self.departures.peek().is_some_and(|(at, _)| at <= self.clock)
    }

    /// The packet that leaves now.
    pub fn data(&mut self, now: Time, out: &mut Outbox<Header>) -> Option<Packet<Header>> {
        let (_, slot) = self.departures.peek().filter(|(at, _)| *at <= now)?;
        let data_at = self.flows[slot].data_at().filter(|at| *at <= now);
        Some(self.depart(now, slot, data_at, out))
    }

    fn transmission(&self, slot: u32) -> Duration {
        let state = &self.flows[slot];
        let full = self.packet_time.checked_mul(u64::from(state.remaining())).unwrap_or(Duration::LONGEST);
        if state.sent == state.packets {
            return full;
        }
        let spare = self.framing.full_payload() * u64::from(state.packets) - state.size.get();
        full - self.rate.transmit_time(Bytes::new(spare)).min(self.packet_time)
    }

    fn depart(&mut self, now: Time, slot: u32, data_at: Option<Time>, out: &mut Outbox<Header>) -> Packet<Header> {
        let transmission = self.transmission(slot);
        let timeout = self.timeout(slot);
        let state = &mut self.flows[slot];
        let early_start_rtt = match self.early_start_rtt {
            EarlyStartRtt::Least => self.least_rtts[state.least as usize].min(state.rtt),
            EarlyStartRtt::Measured => state.rtt,
        };
        let mut request = Request {
            rate: self.rate,
            pauser: state.pauser,
            slowest: self.rate.into(),
            deadline: state.deadline,
            transmission,
            rtt: state.rtt.into(),
            early_start_rtt: early_start_rtt.into(),
            sent: now,
        };
        let kind = if data_at.is_some() { Kind::Data } else { Kind::Probe };
        self.nic.forward(&self.rules, now, Bytes::ZERO, state.flow, kind, &mut request);
        if !state.is_waiting() {
            self.timers.set(slot, now + timeout);
        }
        state.departed = now;
        let (flow, dst, packets) = (state.flow, state.dst, state.packets);
        let Some(data_at) = data_at else {
            state.probing = true;
            self.plan(slot);
            return self.framing.control(flow, dst, Header::Probe { packets, request });
        };
        let sent_before = state.sent;
        let number = state.next();
        let mut packet = self.framing.data(flow, dst, state.size, number, Header::Data { number, packets, request });
        packet.retransmission = number < sent_before;
        // A packet that leaves a little late does not delay the next one, but a flow does not catch up on more than one.
        let gap = state.rate.transmit_time(packet.size());
        state.paced = (if now.saturating_since(data_at) <= gap { data_at } else { now }, packet.size());
        if state.remaining() == 0 {
            self.nic.remove(flow);
            out.packets.push_back(self.framing.control(flow, dst, Header::Term { aborted: false }));
        }
        self.plan(slot);
        packet
    }

    /// Early termination (§3.1): gives the flow up if its deadline has passed, cannot be met at the NIC's rate, or is less than a round trip
    /// away while the flow is paused. A flow that has sent everything may still have met its deadline.
    fn is_given_up(&mut self, now: Time, slot: u32, out: &mut Outbox<Header>) -> bool {
        let state = &self.flows[slot];
        if !self.early_termination || state.deadline == Time::MAX || state.remaining() == 0 {
            return false;
        }
        let left = state.deadline.saturating_since(now);
        let paused = state.rate == Rate::default();
        let hopeless = self.transmission(slot) > left || paused && left < state.rtt;
        if hopeless {
            let (flow, dst) = (state.flow, state.dst);
            out.packets.push_back(self.framing.control(flow, dst, Header::Term { aborted: true }));
            out.events.push_back(Event::Aborted { flow, reason: AbortReason::Deadline });
            self.nic.remove(flow);
            self.forget(slot);
        }
        hopeless
    }

    /// When the next packet leaves or the next flow times out, later than the last call.
    pub fn next_timeout(&self) -> Option<Time> {
        let departure = self.departures.peek().map(|(at, _)| at).filter(|at| *at > self.clock);
        let timer = self.timers.next();
        [departure, timer].into_iter().flatten().min()
    }

    pub fn handle_timeout(&mut self, now: Time, out: &mut Outbox<Header>) {
        while let Some((at, slot)) = self.departures.peek()
            && at <= now
            && self.is_given_up(now, slot, out)
        {}
        while let Some(slot) = self.timers.expired(now) {
            self.time_out(now, slot, out);
        }
    }

    fn time_out(&mut self, now: Time, slot: u32, out: &mut Outbox<Header>) {
        let state = &mut self.flows[slot];
        let waiting = state.is_waiting();
        if waiting {
            state.timeouts += 1;
            out.events.push_back(Event::TimedOut { flow: state.flow, in_a_row: state.timeouts });
        }
        self.timers.set(slot, now + self.timeout(slot));
        if !waiting {
            return;
        }
        let state = &mut self.flows[slot];
        if !state.open {
            self.greet(now, slot, out);
            return;
        }
        // Everything that is not acknowledged is lost, and the network has forgotten the flow.
        let (start, end) = (state.acked.first_missing(), state.sent);
        state.lose(start, end);
        state.rate = Rate::default();
        state.pauser = None;
        state.probing = false;
        state.probe_interval = Duration::ZERO;
        self.plan(slot);
    }

    /// Tells the rate that a flow was given, and its round-trip time.
    pub fn gauge(&self, flow: FlowId, readings: &mut Readings<'_>) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        readings.tell_rate(Gauge::RATE, self.flows[slot].rate);
        readings.tell_span(Gauge::RTT, self.flows[slot].rtt);
    }
}
