//! The messages of control endpoints, counted by a wrapper around the endpoint. Hosts have no wrapper.

use flowloom_core::{Endpoint, Event, Flow, Packet, Time};

/// A control endpoint that counts its messages.
pub(crate) struct Counted<E> {
    pub endpoint: E,
    pub received: u64,
    pub sent: u64,
}

impl<E> Counted<E> {
    pub fn new(endpoint: E) -> Counted<E> {
        Counted { endpoint, received: 0, sent: 0 }
    }
}

impl<E: Endpoint> Endpoint for Counted<E> {
    type Header = E::Header;
    fn open(&mut self, now: Time, flow: &Flow) {
        self.endpoint.open(now, flow);
    }
    fn handle_packet(&mut self, now: Time, packet: &Packet<E::Header>) {
        self.received += 1;
        self.endpoint.handle_packet(now, packet);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.endpoint.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<E::Header>> {
        let packet = self.endpoint.poll_transmit(now);
        self.sent += u64::from(packet.is_some());
        packet
    }
    #[inline]
    fn may_transmit(&self) -> bool {
        self.endpoint.may_transmit()
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.endpoint.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event()
    }
}
