//! NDP's sending side (§3.2): the first window without asking, then one packet per pull.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use flowloom_core::{Bytes, Event, Flow, FlowId, Gauge, NodeId, Packet, Readings, Site, Time};

use super::config::{DOUBLINGS_MAX, Spans};
use super::header::{Header, Part};
use super::host::Rules;
use crate::toolkit::{FlowTable, IndexedHeap, Outbox, PathDealer, PathDeck, RangeSet};

/// How many packets of each path a sender that leaves out bad ones remembers. A path that is too slow trims most of its packets, so few tell.
const REMEMBERED: u64 = 16;

/// The receiver's counts of a flow's pulls.
#[derive(Clone, Copy)]
pub(super) struct Pulls {
    /// Those that it has sent.
    pub sent: u32,
    /// Those that it has sent, and those that wait.
    pub queued: u32,
}

/// A packet that was sent and not answered.
struct Unanswered {
    /// When it times out.
    due: Time,
    number: u32,
    path: Option<u16>,
}

/// A flow that this node sends.
struct Sending {
    dst: NodeId,
    size: Bytes,
    packets: u32,
    /// All packets below this one have been sent at least once.
    next: u32,
    acked: RangeSet,
    /// Packets to send again, lowest first. Some may have been acknowledged since.
    refused: BinaryHeap<Reverse<u32>>,
    /// Packets that were sent and not answered, and when each times out, in the order of sending and of timeouts. A window of them is short
    /// enough to be searched.
    unanswered: VecDeque<Unanswered>,
    /// How many packets may be sent now. A pull that finds nothing to send is kept: on another path, it may have overtaken the NACK that
    /// it belongs to.
    allowance: u32,
    /// The largest counts that the receiver has reported.
    pulls: Pulls,
    /// Timeouts in a row without any sign of the receiver. Packets that are sent together and time out together count once.
    timeouts: u32,
    /// When the last of them was counted.
    counted: Time,
    /// When the receiver's last answer or pull came.
    last_heard: Time,
    paths: PathDeck,
}

impl Sending {
    fn may_send(&self) -> bool {
        self.allowance > 0 && (self.next < self.packets || !self.refused.is_empty())
    }

    /// The packet to send next, and whether it was sent before.
    fn next_packet(&mut self) -> Option<(u32, bool)> {
        while let Some(Reverse(number)) = self.refused.pop() {
            if !self.acked.contains(number) {
                return Some((number, true));
            }
        }
        let number = self.next;
        (number < self.packets).then(|| {
            self.next += 1;
            (number, false)
        })
    }

    /// Records that a packet was answered, and whether it has arrived whole. Returns whether this is its first answer.
    fn answered(&mut self, number: u32, arrived: bool) -> bool {
        let place = self.unanswered.iter().position(|packet| packet.number == number);
        let Some(packet) = place.and_then(|place| self.unanswered.remove(place)) else { return false };
        self.paths.tell(packet.path, arrived);
        true
    }

    /// When the flow times out: with its first unanswered packet. If there is none, it waits for a pull, and does so for the longest timeout
    /// after the receiver's last sign. Pulls may wait for long at the receiver, but a receiver that has completed the flow with another copy
    /// of a refused packet has forgotten them. [`Time::MAX`] if a packet can be sent and none is unanswered.
    fn due(&self, spans: &Spans) -> Time {
        match self.unanswered.front() {
            Some(packet) => packet.due,
            None if self.may_send() => Time::MAX,
            None => self.last_heard + spans.timeout(DOUBLINGS_MAX),
        }
    }

    /// If the flow is due, lets the packet that timed out be sent again, or any packet if no pull came. Counts a timeout if the packet was
    /// sent since the last one.
    fn time_out(&mut self, now: Time, spans: &Spans) -> bool {
        let due = self.due(spans);
        if due > now {
            return false;
        }
        if let Some(packet) = self.unanswered.pop_front() {
            self.refused.push(Reverse(packet.number));
            self.paths.tell(packet.path, false);
        }
        self.allowance = self.allowance.saturating_add(1);
        if self.timeouts == 0 || due >= self.counted + spans.timeout(self.timeouts) {
            self.timeouts = self.timeouts.saturating_add(1);
            self.counted = now;
        }
        true
    }
}

