//! A host that speaks HPCC.

use flowloom_core::{Endpoint, Event, Flow, FlowId, Packet, Readings, Site, Time};

use super::config::Spans;
use super::receiver::Receiver;
use super::sender::Sender;
use super::{Config, Header, Kind};
use crate::toolkit::{Framing, Outbox};

/// One node's flows, in both directions.
pub struct Host {
    sender: Sender,
    receiver: Receiver,
    framing: Framing,
    ack_class: u8,
    out: Outbox<Header>,
}

impl Host {
    /// A host without flows.
    pub fn new(config: &Config, site: &Site<'_>) -> Host {
        let framing = Framing::new(site.node, &config.wire(&site.wire));
        let spans = Spans::new(config, site.network, &site.wire).expect("the configuration suits the network");
        Host {
            sender: Sender::new(config, &spans, framing, site),
            receiver: Receiver::new(config.nack_interval, spans.time_wait),
            framing,
            ack_class: config.ack_class(),
            out: Outbox::default(),
        }
    }
}

impl Endpoint for Host {
    type Header = Header;

    fn open(&mut self, now: Time, flow: &Flow) {
        self.sender.advance(now);
        self.sender.open(now, flow);
    }

    #[inline]
    fn handle_packet(&mut self, now: Time, packet: &Packet<Header>) {
        self.sender.advance(now);
        let telemetry = packet.header.telemetry;
        match packet.header.kind {
            Kind::Data { number, packets } => {
                let answer = self.receiver.receive(now, packet, number, packets, &mut self.out.events);
                if let Some(kind) = answer {
                    let mut ack = self.framing.control(packet.flow, packet.src, Header { kind, telemetry });
                    ack.class = self.ack_class;
                    self.out.packets.push_back(ack);
                }
            }
            Kind::Ack { cumulative, nack } => {
                self.sender.handle_ack(now, packet.flow, cumulative, nack, &packet.header.telemetry, &mut self.out.events);
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.sender.advance(now);
        self.sender.handle_timeout(now, &mut self.out.events);
    }

    /// Acknowledgements first, then the flow whose turn it is.
    #[inline]
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header>> {
        self.sender.advance(now);
        self.out.packets.pop_front().or_else(|| self.sender.data(now))
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
