//! An ExpressPass node: a sender and a receiver behind one NIC.

use flowloom_core::{Endpoint, Event, Flow, FlowId, Packet, Readings, Site, Time};

use super::config::Config;
use super::credits::Echo;
use super::header::Header;
use super::receiver::Receiver;
use super::scheme::{Outbound, Rules, Scheme};
use super::sender::Sender;
use super::{CREDIT, DATA, ExpressPass};
use crate::toolkit::{Outbox, earliest};

/// What a sender knows of a flow: it goes back to the packet that is missing.
pub struct GoBack {
    packets: u32,
    /// The next packet to send.
    next: u32,
    /// One past the highest packet ever sent.
    sent: u32,
}

impl Outbound for GoBack {
    fn left(&self) -> u32 {
        self.packets - self.next
    }

    fn take(&mut self) -> (u32, bool) {
        let number = self.next;
        let again = number < self.sent;
        self.next += 1;
        self.sent = self.sent.max(self.next);
        (number, again)
    }

    fn miss(&mut self, number: u32) -> bool {
        let was_sent = number < self.next;
        self.next = self.next.min(number);
        was_sent
    }
}

impl Scheme for ExpressPass {
    type Header = Header;
    type Node = ();
    type Outbound = GoBack;
    type Inbound = ();

    fn data_class(_: &Rules<ExpressPass>) -> u8 {
        DATA
    }
    fn request(flow: &GoBack) -> Header {
        Header::Request { packets: flow.packets, remaining: flow.left() }
    }
    fn stop(flow: &GoBack, again: bool) -> Header {
        Header::Stop { packets: flow.packets, again }
    }
    fn data(flow: &GoBack, number: u32, credit: u32, sent: Time) -> Header {
        Header::Data { number, packets: flow.packets, credit, sent }
    }
    fn credit(_: &Rules<ExpressPass>, (): &(), now: Time, credit: u32) -> (Header, u8) {
        (Header::Credit { credit, sent: now }, CREDIT)
    }
}

/// The ExpressPass endpoint of one node.
pub struct Host {
    rules: Rules<ExpressPass>,
    sender: Sender<ExpressPass>,
    pub(super) receiver: Receiver,
    out: Outbox<Header>,
}

impl Host {
    /// A host without flows.
    pub fn new(config: &Config, site: &Site<'_>) -> Host {
        let rules = Rules::new(config, site.wire.control + site.wire.full, (), site);
        let receiver = Receiver::new(&rules, site.seed);
        Host { rules, sender: Sender::new(), receiver, out: Outbox::default() }
    }
}

impl Endpoint for Host {
    type Header = Header;

    fn open(&mut self, now: Time, flow: &Flow) {
        let packets = GoBack { packets: self.rules.framing.packets(flow.size), next: 0, sent: 0 };
        self.sender.open(now, flow, packets, &self.rules, &mut self.out);
    }

    fn handle_packet(&mut self, now: Time, packet: &Packet<Header>) {
        let (rules, out) = (&self.rules, &mut self.out);
        match packet.header {
            Header::Request { packets, remaining } => self.receiver.request(now, packet, packets, remaining, rules, out),
            Header::Credit { credit, sent } => self.sender.credit(now, packet.flow, credit, sent, rules, out),
            Header::Data { number, packets, credit, sent } => {
                self.receiver.data(now, packet, number, packets, Echo { credit, sent }, rules, out);
            }
            Header::Stop { packets, again } => self.receiver.stop(now, packet, packets, again, rules, out),
            Header::Nack { from } => self.sender.nack(now, packet.flow, from, rules, out),
            Header::Ack => self.sender.acknowledged(packet.flow, out),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.receiver.timeout(now, &self.rules, &mut self.out);
        self.sender.timeout(now, &self.rules, &mut self.out);
    }

    /// The NIC's port orders signals, credits and data.
    fn poll_transmit(&mut self, _: Time) -> Option<Packet<Header>> {
        self.out.packets.pop_front()
    }

    #[inline]
    fn may_transmit(&self) -> bool {
        !self.out.packets.is_empty()
    }

    fn poll_timeout(&self) -> Option<Time> {
        earliest(self.receiver.credits.next_timeout(), self.sender.next_timeout())
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }

    fn gauge(&self, _: Time, flow: FlowId, readings: &mut Readings<'_>) {
        self.receiver.credits.gauge(flow, &self.rules, readings);
    }
}
