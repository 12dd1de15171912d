//! Homa's receiving side: grants (§3.3 to §3.5), and requests for lost packets (§3.7).

use flowloom_core::{Bytes, Event, FlowId, NodeId, Packet, Time};

use super::header::Header;
use super::host::Rules;
use super::schedule::{Rank, Schedule};
use crate::toolkit::{FlowTable, IndexedHeap, Outbox, RangeSet, TimeWait};

/// What a sender says of a message.
#[derive(Clone, Copy)]
pub(super) struct Message {
    pub size: Bytes,
    /// How many packets it sends without a grant.
    pub unscheduled: u32,
}

/// A message that this node receives. Counts and ends are in packets.
struct Receiving {
    src: NodeId,
    size: u64,
    packets: u32,
    unscheduled: u32,
    /// The sender may send all packets below this one.
    granted: u32,
    received: RangeSet,
    /// Bytes that have not arrived.
    missing: u64,
    /// Order of arrival at this node, to break ties: the oldest first.
    order: u32,
    /// The level of the last grant.
    level: u8,
    /// The sender has not answered `resends` requests. The message has no grants and no timer until it is heard from.
    asleep: bool,
    /// Requests in a row that were not answered.
    resends: u32,
    /// When a packet came last, or was granted or asked for.
    quiet_since: Time,
}

impl Receiving {
    fn needs_grants(&self) -> bool {
        self.granted < self.packets
    }
    fn is_expected(&self) -> bool {
        self.received.len() < self.granted
    }
    /// Packets that were granted and have not come.
    fn scheduled_outstanding(&self) -> u64 {
        u64::from(self.granted.saturating_sub(self.unscheduled.max(self.received.len())))
    }
    fn rank(&self) -> Rank {
        (self.missing, self.order)
    }
}

pub(super) struct Receiver {
    messages: FlowTable<Receiving>,
    schedule: Schedule,
    /// Packets of all messages that were granted and have not come. Messages that are asleep do not count.
    scheduled_outstanding: u64,
    /// Whether a grant had to wait because the limit was reached.
    held_back: bool,
    /// When to look whether a message has gone silent. A message that was heard from is looked at again only when its timer expires.
    silences: IndexedHeap<Time>,
    finished: TimeWait,
    arrivals: u32,
}

impl Receiver {
    pub fn new(rules: &Rules) -> Receiver {
        Receiver {
            messages: FlowTable::default(),
            schedule: Schedule::new(rules.overcommitment),
            scheduled_outstanding: 0,
            held_back: false,
            silences: IndexedHeap::default(),
            finished: TimeWait::new(rules.time_wait),
            arrivals: 0,
        }
    }

    /// Adds a message, unless its size is impossibly large.
    fn admit(&mut self, now: Time, packet: &Packet<Header>, message: Message, rules: &Rules) -> Option<u32> {
        let packets = rules.framing.checked_packets(message.size)?;
        if packet.src.index() >= rules.nodes {
            return None;
        }
        self.arrivals = self.arrivals.wrapping_add(1);
        let unscheduled = message.unscheduled.min(packets);
        let slot = self.messages.insert(
            packet.flow,
            Receiving {
                src: packet.src,
                size: message.size.get(),
                packets,
                unscheduled,
                granted: unscheduled,
                received: RangeSet::default(),
                missing: message.size.get(),
                order: self.arrivals,
                level: rules.levels.of_bytes(message.size.get()),
                asleep: false,
                resends: 0,
                quiet_since: now,
            },
        );
        self.silences.set(slot, now + rules.timeout);
        self.place(slot, rules);
        Some(slot)
    }

    /// The group of a message in the schedule.
    fn group(&self, slot: u32, rules: &Rules) -> u32 {
        if rules.one_per_sender { self.messages[slot].src.0 } else { slot }
    }

