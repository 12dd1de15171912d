//! The endpoint's side of a driver.

use crate::{Duration, Endpoint, Event, Flow, Packet, Time};

/// What surrounds an endpoint: the clock, the network, and the receiver of its events.
pub trait Attachment<H> {
    /// Identifies a packet that has arrived.
    type Arrival: Copy;
    /// The current time.
    fn now(&self) -> Time;
    /// A packet that has arrived.
    fn packet(&self, arrival: Self::Arrival) -> &Packet<H>;
    /// Removes a packet that the endpoint has handled.
    fn consume(&mut self, arrival: Self::Arrival);
    /// Takes note of an event.
    fn report(&mut self, event: &Event);
    /// Whether the network takes a packet of this endpoint now. If not, [`refill`] must be called when it does.
    fn takes_packet(&mut self) -> bool;
    /// The classes of which the network takes no packets now: bit i stands for class i.
    #[inline]
    fn closed(&self) -> u8 {
        0
    }
    /// Sends a packet.
    fn send(&mut self, packet: Packet<H>);
    /// Makes [`wake`] be called at this time, which is later than now, instead of any other time; `None` if it need not be called. A call
    /// at an earlier, superseded time does no harm.
    fn set_timer(&mut self, wanted: Option<Time>);
}

/// Sets the timer that an endpoint has from its creation on. To be called once, before anything else. An endpoint that is created while
/// the clock runs may have a timer that is due already.
pub fn start<E: Endpoint>(endpoint: &E, mut attachment: impl Attachment<E::Header>) {
    let earliest = attachment.now() + Duration::from_ps(1);
    attachment.set_timer(endpoint.poll_timeout().map(|at| at.max(earliest)));
}

/// Opens a flow whose source is this endpoint.
pub fn open<E: Endpoint>(endpoint: &mut E, attachment: impl Attachment<E::Header>, flow: &Flow) {
    endpoint.open(attachment.now(), flow);
    poll(endpoint, attachment);
}

/// Gives the endpoint a packet that has arrived for it, undamaged.
#[inline]
pub fn deliver<E: Endpoint, A: Attachment<E::Header>>(endpoint: &mut E, mut attachment: A, arrival: A::Arrival) {
    endpoint.handle_packet(attachment.now(), attachment.packet(arrival));
    attachment.consume(arrival);
    poll(endpoint, attachment);
}

/// Handles the endpoint's timeout if it is due.
#[inline]
pub fn wake<E: Endpoint>(endpoint: &mut E, attachment: impl Attachment<E::Header>) {
    // The endpoint may have postponed its timeout since this call was arranged.
    if endpoint.poll_timeout().is_some_and(|due| due <= attachment.now()) {
        endpoint.handle_timeout(attachment.now());
    }
    poll(endpoint, attachment);
}

/// Takes packets from the endpoint for as long as the network takes them, and sets the endpoint's timer.
#[inline(never)] // it is large and called from several places
pub fn refill<E: Endpoint>(endpoint: &mut E, mut attachment: impl Attachment<E::Header>) {
    while endpoint.may_transmit() && attachment.takes_packet() {
        let (now, closed) = (attachment.now(), attachment.closed());
        let packet = if closed == 0 { endpoint.poll_transmit(now) } else { endpoint.poll_open(now, closed) };
        let Some(packet) = packet else { break };
        attachment.send(packet);
    }
    attachment.set_timer(endpoint.poll_timeout());
}

#[inline]
fn poll<E: Endpoint>(endpoint: &mut E, mut attachment: impl Attachment<E::Header>) {
    while let Some(event) = endpoint.poll_event() {
        attachment.report(&event);
    }
    refill(endpoint, attachment);
}
