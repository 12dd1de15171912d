//! An observer of the data that queues at ports: independent of what ports find themselves.

use flowloom_core::{DropReason, LinkId, Packet, Time};
use flowloom_fabric::Observer;
use flowloom_transports::disciplines::Beyond;

/// The queue of data at one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DataQueue {
    /// What it may hold.
    pub limit: u64,
    /// The most bytes of data ever, including an arriving packet, even if it leaves at once.
    pub peak: u64,
    /// The time at which it exceeded its limit the most.
    pub beyond: Option<Beyond>,
    /// Bytes of data packets now. A packet counts from its arrival until it begins to leave.
    bytes: u64,
    /// Bytes of signals that were sent since the queue was last empty.
    signals: u64,
    /// Data packets that have arrived since the queue was last empty.
    packets: u64,
}

/// Compares the queues of data at all ports with limits. Signals are packets of class 0 without payload; data that waits for them does not count.
#[derive(Clone, Debug)]
pub struct DataQueues {
    /// By link.
    pub queues: Vec<DataQueue>,
    deviation: f64,
}

impl DataQueues {
    /// A recorder for ports with these limits in bytes, by link. While data queues without a break, the limit is higher by `deviation` times the
    /// square root of the number of its packets.
    pub fn new(limits: impl IntoIterator<Item = u64>, deviation: f64) -> DataQueues {
        let queue = |limit| DataQueue { limit, ..DataQueue::default() };
        DataQueues { queues: limits.into_iter().map(queue).collect(), deviation }
    }
}

impl DataQueue {
    #[inline]
    fn leave(&mut self, size: u32) {
        self.bytes = self.bytes.saturating_sub(u64::from(size));
        if self.bytes == 0 {
            (self.signals, self.packets) = (0, 0);
        }
    }

    #[cold]
    fn judge(&mut self, at: Time, bytes: u64, deviation: f64) {
        let allowed = self.limit + (deviation * (self.packets as f64).sqrt()) as u64;
        let worst = self.beyond.map_or(0, |beyond| beyond.bytes - beyond.allowed);
        if bytes > allowed + worst {
            self.beyond = Some(Beyond { at, bytes, allowed });
        }
    }
}

impl<H> Observer<H> for DataQueues {
    #[inline]
    fn packet_queued(&mut self, now: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<H>, _: u64) {
        if packet.payload_bytes > 0 {
            let queue = &mut self.queues[link.index()];
            queue.bytes += u64::from(packet.size_bytes);
            queue.packets += 1;
            queue.peak = queue.peak.max(queue.bytes);
            let bytes = queue.bytes.saturating_sub(queue.signals);
            if bytes > queue.limit {
                queue.judge(now, bytes, self.deviation);
            }
        }
    }

    #[inline]
    fn packet_sent(&mut self, _: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<H>) {
        if packet.payload_bytes > 0 {
            self.queues[link.index()].leave(packet.size_bytes);
        } else if packet.class == 0 {
            let queue = &mut self.queues[link.index()];
            queue.signals += if queue.bytes > 0 { u64::from(packet.size_bytes) } else { 0 };
        }
    }

    fn packet_dropped(&mut self, _: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<H>, why: DropReason) {
        // Other drops happen behind the queue.
        let at_port = matches!(why, DropReason::Overflow | DropReason::PushedOut | DropReason::Expired);
        if packet.payload_bytes > 0 && at_port {
            self.queues[link.index()].leave(packet.size_bytes);
        }
    }
}
