//! NDP's receiving side (§3.2): an answer to every packet at once, and pulls at the pace of the link.

use flowloom_core::{Duration, Event, FlowId, NodeId, Packet, Time};

use super::config::{PullOrder, SILENT_RETRIES};
use super::header::Header;
use super::host::Rules;
use crate::toolkit::{FlowTable, IndexedHeap, Outbox, RangeSet, TimeWait};

/// A flow that this node receives.
struct Receiving {
    src: NodeId,
    packets: u32,
    /// Order of arrival at this node, to break ties.
    order: u64,
    arrived: RangeSet,
    /// Pulls for this flow: one for each packet that arrived, whole or not.
    queued: u32,
    /// How many of them were sent.
    pulls: u32,
    /// When a packet of the flow arrived last, or a pull was sent.
    last: Time,
    /// How many times in a row the last pull was repeated.
    repeats: u32,
}

/// The order of service, least first: turns or missing packets, then the order of arrival.
type Rank = (u64, u64);

pub(super) struct Receiver {
    flows: FlowTable<Receiving>,
    /// Flows with pulls to send.
    waiting: IndexedHeap<Rank>,
    /// When to look whether a flow has fallen silent. A timer may be earlier than it should; it is postponed when it expires.
    silent: IndexedHeap<Time>,
    finished: TimeWait,
    /// No pull is sent before this time.
    next_pull: Time,
    turns: u64,
}

impl Receiver {
    /// Remembers finished flows for `time_wait`.
    pub fn new(time_wait: Duration) -> Receiver {
        Receiver {
            flows: FlowTable::default(),
            waiting: IndexedHeap::default(),
            silent: IndexedHeap::default(),
            finished: TimeWait::new(time_wait),
            next_pull: Time::ZERO,
            turns: 0,
        }
    }

    /// Handles data packet `number` of a flow of `packets` packets, or its header alone: answers it, reports new bytes, and puts a pull for
    /// its flow into the queue.
    #[allow(clippy::too_many_arguments)] // the fields of one packet
    pub fn data(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        number: u32,
        packets: u32,
        whole: bool,
        rules: &Rules,
        out: &mut Outbox<Header>,
    ) {
        let id = packet.flow;
        if number >= packets {
            return;
        }
        let Some(slot) = self.slot(now, packet, packets, rules) else {
            if self.finished.refresh(now, id) {
                let header = Header::Ack { number, cumulative: packets, pulls: 0, queued: 0 };
                out.packets.push_back(rules.framing.control(id, packet.src, header));
            }
            return;
        };
        let flow = &mut self.flows[slot];
        if flow.packets != packets {
            return;
        }
        flow.last = now;
        flow.queued = flow.queued.saturating_add(1);
        if std::mem::take(&mut flow.repeats) > 0 {
            self.silent.set(slot, now + rules.spans.timeout(0));
        }
        if whole && flow.arrived.insert(number) {
            out.events.push_back(Event::Delivered { flow: id, offset: packet.offset, bytes: packet.payload() });
        }
        let complete = flow.arrived.is_complete(packets);
        if !complete {
            self.queue_pull(now, slot, rules);
        }
        let flow = &self.flows[slot];
        let (pulls, queued, cumulative) = (flow.pulls, flow.queued, flow.arrived.first_missing());
        let answer = match whole || flow.arrived.contains(number) {
            true => Header::Ack { number, cumulative, pulls, queued },
            false => Header::Nack { number, pulls, queued },
        };
        out.packets.push_back(rules.framing.control(id, packet.src, answer));
        if complete {
            out.events.push_back(Event::Received { flow: id });
            self.finish(now, id, slot);
        }
        self.pull(now, rules, out);
    }

