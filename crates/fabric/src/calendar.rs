//! The event queue: a ring of time buckets, the one being emptied kept sorted, and a heap for what lies beyond the ring.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flowloom_core::{Duration, Time};

/// Who an event is for. Events at the same instant are handled in the order of their sources.
pub type Source = u32;

/// Buckets in the ring: so few that those in use stay in the cache.
const BUCKETS: usize = 1024;
const WORDS: usize = BUCKETS / 64;
/// Later than any bucket.
const NEVER: u64 = u64::MAX;

/// Pending events in the order (time, source).
///
/// An event in the ring is one word: its offset in the bucket above its source, so that a bucket sorts as integers. A 4-ary
/// heap over the same events takes twice the instructions per packet-hop.
pub struct Calendar {
    /// Width of a bucket, in bits of picoseconds: 14 are 16.4 ns, in which a busy network of 144 hosts at 10 Gb/s has two events.
    width_bits: u32,
    /// Of a time within its bucket.
    offset_mask: u64,
    ring: Box<[Vec<u64>; BUCKETS]>,
    occupied: [u64; WORDS],
    /// The events of bucket `cursor`, last one first.
    current: Vec<u64>,
    /// The bucket being emptied, counted from time zero.
    cursor: u64,
    beyond: BinaryHeap<Reverse<(Time, Source)>>,
    /// The first bucket of what is beyond, [`NEVER`] if nothing is.
    beyond_from: u64,
}

/// A bucket mostly holds a handful of events, for which the library's sort takes twice the instructions.
#[inline]
fn sort_latest_first(events: &mut [u64]) {
    if events.len() > 24 {
        return events.sort_unstable_by_key(|event| Reverse(*event));
    }
    for end in 1..events.len() {
        let event = events[end];
        let mut place = end;
        while place > 0 && events[place - 1] < event {
            events[place] = events[place - 1];
            place -= 1;
        }
        events[place] = event;
    }
}

impl Calendar {
    /// An empty calendar. Most events will be less than `horizon` ahead; those that are not cost more.
    pub fn new(horizon: Duration) -> Calendar {
        let width_bits = horizon.as_ps().div_ceil(BUCKETS as u64).next_power_of_two().ilog2().min(u32::BITS);
        Calendar {
            width_bits,
            offset_mask: (1 << width_bits) - 1,
            ring: vec![Vec::new(); BUCKETS].try_into().expect("so many buckets"),
            occupied: [0; WORDS],
            current: Vec::new(),
            cursor: 0,
            beyond: BinaryHeap::new(),
            beyond_from: NEVER,
        }
    }

    #[inline]
    fn bucket(&self, time: Time) -> u64 {
        time.as_ps() >> self.width_bits
    }

    #[inline]
    fn word(&self, time: Time, source: Source) -> u64 {
        ((time.as_ps() & self.offset_mask) << 32) | u64::from(source)
    }

    /// Adds an event. `time` is not before the last event that was taken out.
    #[inline(always)]
    pub fn schedule(&mut self, time: Time, source: Source) {
        let bucket = self.bucket(time);
        debug_assert!(bucket >= self.cursor, "an event in the past");
        let ahead = bucket.wrapping_sub(self.cursor);
        if ahead.wrapping_sub(1) < BUCKETS as u64 - 1 {
            let index = bucket as usize % BUCKETS;
            let event = self.word(time, source);
            self.ring[index].push(event);
            self.occupied[index / 64] |= 1 << (index % 64);
        } else {
            self.schedule_elsewhere(time, source, ahead == 0);
        }
    }

    #[inline(never)]
    fn schedule_elsewhere(&mut self, time: Time, source: Source, in_current: bool) {
        if in_current {
            let event = self.word(time, source);
            // New events are mostly the latest of the bucket that is being emptied: search from the far end of time.
            let place = self.current.iter().position(|pending| *pending < event).unwrap_or(self.current.len());
            self.current.insert(place, event);
        } else {
            self.beyond.push(Reverse((time, source)));
            self.beyond_from = self.beyond_from.min(self.bucket(time));
        }
    }

