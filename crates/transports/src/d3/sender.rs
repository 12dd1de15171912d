//! The sending end of D3's flows.

use flowloom_core::{AbortReason, Bytes, Duration, Event, Flow, FlowId, Gauge, NodeId, Packet, Rate, Readings, Site, Time};

use super::config::{Config, MOST_DOUBLINGS, Spans};
use super::header::{Answer, Header, Path, Purpose, Request};
use crate::toolkit::{FlowTable, Framing, IndexedHeap, Outbox, RangeSet, earliest};

/// A request that is not answered.
#[derive(Clone, Copy)]
struct Asked {
    at: Time,
    desired: Rate,
}

/// One flow that is being sent. Packets are numbered from 0.
struct Sending {
    flow: FlowId,
    dst: NodeId,
    size: Bytes,
    packets: u32,
    /// [`Time::MAX`] without a deadline.
    deadline: Time,
    acked: RangeSet,
    /// The next packet to send in this pass; the number of packets when the pass is over.
    next: u32,
    /// One past the highest packet ever sent.
    sent: u32,
    /// The rate at which data is sent; zero without an allocation.
    rate: Rate,
    /// The last data packet left, or was due to leave, at this time, and took this many bytes.
    left: Time,
    left_size: Bytes,
    /// The last measured round trip.
    round_trip: Duration,
    /// The allocations that the ports last reported, and the desired rate that they were made for.
    held: Path,
    held_desired: Rate,
    held_since: Time,
    asked: Option<Asked>,
    /// The serial number of the last request.
    serial: u32,
    /// The next data packet carries a request.
    ask: bool,
    /// Timeouts in a row.
    timeouts: u32,
    /// Answers in a row that brought no packet per round trip.
    waits: u32,
}

impl Sending {
    /// Packets that are to be sent in this pass: those after the first pass's last one, then those that are not acknowledged.
    fn packets_left(&self) -> u32 {
        if self.next < self.sent { self.packets - self.acked.len() } else { self.packets - self.next }
    }
    fn is_sent(&self) -> bool {
        self.next >= self.packets
    }
    /// Makes `next` a packet that is to be sent.
    fn skip_acked(&mut self) {
        if !self.is_sent() && self.acked.contains(self.next) {
            self.next = self.acked.next_missing_after(self.next);
        }
    }
}

/// All flows that this node sends.
pub(super) struct Sender {
    framing: Framing,
    wire_full: Bytes,
    payload: u64,
    overhead: u64,
    line_rate: Rate,
    base: Rate,
    quenching: bool,
    spans: Spans,
    timeout_rtts: f64,
    patience: u32,
    flows: FlowTable<Sending>,
    /// When each flow that has a rate may send its next data packet.
    paced: IndexedHeap<Time>,
    /// When to repeat what was not answered.
    timers: IndexedHeap<Time>,
    /// The time of the last call.
    now: Time,
}

impl Sender {
    pub fn new(config: &Config, site: &Site<'_>, spans: &Spans, framing: Framing) -> Sender {
        Sender {
            framing,
            wire_full: site.wire.full,
            payload: site.wire.payload().get(),
            overhead: site.wire.overhead.get(),
            line_rate: site.line_rate(),
            base: config.base(spans.round_trip, site.wire.control),
            quenching: config.quenching,
            spans: *spans,
            timeout_rtts: config.timeout_rtts,
            patience: config.patience,
            flows: FlowTable::default(),
            paced: IndexedHeap::default(),
            timers: IndexedHeap::default(),
            now: Time::ZERO,
        }
    }

    pub fn open(&mut self, now: Time, flow: &Flow, out: &mut Outbox<Header>) {
        self.now = now;
        let state = Sending {
            flow: flow.id,
            dst: flow.dst,
            size: flow.size,
            packets: self.framing.packets(flow.size),
            deadline: flow.deadline.unwrap_or(Time::MAX),
            acked: RangeSet::default(),
            next: 0,
            sent: 0,
            rate: Rate::default(),
            left: Time::ZERO,
            left_size: Bytes::ZERO,
            round_trip: self.spans.round_trip,
            held: Path::default(),
            held_desired: Rate::default(),
            held_since: now,
            asked: None,
            serial: 0,
            ask: false,
            timeouts: 0,
            waits: 0,
        };
        let slot = self.flows.insert(flow.id, state);
        if !self.quench(slot, out) {
            self.ask(slot, out);
        }
    }

