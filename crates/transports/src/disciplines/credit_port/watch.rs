//! A port's own comparison of its queue of data with a limit.

use flowloom_core::Time;

/// The queue of data at a port, and what it may hold. Data that waits for signals does not count: nobody schedules these.
#[derive(Clone, PartialEq, Debug)]
pub struct DataQueue {
    /// Bytes of data now. A packet counts from its arrival until it begins to leave.
    bytes: u64,
    /// The most bytes of data ever, including an arriving packet, even if it leaves at once.
    peak: u64,
    limit: u64,
    /// Bytes of signals that were sent since the queue was last empty.
    signals: u64,
    /// Data packets that have arrived since the queue was last empty.
    packets: u64,
    deviation: f64,
    beyond: Option<Beyond>,
}

/// A queue that exceeded its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beyond {
    /// When.
    pub at: Time,
    /// Bytes of data, less those of the signals that the data waited for.
    pub bytes: u64,
    /// What was allowed.
    pub allowed: u64,
}

/// A port that compares its queue of data with a limit.
pub trait WatchesData {
    /// Sets the limit, which is `limit` bytes, and more while data queues without a break: by `deviation` bytes times the square root of the number of
    /// packets since the queue was last empty. Before this call, there is no limit.
    fn limit_data(&mut self, limit: u64, deviation: f64);
    /// The queue and what happened to it.
    fn data_queue(&self) -> &DataQueue;
}

impl DataQueue {
    /// An empty queue.
    pub(super) fn new(limit: u64, deviation: f64) -> DataQueue {
        DataQueue { bytes: 0, peak: 0, limit, signals: 0, packets: 0, deviation, beyond: None }
    }

    /// The most bytes of data ever, including an arriving packet, even if it leaves at once.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// The time at which it exceeded its limit the most, if it did.
    pub fn beyond(&self) -> Option<Beyond> {
        self.beyond
    }

    /// A data packet arrives.
    #[inline(always)]
    pub(super) fn arrive(&mut self, now: Time, size: u32) {
        self.bytes += u64::from(size);
        self.packets += 1;
        self.peak = self.peak.max(self.bytes);
        if self.bytes.saturating_sub(self.signals) > self.limit {
            self.judge(now);
        }
    }

    /// A data packet leaves or is dropped.
    #[inline(always)]
    pub(super) fn leave(&mut self, size: u32) {
        self.bytes -= u64::from(size);
        if self.bytes == 0 {
            (self.signals, self.packets) = (0, 0);
        }
    }

    /// A data packet arrives and leaves at once.
    #[inline(always)]
    pub(super) fn pass(&mut self, now: Time, size: u32) {
        // A packet that finds no data queued needs no check, unless it is larger than the peak: a packet of its size was checked before.
        if self.bytes > 0 || u64::from(size) > self.peak {
            self.arrive(now, size);
            self.leave(size);
        }
    }

    /// A signal leaves.
    #[inline(always)]
    pub(super) fn signal(&mut self, size: u32) {
        self.signals += if self.bytes > 0 { u64::from(size) } else { 0 };
    }

    #[cold]
    #[inline(never)]
    fn judge(&mut self, at: Time) {
        let bytes = self.bytes - self.signals;
        let allowed = self.limit + (self.deviation * (self.packets as f64).sqrt()) as u64;
        let worst = self.beyond.map_or(0, |beyond| beyond.bytes - beyond.allowed);
        if bytes > allowed + worst {
            self.beyond = Some(Beyond { at, bytes, allowed });
        }
    }
}