    /// The state of a packet's flow, which the flow's first packet creates; `None` if the flow is finished.
    fn slot(&mut self, now: Time, packet: &Packet<Header>, packets: u32, rules: &Rules) -> Option<u32> {
        let known = self.flows.slot_of(packet.flow);
        if known.is_some() || self.finished.contains(packet.flow) {
            return known;
        }
        self.turns += 1;
        let flow = Receiving {
            src: packet.src,
            packets,
            order: self.turns,
            arrived: RangeSet::default(),
            queued: 0,
            pulls: 0,
            last: now,
            repeats: 0,
        };
        let slot = self.flows.insert(packet.flow, flow);
        self.silent.set(slot, now + rules.spans.timeout(0));
        Some(slot)
    }

    /// Puts a pull into the queue. If the queue is empty and a pull may be sent, the answer carries it.
    fn queue_pull(&mut self, now: Time, slot: u32, rules: &Rules) {
        if rules.pull_in_answer && now >= self.next_pull && self.waiting.is_empty() {
            self.flows[slot].pulls += 1;
            self.next_pull = now + rules.spans.slot;
        } else {
            self.wait(slot, rules);
        }
    }

    /// Gives a flow its place among those with pulls to send.
    fn wait(&mut self, slot: u32, rules: &Rules) {
        let flow = &self.flows[slot];
        match rules.pull_order {
            PullOrder::Srpt => self.waiting.set(slot, (u64::from(flow.packets - flow.arrived.len()), flow.order)),
            PullOrder::Fair if self.waiting.contains(slot) => {}
            PullOrder::Fair => {
                self.turns += 1;
                self.waiting.set(slot, (self.turns, 0));
            }
        }
    }

    /// Forgets a complete flow and its pulls. Late packets do not open it again.
    fn finish(&mut self, now: Time, id: FlowId, slot: u32) {
        self.waiting.remove(slot);
        self.silent.remove(slot);
        self.flows.remove(slot);
        self.finished.insert(now, id);
    }

    /// Sends a pull if one is due and a flow waits for it.
    fn pull(&mut self, now: Time, rules: &Rules, out: &mut Outbox<Header>) {
        if now < self.next_pull {
            return;
        }
        let Some((_, slot)) = self.waiting.pop() else { return };
        self.next_pull = now + rules.spans.slot;
        let flow = &mut self.flows[slot];
        flow.pulls += 1;
        flow.last = now;
        let (src, pulls, more) = (flow.src, flow.pulls, flow.queued > flow.pulls);
        out.packets.push_back(rules.framing.control(self.flows.flow_of(slot), src, Header::Pull { pulls }));
        if more {
            self.wait(slot, rules);
        }
    }

    /// When a pull is due, or a flow may have fallen silent.
    pub fn next_timeout(&self) -> Option<Time> {
        let pull = (!self.waiting.is_empty()).then_some(self.next_pull);
        match (pull, self.silent.peek()) {
            (Some(pull), Some((at, _))) => Some(pull.min(at)),
            (pull, silent) => pull.or(silent.map(|(at, _)| at)),
        }
    }

    pub fn timeout(&mut self, now: Time, rules: &Rules, out: &mut Outbox<Header>) {
        self.pull(now, rules, out);
        self.repeat_pulls(now, rules, out);
    }

    /// Repeats the last pull of flows whose pulls were all sent and from which nothing has come since: it may have been lost. The count in
    /// it makes a repetition harmless. After many repetitions, the sender must be gone.
    fn repeat_pulls(&mut self, now: Time, rules: &Rules, out: &mut Outbox<Header>) {
        let due = |flow: &Receiving| {
            let waits = flow.queued > flow.pulls;
            if waits { now + rules.spans.timeout(0) } else { flow.last + rules.spans.timeout(flow.repeats) }
        };
        while let Some(slot) = self.silent.expired(now, |slot| due(&self.flows[slot])) {
            let flow = &mut self.flows[slot];
            flow.last = now;
            flow.repeats += 1;
            let (src, pulls, gone) = (flow.src, flow.pulls, flow.repeats >= SILENT_RETRIES);
            out.packets.push_back(rules.framing.control(self.flows.flow_of(slot), src, Header::Pull { pulls }));
            if gone {
                self.silent.remove(slot);
            } else {
                let due = due(&self.flows[slot]);
                self.silent.set(slot, due);
            }
        }
    }
}
