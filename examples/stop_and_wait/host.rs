//! A host that speaks stop-and-wait.

use flowloom_core::{Endpoint, Event, Flow, Packet, Site, Time};

use super::sender::Sender;
use super::{Config, Header};
use crate::toolkit::{Framing, Reassembly};

/// What a call made, until it is polled.
pub(super) type Outbox = crate::toolkit::Outbox<Header>;

/// One node's flows, in both directions.
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
        let receiver = Reassembly::new(config.rto * u64::from(config.time_wait_rtos));
        Host { sender: Sender::new(config, framing), receiver, framing, out: Outbox::default() }
    }
}

impl Endpoint for Host {
    type Header = Header;

    fn open(&mut self, now: Time, flow: &Flow) {
        self.sender.open(now, flow, &mut self.out);
    }

    fn handle_packet(&mut self, now: Time, packet: &Packet<Header>) {
        match packet.header {
            Header::Data { number, packets } => {
                // Duplicates are acknowledged too: the first acknowledgement may have been lost.
                if self.receiver.receive(now, packet, number, packets, &mut self.out.events).is_some() {
                    let ack = self.framing.control(packet.flow, packet.src, Header::Ack { number });
                    self.out.packets.push_back(ack);
                }
            }
            Header::Ack { number } => self.sender.handle_ack(now, packet.flow, number, &mut self.out),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.sender.handle_timeout(now, &mut self.out);
    }

    fn poll_transmit(&mut self, _: Time) -> Option<Packet<Header>> {
        self.out.packets.pop_front()
    }

    fn may_transmit(&self) -> bool {
        !self.out.packets.is_empty()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.sender.next_timeout()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }
}
