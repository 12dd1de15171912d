//! Homa's sending side (§3.2): the packet of the message with the fewest bytes left to send.

use std::ops::Range;

use flowloom_core::{Bytes, Flow, FlowId, Gauge, NodeId, Packet, Readings, Time};

use super::config::DOUBLINGS_MAX;
use super::header::Header;
use super::host::Rules;
use crate::toolkit::{FlowTable, IndexedHeap, Outbox};

/// A message that this node sends. Counts and ends are in packets.
struct Sending {
    dst: NodeId,
    size: Bytes,
    packets: u32,
    unscheduled: u32,
    /// The first packet that has not been sent.
    next: u32,
    /// The packets below this one may be sent.
    granted: u32,
    /// Packets to send again.
    again: Range<u32>,
    /// Order of opening, to break ties: the oldest first.
    order: u32,
    /// The level of the message's size.
    own_level: u8,
    /// The level of packets that are granted.
    level: u8,
    doublings: u32,
    /// When it sent or heard something last.
    quiet_since: Time,
}

impl Sending {
    fn may_send(&self) -> bool {
        self.next < self.granted || !self.again.is_empty()
    }
    /// When it asks for news, if it neither sends nor hears anything until then. Twice the receiver's timeout, so that the receiver asks first if it knows the message.
    fn query_at(&self, rules: &Rules) -> Time {
        self.quiet_since + rules.timeout * (2 << self.doublings)
    }
    /// Bytes left to send, also those that cannot be sent yet; then the order of opening. The last packet counts as a full one among
    /// those to send again.
    fn rank(&self, rules: &Rules) -> (u64, u32) {
        let payload = rules.framing.full_payload();
        let sent = (u64::from(self.next) * payload).min(self.size.get());
        (self.size.get() - sent + self.again.len() as u64 * payload, self.order)
    }
}

#[derive(Default)]
pub(super) struct Sender {
    messages: FlowTable<Sending>,
    /// The messages that may send now, by what they have left.
    ready: IndexedHeap<(u64, u32)>,
    /// When to ask for news of a message. If it is not silent then, its timer is postponed.
    queries: IndexedHeap<Time>,
    opened: u32,
}

impl Sender {
    pub fn open(&mut self, now: Time, flow: &Flow, rules: &Rules) {
        let packets = rules.framing.packets(flow.size);
        let unscheduled = packets.min(rules.window);
        let own_level = rules.levels.of_bytes(flow.size.get());
        self.opened = self.opened.wrapping_add(1);
        let slot = self.messages.insert(
            flow.id,
            Sending {
                dst: flow.dst,
                size: flow.size,
                packets,
                unscheduled,
                next: 0,
                granted: unscheduled,
                again: 0..0,
                order: self.opened,
                own_level,
                level: own_level,
                doublings: 0,
                quiet_since: now,
            },
        );
        self.ready.set(slot, self.messages[slot].rank(rules));
        self.queries.set(slot, now + rules.timeout * 2);
    }

    fn heard(&mut self, now: Time, flow: FlowId, rules: &Rules) -> Option<u32> {
        let slot = self.messages.slot_of(flow)?;
        let message = &mut self.messages[slot];
        message.quiet_since = now;
        if std::mem::take(&mut message.doublings) > 0 {
            self.queries.set(slot, message.query_at(rules));
        }
        Some(slot)
    }

    /// More packets may be sent.
    pub fn grant(&mut self, now: Time, flow: FlowId, end: u32, level: u8, rules: &Rules) {
        let Some(slot) = self.heard(now, flow, rules) else { return };
        let message = &mut self.messages[slot];
        let end = end.min(message.packets);
        if end > message.granted {
            (message.granted, message.level) = (end, level);
            self.ready.set(slot, message.rank(rules));
        }
    }

    /// The receiver misses packets. Those that have been sent are sent again; the others are granted, because a grant may have been lost.
    pub fn resend(&mut self, now: Time, flow: FlowId, missing: Range<u32>, level: u8, rules: &Rules, out: &mut Outbox<Header>) {
        let Some(slot) = self.heard(now, flow, rules) else { return };
        let message = &mut self.messages[slot];
        let missing = missing.start..missing.end.min(message.packets);
        if missing.is_empty() {
            return;
        }
        let none_is_new = missing.start >= message.next && missing.end <= message.granted;
        message.level = level;
        message.granted = message.granted.max(missing.end);
        message.again = missing.start..missing.end.min(message.next).max(missing.start);
        self.ready.set(slot, message.rank(rules));
        let dst = message.dst;
        if none_is_new || self.ready.peek().is_some_and(|(_, first)| first != slot) {
            out.packets.push_back(rules.framing.control(flow, dst, Header::Busy));
        }
    }

    /// The receiver has the whole message. Returns whether that is new.
    pub fn acknowledged(&mut self, flow: FlowId) -> bool {
        let Some(slot) = self.messages.slot_of(flow) else { return false };
        self.messages.remove(slot);
        self.ready.remove(slot);
        self.queries.remove(slot);
        true
    }

    /// Whether a message may send.
    #[inline]
    pub fn has_data(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next packet of the message with the fewest bytes left.
    pub fn data(&mut self, now: Time, rules: &Rules) -> Option<Packet<Header>> {
        let (_, slot) = self.ready.peek()?;
        let id = self.messages.flow_of(slot);
        let message = &mut self.messages[slot];
        let retransmission = !message.again.is_empty();
        let number = message.again.next().unwrap_or(message.next);
        message.next += u32::from(!retransmission);
        message.quiet_since = now;
        let Sending { dst, size, unscheduled, .. } = *message;
        let header = Header::Data { packet: number, unscheduled, size };
        let mut packet = rules.framing.data(id, dst, size, number, header);
        packet.retransmission = retransmission;
        packet.class = if retransmission || number >= unscheduled {
            message.level
        } else if rules.levels.by_remaining() {
            rules.levels.of_bytes(size.get() - packet.offset.get())
        } else {
            message.own_level
        };
        if message.may_send() {
            self.ready.set(slot, message.rank(rules));
        } else {
            self.ready.remove(slot);
        }
        Some(packet)
    }

    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        self.queries.peek().map(|(at, _)| at)
    }

    /// Asks for news of the messages that have sent all that they may send, and have heard nothing for an interval.
    pub fn timeout(&mut self, now: Time, rules: &Rules, out: &mut Outbox<Header>) {
        while let Some(slot) = self.queries.expired(now, |slot| self.messages[slot].query_at(rules)) {
            let id = self.messages.flow_of(slot);
            let message = &mut self.messages[slot];
            message.quiet_since = now;
            // A message that may send waits for shorter ones at this node, and not for its receiver.
            if !message.may_send() {
                message.doublings = (message.doublings + 1).min(DOUBLINGS_MAX);
                let header = Header::Query { unscheduled: message.unscheduled, size: message.size };
                out.packets.push_back(rules.framing.control(id, message.dst, header));
            }
            let next = message.query_at(rules);
            self.queries.set(slot, next);
        }
    }

    /// Tells how many packets of a message may be sent, and the level of those that are granted.
    pub fn gauge(&self, flow: FlowId, readings: &mut Readings<'_>) {
        let Some(slot) = self.messages.slot_of(flow) else { return };
        let Sending { next, granted, unscheduled, own_level, level, .. } = self.messages[slot];
        readings.tell(Gauge::TOKENS, granted.saturating_sub(next).into());
        readings.tell(Gauge::PRIORITY, if next < unscheduled { own_level } else { level }.into());
    }
}
