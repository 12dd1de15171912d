//! A pHost node: a sender and a receiver behind one NIC.

use flowloom_core::{Endpoint, Event, Flow, FlowId, Packet, Readings, Site, Time};

use super::config::{Config, FreeTokenAccount, FreeTokenRule, Policy, Spans};
use super::header::Header;
use super::receiver::{Receiver, Request};
use super::sender::Sender;
use crate::toolkit::{Framing, Outbox, earliest};

/// The configuration in the units of one node.
pub(super) struct Rules {
    pub framing: Framing,
    pub spans: Spans,
    pub downgrade_threshold: u32,
    pub downgrade_retry: u32,
    pub policy: Policy,
    pub free_token_account: FreeTokenAccount,
    free_token_rule: FreeTokenRule,
    free_tokens: u32,
    short_flow_packets: u32,
    data_priorities: bool,
}

impl Rules {
    fn new(config: &Config, site: &Site<'_>) -> Rules {
        let spans = Spans::new(config, site.line_rate(), site.base_rtt(&site.wire), &site.wire);
        Rules {
            framing: Framing::new(site.node, &site.wire),
            spans: spans.expect("the configuration suits the network"),
            downgrade_threshold: config.downgrade_threshold,
            downgrade_retry: config.downgrade_retry_tokens,
            policy: config.policy,
            free_token_account: config.free_token_account,
            free_token_rule: config.free_token_rule,
            free_tokens: config.free_tokens,
            short_flow_packets: config.short_flow_packets,
            data_priorities: config.data_priorities,
        }
    }
    pub fn free_tokens(&self, packets: u32) -> u32 {
        Sender::free_tokens(self.free_token_rule, self.free_tokens, packets)
    }
    /// Control is class 0, short flows' data 1, long flows' data 2 (§3.3).
    pub fn data_class(&self, packets: u32) -> u8 {
        if self.data_priorities && packets > self.short_flow_packets { 2 } else { 1 }
    }
}

/// Counts one more packet of a tenant.
pub(super) fn count(served: &mut Vec<u64>, tenant: u16) {
    let tenant = usize::from(tenant);
    if served.len() <= tenant {
        served.resize(tenant + 1, 0);
    }
    served[tenant] += 1;
}

/// The pHost endpoint of one node.
pub struct Host {
    rules: Rules,
    sender: Sender,
    receiver: Receiver,
    out: Outbox<Header>,
}

impl Host {
    pub(super) fn new(config: &Config, site: &Site<'_>) -> Host {
        let rules = Rules::new(config, site);
        Host { sender: Sender::new(), receiver: Receiver::new(&rules), rules, out: Outbox::default() }
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
            Header::Rts { size, deadline, coflow, tenant } => {
                self.receiver.request(now, packet, Request { size, deadline, coflow, tenant }, rules, out);
            }
            Header::Token { packet: number, serial, remaining, class } => {
                self.sender.token(now, packet.flow, number, serial, remaining, class, rules);
            }
            Header::Data { packet: number, serial, size } => {
                self.receiver.data(now, packet, size, number, serial, rules, out);
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

    /// Control first (§3.1), then the data packet of the best token.
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header>> {
        self.out.packets.pop_front().or_else(|| self.sender.data(now, &self.rules))
    }

    #[inline]
    fn may_transmit(&self) -> bool {
        !self.out.packets.is_empty() || self.sender.has_tokens()
    }

    fn poll_timeout(&self) -> Option<Time> {
        earliest(self.receiver.next_timeout(), self.sender.next_timeout())
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }

    fn gauge(&self, now: Time, flow: FlowId, readings: &mut Readings<'_>) {
        self.sender.gauge(now, flow, &self.rules, readings);
        self.receiver.gauge(flow, readings);
    }
}
