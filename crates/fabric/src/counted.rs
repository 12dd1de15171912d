//! The messages of control endpoints, counted by a wrapper around the endpoint. Hosts have no wrapper.

use flowloom_core::{Endpoint, Event, Flow, Packet, Time};

/// A control endpoint that counts its messages.
pub(crate) struct Counted<E> {
    pub endpoint: E,
    pub received: u64,
    pub sent: u64,
    /// The largest number of flows that it knew after a message.
    pub known_flows_peak: usize,
}

impl<E> Counted<E> {
    pub fn new(endpoint: E) -> Counted<E> {
        Counted { endpoint, received: 0, sent: 0, known_flows_peak: 0 }
    }
}

impl<E: Endpoint> Endpoint for Counted<E> {
    type Header = E::Header;
    fn open(&mut self, now: Time, flow: &Flow) {
        self.endpoint.open(now, flow);
    }
    #[inline]
    fn handle_packet(&mut self, now: Time, packet: &Packet<E::Header>) {
        self.received += 1;
        self.endpoint.handle_packet(now, packet);
        self.known_flows_peak = self.known_flows_peak.max(self.endpoint.known_flows());
    }
    fn handle_timeout(&mut self, now: Time) {
        self.endpoint.handle_timeout(now);
    }
    #[inline]
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<E::Header>> {
        let packet = self.endpoint.poll_transmit(now);
        self.sent += u64::from(packet.is_some());
        packet
    }
    #[inline]
    fn may_transmit(&self) -> bool {
        self.endpoint.may_transmit()
    }
    #[inline]
    fn poll_timeout(&self) -> Option<Time> {
        self.endpoint.poll_timeout()
    }
    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event()
    }
    #[inline]
    fn known_flows(&self) -> usize {
        self.endpoint.known_flows()
    }
}
