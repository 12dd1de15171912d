//! An observer of a queue's length over time.

use flowloom_core::{LinkId, Packet, Time};
use flowloom_fabric::Observer;

/// The bytes queued at one port, at every change from a given time on. A packet being sent is not queued.
pub struct Depth {
    link: LinkId,
    from: Time,
    bytes: u64,
    /// The time of each change, and the queued bytes from then on.
    pub changes: Vec<(Time, u64)>,
}

impl Depth {
    pub fn new(link: LinkId, from: Time) -> Depth {
        Depth { link, from, bytes: 0, changes: Vec::new() }
    }

    fn set(&mut self, now: Time, bytes: u64) {
        self.bytes = bytes;
        if now >= self.from {
            self.changes.push((now, bytes));
        }
    }

    /// The average over time, in bytes.
    pub fn mean(&self) -> f64 {
        let area: f64 = self.changes.windows(2).map(|pair| pair[0].1 as f64 * (pair[1].0 - pair[0].0).as_ps() as f64).sum();
        area / (self.changes[self.changes.len() - 1].0 - self.changes[0].0).as_ps() as f64
    }

    /// The minimum and the maximum of each interval of length `span`, in bytes.
    pub fn extremes(&self, span: flowloom_core::Duration) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, u64)> = Vec::new();
        let mut end = Time::ZERO;
        for (now, bytes) in &self.changes {
            if *now >= end {
                found.push((*bytes, *bytes));
                end = *now + span;
            }
            let last = found.last_mut().expect("an interval has begun");
            *last = (last.0.min(*bytes), last.1.max(*bytes));
        }
        found.pop(); // the last interval is incomplete
        found
    }
}

impl<H> Observer<H> for Depth {
    fn packet_queued(&mut self, now: Time, link: LinkId, _: flowloom_core::PacketId, _: &Packet<H>, queued_bytes: u64) {
        if link == self.link {
            self.set(now, queued_bytes);
        }
    }
    fn packet_sent(&mut self, now: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<H>) {
        if link == self.link {
            self.set(now, self.bytes - u64::from(packet.size_bytes));
        }
    }
    fn packet_dropped(
        &mut self,
        now: Time,
        link: LinkId,
        _: flowloom_core::PacketId,
        packet: &Packet<H>,
        _: flowloom_core::DropReason,
    ) {
        if link == self.link {
            self.set(now, self.bytes - u64::from(packet.size_bytes));
        }
    }
}