    /// Adds a message to the schedule, or changes its rank, if it needs grants; removes it if it does not.
    fn place(&mut self, slot: u32, rules: &Rules) {
        let (message, group) = (&self.messages[slot], self.group(slot, rules));
        if message.needs_grants() && !message.asleep {
            self.schedule.set(group, slot, message.rank());
        } else {
            self.schedule.remove(group, slot);
        }
    }

    /// Handles packet `number` of a message. Reports its new bytes, acknowledges a complete message, and grants what may be granted now.
    pub fn data(
        &mut self,
        now: Time,
        packet: &Packet<Header>,
        number: u32,
        claim: Message,
        rules: &Rules,
        out: &mut Outbox<Header>,
    ) {
        let id = packet.flow;
        let slot = match self.messages.slot_of(id) {
            Some(slot) => slot,
            None if self.finished.refresh(now, id) => {
                return out.packets.push_back(rules.framing.control(id, packet.src, Header::Ack));
            }
            None => match self.admit(now, packet, claim, rules) {
                Some(slot) => slot,
                None => return,
            },
        };
        self.heard(now, slot, rules);
        let message = &mut self.messages[slot];
        message.quiet_since = now;
        if number < message.packets && message.received.insert(number) {
            if packet.payload_bytes > 0 {
                out.events.push_back(Event::Delivered { flow: id, offset: packet.offset, bytes: packet.payload() });
            }
            message.missing = message.missing.saturating_sub(packet.payload().get());
            let needed_grants = message.needs_grants();
            let received = message.received.len();
            if received > message.granted {
                message.granted = received; // no grant asked for it, so the sender does not keep to the rules
            } else if received > message.unscheduled {
                self.scheduled_outstanding -= 1;
            }
            if received == message.packets {
                out.events.push_back(Event::Received { flow: id });
                out.packets.push_back(rules.framing.control(id, packet.src, Header::Ack));
                self.finish(now, id, slot, rules);
                return self.grant(now, None, rules, out);
            }
            if needed_grants {
                self.place(slot, rules);
            }
        }
        self.grant(now, self.schedule.place_of(slot), rules, out);
    }

    fn finish(&mut self, now: Time, id: FlowId, slot: u32, rules: &Rules) {
        self.schedule.remove(self.group(slot, rules), slot);
        self.silences.remove(slot);
        self.messages.remove(slot);
        self.finished.insert(now, id);
    }

    /// Notes that a message's sender is alive.
    fn heard(&mut self, now: Time, slot: u32, rules: &Rules) {
        let message = &mut self.messages[slot];
        message.resends = 0;
        if message.asleep {
            message.asleep = false;
            self.scheduled_outstanding += message.scheduled_outstanding();
            self.silences.set(slot, now + rules.timeout);
            self.place(slot, rules);
        }
    }

    /// The sender has packets that were asked for, and sends others first.
    pub fn busy(&mut self, now: Time, flow: FlowId, rules: &Rules, out: &mut Outbox<Header>) {
        if let Some(slot) = self.messages.slot_of(flow) {
            self.heard(now, slot, rules);
            self.messages[slot].quiet_since = now;
            self.grant(now, None, rules, out);
        }
    }

    /// The sender has sent all that it may send: asks for what is missing, unless it may still be on its way.
    pub fn query(&mut self, now: Time, packet: &Packet<Header>, claim: Message, rules: &Rules, out: &mut Outbox<Header>) {
        let id = packet.flow;
        let known = self.messages.slot_of(id);
        if known.is_none() && self.finished.refresh(now, id) {
            return out.packets.push_back(rules.framing.control(id, packet.src, Header::Ack));
        }
        let Some(slot) = known.or_else(|| self.admit(now, packet, claim, rules)) else { return };
        self.heard(now, slot, rules);
        let message = &mut self.messages[slot];
        if message.is_expected() && (known.is_none() || now >= message.quiet_since + rules.timeout) {
            message.quiet_since = now;
            self.ask(slot, rules, out);
        }
        self.grant(now, None, rules, out);
    }

