//! The sending end of a host's flows (§3.2).

use flowloom_core::{Duration, Event, Flow, FlowId, Gauge, LinkId, NodeId, Paths, Rate, Readings, Site, Time, WireProfile};

use super::arbiter::{Arbiter, Share};
use super::config::{Arbitration, Criterion, Cut, Probing, Spans};
use super::course::{Course, Half};
use super::header::{Acked, Header};
use super::messages::Messages;
use super::sending::{Asked, Fixed, Sending, fixed_key, packet_rate};
use super::stamp::Stamp;
use super::window::Guide;
use super::{Config, Outbox, QUEUE, REFERENCE};
use crate::tcp::Blocks;
use crate::toolkit::{FlowTable, Framing, IndexedHeap};

/// The shortest time.
const INSTANT: Duration = Duration::from_ps(1);

/// All flows that this node sends, and the arbitrator of its uplink.
///
/// A flow looks at its share at the end of each period. Where thousands of flows wait in the lowest queue, this took most of a run's time, and
/// changed nothing: each is still last, pruned, and may send nothing. Such a flow rests. It is woken by an acknowledgement, by its timeout, or
/// when the flows before it make room, and goes on as if it had looked at the end of each period.
pub(super) struct Sender {
    config: Config,
    spans: Spans,
    wire: WireProfile,
    framing: Framing,
    messages: Messages,
    node: NodeId,
    line: Rate,
    paths: Paths,
    uplink: Arbiter<()>,
    flows: FlowTable<Sending>,
    /// By slot, when to look at a flow: [`Sending::next`] or earlier.
    timers: IndexedHeap<Time>,
    /// By slot, the flows that rest, in the order of the uplink's arbitrator.
    resting: IndexedHeap<u64>,
    /// [`Arbiter::changes`] when the first of them was last in the lowest queue.
    seen: u64,
}

/// An acknowledgement.
pub(super) struct Ack {
    pub acked: Acked,
    pub patience: u8,
    pub share: Share,
    pub cumulative: u32,
    pub blocks: Blocks,
}

impl Sender {
    pub fn new(config: &Config, site: &Site<'_>, spans: Spans, paths: Paths, framing: Framing, messages: Messages) -> Sender {
        // The flows of the host itself need not expire.
        let rules = super::Rules { lifetime: Duration::LONGEST, ..spans.rules(config) };
        Sender {
            config: config.clone(),
            spans,
            wire: site.wire,
            framing,
            messages,
            node: site.node,
            line: site.line_rate(),
            paths,
            uplink: Arbiter::new(site.line_rate(), rules),
            flows: FlowTable::default(),
            timers: IndexedHeap::default(),
            resting: IndexedHeap::default(),
            seen: 0,
        }
    }

    /// How many flows the arbitrator of the uplink knows.
    pub fn known_flows(&self) -> usize {
        self.uplink.len()
    }

    /// The round-trip time of a full packet on the flow's idle path.
    fn rtt(&self, flow: &Flow) -> Duration {
        let network = self.paths.network();
        let path = |from, to| self.paths.path(flow.id, from, to).collect::<Vec<LinkId>>();
        let there = network.packet_time(&path(flow.src, flow.dst), self.wire.full);
        there + network.packet_time(&path(flow.dst, flow.src), self.wire.control)
    }

    /// The time within which what is left of a flow counts as its demand.
    fn horizon(&self, course: Course, rtt: Duration, asks: bool) -> Duration {
        if let Some(rtts) = self.config.demand_rtts {
            return rtt.scale(rtts);
        }
        let switches = if asks { course.switches(&self.paths) } else { 0 };
        self.spans.reaction(&self.config, rtt, switches)
    }

