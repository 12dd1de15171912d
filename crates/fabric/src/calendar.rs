//! The event queue: a ring of short time buckets, the one being emptied kept sorted, and a heap for what lies beyond the ring.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use flowloom_core::{Duration, Pool, Time};

/// The link, port, node timer or arrival list that an event belongs to. Events of the same instant are handled in the order of their sources.
pub type EventSource = u32;
/// What an event carries: the id of a packet or of a flow; only its source knows which.
pub type Payload = u32;

/// Fewest buckets in use: so few that all stay in the cache.
const BUCKETS_MIN: usize = 1 << 10;
/// Most buckets in use, and the ring's length, so that the compiler knows a masked index to be within it.
const BUCKETS: usize = 1 << 14;
const WORDS: usize = BUCKETS / 64;
/// Events that a bucket has room for.
const ROOM: usize = 7;
/// Later than any bucket.
const NEVER: u64 = u64::MAX;

/// An event within its bucket: the offset in time above the source above what it is about, so that events compare as integers.
type Packed = u64;
const PAYLOAD_BITS: u32 = 24;
const SOURCE_BITS: u32 = 24;
const _: () = assert!(Pool::<()>::PACKETS_MAX == 1 << PAYLOAD_BITS, "a payload may be a packet id");
/// The largest number of sources.
pub const SOURCES_MAX: usize = 1 << SOURCE_BITS;
/// The largest number of different payloads.
pub const PAYLOADS_MAX: usize = 1 << PAYLOAD_BITS;

/// One cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    /// Those that did not fit are in [`Calendar::crowds`], and counted here.
    len: usize,
    events: [Packed; ROOM],
}

/// Pending events in the order (time, source, payload).
///
/// Tried before: a vector per bucket (a second cache line for each event, and fewer, longer buckets, whose order no branch predictor
/// guesses), lists threaded through an arena (a tenth more instructions per packet-hop), and a 4-ary heap (twice the instructions).
pub struct Calendar {
    /// Width of a bucket, in bits of picoseconds.
    width_bits: u32,
    /// Of a time within its bucket.
    offset_mask: u64,
    /// One less than the buckets in use, a power of two of them: so many that one holds an event or two. Where links are long, many
    /// packets are on their way.
    ring_mask: u64,
    ring: Box<[Bucket; BUCKETS]>,
    occupied: [u64; WORDS],
    /// The next `left` events of bucket `cursor`, last one first.
    current: [Packed; ROOM],
    left: usize,
    /// What follows `current` in its bucket, last one first; mostly nothing.
    following: Vec<Packed>,
    /// The bucket being emptied, counted from time zero.
    cursor: u64,
    /// By bucket, what did not fit into it: all hosts may act at one instant.
    crowds: BTreeMap<u64, Vec<Packed>>,
    beyond: BinaryHeap<Reverse<(Time, EventSource, Payload)>>,
    /// The first bucket of what is in neither the ring nor `current`, [`NEVER`] if nothing is.
    elsewhere_from: u64,
}

impl Calendar {
    /// An empty calendar. Most events will be less than `horizon` ahead; those that are not cost more. Where the network is busy, `pending`
    /// events are.
    pub fn new(horizon: Duration, pending: usize) -> Calendar {
        let buckets = pending.next_power_of_two().clamp(BUCKETS_MIN, BUCKETS) as u64;
        let width_bits =
            horizon.as_ps().div_ceil(buckets).next_power_of_two().ilog2().min(u64::BITS - SOURCE_BITS - PAYLOAD_BITS);
        Calendar {
            width_bits,
            offset_mask: (1 << width_bits) - 1,
            ring_mask: buckets - 1,
            ring: Box::new([Bucket { len: 0, events: [0; ROOM] }; BUCKETS]),
            occupied: [0; WORDS],
            current: [0; ROOM],
            left: 0,
            following: Vec::new(),
            cursor: 0,
            crowds: BTreeMap::new(),
            beyond: BinaryHeap::new(),
            elsewhere_from: NEVER,
        }
    }

    /// Where a bucket is in the ring.
    #[inline]
    fn place(&self, bucket: u64) -> usize {
        (bucket & self.ring_mask) as usize % BUCKETS
    }

    #[inline]
    fn bucket(&self, time: Time) -> u64 {
        time.as_ps() >> self.width_bits
    }

    #[inline]
    fn pack(&self, time: Time, source: EventSource, payload: Payload) -> Packed {
        debug_assert!(source < 1 << SOURCE_BITS && payload < 1 << PAYLOAD_BITS);
        ((time.as_ps() & self.offset_mask) << (SOURCE_BITS + PAYLOAD_BITS))
            | (u64::from(source) << PAYLOAD_BITS)
            | u64::from(payload)
    }

    /// Adds an event. `time` is not before the last event that was taken out.
    #[inline(always)]
    pub fn schedule(&mut self, time: Time, source: EventSource, payload: Payload) {
        let number = self.bucket(time);
        debug_assert!(number >= self.cursor, "an event in the past");
        let ahead = number.wrapping_sub(self.cursor);
        if ahead.wrapping_sub(1) >= self.ring_mask {
            return self.schedule_elsewhere(time, source, payload, ahead == 0);
        }
        let event = self.pack(time, source, payload);
        let index = self.place(number);
        let bucket = &mut self.ring[index];
        match bucket.events.get_mut(bucket.len) {
            Some(place) => *place = event,
            None => self.crowds.entry(number).or_default().push(event),
        }
        bucket.len += 1;
        self.occupied[index / 64] |= 1 << (index % 64);
    }

