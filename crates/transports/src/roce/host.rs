//! A host that sends and receives flows over RoCE.

use flowloom_core::{Ecn, Endpoint, Event, Flow, FlowId, Packet, Readings, Site, Time};

use super::receiver::Receiver;
use super::sender::Sender;
use super::{Controller, Envelope, Kind, Service};
use crate::toolkit::{Framing, Outbox};

/// One node's flows, in both directions.
pub struct Host<C: Controller> {
    sender: Sender<C>,
    receiver: Receiver,
    framing: Framing,
    ack_class: u8,
    data_class: u8,
    out: Outbox<C::Header>,
}

impl<C: Controller> Host<C> {
    /// A host without flows.
    pub fn new(service: &Service, rules: C::Rules, site: &Site<'_>) -> Host<C> {
        let framing = Framing::new(site.node, &service.wire);
        Host {
            sender: Sender::new(service, rules, framing, site),
            receiver: Receiver::new(service),
            framing,
            ack_class: service.ack_class,
            data_class: service.data_class,
            out: Outbox::default(),
        }
    }

    #[inline]
    fn answer(&mut self, packet: &Packet<C::Header>, kind: Kind, class: u8) {
        let header = C::Header::new(kind, Some(*packet.header.report()));
        let mut answer = self.framing.control(packet.flow, packet.src, header);
        answer.class = class;
        self.out.packets.push_back(answer);
    }
}

impl<C: Controller> Endpoint for Host<C> {
    type Header = C::Header;

    fn open(&mut self, now: Time, flow: &Flow) {
        self.sender.advance(now);
        self.sender.open(now, flow);
    }

    #[inline]
    fn handle_packet(&mut self, now: Time, packet: &Packet<C::Header>) {
        self.sender.advance(now);
        let (flow, report) = (packet.flow, packet.header.report());
        match packet.header.kind() {
            Kind::Data { number, packets, asks } => {
                let answer = self.receiver.receive(now, packet, [number, packets], asks, &mut self.out.events);
                if packet.ecn == Ecn::Marked && self.receiver.must_tell_of_congestion(now, packet) {
                    self.answer(packet, Kind::Congestion, 0);
                }
                if let Some(kind) = answer {
                    self.answer(packet, kind, self.ack_class);
                }
            }
            Kind::Ack { cumulative } => {
                self.sender.handle_ack(now, flow, cumulative, None, report, &mut self.out.events);
            }
            Kind::Nack { cumulative, arrived } => {
                self.sender.handle_ack(now, flow, cumulative, Some(arrived), report, &mut self.out.events);
            }
            Kind::Congestion => self.sender.handle_congestion(now, flow),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.sender.advance(now);
        self.sender.handle_timeout(now, &mut self.out.events);
    }

    /// Acknowledgements first, then the flow whose turn it is.
    #[inline]
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<C::Header>> {
        self.sender.advance(now);
        self.out.packets.pop_front().or_else(|| self.sender.data(now))
    }

    /// A flow whose class is closed waits here, and not in the NIC, where it would go on at its rate and without a limit.
    fn poll_open(&mut self, now: Time, closed: u8) -> Option<Packet<C::Header>> {
        self.sender.advance(now);
        let is_open = |class: u8| closed >> class & 1 == 0;
        let answer = self.out.packets.iter().position(|packet| is_open(packet.class));
        match answer {
            Some(index) => self.out.packets.remove(index),
            None if is_open(self.data_class) => self.sender.data(now),
            None => None,
        }
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