    pub fn open(&mut self, now: Time, flow: &Flow) {
        let course = Course { flow: flow.id, src: self.node, dst: flow.dst, half: Half::Source };
        let background = super::is_background(flow);
        let asks = self.config.arbitration != Arbitration::Local && !background;
        let by_deadline = self.config.criterion == Criterion::Deadline;
        let rtt = self.rtt(flow);
        let fixed = Fixed {
            flow: flow.id,
            dst: flow.dst,
            size: flow.size,
            packets: self.framing.packets(flow.size),
            background,
            course,
            parent: if asks { course.parent(&self.paths, self.node) } else { None },
            key: fixed_key(self.config.criterion, flow),
            deadline: if by_deadline && self.config.late_last { flow.deadline.unwrap_or(Time::MAX) } else { Time::MAX },
            payload: self.framing.full_payload(),
            full: self.wire.full,
            packet_rate: packet_rate(self.wire.full, rtt),
            demand_rate: packet_rate(self.wire.full, self.horizon(course, rtt, asks)),
            line: self.line,
        };
        let mut state = Sending::new(now, fixed, &self.config);
        if !background {
            state.place = self.uplink.update(now, flow.id, state.request(now, self.config.demand, [None; 2]));
        }
        let tick = state.tick;
        let slot = self.flows.insert(flow.id, state);
        self.timers.set(slot, tick);
    }

    /// Refreshes the flow's entry at the uplink, and combines the answers of all its arbitrators (A8).
    fn arbitrate(&mut self, now: Time, slot: u32) {
        let state = &mut self.flows[slot];
        if state.fixed.background {
            state.share = Share { queue: self.config.background_class(), ..Share::FREE };
            return;
        }
        let request = state.request(now, self.config.demand, [state.upper, state.beyond]);
        self.uplink.update_at(now, state.place, state.fixed.flow, request);
        let known = self.uplink.share_at(state.place);
        state.here = Some(known);
        let free = Share::FREE;
        let before = state.share.queue;
        state.share = if state.alone {
            Share { queue: self.config.lowest_class().min(1), ..free }
        } else {
            let share = known.and(state.upper.unwrap_or(free)).and(state.beyond.unwrap_or(free));
            // A peer may name any queue.
            Share { queue: share.queue.min(self.config.lowest_class()), ..share }
        };
        if (before == 0) != (state.share.queue == 0) {
            state.adapt_timer(now, &self.config);
        }
    }