pub(super) struct Sender {
    flows: FlowTable<Sending>,
    /// Flows that may send, by turn.
    ready: IndexedHeap<u64>,
    turns: u64,
    /// The timers of flows with unanswered packets. A timer may be earlier than it should; it is postponed when it expires.
    timers: IndexedHeap<Time>,
    dealer: PathDealer,
}

impl Sender {
    pub fn new(site: &Site<'_>, avoid_paths: bool) -> Sender {
        Sender {
            flows: FlowTable::default(),
            ready: IndexedHeap::default(),
            turns: 0,
            timers: IndexedHeap::default(),
            dealer: PathDealer::new(site, avoid_paths.then_some(REMEMBERED)),
        }
    }

    pub fn open(&mut self, flow: &Flow, rules: &Rules) {
        let packets = rules.framing.packets(flow.size);
        let slot = self.flows.insert(
            flow.id,
            Sending {
                dst: flow.dst,
                size: flow.size,
                packets,
                next: 0,
                acked: RangeSet::default(),
                refused: BinaryHeap::new(),
                unanswered: VecDeque::new(),
                allowance: rules.initial_window.min(packets),
                pulls: Pulls { sent: 0, queued: 0 },
                timeouts: 0,
                counted: Time::ZERO,
                last_heard: Time::ZERO,
                paths: self.dealer.deck(flow.dst).unwrap_or_default(),
            },
        );
        self.enlist(slot);
    }

    /// Gives a flow a turn if it may send and has none.
    fn enlist(&mut self, slot: u32) {
        if self.flows[slot].may_send() && !self.ready.contains(slot) {
            self.turns += 1;
            self.ready.set(slot, self.turns);
        }
    }

    /// The flow's receiver is alive: its timeouts are short again.
    fn heard(&mut self, now: Time, slot: u32, rules: &Rules) {
        let flow = &mut self.flows[slot];
        flow.last_heard = now;
        if std::mem::take(&mut flow.timeouts) == 0 || flow.unanswered.is_empty() {
            return;
        }
        let latest = now + rules.spans.timeout(0);
        flow.unanswered.iter_mut().for_each(|packet| packet.due = latest.min(packet.due));
        let due = flow.due(&rules.spans);
        self.timers.set(slot, due);
    }

    /// After packets were answered or pulled: enlists the flow, and sets or removes its timer if no packet is unanswered.
    fn settle(&mut self, slot: u32, rules: &Rules) {
        let flow = &self.flows[slot];
        if flow.unanswered.is_empty() {
            if flow.may_send() {
                self.timers.remove(slot);
            } else {
                self.timers.set(slot, flow.due(&rules.spans));
            }
        }
        self.enlist(slot);
    }

    /// Takes over the receiver's counts of pulls. They only grow, so a lost pull is replaced by the next.
    fn count(&mut self, now: Time, slot: u32, pulls: Pulls, rules: &Rules) {
        self.heard(now, slot, rules);
        let flow = &mut self.flows[slot];
        flow.pulls.queued = flow.pulls.queued.max(pulls.queued);
        if pulls.sent > flow.pulls.sent {
            flow.allowance = flow.allowance.saturating_add(pulls.sent - flow.pulls.sent);
            flow.pulls.sent = pulls.sent;
        }
    }