    /// What the flow has left to send, with all headers.
    fn bytes_left(&self, state: &Sending) -> Bytes {
        let left = u64::from(state.packets_left());
        let before = u64::from(state.packets) - left;
        Bytes::new((state.size.get() - before * self.payload) + left * self.overhead)
    }

    /// The rate that meets the deadline, `None` if no rate does.
    fn needed(&self, state: &Sending) -> Option<Rate> {
        if state.deadline == Time::MAX {
            return Some(Rate::default());
        }
        let time = state.deadline.saturating_since(self.now + self.spans.margin).as_ps();
        let bits = u128::from(self.bytes_left(state).get()) * 8 * 1_000_000_000_000;
        let bps = bits.div_ceil(u128::from(time.max(1)));
        (time > 0).then(|| Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)))
    }

    /// What the flow asks for. A host cannot use more than its own rate.
    fn desired(&self, state: &Sending) -> Rate {
        if state.deadline <= self.now {
            return Rate::default();
        }
        self.needed(state).unwrap_or(self.line_rate).min(self.line_rate)
    }

    /// Ends a flow that cannot meet its deadline, if flows give up. Returns whether it did.
    fn quench(&mut self, slot: u32, out: &mut Outbox<Header>) -> bool {
        let state = &self.flows[slot];
        let hopeless = state.deadline <= self.now || {
            let time = state.deadline.saturating_since(self.now);
            self.line_rate.checked_transmit_time(self.bytes_left(state)).is_none_or(|least| least > time)
        };
        let quenched = self.quenching && state.deadline != Time::MAX && hopeless;
        if quenched {
            self.give_up(slot, out);
        }
        quenched
    }

    /// Ends a flow whose bytes will not all arrive.
    fn give_up(&mut self, slot: u32, out: &mut Outbox<Header>) {
        let flow = self.flows[slot].flow;
        // No port knows of a flow that has not asked.
        if self.flows[slot].serial > 0 {
            self.send_request(slot, Purpose::GiveUp, out);
        }
        self.remove(slot, out);
        out.events.push_back(Event::Aborted { flow, reason: AbortReason::Deadline });
    }

    /// The next request of a flow. It names what the ports still hold for the flow.
    fn next_request(&mut self, slot: u32, purpose: Purpose) -> Request {
        let now = self.now;
        let asks = purpose == Purpose::Ask;
        let desired = if asks { self.desired(&self.flows[slot]) } else { Rate::default() };
        let lapsed = self.spans.hold * 2;
        let state = &mut self.flows[slot];
        if now - state.held_since >= lapsed {
            state.held = Path::default();
        }
        state.serial = state.serial.wrapping_add(1);
        state.ask = false;
        let path = Path { hops: 0, ..state.held };
        let request =
            Request { purpose, named: state.held.hops, serial: state.serial, desired, before: state.held_desired, path };
        if asks {
            state.asked = Some(Asked { at: now, desired });
        } else {
            state.held = Path::default();
            state.rate = Rate::default();
        }
        request
    }

    /// Sends a request alone.
    fn send_request(&mut self, slot: u32, purpose: Purpose, out: &mut Outbox<Header>) {
        let request = self.next_request(slot, purpose);
        let state = &self.flows[slot];
        let header = Header::Request { packets: state.packets, request };
        out.packets.push_back(self.framing.control(state.flow, state.dst, header));
    }

    /// Asks for a rate without data.
    fn ask(&mut self, slot: u32, out: &mut Outbox<Header>) {
        self.send_request(slot, Purpose::Ask, out);
        self.set_timer(slot);
    }

    /// Gives back what the ports hold for the flow.
    fn give_back(&mut self, slot: u32, out: &mut Outbox<Header>) {
        if self.flows[slot].held.hops > 0 {
            self.send_request(slot, Purpose::End, out);
        }
    }

    fn remove(&mut self, slot: u32, out: &mut Outbox<Header>) {
        self.give_back(slot, out);
        self.paced.remove(slot);
        self.timers.remove(slot);
        self.flows.remove(slot);
    }

    fn set_timer(&mut self, slot: u32) {
        self.timers.set(slot, self.timeout(slot));
    }

    /// When an answer to what is sent now is given up.
    fn timeout(&self, slot: u32) -> Time {
        let state = &self.flows[slot];
        let measured = state.round_trip.checked_scale(self.timeout_rtts).unwrap_or(Duration::LONGEST);
        let first = self.spans.timeout.max(measured);
        let pause = first.checked_mul(1 << state.timeouts.min(MOST_DOUBLINGS)).unwrap_or(Duration::LONGEST);
        self.now + pause
    }

    pub fn handle_ack(
        &mut self,
        now: Time,
        flow: FlowId,
        cumulative: u32,
        number: Option<u32>,
        answer: Option<&Answer>,
        out: &mut Outbox<Header>,
    ) {
        self.now = now;
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let state = &mut self.flows[slot];
        if cumulative > state.sent || number.is_some_and(|number| number >= state.sent) {
            return; // it acknowledges what was never sent
        }
        let before = state.acked.len();
        state.acked.insert_below(cumulative);
        if let Some(number) = number {
            state.acked.insert(number);
        }
        let ends_back_off = state.acked.len() > before && std::mem::take(&mut state.timeouts) > 0;
        let was_sent = state.is_sent();
        state.skip_acked();
        let answered = answer.is_some_and(|answer| self.handle_answer(slot, answer));
        let state = &self.flows[slot];
        if state.acked.is_complete(state.packets) {
            self.remove(slot, out);
            out.events.push_back(Event::Acknowledged { flow });
        } else if answered {
            self.proceed(slot, out);
        } else if state.is_sent() && !was_sent {
            self.end_pass(slot);
        } else if ends_back_off {
            let before = self.timers.key_of(slot).unwrap_or(Time::MAX);
            self.timers.set(slot, self.timeout(slot).min(before));
        }
    }

    /// Notes the allocations that answer the last request. Returns whether it was that.
    fn handle_answer(&mut self, slot: u32, answer: &Answer) -> bool {
        let now = self.now;
        let state = &mut self.flows[slot];
        let Some(asked) = state.asked.filter(|_| state.serial == answer.serial) else { return false };
        state.asked = None;
        state.timeouts = 0;
        state.round_trip = now - asked.at;
        state.held = answer.path;
        state.held_desired = asked.desired;
        state.held_since = asked.at;
        let rate = answer.path.least().unwrap_or(self.line_rate);
        state.rate = if rate <= self.base { Rate::default() } else { rate.min(self.line_rate) };
        true
    }

    /// Goes on with the rate of an answer that has just come.
    fn proceed(&mut self, slot: u32, out: &mut Outbox<Header>) {
        if self.flows[slot].is_sent() {
            self.give_back(slot, out);
            self.end_pass(slot);
            return;
        }
        if self.quench(slot, out) {
            return;
        }
        if self.flows[slot].rate == Rate::default() {
            self.paced.remove(slot);
            self.ask_in_vain(slot, out);
            return;
        }
        let all_but_last = Bytes::new(self.bytes_left(&self.flows[slot]).get().saturating_sub(self.wire_full.get()));
        let state = &mut self.flows[slot];
        let next = self.now.max(state.left + state.rate.transmit_time(state.left_size));
        let alone = next > self.now + state.round_trip;
        // An allocation that comes after the last packet has left is of no use.
        let until_last = state.rate.checked_transmit_time(all_but_last).unwrap_or(Duration::LONGEST);
        state.ask = alone || until_last > state.round_trip;
        self.paced.set(slot, next);
        self.timers.remove(slot);
        if alone {
            self.ask_in_vain(slot, out);
        } else {
            self.flows[slot].waits = 0;
        }
    }

    /// Asks again for a flow that has got no packet per round trip: at once, or after a pause if many requests were in vain.
    fn ask_in_vain(&mut self, slot: u32, out: &mut Outbox<Header>) {
        let state = &mut self.flows[slot];
        state.waits = state.waits.saturating_add(1);
        match state.waits.checked_sub(self.patience) {
            None | Some(0) => self.ask(slot, out),
            Some(more) => {
                let pause = state.round_trip.checked_mul(1 << more.min(MOST_DOUBLINGS)).unwrap_or(Duration::LONGEST);
                self.timers.set(slot, self.now + pause);
            }
        }
    }

    /// Every packet of this pass has been sent. Those that are not acknowledged soon are lost.
    fn end_pass(&mut self, slot: u32) {
        self.paced.remove(slot);
        self.set_timer(slot);
    }

    /// Whether a data packet is due.
    pub fn is_ready(&self) -> bool {
        self.paced.peek().is_some_and(|(at, _)| at <= self.now)
    }

    /// The data packet that has been due for longest.
    pub fn transmit(&mut self, now: Time) -> Option<Packet<Header>> {
        self.now = now;
        let (due, slot) = self.paced.peek().filter(|(due, _)| *due <= now)?;
        let state = &mut self.flows[slot];
        let number = state.next;
        state.next = state.acked.next_missing_after(number);
        let (id, dst, size, packets) = (state.flow, state.dst, state.size, state.packets);
        let again = number < state.sent;
        state.sent = state.sent.max(number + 1);
        let mut packet = self.framing.data(id, dst, size, number, Header::Data { number, packets, request: None });
        packet.retransmission = again;
        // A packet that the NIC sent late does not delay the next ones, but no more than one of them catches up.
        let gap = state.rate.transmit_time(packet.size());
        let late = now - due;
        state.left = if late > gap { due + (late - gap) } else { due };
        state.left_size = packet.size();
        let next_due = state.left + gap;
        let (is_last, ask, waits) = (state.is_sent(), state.ask, state.asked.is_some());
        if is_last && !waits {
            let request = self.next_request(slot, Purpose::End);
            packet.header = Header::Data { number, packets, request: Some(request) };
        } else if ask {
            let request = self.next_request(slot, Purpose::Ask);
            packet.header = Header::Data { number, packets, request: Some(request) };
            self.set_timer(slot);
        }
        if is_last {
            self.end_pass(slot);
        } else {
            self.paced.set(slot, next_due);
        }
        Some(packet)
    }

    /// The next timeout after the last call. A packet that is due waits for the NIC, which will ask for it.
    pub fn next_timeout(&self) -> Option<Time> {
        let timer = self.timers.peek().map(|(at, _)| at);
        let packet = self.paced.peek().map(|(at, _)| at).filter(|at| *at > self.now);
        earliest(timer, packet)
    }

    pub fn handle_timeout(&mut self, now: Time, out: &mut Outbox<Header>) {
        self.now = now;
        while let Some((_, slot)) = self.timers.peek().filter(|(at, _)| *at <= now) {
            self.time_out(slot, out);
        }
    }

    /// Asks again, since the last request or the last packets were not answered, or since the flow has paused. Until there is an answer, no data
    /// is sent.
    fn time_out(&mut self, slot: u32, out: &mut Outbox<Header>) {
        let state = &mut self.flows[slot];
        let paused = state.asked.is_none() && !state.is_sent();
        if paused {
            self.timers.remove(slot);
            if !self.quench(slot, out) {
                self.ask(slot, out);
            }
            return;
        }
        state.timeouts += 1;
        state.rate = Rate::default();
        if state.is_sent() {
            state.next = state.acked.first_missing();
        }
        let (flow, in_a_row) = (state.flow, state.timeouts);
        self.paced.remove(slot);
        out.events.push_back(Event::TimedOut { flow, in_a_row });
        if !self.quench(slot, out) {
            self.ask(slot, out);
        }
    }

    /// Tells the rate that a flow was given, and its round-trip time.
    pub fn gauge(&self, flow: FlowId, readings: &mut Readings<'_>) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        readings.tell_rate(Gauge::RATE, self.flows[slot].rate);
        readings.tell_span(Gauge::RTT, self.flows[slot].round_trip);
    }
}
