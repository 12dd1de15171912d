//! Ports whose classes can be paused one by one.

use flowloom_core::{Dequeue, Discipline, Packet, PortCall};

use super::classes::ClassSet;

/// A discipline that can leave some of its classes alone, as priority flow control needs it: see [`pfc`](crate::pfc).
///
/// It must neither trim packets nor create them, and the size of a packet must not change while it is in the port.
pub trait Pausable<H>: Discipline<H> {
    /// The class of a packet, below [`MOST_CLASSES`](super::MOST_CLASSES). It is the same at both ends of a link, and does not change
    /// while the packet is in a port.
    fn class_of(&self, packet: &Packet<H>) -> usize;
    /// As [`Discipline::dequeue`], with no packet of a class in `paused`.
    fn dequeue_open(&mut self, call: &mut PortCall<'_, H, Self::Shared>, paused: ClassSet) -> Dequeue;
}
