//! A host that speaks Fastpass.

use flowloom_core::{Endpoint, Event, Flow, FlowId, Packet, Readings, Site, Time};

use super::config::Spans;
use super::sender::Sender;
use super::{Config, Header};
use crate::toolkit::{Arrival, Framing, Outbox, Reassembly};

/// One node's flows, in both directions.
pub struct Host {
    sender: Sender,
    receiver: Reassembly,
    framing: Framing,
    /// Control packets, which leave before data, and events.
    out: Outbox<Header>,
}

impl Host {
    /// A host without flows.
    ///
    /// # Panics
    /// If the network has no control host, or the configuration does not pass [`Checked::check_under`](crate::Checked::check_under).
    pub fn new(config: &Config, site: &Site<'_>) -> Host {
        let framing = Framing::new(site.node, &site.wire);
        let spans =
            Spans::new(config, site.line_rate(), site.network, &site.wire).expect("the configuration suits the network");
        let sender = Sender::new(config, site, &spans, framing);
        let receiver = Reassembly::new(spans.time_wait);
        Host { sender, receiver, framing, out: Outbox::default() }
    }
}

impl Endpoint for Host {
    type Header = Header;

    fn open(&mut self, now: Time, flow: &Flow) {
        self.sender.open(now, flow, &mut self.out);
    }

    fn handle_packet(&mut self, now: Time, packet: &Packet<Header>) {
        match &packet.header {
            Header::Data { number, packets } => {
                if let Some(Arrival { cumulative, .. }) =
                    self.receiver.receive(now, packet, *number, *packets, &mut self.out.events)
                {
                    let header = Header::Ack { cumulative, number: *number };
                    self.out.packets.push_back(self.framing.control(packet.flow, packet.src, header));
                }
            }
            Header::Ack { cumulative, number } => self.sender.handle_ack(packet.flow, *cumulative, *number, &mut self.out),
            Header::Schedule { epoch, slots } => self.sender.handle_schedule(now, *epoch, slots, &mut self.out),
            // Only the arbiter answers requests.
            Header::Request { .. } => {}
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.sender.handle_timeout(now, &mut self.out);
    }

    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header>> {
        self.out.packets.pop_front().or_else(|| self.sender.transmit(now))
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.sender.next_timeout()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }

    fn gauge(&self, _: Time, flow: FlowId, readings: &mut Readings<'_>) {
        self.sender.gauge(flow, readings);
    }
}
