//! A Homa node: a sender and a receiver behind one NIC.

use flowloom_core::{Duration, Endpoint, Event, Flow, FlowId, Packet, Readings, Site, Time};

use super::config::{Config, Spans, window};
use super::header::Header;
use super::levels::Levels;
use super::receiver::{Message, Receiver};
use super::sender::Sender;
use crate::toolkit::{Framing, Outbox, earliest};

/// The configuration in the units of one node.
pub(super) struct Rules {
    pub framing: Framing,
    pub levels: Levels,
    /// `RTTbytes` in packets.
    pub window: u32,
    /// How many messages a receiver grants to at the same time.
    pub overcommitment: usize,
    pub one_per_sender: bool,
    /// The most packets of all messages that may be granted and not have arrived.
    pub scheduled_most: u64,
    pub timeout: Duration,
    pub time_wait: Duration,
    pub resends: u32,
    /// The number of nodes of the network.
    pub nodes: usize,
}

impl Rules {
    fn new(config: &Config, site: &Site<'_>) -> Rules {
        let spans = Spans::new(config).expect("the configuration suits the network");
        let levels = Levels::new(config);
        let overcommitment = match config.overcommitment {
            0 => levels.scheduled_levels(),
            given => given,
        };
        let window = window(config, site.line_rate(), site.base_rtt(&site.wire), &site.wire)
            .expect("the configuration suits the network");
        let all_windows = u64::from(overcommitment) * u64::from(window);
        Rules {
            framing: Framing::new(site.node, &site.wire),
            window,
            scheduled_most: if config.limit_total { all_windows } else { u64::MAX },
            overcommitment: usize::from(overcommitment),
            levels,
            one_per_sender: config.one_per_sender,
            timeout: spans.timeout,
            time_wait: spans.time_wait,
            resends: config.resends,
            nodes: site.network.len(),
        }
    }
}

/// The Homa endpoint of one node.
pub struct Host {
    rules: Rules,
    sender: Sender,
    receiver: Receiver,
    out: Outbox<Header>,
}

impl Host {
    pub(super) fn new(config: &Config, site: &Site<'_>) -> Host {
        let rules = Rules::new(config, site);
        Host { sender: Sender::default(), receiver: Receiver::new(&rules), rules, out: Outbox::default() }
    }
}

impl Endpoint for Host {
    type Header = Header;

    fn open(&mut self, now: Time, flow: &Flow) {
        self.sender.open(now, flow, &self.rules);
    }

    fn handle_packet(&mut self, now: Time, packet: &Packet<Header>) {
        let (rules, out) = (&self.rules, &mut self.out);
        match packet.header {
            Header::Data { packet: number, unscheduled, size } => {
                self.receiver.data(now, packet, number, Message { size, unscheduled }, rules, out);
            }
            Header::Grant { end, level } => self.sender.grant(now, packet.flow, end, level, rules),
            Header::Resend { first, end, level } => self.sender.resend(now, packet.flow, first..end, level, rules, out),
            Header::Busy => self.receiver.busy(now, packet.flow, rules, out),
            Header::Query { unscheduled, size } => {
                self.receiver.query(now, packet, Message { size, unscheduled }, rules, out);
            }
            Header::Ack => {
                if self.sender.acknowledged(packet.flow) {
                    out.events.push_back(Event::Acknowledged { flow: packet.flow });
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.receiver.timeout(now, &self.rules, &mut self.out);
        self.sender.timeout(now, &self.rules, &mut self.out);
    }

    /// Control packets first, then the packet of the shortest message.
    #[inline]
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header>> {
        self.out.packets.pop_front().or_else(|| self.sender.data(now, &self.rules))
    }

    #[inline]
    fn may_transmit(&self) -> bool {
        !self.out.packets.is_empty() || self.sender.has_data()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Time> {
        earliest(self.receiver.next_timeout(), self.sender.next_timeout())
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }

    fn gauge(&self, _: Time, flow: FlowId, readings: &mut Readings<'_>) {
        self.sender.gauge(flow, readings);
    }
}
