//! An NDP node: a sender and a receiver behind one NIC.

use flowloom_core::{Endpoint, Event, Flow, FlowId, Packet, Readings, Site, Time};

use super::config::{Config, PullOrder, Spans};
use super::header::{Header, Part};
use super::receiver::Receiver;
use super::sender::{Pulls, Sender};
use crate::toolkit::{Framing, Outbox, earliest};

/// The configuration in the units of one node.
pub(super) struct Rules {
    pub framing: Framing,
    pub spans: Spans,
    pub initial_window: u32,
    pub pull_order: PullOrder,
    pub pull_in_answer: bool,
}

/// The NDP endpoint of one node.
pub struct Host {
    rules: Rules,
    sender: Sender,
    receiver: Receiver,
    out: Outbox<Header>,
}

impl Host {
    pub(super) fn new(config: &Config, site: &Site<'_>) -> Host {
        let spans = Spans::new(config, site.line_rate(), &site.wire).expect("the configuration suits the network");
        let rules = Rules {
            framing: Framing::new(site.node, &site.wire),
            spans,
            initial_window: config.initial_window,
            pull_order: config.pull_order,
            pull_in_answer: config.pull_in_answer,
        };
        Host {
            sender: Sender::new(site, config.avoid_paths),
            receiver: Receiver::new(spans.time_wait),
            rules,
            out: Outbox::default(),
        }
    }
}

impl Endpoint for Host {
    type Header = Header;

    fn open(&mut self, _: Time, flow: &Flow) {
        self.sender.open(flow, &self.rules);
    }

    fn handle_packet(&mut self, now: Time, packet: &Packet<Header>) {
        let (rules, sender) = (&self.rules, &mut self.sender);
        match packet.header {
            Header::Data { part: Part::Returned, number, .. } => sender.returned(now, packet.flow, number, rules),
            Header::Data { part, number, packets, .. } => {
                self.receiver.data(now, packet, number, packets, part == Part::Whole, rules, &mut self.out);
            }
            Header::Ack { number, cumulative, pulls, queued } => {
                let pulls = Pulls { sent: pulls, queued };
                if sender.acknowledged(now, packet.flow, number, cumulative, pulls, rules) {
                    self.out.events.push_back(Event::Acknowledged { flow: packet.flow });
                }
            }
            Header::Nack { number, pulls, queued } => {
                sender.refused(now, packet.flow, number, Pulls { sent: pulls, queued }, rules);
            }
            Header::Pull { pulls } => sender.pulled(now, packet.flow, Pulls { sent: pulls, queued: pulls }, rules),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.receiver.timeout(now, &self.rules, &mut self.out);
        self.sender.timeout(now, &self.rules, &mut self.out);
    }

    /// Control packets first: they are short, and data waits for them elsewhere.
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header>> {
        self.out.packets.pop_front().or_else(|| self.sender.data(now, &self.rules))
    }

    #[inline]
    fn may_transmit(&self) -> bool {
        !self.out.packets.is_empty() || self.sender.may_send()
    }

    fn poll_timeout(&self) -> Option<Time> {
        earliest(self.receiver.next_timeout(), self.sender.next_timeout())
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }

    fn gauge(&self, _: Time, flow: FlowId, readings: &mut Readings<'_>) {
        self.sender.gauge(flow, &self.rules, readings);
    }
}