    /// Handles a pull.
    pub fn pulled(&mut self, now: Time, flow: FlowId, pulls: Pulls, rules: &Rules) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        self.count(now, slot, pulls, rules);
        self.settle(slot, rules);
    }

    /// Handles an ACK. Returns whether the flow is complete now.
    pub fn acknowledged(&mut self, now: Time, flow: FlowId, number: u32, cumulative: u32, pulls: Pulls, rules: &Rules) -> bool {
        let Some(slot) = self.flows.slot_of(flow) else { return false };
        self.count(now, slot, pulls, rules);
        let state = &mut self.flows[slot];
        if number < state.next {
            state.answered(number, true);
            state.acked.insert(number);
        }
        let cumulative = cumulative.min(state.next);
        if cumulative > state.acked.first_missing() {
            // ACKs were lost.
            state.acked.insert_below(cumulative);
            state.unanswered.retain(|packet| packet.number >= cumulative);
        }
        if !state.acked.is_complete(state.packets) {
            self.settle(slot, rules);
            return false;
        }
        self.flows.remove(slot);
        self.ready.remove(slot);
        self.timers.remove(slot);
        true
    }

    /// Handles a NACK: the packet is sent again when a pull comes.
    pub fn refused(&mut self, now: Time, flow: FlowId, number: u32, pulls: Pulls, rules: &Rules) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        self.count(now, slot, pulls, rules);
        let state = &mut self.flows[slot];
        if state.answered(number, false) {
            state.refused.push(Reverse(number));
        }
        self.settle(slot, rules);
    }

    /// Handles a header that a switch has returned (§3.2). Its packet waits for a pull like one that was refused. Only if no pull is on its
    /// way or waiting at the receiver, and no packet is under way that will cause one, it is sent again at once.
    pub fn returned(&mut self, now: Time, flow: FlowId, number: u32, rules: &Rules) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        self.heard(now, slot, rules);
        let state = &mut self.flows[slot];
        if state.answered(number, false) {
            state.refused.push(Reverse(number));
            if state.unanswered.is_empty() && state.pulls.queued <= state.pulls.sent {
                state.allowance = state.allowance.saturating_add(1);
            }
            self.settle(slot, rules);
        }
    }

    /// Whether [`Sender::data`] may have a packet.
    #[inline]
    pub fn may_send(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next data packet. Flows take turns.
    pub fn data(&mut self, now: Time, rules: &Rules) -> Option<Packet<Header>> {
        while let Some((_, slot)) = self.ready.pop() {
            let id = self.flows.flow_of(slot);
            let flow = &mut self.flows[slot];
            let Some((number, again)) = flow.next_packet() else { continue };
            let path = self.dealer.draw(&mut flow.paths);
            let header = Header::Data { part: Part::Whole, path, number, packets: flow.packets };
            let mut packet = rules.framing.data(id, flow.dst, flow.size, number, header);
            packet.class = 1;
            packet.retransmission = again;
            flow.allowance -= 1;
            flow.unanswered.push_back(Unanswered { due: now + rules.spans.timeout(flow.timeouts), number, path });
            if flow.unanswered.len() == 1 {
                let due = flow.due(&rules.spans);
                self.timers.set(slot, due);
            }
            self.enlist(slot);
            return Some(packet);
        }
        None
    }

    pub fn next_timeout(&self) -> Option<Time> {
        self.timers.peek().map(|(at, _)| at)
    }

    /// Sends packets again that were not answered in time, and a packet of each flow whose pulls do not come.
    pub fn timeout(&mut self, now: Time, rules: &Rules, out: &mut Outbox<Header>) {
        while let Some(slot) = self.timers.expired(now, |slot| self.flows[slot].due(&rules.spans)) {
            let flow = &mut self.flows[slot];
            let before = flow.timeouts;
            while flow.time_out(now, &rules.spans) {}
            let (in_a_row, due) = (flow.timeouts, flow.due(&rules.spans));
            self.timers.set(slot, due);
            if in_a_row > before {
                out.events.push_back(Event::TimedOut { flow: self.flows.flow_of(slot), in_a_row });
            }
            self.settle(slot, rules);
        }
    }

    /// Tells how many packets of a flow may be sent, and what is unanswered.
    pub fn gauge(&self, flow: FlowId, rules: &Rules, readings: &mut Readings<'_>) {
        let Some(slot) = self.flows.slot_of(flow) else { return };
        let (state, payload) = (&self.flows[slot], rules.framing.full_payload() as f64);
        readings.tell(Gauge::TOKENS, state.allowance.into());
        readings.tell(Gauge::IN_FLIGHT, state.unanswered.len() as f64 * payload);
    }
}
