//! A host that speaks pFabric.

use flowloom_core::{Endpoint, Event, Flow, Packet, Site, Time};

use super::receiver::Receiver;
use super::sender::Sender;
use super::{Config, Header};
use crate::parts::Framing;

/// What a call made, until it is polled.
pub(super) type Outbox = crate::parts::Outbox<Header>;

/// One node's flows, in both directions. All it wants to send goes to the NIC at once, whose port orders and drops.
pub struct Host {
    sender: Sender,
    receiver: Receiver,
    out: Outbox,
}

impl Host {
    /// A host without flows.
    pub fn new(config: &Config, site: &Site<'_>) -> Host {
        let framing = Framing::new(site.node, &site.wire);
        Host { sender: Sender::new(config, framing), receiver: Receiver::new(config, framing), out: Outbox::default() }
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
            Header::Data { number, packets, .. } => self.receiver.handle_data(now, packet, number, packets, &mut self.out),
            Header::Ack { cumulative, answers } => {
                self.sender.handle_ack(now, packet.flow, cumulative, answers, &mut self.out);
            }
            Header::Probe { packets } => self.receiver.handle_probe(now, packet, packets, &mut self.out),
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
}
