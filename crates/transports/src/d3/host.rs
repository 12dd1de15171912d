//! A host that speaks D3.

use flowloom_core::{Endpoint, Event, Flow, FlowId, Packet, Readings, Site, Time};

use super::config::{Config, Spans};
use super::header::{Answer, Header, Purpose, Request};
use super::sender::Sender;
use crate::toolkit::{Arrival, Framing, Outbox, Reassembly};

/// One node's flows, in both directions.
pub struct Host {
    sender: Sender,
    receiver: Reassembly,
    framing: Framing,
    /// Requests and acknowledgements, which leave before data, and events.
    out: Outbox<Header>,
}

impl Host {
    /// A host without flows.
    ///
    /// # Panics
    /// If the configuration does not pass [`Checked::check_under`](crate::Checked::check_under).
    pub fn new(config: &Config, site: &Site<'_>) -> Host {
        let framing = Framing::new(site.node, &site.wire);
        let spans = Spans::new(config, site.base_rtt(&site.wire)).expect("the configuration suits the network");
        let sender = Sender::new(config, site, &spans, framing);
        Host { sender, receiver: Reassembly::new(spans.time_wait), framing, out: Outbox::default() }
    }

    fn acknowledge(&mut self, packet: &Packet<Header>, cumulative: u32, number: Option<u32>, request: Option<&Request>) {
        let answer = request
            .filter(|request| request.purpose == Purpose::Ask)
            .map(|request| Answer { serial: request.serial, path: request.path });
        if number.is_some() || answer.is_some() {
            let header = Header::Ack { cumulative, number, answer };
            self.out.packets.push_back(self.framing.control(packet.flow, packet.src, header));
        }
    }
}

impl Endpoint for Host {
    type Header = Header;

    fn open(&mut self, now: Time, flow: &Flow) {
        self.sender.open(now, flow, &mut self.out);
    }

    fn handle_packet(&mut self, now: Time, packet: &Packet<Header>) {
        match &packet.header {
            Header::Data { number, packets, request } => {
                if let Some(Arrival { cumulative, .. }) =
                    self.receiver.receive(now, packet, *number, *packets, &mut self.out.events)
                {
                    self.acknowledge(packet, cumulative, Some(*number), request.as_ref());
                }
            }
            Header::Request { request: Request { purpose: Purpose::GiveUp, .. }, .. } => {
                self.receiver.abandon(now, packet.flow);
            }
            Header::Request { packets, request } => {
                let cumulative = self.receiver.cumulative(now, packet.flow, *packets);
                self.acknowledge(packet, cumulative, None, Some(request));
            }
            Header::Ack { cumulative, number, answer } => {
                self.sender.handle_ack(now, packet.flow, *cumulative, *number, answer.as_ref(), &mut self.out);
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.sender.handle_timeout(now, &mut self.out);
    }

    #[inline]
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header>> {
        self.out.packets.pop_front().or_else(|| self.sender.transmit(now))
    }

    #[inline]
    fn may_transmit(&self) -> bool {
        !self.out.packets.is_empty() || self.sender.is_ready()
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
