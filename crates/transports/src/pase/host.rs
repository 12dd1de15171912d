//! A PASE host.

use flowloom_core::{Endpoint, Event, Flow, FlowId, Packet, Readings, Site, Time};

use super::config::Spans;
use super::course::Half;
use super::header::{Acked, Header};
use super::messages::Messages;
use super::receiver::Receiver;
use super::sender::{Ack, Sender};
use super::{Config, Outbox, Share, paths_of};
use crate::toolkit::Framing;

/// One node's flows, in both directions, and the arbitrators of both directions of its link.
pub struct Host {
    sender: Sender,
    receiver: Receiver,
    out: Outbox,
}

impl Host {
    /// A host without flows.
    ///
    /// # Panics
    /// If the configuration has not passed [`Checked::check_under`](crate::Checked::check_under) with this network.
    pub fn new(config: &Config, site: &Site<'_>) -> Host {
        let spans = Spans::new(config, site.base_rtt(&site.wire), &site.wire).expect("the configuration was checked");
        let framing = Framing::new(site.node, &site.wire);
        let messages = Messages::new(framing, config.message_size, &site.wire);
        let paths = paths_of(site);
        Host {
            sender: Sender::new(config, site, spans, paths.clone(), framing, messages),
            receiver: Receiver::new(config, site, spans, paths, framing, messages),
            out: Outbox::default(),
        }
    }

    /// How many flows the arbitrators of its uplink and its downlink know at `now`.
    pub fn known_flows(&mut self, now: Time) -> [usize; 2] {
        [self.sender.known_flows(), self.receiver.known_flows(now)]
    }
}

#[cfg(test)]
impl Host {
    /// The window of a flow that it sends, in packets.
    pub(super) fn window(&self, flow: FlowId) -> u32 {
        self.sender.window(flow)
    }
    /// How many flows that it sends rest.
    pub(super) fn resting(&self) -> usize {
        self.sender.resting()
    }
    /// Of a flow that it sends: the queue of the source's half, that of the destination's half, the one that it is assigned, and its class.
    pub(super) fn queues(&self, flow: FlowId) -> Option<[u8; 4]> {
        self.sender.queues(flow)
    }
}

impl Endpoint for Host {
    type Header = Header;

    fn open(&mut self, now: Time, flow: &Flow) {
        self.sender.open(now, flow);
    }

    #[inline]
    fn handle_packet(&mut self, now: Time, packet: &Packet<Header>) {
        let Host { sender, receiver, out } = self;
        match packet.header {
            Header::Data { number, packets, asking } => receiver.handle_data(now, packet, number, packets, asking, out),
            Header::Ack { acked, patience, queue, rate, cumulative, blocks } => {
                let share = Share { queue, rate: rate.into() };
                sender.handle_ack(now, packet.flow, &Ack { acked, patience, share, cumulative, blocks }, out);
            }
            Header::Probe { packets, asking } => receiver.handle_query(now, packet, Acked::Probe, packets, asking, out),
            Header::Refresh { packets, asking } => receiver.handle_query(now, packet, Acked::Refresh, packets, asking, out),
            Header::Share { half, stamp, queue, rate, .. } => {
                let share = Share { queue, rate: rate.into() };
                match half {
                    Half::Source => sender.handle_share(now, packet.src, packet.flow, stamp, share, out),
                    Half::Destination => receiver.handle_share(now, packet.src, packet.flow, stamp, share),
                }
            }
            Header::Ask { .. } | Header::Leave { .. } | Header::Report { .. } | Header::Capacity { .. } => {}
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
    fn may_transmit(&self) -> bool {
        !self.out.packets.is_empty()
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
