//! The arbiter: it knows what every sender wants to send, and assigns the slots.

use flowloom_core::{Duration, Endpoint, Event, Flow, NodeId, Packet, Site, Time};

use super::config::Spans;
use super::header::Slots;
use super::matching::Matching;
use super::{Config, Header};
use crate::toolkit::{Framing, Outbox};

/// The arbiter. At the beginning of each epoch in which a flow wants slots, it matches the slots of the next epoch and sends every
/// sender its own. This takes no time.
pub struct Arbiter {
    framing: Framing,
    matching: Matching,
    epoch: Duration,
    slots: usize,
    /// When an epoch begins for which there is something to match.
    next: Option<Time>,
    /// By sender, its slots of the epoch that is being matched; reused.
    schedules: Vec<Slots>,
    out: Outbox<Header>,
}

impl Arbiter {
    /// An arbiter for all hosts of the site's network.
    ///
    /// # Panics
    /// As [`Host::new`](super::Host::new).
    pub fn new(config: &Config, site: &Site<'_>) -> Arbiter {
        let rate = site.network.nic_rate(NodeId(0));
        let spans = Spans::new(config, rate, site.network, &site.wire).expect("the configuration suits the network");
        Arbiter {
            framing: Framing::new(site.node, &site.wire),
            matching: Matching::new(config.policy, site.network.nics()),
            epoch: spans.epoch,
            slots: config.epoch_slots as usize,
            next: None,
            schedules: vec![Slots::EMPTY; site.network.nics()],
            out: Outbox::default(),
        }
    }

    fn schedule(&mut self, epoch: u32) {
        for slot in 0..self.slots {
            self.matching.match_slot(|sender, flow| self.schedules[sender.index()].grant(slot, flow));
        }
        for (sender, slots) in (0..).map(NodeId).zip(&mut self.schedules) {
            let slots = std::mem::replace(slots, Slots::EMPTY);
            if let Some((_, flow)) = slots.granted().next() {
                self.out.packets.push_back(self.framing.control(flow, sender, Header::Schedule { epoch, slots }));
            }
        }
    }
}

impl Endpoint for Arbiter {
    type Header = Header;

    fn open(&mut self, _: Time, flow: &Flow) {
        panic!("flow {} starts at the arbiter, which takes no part in the workload", flow.id.0);
    }

    fn handle_packet(&mut self, now: Time, packet: &Packet<Header>) {
        let Header::Request { to, remaining, deadline } = packet.header else { return };
        self.matching.set(packet.flow, packet.src, to, remaining, deadline);
        self.next = match self.next {
            _ if self.matching.is_empty() => None,
            None => Some(beginning(now.as_ps() / self.epoch.as_ps() + 1, self.epoch)),
            next => next,
        };
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        let epoch = now.as_ps() / self.epoch.as_ps() + 1;
        self.schedule(epoch as u32); // hosts restore the high bits
        self.next = (!self.matching.is_empty()).then(|| beginning(epoch, self.epoch));
    }

    fn poll_transmit(&mut self, _: Time) -> Option<Packet<Header>> {
        self.out.packets.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn known_flows(&self) -> usize {
        self.matching.len()
    }
}

/// When an epoch begins. Epochs are counted from time 0.
pub(super) fn beginning(epoch: u64, length: Duration) -> Time {
    Time::ZERO + length * epoch
}
