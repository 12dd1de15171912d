//! An ExpressPass node: a sender and a receiver behind one NIC.

use flowloom_core::{Endpoint, Event, Flow, Packet, Site, Time};

use super::config::{Config, Spans};
use super::feedback;
use super::header::Header;
use super::receiver::{Echo, Receiver};
use super::sender::Sender;
use crate::toolkit::{Framing, Outbox, earliest};

/// The configuration in the units of one node.
pub(super) struct Rules {
    pub framing: Framing,
    pub spans: Spans,
    pub feedback: feedback::Rules,
    pub jitter: f64,
    pub credit_spread: u32,
    pub early_stop: bool,
    pub silence_rtts: f64,
}

impl Rules {
    fn new(config: &Config, site: &Site<'_>) -> Rules {
        let spans = Spans::new(config, site.line_rate(), site.network, &site.wire);
        Rules {
            framing: Framing::new(site.node, &site.wire),
            spans: spans.expect("the configuration suits the network"),
            feedback: feedback::Rules::new(config),
            jitter: config.jitter,
            credit_spread: config.credit_spread.get() as u32,
            early_stop: config.early_stop,
            silence_rtts: config.silence_rtts,
        }
    }
}

/// The ExpressPass endpoint of one node.
pub struct Host {
    rules: Rules,
    sender: Sender,
    pub(super) receiver: Receiver,
    out: Outbox<Header>,
}

impl Host {
    /// A host without flows.
    pub fn new(config: &Config, site: &Site<'_>) -> Host {
        let rules = Rules::new(config, site);
        let receiver = Receiver::new(&rules.spans, site.seed);
        Host { rules, sender: Sender::new(), receiver, out: Outbox::default() }
    }
}

impl Endpoint for Host {
    type Header = Header;

    fn open(&mut self, now: Time, flow: &Flow) {
        self.sender.open(now, flow, &self.rules, &mut self.out);
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
        earliest(self.receiver.next_timeout(), self.sender.next_timeout())
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }
}