    /// Sends the grants that may be sent now. Only the message at `place` has room for one, unless other messages were added or
    /// held back.
    #[inline]
    fn grant(&mut self, now: Time, place: Option<usize>, rules: &Rules, out: &mut Outbox<Header>) {
        let room = self.held_back && self.scheduled_outstanding < rules.scheduled_most;
        let mut all = self.schedule.take_changed() || room;
        if let Some(place) = place.filter(|_| !all) {
            self.grant_at(now, place, rules, out);
            all = self.schedule.take_changed();
        }
        if !all {
            return;
        }
        self.held_back = false;
        let mut place = 0;
        while place < self.schedule.len() {
            // A message that has its last grant makes way for the next one.
            if !self.grant_at(now, place, rules, out) {
                place += 1;
            }
        }
        self.schedule.take_changed();
    }

    /// Grants to the message at `place` what its window allows. Returns whether this was its last grant.
    fn grant_at(&mut self, now: Time, place: usize, rules: &Rules, out: &mut Outbox<Header>) -> bool {
        let slot = self.schedule.slot_at(place);
        let message = &mut self.messages[slot];
        let end = message.packets.min(message.received.len().saturating_add(rules.window));
        let wanted = u64::from(end.saturating_sub(message.granted));
        let allowed = wanted.min(rules.scheduled_most.saturating_sub(self.scheduled_outstanding));
        self.held_back |= allowed < wanted;
        if allowed == 0 {
            return false;
        }
        // What is left of the message from the first packet on that this grant adds.
        let left = message.size - u64::from(message.granted) * rules.framing.full_payload();
        message.level = if rules.levels.by_remaining() && left <= u64::from(rules.window) * rules.framing.full_payload() {
            rules.levels.of_bytes(left)
        } else {
            rules.levels.scheduled(place, self.schedule.len())
        };
        message.granted += allowed as u32;
        message.quiet_since = now;
        self.scheduled_outstanding += allowed;
        let (src, end, level, last) = (message.src, message.granted, message.level, !message.needs_grants());
        out.packets.push_back(rules.framing.control(self.messages.flow_of(slot), src, Header::Grant { end, level }));
        if last {
            self.schedule.remove(self.group(slot, rules), slot);
        }
        last
    }

    /// Asks for the first packets that are missing.
    fn ask(&mut self, slot: u32, rules: &Rules, out: &mut Outbox<Header>) {
        let message = &self.messages[slot];
        let first = message.received.first_missing();
        let island = message.received.islands().last().map_or(message.granted, |island| island.start);
        let end = island.min(message.granted);
        if first < end {
            let header = Header::Resend { first, end, level: message.level };
            out.packets.push_back(rules.framing.control(self.messages.flow_of(slot), message.src, header));
        }
    }

    /// When a message may have gone silent next.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        self.silences.peek().map(|(at, _)| at)
    }

    /// Asks for packets of the messages that have gone silent, or gives them up for now.
    pub fn timeout(&mut self, now: Time, rules: &Rules, out: &mut Outbox<Header>) {
        let messages = &self.messages;
        let mut silent = self.silences.expired(now, |slot| messages[slot].quiet_since + rules.timeout);
        while let Some(slot) = silent {
            let message = &mut self.messages[slot];
            if !message.is_expected() {
                self.silences.set(slot, now + rules.timeout); // it waits for grants
            } else if message.resends < rules.resends {
                message.resends += 1;
                message.quiet_since = now;
                self.silences.set(slot, now + rules.timeout);
                self.ask(slot, rules, out);
            } else {
                message.asleep = true;
                self.scheduled_outstanding -= message.scheduled_outstanding();
                self.silences.remove(slot);
                self.place(slot, rules);
            }
            let messages = &self.messages;
            silent = self.silences.expired(now, |slot| messages[slot].quiet_since + rules.timeout);
        }
        self.grant(now, None, rules, out);
    }
}