    #[inline(never)]
    fn schedule_elsewhere(&mut self, time: Time, source: EventSource, payload: Payload, in_current: bool) {
        if in_current {
            self.following.extend_from_slice(&self.current[..self.left]);
            let event = self.pack(time, source, payload);
            // New events are mostly the latest of the bucket that is being emptied: search from the far end of time.
            let place = self.following.iter().position(|pending| *pending < event).unwrap_or(self.following.len());
            self.following.insert(place, event);
            self.follow();
        } else {
            self.beyond.push(Reverse((time, source, payload)));
            self.elsewhere_from = self.elsewhere_from.min(self.bucket(time));
        }
    }

    /// Takes out the earliest event that is not after `limit`.
    #[inline]
    pub fn pop(&mut self, limit: Time) -> Option<(Time, EventSource, Payload)> {
        if self.left == 0 && !self.turn() {
            return None;
        }
        let event = self.current[self.left - 1];
        let time = Time::from_ps((self.cursor << self.width_bits) | (event >> (SOURCE_BITS + PAYLOAD_BITS)));
        if time > limit {
            return None;
        }
        self.left -= 1;
        let source = (event >> PAYLOAD_BITS) as EventSource & ((1 << SOURCE_BITS) - 1);
        Some((time, source, event as Payload & ((1 << PAYLOAD_BITS) - 1)))
    }

    /// When the earliest event is due.
    pub fn next_time(&mut self) -> Option<Time> {
        if self.left == 0 && !self.turn() {
            return None;
        }
        let offset = self.current[self.left - 1] >> (SOURCE_BITS + PAYLOAD_BITS);
        Some(Time::from_ps((self.cursor << self.width_bits) | offset))
    }

    /// Moves on to what comes next, in this bucket or another; false if there is nothing.
    #[inline]
    fn turn(&mut self) -> bool {
        let next = self.next_in_ring().min(self.elsewhere_from);
        if next == NEVER {
            return false;
        }
        self.cursor = next;
        let index = self.place(next);
        let bucket = &mut self.ring[index];
        self.current = bucket.events;
        self.left = std::mem::take(&mut bucket.len);
        self.occupied[index / 64] &= !(1 << (index % 64));
        if self.left > ROOM || next == self.elsewhere_from {
            self.gather();
        } else {
            sort_latest_first(&mut self.current[..self.left]);
        }
        true
    }

    /// Puts the next events of what follows into `current`.
    #[cold]
    fn follow(&mut self) {
        let from = self.following.len().saturating_sub(ROOM);
        self.left = self.following.len() - from;
        self.current[..self.left].copy_from_slice(&self.following[from..]);
        self.following.truncate(from);
        self.elsewhere_from = match self.beyond.peek() {
            _ if from > 0 => self.cursor,
            Some(Reverse((time, ..))) => self.bucket(*time),
            None => NEVER,
        };
    }

    /// Takes in what belongs to the current bucket and is not in the ring.
    #[cold]
    #[inline(never)]
    fn gather(&mut self) {
        self.following.extend_from_slice(&self.current[..self.left.min(ROOM)]);
        if self.left > ROOM {
            self.following.extend(self.crowds.remove(&self.cursor).expect("the bucket is crowded"));
        }
        while let Some(Reverse((time, source, payload))) = self.beyond.peek().copied()
            && self.bucket(time) == self.cursor
        {
            self.beyond.pop();
            self.following.push(self.pack(time, source, payload));
        }
        self.following.sort_unstable_by_key(|event| Reverse(*event));
        self.follow();
    }

    /// The number of the first occupied bucket after the cursor, [`NEVER`] if there is none.
    #[inline]
    fn next_in_ring(&self) -> u64 {
        let first = self.cursor + 1;
        let near = self.occupied[self.place(first) / 64] >> (first % 64);
        if near != 0 { first + u64::from(near.trailing_zeros()) } else { self.next_beyond_word(first) }
    }

    /// The same from the word of the occupancy map after that of `first`.
    #[inline(never)]
    fn next_beyond_word(&self, first: u64) -> u64 {
        let words = (1..=self.ring_mask / 64 + 1).map(|step| (first & !63) + 64 * step);
        // All around: the last word is that of `first` again, with what lies a whole ring ahead.
        let bits = |start: &u64| self.occupied[self.place(*start) / 64];
        words
            .map(|start| (start, bits(&start)))
            .find(|(_, bits)| *bits != 0)
            .map_or(NEVER, |(start, bits)| start + u64::from(bits.trailing_zeros()))
    }
}

/// For a handful of events, which the library's sort takes twice the instructions for.
#[inline]
fn sort_latest_first(events: &mut [Packed]) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted set: any mix of near, far and equal times comes out in the order (time, source).
        #[test]
        fn same_order_as_a_sorted_set(steps in prop::collection::vec((prop_oneof![0u64..40_000, 0u64..1 << 22, 0u64..1 << 30], 0u32..50, 0u32..3, any::<bool>()), 1..400), pending in prop::sample::select(vec![0_usize, 5000])) {
            let mut calendar = Calendar::new(Duration::from_us(16), pending);
            let mut reference = std::collections::BTreeSet::new();
            let mut now = 0;
            for (ahead, source, payload, take) in steps {
                let time = Time::from_ps(now + ahead);
                if reference.insert((time, source, payload)) {
                    calendar.schedule(time, source, payload);
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
        let mut calendar = Calendar::new(Duration::from_us(16), 100);
        calendar.schedule(Time::from_ps(10), 1, 7);
        assert_eq!(calendar.pop(Time::from_ps(9)), None);
        assert_eq!(calendar.next_time(), Some(Time::from_ps(10)));
        assert_eq!(calendar.pop(Time::from_ps(10)), Some((Time::from_ps(10), 1, 7)));
        assert_eq!(calendar.next_time(), None);
    }
}
