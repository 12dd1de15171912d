//! A host that speaks TCP.

use flowloom_core::{Endpoint, Event, Flow, FlowId, Packet, Readings, Site, Time};

use super::config::FastRetransmit;
use super::controllers::{Any, Controller, Kind};
use super::receiver::Receiver;
use super::sender::Sender;
use super::sending::ecn;
use super::{Config, Header, Outbox};
use crate::toolkit::{Framing, earliest};

/// One node's flows, in both directions. The host passes all that its windows allow to the NIC at once; the NIC's port orders, marks
/// and drops.
pub struct Host {
    sender: Sender,
    receiver: Receiver,
    out: Outbox,
}

impl Host {
    /// A host without flows that uses one congestion control.
    pub fn new(config: &Config, kind: Kind, site: &Site<'_>) -> Host {
        let framing = Framing::new(site.node, &site.wire);
        let fast_retransmit = match config.fast_retransmit {
            FastRetransmit::Auto => !site.reorders,
            FastRetransmit::On => true,
            FastRetransmit::Off => false,
        };
        let ecn = ecn(Any::new(kind, config).reacts_to_marks());
        Host {
            sender: Sender::new(config, kind, framing, fast_retransmit),
            receiver: Receiver::new(config, framing, ecn),
            out: Outbox::default(),
        }
    }

    /// Where the first packet begins that a flow has never sent; `None` if this host does not send the flow.
    pub(crate) fn unsent_from(&self, flow: FlowId) -> Option<u64> {
        self.sender.unsent_from(flow)
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
            Header::Data { number, packets } => self.receiver.handle_data(now, packet, number, packets, &mut self.out),
            Header::Ack { echo, cumulative, blocks } => {
                self.sender.handle_ack(now, packet.flow, (echo, cumulative, blocks), &mut self.out);
            }
            Header::Syn => self.receiver.handle_syn(packet, &mut self.out),
            Header::SynAck => self.sender.handle_syn_ack(now, packet.flow, &mut self.out),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.receiver.handle_timeout(now, &mut self.out);
        self.sender.handle_timeout(now, &mut self.out);
    }

    #[inline]
    fn poll_transmit(&mut self, _: Time) -> Option<Packet<Header>> {
        self.out.packets.pop_front()
    }

    #[inline]
    fn may_transmit(&self) -> bool {
        !self.out.packets.is_empty()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Time> {
        earliest(self.sender.next_timeout(), self.receiver.next_timeout())
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }

    fn gauge(&self, _: Time, flow: FlowId, readings: &mut Readings<'_>) {
        self.sender.gauge(flow, readings);
    }
}
