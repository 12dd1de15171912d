//! One node's protocol state.

use std::marker::PhantomData;

use crate::{Event, Flow, FlowId, Packet, Readings, Time};

/// One node's protocol state, for all its flows: a state machine without I/O or clock.
///
/// A driver (the simulator or a UDP loop) first calls [`poll_timeout`](Endpoint::poll_timeout), because a node may have a timer from its
/// creation on. Then it makes these calls, in this order (the code is in [`driver`](crate::driver)):
/// 1. [`open`](Endpoint::open), [`handle_packet`](Endpoint::handle_packet) or, at the time that
///    [`poll_timeout`](Endpoint::poll_timeout) returned, [`handle_timeout`](Endpoint::handle_timeout);
/// 2. [`poll_event`](Endpoint::poll_event) until it returns `None`;
/// 3. [`poll_transmit`](Endpoint::poll_transmit), for as long as the network takes packets: while the NIC is free
///    ([`Nic::Pulled`](crate::Nic::Pulled)) or until it returns `None` ([`Nic::Queued`](crate::Nic::Queued));
/// 4. [`poll_timeout`](Endpoint::poll_timeout), which sets the node's timer.
///
/// `now` never decreases from call to call. An endpoint may move to another thread between calls.
pub trait Endpoint: Send {
    /// The transport's header.
    type Header: Copy;
    /// Starts a flow whose source is this node.
    fn open(&mut self, now: Time, flow: &Flow);
    /// Handles an undamaged packet that is addressed to this node. On a real network its header may hold any value that
    /// [`Wire::decode`](crate::Wire::decode) accepts, so no value may cause a panic.
    fn handle_packet(&mut self, now: Time, packet: &Packet<Self::Header>);
    /// Handles the timeout that [`poll_timeout`](Endpoint::poll_timeout) returned, which is due now.
    fn handle_timeout(&mut self, now: Time);
    /// The packet to send now, `None` if there is none. The driver calls this as late as possible.
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Self::Header>>;
    /// The same while the NIC sends no packets of these classes; bit i stands for class i. Packets of closed classes would wait in the NIC, and with them those that come after. Hosts whose NICs can be
    /// paused by class ([`Nic::Pulled`](crate::Nic::Pulled)) return packets of other classes only.
    fn poll_open(&mut self, now: Time, closed: u8) -> Option<Packet<Self::Header>> {
        let _ = closed;
        self.poll_transmit(now)
    }
    /// Whether [`poll_transmit`](Endpoint::poll_transmit) may have a packet; if so, the driver calls it again when the NIC is free.
    /// An exact answer saves the driver one wake-up per packet; `true` is always correct.
    #[inline]
    fn may_transmit(&self) -> bool {
        true
    }
    /// When [`handle_timeout`](Endpoint::handle_timeout) must be called next, later than the `now` of the last call. It must be
    /// cheap, because the driver calls it after every other call.
    fn poll_timeout(&self) -> Option<Time>;
    /// The next event to report, oldest first.
    fn poll_event(&mut self) -> Option<Event>;
    /// Tells what this node knows of a flow that it is an end of, in terms of [`Transport::GAUGES`](crate::Transport::GAUGES). Samples ask both ends of a flow
    /// between other calls, and nobody else asks.
    fn gauge(&self, now: Time, flow: FlowId, readings: &mut Readings<'_>) {
        let _ = (now, flow, readings);
    }
    /// How many flows' states this node keeps. Only control nodes are asked, after every message; so it must be cheap.
    #[inline]
    fn known_flows(&self) -> usize {
        0
    }
}

/// The control endpoint type of a transport without control nodes. It has no values.
pub struct NoControl<H> {
    never: std::convert::Infallible,
    header: PhantomData<fn() -> H>,
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
