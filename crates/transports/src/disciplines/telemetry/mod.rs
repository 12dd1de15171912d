//! In-band telemetry: every port that a packet leaves by writes a record into the packet's header.

mod record;
#[cfg(test)]
mod tests;

use flowloom_core::{Bytes, Dequeue, Discipline, NodeKind, Packet, PacketId, Pool, PortCall, PortSite, Time};

pub use record::{HopRecord, LinkRates, Telemetry};

use super::classes::ClassSet;
use super::pausable::Pausable;

/// A header that may have room for records.
pub trait Instrumented {
    /// Where ports write; `None` for packets into which they do not, such as acknowledgements.
    fn telemetry(&mut self) -> Option<&mut Telemetry>;
}

/// A discipline that knows how much it holds.
pub trait Backlog {
    /// Bytes queued.
    fn backlog(&self) -> Bytes;
}

/// Another discipline that also writes a record into each packet that leaves and has room for it: the time, the bytes that the port has
/// sent before, the bytes that stay behind in its queues, and the rate of its link. It counts all packets, with records or not. The
/// transmission of a packet begins when it leaves the queue, so two records differ by the bytes that the link carried in between.
#[derive(Clone, Debug)]
#[repr(C)] // fields that every packet uses come first
pub struct Stamped<D> {
    sent: u64,
    /// How many records a packet has room for; none if this is not the port of a switch.
    records: u8,
    rate: u8,
    tag: u16,
    inner: D,
}

impl<D> Stamped<D> {
    /// A port whose packets have room for `records` records. Only ports of switches write them.
    ///
    /// # Panics
    /// If the links of the network have more than [`LinkRates::MOST`] rates.
    pub fn new(inner: D, records: u8, site: &PortSite<'_>) -> Stamped<D> {
        let link = site.network.link(site.link);
        let at_switch = site.network.node(link.from).kind == NodeKind::Switch;
        let rates = LinkRates::new(site.network).expect("the configuration suits the network");
        Stamped {
            sent: 0,
            records: if at_switch { records } else { 0 },
            rate: rates.number(link.rate),
            tag: Telemetry::tag(link.from),
            inner,
        }
    }

    #[inline]
    fn stamp<H: Instrumented, S>(&mut self, call: &mut PortCall<'_, H, S>, id: PacketId, backlog: Bytes) {
        let packet = &mut call.pool[id];
        if self.records > 0
            && let Some(telemetry) = packet.header.telemetry()
        {
            telemetry.push(HopRecord::new(self.rate, call.now, self.sent, backlog), self.tag, self.records);
        }
        self.sent += u64::from(packet.size_bytes);
    }
}

impl<D: Backlog> Stamped<D> {
    #[inline]
    fn stamp_choice<H: Instrumented, S>(&mut self, call: &mut PortCall<'_, H, S>, choice: Dequeue) -> Dequeue {
        if let Dequeue::Packet(packet) = choice {
            self.stamp(call, packet, self.inner.backlog());
        }
        choice
    }
}

impl<H: Instrumented, D: Discipline<H> + Backlog> Discipline<H> for Stamped<D> {
    type Shared = D::Shared;

    #[inline]
    fn enqueue(&mut self, call: &mut PortCall<'_, H, D::Shared>, packet: PacketId) {
        self.inner.enqueue(call, packet);
    }

    #[inline]
    fn pass(&mut self, call: &mut PortCall<'_, H, D::Shared>, packet: PacketId) -> bool {
        let passes = self.inner.pass(call, packet);
        if passes {
            self.stamp(call, packet, Bytes::ZERO);
        }
        passes
    }

    #[inline]
    fn dequeue(&mut self, call: &mut PortCall<'_, H, D::Shared>) -> Dequeue {
        let choice = self.inner.dequeue(call);
        self.stamp_choice(call, choice)
    }

    fn alarms(&self, set: &mut dyn FnMut(Time)) {
        self.inner.alarms(set);
    }

    fn handle_alarm(&mut self, call: &mut PortCall<'_, H, D::Shared>) {
        self.inner.handle_alarm(call);
    }

    fn lose_all(&mut self, call: &mut PortCall<'_, H, D::Shared>) {
        self.inner.lose_all(call);
    }

    fn handle_link_frame(&mut self, call: &mut PortCall<'_, H, D::Shared>, packet: PacketId) {
        self.inner.handle_link_frame(call, packet);
    }

    fn each_queued(&self, pool: &Pool<H>, visit: &mut dyn FnMut(PacketId)) {
        self.inner.each_queued(pool, visit);
    }
}

impl<H: Instrumented, D: Pausable<H> + Backlog> Pausable<H> for Stamped<D> {
    #[inline]
    fn class_of(&self, packet: &Packet<H>) -> usize {
        self.inner.class_of(packet)
    }

    #[inline]
    fn dequeue_open(&mut self, call: &mut PortCall<'_, H, D::Shared>, paused: ClassSet) -> Dequeue {
        let choice = self.inner.dequeue_open(call, paused);
        self.stamp_choice(call, choice)
    }
}
