//! One node's protocol state.

use std::marker::PhantomData;

use crate::{Event, Flow, Packet, Time};

/// One node's protocol state, for all its flows: a state machine without I/O or clock.
///
/// A driver (the simulator, or a UDP loop) calls, in this order after anything happened:
/// 1. [`open`](Endpoint::open), [`handle_packet`](Endpoint::handle_packet) or, at the instant that
///    [`poll_timeout`](Endpoint::poll_timeout) named, [`handle_timeout`](Endpoint::handle_timeout);
/// 2. [`poll_event`](Endpoint::poll_event) until it returns `None`;
/// 3. [`poll_transmit`](Endpoint::poll_transmit), as often as the network takes packets: whenever the NIC is free
///    ([`Nic::Pulled`](crate::Nic::Pulled)) or until it returns `None` ([`Nic::Queued`](crate::Nic::Queued));
/// 4. [`poll_timeout`](Endpoint::poll_timeout), and wakes the node then.
///
/// `now` never decreases from call to call.
pub trait Endpoint {
    /// The transport's header.
    type Header: Copy;
    /// A local application hands over a flow whose source is this node.
    fn open(&mut self, now: Time, flow: &Flow);
    /// A packet for this node arrived undamaged. On a real network its header may claim anything that
    /// [`Wire::decode`](crate::Wire::decode) accepts; nothing it claims is a panic.
    fn handle_packet(&mut self, now: Time, packet: &Packet<Self::Header>);
    /// The instant named by [`poll_timeout`](Endpoint::poll_timeout) has come.
    fn handle_timeout(&mut self, now: Time);
    /// The packet to send now, chosen as late as possible; `None` if there is none.
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Self::Header>>;
    /// Whether [`poll_transmit`](Endpoint::poll_transmit) may have a packet, so that the driver looks again when the NIC is free.
    /// An endpoint that knows better than "maybe" spares its driver one wake-up per packet.
    #[inline]
    fn may_transmit(&self) -> bool {
        true
    }
    /// When [`handle_timeout`](Endpoint::handle_timeout) is wanted next: an instant after the last call. Cheap: it is asked
    /// after every call.
    fn poll_timeout(&self) -> Option<Time>;
    /// The next thing to report, oldest first.
    fn poll_event(&mut self) -> Option<Event>;
}

/// The control endpoint of a transport that has none. It cannot be made.
pub struct NoControl<H> {
    never: std::convert::Infallible,
    header: PhantomData<H>,
}

impl<H: Copy> Endpoint for NoControl<H> {
    type Header = H;
    fn open(&mut self, _: Time, _: &Flow) {
        match self.never {}
    }
    fn handle_packet(&mut self, _: Time, _: &Packet<H>) {
        match self.never {}
    }
    fn handle_timeout(&mut self, _: Time) {
        match self.never {}
    }
    fn poll_transmit(&mut self, _: Time) -> Option<Packet<H>> {
        match self.never {}
    }
    fn poll_timeout(&self) -> Option<Time> {
        match self.never {}
    }
    fn poll_event(&mut self) -> Option<Event> {
        match self.never {}
    }
}