    /// Takes out the earliest event that is not after `limit`.
    #[inline]
    pub fn pop(&mut self, limit: Time) -> Option<(Time, Source)> {
        if self.current.is_empty() && !self.turn() {
            return None;
        }
        let event = *self.current.last()?;
        let time = Time::from_ps((self.cursor << self.width_bits) | (event >> 32));
        if time > limit {
            return None;
        }
        self.current.pop();
        Some((time, event as u32))
    }

    /// Moves on to the next bucket that holds events; false if there is none.
    #[inline]
    fn turn(&mut self) -> bool {
        let next = self.next_in_ring().min(self.beyond_from);
        if next == NEVER {
            return false;
        }
        self.cursor = next;
        let index = next as usize % BUCKETS;
        std::mem::swap(&mut self.current, &mut self.ring[index]);
        self.occupied[index / 64] &= !(1 << (index % 64));
        if next == self.beyond_from {
            self.fetch_from_beyond();
        }
        sort_latest_first(&mut self.current);
        true
    }

    /// Takes in what lies beyond the ring and belongs to the current bucket.
    #[cold]
    fn fetch_from_beyond(&mut self) {
        self.beyond_from = NEVER;
        while let Some(Reverse((time, source))) = self.beyond.peek().copied() {
            let bucket = self.bucket(time);
            if bucket != self.cursor {
                self.beyond_from = bucket;
                break;
            }
            self.beyond.pop();
            let event = self.word(time, source);
            self.current.push(event);
        }
    }

    /// The number of the first occupied bucket after the cursor, [`NEVER`] if there is none.
    #[inline]
    fn next_in_ring(&self) -> u64 {
        let first = self.cursor + 1;
        let near = self.occupied[first as usize % BUCKETS / 64] >> (first % 64);
        if near != 0 { first + u64::from(near.trailing_zeros()) } else { self.next_beyond_word(first) }
    }

    /// The same from the word of the occupancy map after that of `first`.
    #[inline(never)]
    fn next_beyond_word(&self, first: u64) -> u64 {
        let words = (1..=WORDS as u64).map(|step| (first & !63) + 64 * step);
        // All around: the last word is that of `first` again, with what lies a whole ring ahead.
        let bits = |start: &u64| self.occupied[*start as usize % BUCKETS / 64];
        words
            .map(|start| (start, bits(&start)))
            .find(|(_, bits)| *bits != 0)
            .map_or(NEVER, |(start, bits)| start + u64::from(bits.trailing_zeros()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted set: any mix of near, far and equal times comes out in the order (time, source).
        #[test]
        fn same_order_as_a_sorted_set(steps in prop::collection::vec((prop_oneof![0u64..40_000, 0u64..1 << 22, 0u64..1 << 30], 0u32..50, any::<bool>()), 1..400)) {
            let mut calendar = Calendar::new(Duration::from_us(16));
            let mut reference = std::collections::BTreeSet::new();
            let mut now = 0;
            for (ahead, source, take) in steps {
                let time = Time::from_ps(now + ahead);
                if reference.insert((time, source)) {
                    calendar.schedule(time, source);
                }
                if take {
                    let expected = reference.pop_first();
                    prop_assert_eq!(calendar.pop(Time::MAX), expected);
                    now = expected.expect("just inserted").0.as_ps();
                }
            }
            while let Some(expected) = reference.pop_first() {
                prop_assert_eq!(calendar.pop(Time::MAX), Some(expected));
            }
            prop_assert_eq!(calendar.pop(Time::MAX), None);
        }
    }

    #[test]
    fn nothing_after_the_limit() {
        let mut calendar = Calendar::new(Duration::from_us(16));
        calendar.schedule(Time::from_ps(10), 1);
        assert_eq!(calendar.pop(Time::from_ps(9)), None);
        assert_eq!(calendar.pop(Time::from_ps(10)), Some((Time::from_ps(10), 1)));
    }
}