    /// An arbitrator has answered for the source's half of a flow's path.
    pub fn handle_share(&mut self, now: Time, from: NodeId, flow: FlowId, stamp: Stamp, share: Share, out: &mut Outbox) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let state = &mut self.flows[slot];
        // An answer may come after the flow was pruned, or from anywhere.
        if state.fixed.parent != Some(from) || matches!(state.asked, Asked::Pruned | Asked::Sent) {
            return;
        }
        // An answer that took too long is useless: it describes flows that are over by now. Flows that followed such answers were slower than
        // without arbitration.
        let asked = stamp.time(state.last_ask, self.spans.period);
        if asked < state.answered || now - asked >= self.spans.answer_timeout {
            return;
        }
        state.answered = asked;
        state.hear(now, self.spans.period);
        state.asked = Asked::Answered;
        state.upper = Some(share);
        state.alone = false;
        self.arbitrate(now, slot);
        let state = &mut self.flows[slot];
        if !state.started {
            state.start(&self.config);
        }
        self.transmit(now, slot, out);
        self.wake_risen(now, None);
    }

    /// The end of a period: the flow asks its arbitrators, or starts if it need not wait for them.
    fn tick(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let before = out.packets.len();
        self.arbitrate(now, slot);
        self.ask(now, slot, out);
        let (limit, state) = (self.spans.answer_timeout, &mut self.flows[slot]);
        let silent = matches!(state.asked, Asked::Waiting(since) if now - since >= limit);
        if silent && !state.alone {
            state.alone = true;
            if state.started {
                state.window.lose_guide(self.config.initial_window);
            }
        }
        self.arbitrate(now, slot);
        let state = &mut self.flows[slot];
        let quiet = state.is_quiet(now, self.spans.period);
        if !state.started && (state.alone || !matches!(state.asked, Asked::Waiting(_))) {
            state.start(&self.config);
        }
        state.begin_period(now, self.spans.period, self.config.rto_max);
        let pruned = state.is_pruned(&self.config);
        // A period in which it asks nobody, as its destination wants it, is no sign that nobody answers.
        let asks = state.last_ask == now || quiet;
        if asks && !pruned {
            state.unheard += 1;
        }
        if quiet {
            let state = &mut self.flows[slot];
            state.spoke = now;
            if !pruned {
                let Fixed { packets, flow, dst, .. } = state.fixed;
                let header = Header::Refresh { packets, asking: state.asking(now, &self.config) };
                out.packets.push_back(self.framing.control(flow, dst, header));
            }
            if self.probes_first(slot) && self.flows[slot].board.in_flight() == 0 {
                self.probe(now, slot, out);
            }
        }
        self.transmit(now, slot, out);
        if out.packets.len() == before && self.may_rest(now, slot) {
            self.rest(slot);
        }
    }

    /// Whether a flow that has sent nothing at the end of this period will send nothing at the ends of the next ones either, unless it hears
    /// something, or the flows before it make room.
    fn may_rest(&self, now: Time, slot: u32) -> bool {
        let state = &self.flows[slot];
        let waits = state.started && !state.fixed.background && state.is_pruned(&self.config);
        let asks_nobody = !matches!(state.asked, Asked::Waiting(_) | Asked::Answered);
        let probes = self.probes_first(slot) && state.board.in_flight() == 0;
        // A deadline that passes changes the key.
        let has_deadline = state.fixed.deadline != Time::MAX && now <= state.fixed.deadline;
        self.rests() && waits && asks_nobody && !probes && !has_deadline && self.uplink.is_last_at(state.place)
    }

    #[cfg(not(test))]
    fn rests(&self) -> bool {
        true
    }
    #[cfg(test)]
    fn rests(&self) -> bool {
        !self.config.never_rests
    }

    fn rest(&mut self, slot: u32) {
        let state = &mut self.flows[slot];
        state.resting = true;
        let rank = self.uplink.rank_at(state.place);
        if self.resting.peek().is_none_or(|(first, _)| rank < first) {
            self.seen = self.uplink.changes();
        }
        self.resting.set(slot, rank);
    }

    /// Ends a flow's rest. The first end of a period that it looks at is at `from` or later, and it looks no earlier than at `turn`.
    fn wake(&mut self, slot: u32, from: Time, turn: Time) {
        if self.resting.remove(slot).is_some() {
            let state = &mut self.flows[slot];
            state.wake(from, self.spans.period, self.config.rto_max);
            state.tick = state.tick.max(turn);
            self.schedule(slot);
        }
    }

    /// Wakes the flows that are not last any more. If a flow has just timed out, or its period has ended, it is in slot `done`, and flows in earlier
    /// slots have had their turn at this instant. Otherwise a packet has come, and no timer may end at the same instant.
    fn wake_risen(&mut self, now: Time, done: Option<u32>) {
        if self.seen == self.uplink.changes() {
            return;
        }
        while let Some((_, slot)) = self.resting.peek()
            && !self.uplink.is_last_at(self.flows[slot].place)
        {
            let later = now + INSTANT;
            match done {
                Some(done) if slot > done => self.wake(slot, now, now),
                Some(_) => self.wake(slot, later, later),
                None => self.wake(slot, now, later),
            }
        }
        self.seen = self.uplink.changes();
    }

    /// Asks the arbitrator above, or leaves it if the flow is pruned here.
    fn ask(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        let Some(parent) = state.fixed.parent else { return };
        let stamp = Stamp::new(now, self.spans.period);
        let course = state.fixed.course;
        if state.unsent() == 0 {
            return;
        }
        let here = self.uplink.share_at(state.place);
        if here.queue >= self.config.pruning_depth {
            if matches!(state.asked, Asked::Waiting(_) | Asked::Answered) {
                out.packets.push_back(self.messages.leave(course, parent, stamp));
                state.alone = false;
            }
            state.asked = Asked::Pruned;
            // If it is not pruned any more, it stays in its queue until the answer comes.
            state.upper = Some(Share { queue: here.queue, ..Share::FREE });
            return;
        }
        if !matches!(state.asked, Asked::Waiting(_)) {
            state.asked = Asked::Waiting(now);
        }
        state.last_ask = now;
        let asking = state.request(now, self.config.demand, [Some(here), state.beyond]).into();
        // The host combines the answer with its own share, which may be more recent by then.
        out.packets.push_back(self.messages.ask(course, parent, stamp, asking, Share::FREE));
    }

    pub fn handle_ack(&mut self, now: Time, flow: FlowId, ack: &Ack, out: &mut Outbox) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        self.wake(slot, now, now + INSTANT);
        self.handle_ack_of(now, slot, ack, out);
        self.wake_risen(now, None);
    }

    fn handle_ack_of(&mut self, now: Time, slot: u32, ack: &Ack, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        let before = state.board.first_missing();
        let Some(new) = state.board.acknowledge(ack.cumulative, ack.blocks.ranges(ack.cumulative)) else { return };
        state.hear(now, self.spans.period);
        let advance = state.board.first_missing() - before;
        state.estimate(new, ack.acked == Acked::Marked, self.config.gain);
        state.take_sample(now);
        if state.board.first_missing() == state.fixed.packets {
            return self.complete(now, slot, out);
        }
        if advance > 0 {
            state.timeouts = 0;
        }
        if !state.fixed.background {
            state.beyond = Some(ack.share);
            state.patience = ack.patience;
        }
        self.arbitrate(now, slot);
        self.control_rate(slot, ack, new);
        let answered = self.recover(slot, ack.acked);
        let state = &mut self.flows[slot];
        // After a probe's answer, packets are sent again: they have a whole timeout, too.
        if advance > 0 || answered {
            state.arm(now, &self.config);
        }
        if state.started {
            self.transmit(now, slot, out);
        }
    }

    /// Algorithm 2, for acknowledgements of data.
    fn control_rate(&mut self, slot: u32, ack: &Ack, new: u32) {
        let state = &mut self.flows[slot];
        if ack.acked == Acked::Marked {
            let each = self.config.cut == Cut::PerMark && state.guide(&self.config) != Guide::Nothing;
            if each || state.may_cut() {
                state.window.cut(state.alpha.get());
                state.note_cut();
            }
        } else if ack.acked == Acked::Data && new > 0 {
            let held = self.config.hold_cut && !state.may_cut();
            state.window.grow(state.guide(&self.config), new, held);
        }
    }

    /// Finds lost packets: by those that arrived beyond them, or by the answer to a probe, which was sent after them. Returns whether this is the answer to a probe.
    fn recover(&mut self, slot: u32, acked: Acked) -> bool {
        let state = &mut self.flows[slot];
        if state.board.find_lost(self.config.dup_ack_threshold) {
            state.stop_timing();
            if state.may_cut() {
                state.window.halve();
                state.note_cut();
            }
        }
        if acked != Acked::Probe {
            return false;
        }
        let Some(below) = state.probed.take() else { return false };
        state.board.lose_below(below);
        state.stop_timing();
        state.credit = true;
        true
    }

    /// Whether the flow is in the lowest queue, where it sends a probe before each data packet.
    fn probes_first(&self, slot: u32) -> bool {
        let lowest = self.config.lowest_class();
        let state = &self.flows[slot];
        self.config.probing == Probing::EveryRtt && !state.fixed.background && lowest > 0 && state.class == lowest
    }

    fn probe(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        state.probed = Some(state.board.sent());
        let header = Header::Probe { packets: state.fixed.packets, asking: state.asking(now, &self.config) };
        let mut packet = self.framing.control(state.fixed.flow, state.fixed.dst, header);
        // Behind the data: a class in which the flow has sent nothing later, and nothing in a lower one.
        packet.class = state.class;
        out.packets.push_back(packet);
    }

    /// Sends what queue and window allow.
    fn transmit(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        if !state.started {
            return;
        }
        if !state.follow_queue(self.config.promotion_guard) {
            return self.schedule(slot);
        }
        let probes_first = self.probes_first(slot);
        let state = &mut self.flows[slot];
        let mut asking = None; // all packets of one burst say the same
        while state.board.in_flight() < state.window.packets() {
            if probes_first && !std::mem::take(&mut state.credit) {
                if state.probed.is_none() && state.board.in_flight() == 0 {
                    self.probe(now, slot, out);
                }
                break;
            }
            let asking = *asking.get_or_insert_with(|| state.asking(now, &self.config));
            let sent = state.board.sent();
            let Some(number) = state.board.pick(state.fixed.packets) else { break };
            let Fixed { flow, dst, size, packets, .. } = state.fixed;
            let mut packet = self.framing.data(flow, dst, size, number, Header::Data { number, packets, asking });
            packet.class = state.class;
            packet.ecn = flowloom_core::Ecn::Capable;
            packet.retransmission = number < sent;
            if !packet.retransmission {
                state.time(now, number);
            }
            out.packets.push_back(packet);
            state.spoke = now;
        }
        let state = &mut self.flows[slot];
        state.arm_if_outstanding(now, &self.config);
        if state.unsent() == 0
            && let (Some(parent), Asked::Waiting(_) | Asked::Answered) = (state.fixed.parent, state.asked)
        {
            let stamp = Stamp::new(now, self.spans.period);
            out.packets.push_back(self.messages.leave(state.fixed.course, parent, stamp));
            state.asked = Asked::Sent;
        }
        self.schedule(slot);
    }

    /// Makes sure that the flow is looked at in time.
    fn schedule(&mut self, slot: u32) {
        let next = self.flows[slot].next();
        if self.timers.key_of(slot).is_none_or(|at| next < at) {
            self.timers.set(slot, next);
        }
    }

    fn complete(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let Fixed { flow, course, parent, .. } = self.flows[slot].fixed;
        let asked = self.flows[slot].asked;
        self.uplink.remove(flow);
        if let (Some(parent), Asked::Waiting(_) | Asked::Answered) = (parent, asked) {
            let stamp = Stamp::new(now, self.spans.period);
            out.packets.push_back(self.messages.leave(course, parent, stamp));
        }
        self.flows.remove(slot);
        self.timers.remove(slot);
        out.events.push_back(Event::Acknowledged { flow });
    }

    /// See [`super::Host`].
    #[cfg(test)]
    pub fn window(&self, flow: FlowId) -> u32 {
        self.flows[self.flows.slot_of(flow).expect("a flow under way")].window.packets()
    }

    /// How many flows rest.
    #[cfg(test)]
    pub fn resting(&self) -> usize {
        self.resting.len()
    }

    /// See [`super::Host`].
    #[cfg(test)]
    pub fn queues(&self, flow: FlowId) -> Option<[u8; 4]> {
        let state = &self.flows[self.flows.slot_of(flow)?];
        let queue = |share: Option<Share>| share.unwrap_or(Share::FREE).queue;
        let queues = [queue(state.here).max(queue(state.upper)), queue(state.beyond), state.share.queue, state.class];
        state.started.then_some(queues)
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.timers.peek().map(|(at, _)| at)
    }

    pub fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        while let Some(slot) = self.timers.expired(now, |slot| self.flows[slot].next()) {
            self.wake(slot, now, now);
            if self.flows[slot].is_due(now) {
                self.time_out(now, slot, out);
            }
            if self.flows[slot].tick <= now {
                self.tick(now, slot, out);
            }
            self.timers.set(slot, self.flows[slot].next());
            self.wake_risen(now, Some(slot));
        }
    }

    /// Nothing was acknowledged for long. In the top queue, and where there are no probes, all that is outstanding is lost. In other queues
    /// the packets may still wait; a probe shows whether they do.
    fn time_out(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let state = &mut self.flows[slot];
        state.timeouts += 1;
        state.rtt.back_off();
        state.stop_timing();
        state.arm(now, &self.config);
        out.events.push_back(Event::TimedOut { flow: state.fixed.flow, in_a_row: state.timeouts });
        if state.class > 0 && !state.fixed.background && self.config.probing != Probing::Never {
            self.probe(now, slot, out);
        } else {
            let all = state.board.sent();
            state.board.lose_below(all);
            state.window.collapse();
            state.note_cut();
            self.transmit(now, slot, out);
        }
    }

    /// Tells what a flow is assigned, and what it makes of it.
    pub fn gauge(&self, flow: FlowId, readings: &mut Readings<'_>) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let (state, payload) = (&self.flows[slot], self.framing.full_payload() as f64);
        readings.tell(Gauge::WINDOW, f64::from(state.window.packets()) * payload);
        readings.tell(Gauge::IN_FLIGHT, f64::from(state.board.in_flight()) * payload);
        readings.tell_span(Gauge::RTT, state.rtt.smoothed());
        readings.tell(Gauge::PRIORITY, state.class.into());
        readings.tell(QUEUE, state.share.queue.into());
        readings.tell_rate(REFERENCE, state.reference(&self.config));
    }
}
