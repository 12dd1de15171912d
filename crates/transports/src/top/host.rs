//! A TOP node: a sender and a receiver behind one NIC.

use flowloom_core::{Endpoint, Event, Flow, FlowId, Packet, Readings, Site, Time};

use super::Top;
use super::config::{Config, Priority};
use super::header::Header;
use super::priorities::Standing;
use super::receiver::Receiver;
use super::scheme::{Node, Pending};
use crate::expresspass::credits::Echo;
use crate::expresspass::scheme::Rules;
use crate::expresspass::sender::Sender;
use crate::toolkit::{Outbox, earliest};

/// The TOP endpoint of one node.
pub struct Host {
    rules: Rules<Top>,
    sender: Sender<Top>,
    pub(super) receiver: Receiver,
    out: Outbox<Header>,
}

impl Host {
    /// A host without flows.
    pub fn new(config: &Config, site: &Site<'_>) -> Host {
        let mut rules = Rules::new(&config.credits, config.slot(&site.wire), Node::new(config, site), site);
        // A token that has become more urgent overtakes those that were sent before it.
        rules.reorders |= matches!(config.priority, Priority::Remaining | Priority::Deadline);
        let receiver = Receiver::new(&rules, site.seed);
        Host { rules, sender: Sender::new(), receiver, out: Outbox::default() }
    }

    /// Sends a short flow without tokens, behind its SYNC.
    fn send_unscheduled(&mut self, flow: &Flow, packets: u32) {
        let rules = &self.rules;
        for number in 0..packets {
            let header = Header::Data { number, packets, token: 0, sent: Header::UNSCHEDULED };
            let mut packet = rules.framing.data(flow.id, flow.dst, flow.size, number, header);
            packet.class = rules.node.unscheduled_class();
            self.out.packets.push_back(packet);
        }
    }
}

impl Endpoint for Host {
    type Header = Header;

    fn open(&mut self, now: Time, flow: &Flow) {
        let packets = Pending::new(flow, &self.rules);
        let unscheduled = packets.unscheduled;
        self.sender.open(now, flow, packets, &self.rules, &mut self.out);
        self.send_unscheduled(flow, unscheduled);
    }

    fn handle_packet(&mut self, now: Time, packet: &Packet<Header>) {
        let (rules, out) = (&self.rules, &mut self.out);
        match packet.header {
            Header::Sync { packets, remaining, unscheduled, urgency } => {
                let standing = Standing { packets, received: 0, urgency };
                self.receiver.sync(now, packet, standing, [remaining, unscheduled], rules, out);
            }
            Header::Token { token, sent, .. } => self.sender.credit(now, packet.flow, token, sent, rules, out),
            Header::Data { number, packets, token, sent } => {
                self.receiver.data(now, packet, number, packets, Echo { credit: token, sent }, rules, out);
            }
            Header::Fin { packets, again } => self.receiver.fin(now, packet, packets, again, rules, out),
            Header::Nack { number } => self.sender.nack(now, packet.flow, number, rules, out),
            Header::Ack => self.sender.acknowledged(packet.flow, out),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.receiver.timeout(now, &self.rules, &mut self.out);
        self.sender.timeout(now, &self.rules, &mut self.out);
    }

    /// The NIC's port orders signals, tokens and data.
    fn poll_transmit(&mut self, _: Time) -> Option<Packet<Header>> {
        self.out.packets.pop_front()
    }

    #[inline]
    fn may_transmit(&self) -> bool {
        !self.out.packets.is_empty()
    }

    fn poll_timeout(&self) -> Option<Time> {
        earliest(self.receiver.tokens.next_timeout(), self.sender.next_timeout())
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }

    fn gauge(&self, now: Time, flow: FlowId, readings: &mut Readings<'_>) {
        self.receiver.gauge(now, flow, &self.rules, readings);
    }
}
