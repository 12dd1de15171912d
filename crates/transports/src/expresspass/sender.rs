//! The sending side: one packet for each credit.

use flowloom_core::{Bytes, Duration, Event, Flow, FlowId, NodeId, Time};

use super::config::RETRY_DOUBLINGS_MAX;
use super::scheme::{Outbound, Rules, Scheme};
use crate::toolkit::{FlowTable, Outbox, Timers};

/// A flow that this node sends.
struct Sending<F> {
    dst: NodeId,
    size: Bytes,
    packets: F,
    /// Whether the credits were stopped after the last request.
    stopped: bool,
    /// When credits were asked for, if the first credit will tell the round-trip time.
    asked: Option<Time>,
    rtt: Duration,
    /// The credits that came since the time before.
    counted_from: Time,
    counted: u32,
    /// How often a request or a stop was repeated. It does not fall back when a credit comes: where many flows share a link, each gets
    /// a credit only now and then, and frequent requests would take bandwidth from data.
    repeats: u32,
}

pub(crate) struct Sender<S: Scheme> {
    flows: FlowTable<Sending<S::Outbound>>,
    /// When to repeat each flow's last request or stop.
    timers: Timers,
}

impl<S: Scheme> Sender<S> {
    pub fn new() -> Sender<S> {
        Sender { flows: FlowTable::default(), timers: Timers::default() }
    }

    pub fn open(&mut self, now: Time, flow: &Flow, packets: S::Outbound, rules: &Rules<S>, out: &mut Outbox<S::Header>) {
        let slot = self.flows.insert(
            flow.id,
            Sending {
                dst: flow.dst,
                size: flow.size,
                packets,
                stopped: false,
                asked: None,
                rtt: rules.spans.rtt,
                counted_from: now,
                counted: 0,
                repeats: 0,
            },
        );
        self.flows[slot].asked = Some(now);
        self.request(now, slot, rules, out);
    }

    /// Asks for credits for the packets that are left.
    fn request(&mut self, now: Time, slot: u32, rules: &Rules<S>, out: &mut Outbox<S::Header>) {
        let state = &mut self.flows[slot];
        let header = S::request(&state.packets);
        state.stopped = false;
        out.packets.push_back(rules.framing.control(self.flows.flow_of(slot), self.flows[slot].dst, header));
        self.timers.set(slot, now + self.interval(slot, rules));
    }

    /// Stops the credits. If packets are left, the credits under way are expected to suffice for them.
    fn stop(&mut self, now: Time, slot: u32, again: bool, rules: &Rules<S>, out: &mut Outbox<S::Header>) {
        let state = &mut self.flows[slot];
        state.stopped = true;
        let (dst, header, rtt, left) = (state.dst, S::stop(&state.packets, again), state.rtt, state.packets.left());
        out.packets.push_back(rules.framing.control(self.flows.flow_of(slot), dst, header));
        // The credits under way arrive within a round trip.
        self.timers.set(slot, now + if left > 0 { rtt * 2 } else { self.interval(slot, rules) });
    }

    /// The time until a request or a stop is repeated.
    fn interval(&self, slot: u32, rules: &Rules<S>) -> Duration {
        rules.spans.retry * (1 << self.flows[slot].repeats.min(RETRY_DOUBLINGS_MAX))
    }

    /// Answers a credit with a packet, which repeats the credit's number and time. A credit that comes when all packets are sent is wasted.
    pub fn credit(&mut self, now: Time, flow: FlowId, credit: u32, sent: Time, rules: &Rules<S>, out: &mut Outbox<S::Header>) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let state = &mut self.flows[slot];
        if state.packets.left() == 0 || !S::is_valid(rules, &state.packets, now, sent) {
            return;
        }
        if let Some(asked) = state.asked.take() {
            state.rtt = (now - asked).min(rules.spans.rtt_max);
            (state.counted_from, state.counted) = (now, 0);
        }
        let (number, retransmission) = state.packets.take();
        let header = S::data(&state.packets, number, credit, sent);
        let mut packet = rules.framing.data(flow, state.dst, state.size, number, header);
        packet.class = S::data_class(rules);
        packet.retransmission = retransmission;
        out.packets.push_back(packet);
        state.counted += 1;
        let suffices = rules.early_stop && state.round_trip_suffices(now);
        match (state.packets.left(), state.stopped) {
            (0, false) => self.stop(now, slot, false, rules, out),
            (0, true) => self.timers.set(slot, now + self.interval(slot, rules)),
            (_, false) if suffices => self.stop(now, slot, false, rules, out),
            (_, false) => self.timers.set(slot, now + self.interval(slot, rules)),
            (_, true) => self.timers.set(slot, self.timers.due(slot).max(now + self.flows[slot].rtt)),
        }
    }

    /// Sends a packet again that the receiver misses.
    pub fn nack(&mut self, now: Time, flow: FlowId, number: u32, rules: &Rules<S>, out: &mut Outbox<S::Header>) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let state = &mut self.flows[slot];
        if state.packets.miss(number) && state.stopped {
            state.asked = Some(now);
            self.request(now, slot, rules, out);
        }
    }

    /// The receiver has the whole flow.
    pub fn acknowledged(&mut self, flow: FlowId, out: &mut Outbox<S::Header>) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        self.flows.remove(slot);
        self.timers.remove(slot);
        out.events.push_back(Event::Acknowledged { flow });
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Repeats what was not answered.
    pub fn timeout(&mut self, now: Time, rules: &Rules<S>, out: &mut Outbox<S::Header>) {
        while let Some(slot) = self.timers.expired(now) {
            let state = &mut self.flows[slot];
            let fell_short = state.stopped && state.packets.left() > 0;
            if fell_short {
                state.asked = Some(now);
            } else {
                state.asked = None;
                state.repeats += 1;
            }
            if state.packets.left() > 0 {
                self.request(now, slot, rules, out);
            } else {
                self.stop(now, slot, true, rules, out);
            }
        }
    }
}

impl<F: Outbound> Sending<F> {
    /// Once per round trip: whether as many credits came in this round trip as there are packets left.
    fn round_trip_suffices(&mut self, now: Time) -> bool {
        if now - self.counted_from < self.rtt {
            return false;
        }
        let came = std::mem::take(&mut self.counted);
        self.counted_from = now;
        came >= self.packets.left()
    }
}
