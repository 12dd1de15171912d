//! A host that speaks pFabric.

use flowloom_core::{Endpoint, Event, Flow, FlowId, Packet, Readings, Site, Time};

use super::sender::Sender;
use super::{Config, Header};
use crate::toolkit::{Arrival, Framing, Reassembly};

/// The output of a call, until it is polled.
pub(super) type Outbox = crate::toolkit::Outbox<Header>;

/// One node's flows, in both directions. The host passes all it wants to send to the NIC at once; the NIC's port orders and drops.
pub struct Host {
    sender: Sender,
    receiver: Reassembly,
    framing: Framing,
    out: Outbox,
}

impl Host {
    /// A host without flows.
    pub fn new(config: &Config, site: &Site<'_>) -> Host {
        let framing = Framing::new(site.node, &site.wire);
        let receiver = Reassembly::new(config.time_wait);
        Host { sender: Sender::new(config, framing, site), receiver, framing, out: Outbox::default() }
    }

    fn acknowledge(&mut self, packet: &Packet<Header>, cumulative: u32, answers: Option<u32>) {
        let header = Header::Ack { cumulative, answers };
        self.out.packets.push_back(self.framing.control(packet.flow, packet.src, header));
    }
}

impl Endpoint for Host {
    type Header = Header;

    fn open(&mut self, now: Time, flow: &Flow) {
        self.sender.open(now, flow, &mut self.out);
    }

    #[inline]
    fn handle_packet(&mut self, now: Time, packet: &Packet<Header>) {
        match packet.header {
            Header::Data { number, packets, .. } => {
                if let Some(Arrival { cumulative, .. }) =
                    self.receiver.receive(now, packet, number, packets, &mut self.out.events)
                {
                    self.acknowledge(packet, cumulative, Some(number));
                }
            }
            Header::Ack { cumulative, answers } => {
                self.sender.handle_ack(now, packet.flow, cumulative, answers, &mut self.out);
            }
            Header::Probe { packets } => {
                let cumulative = self.receiver.cumulative(now, packet.flow, packets);
                self.acknowledge(packet, cumulative, None);
            }
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.sender.handle_timeout(now, &mut self.out);
    }

    #[inline]
    fn poll_transmit(&mut self, _: Time) -> Option<Packet<Header>> {
        self.out.packets.pop_front()
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
