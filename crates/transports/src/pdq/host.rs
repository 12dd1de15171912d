//! A host that speaks PDQ.

use flowloom_core::{Endpoint, Event, Flow, FlowId, Packet, Rate, Readings, Site, Time};

use super::config::Spans;
use super::sender::Sender;
use super::{Config, Feedback, Header, Request};
use crate::toolkit::{Framing, Outbox, Reassembly};

/// One node's flows, in both directions.
pub struct Host {
    sender: Sender,
    receiver: Reassembly,
    framing: Framing,
    rate: Rate,
    out: Outbox<Header>,
}

impl Host {
    /// A host without flows.
    pub fn new(config: &Config, site: &Site<'_>) -> Host {
        let framing = Framing::new(site.node, &config.wire(&site.wire));
        let spans = Spans::new(config, site.base_rtt(&config.wire(&site.wire))).expect("the configuration suits the network");
        Host {
            sender: Sender::new(config, spans, framing, site),
            receiver: Reassembly::new(spans.time_wait),
            framing,
            rate: site.line_rate(),
            out: Outbox::default(),
        }
    }

    /// The receiver returns the scheduling header. It takes no more than its NIC's rate (§3.2).
    fn acknowledge(&mut self, packet: &Packet<Header>, cumulative: u32, answers: Option<u32>, request: &Request) {
        let feedback = Feedback {
            rate: request.rate.min(self.rate),
            pauser: request.pauser,
            probe_interval: Feedback::ROUND_TRIP,
            sent: request.sent,
        };
        let header = Header::Ack { cumulative, answers, feedback };
        self.out.packets.push_back(self.framing.control(packet.flow, packet.src, header));
    }
}

impl Endpoint for Host {
    type Header = Header;

    fn open(&mut self, now: Time, flow: &Flow) {
        self.sender.advance(now);
        self.sender.open(now, flow, &mut self.out);
    }

    fn handle_packet(&mut self, now: Time, packet: &Packet<Header>) {
        self.sender.advance(now);
        match &packet.header {
            Header::Syn { sent } => {
                let answer = self.framing.control(packet.flow, packet.src, Header::SynAck { sent: *sent });
                self.out.packets.push_back(answer);
            }
            Header::SynAck { sent } => self.sender.handle_syn_ack(now, packet.flow, *sent, &mut self.out),
            Header::Data { number, packets, request } => {
                let arrival = self.receiver.receive(now, packet, *number, *packets, &mut self.out.events);
                if let Some(cumulative) = arrival.map(|arrival| arrival.cumulative) {
                    self.acknowledge(packet, cumulative, Some(*number), request);
                }
            }
            Header::Probe { packets, request } => {
                let cumulative = self.receiver.cumulative(now, packet.flow, *packets);
                self.acknowledge(packet, cumulative, None, request);
            }
            Header::Ack { cumulative, answers, feedback } => {
                self.sender.handle_ack(now, packet.flow, *cumulative, *answers, *feedback, &mut self.out);
            }
            Header::Term { aborted: true } => self.receiver.abandon(now, packet.flow),
            Header::Term { aborted: false } => {}
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.sender.advance(now);
        self.sender.handle_timeout(now, &mut self.out);
    }

    /// Answers and announcements first, then the flow whose turn it is.
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header>> {
        self.sender.advance(now);
        if self.out.packets.is_empty()
            && let Some(packet) = self.sender.data(now, &mut self.out)
        {
            return Some(packet);
        }
        self.out.packets.pop_front()
    }

    #[inline]
    fn may_transmit(&self) -> bool {
        !self.out.packets.is_empty() || self.sender.may_transmit()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Time> {
        self.sender.next_timeout()
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }

    fn gauge(&self, _: Time, flow: FlowId, readings: &mut Readings<'_>) {
        self.sender.gauge(flow, readings);
    }
}
