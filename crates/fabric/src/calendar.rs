//! The event queue: a ring of short time buckets, and a heap for events beyond the ring. Only the bucket being emptied is sorted.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use flowloom_core::{Duration, Pool, Time, mix};

/// The link, port, node timer or flow list that an event belongs to. The bits from [`CLASS_SHIFT`] on are the source's class. Events at the
/// same time are handled in the order of their classes, and within a class in a random order that depends on the time.
pub type EventSource = u32;
/// The data of an event: the id of a packet or of a flow, depending on the kind of its source.
pub type Payload = u32;

/// The smallest number of buckets in use.
const BUCKETS_MIN: usize = 1 << 10;
/// Up to this number, there are twice as many buckets as events, since all of them stay in the cache. 16384 buckets for 8192 events took fewer instructions, but 7 % more time.
const BUCKETS_IN_CACHE: usize = 1 << 12;
/// The largest number of buckets in use. The ring always has this length, so that the compiler can prove a masked index in bounds.
const BUCKETS: usize = 1 << 14;
const WORDS: usize = BUCKETS / 64;
/// The number of events that fit into a bucket.
const BUCKET_CAPACITY: usize = 7;
/// A bucket number later than any other.
const NEVER: u64 = u64::MAX;

/// An event within its bucket: from the high bits to the low ones, its time offset, its source and its payload, so that events compare as
/// integers.
type Packed = u64;
const PAYLOAD_BITS: u32 = 24;
const SOURCE_BITS: u32 = 24;
/// The number of bits that distinguish the sources of a class.
pub const CLASS_SHIFT: u32 = 21;
/// Events that are equal in the bits from here on are tied: they have the same time, and sources of the same class.
const TIE_SHIFT: u32 = PAYLOAD_BITS + CLASS_SHIFT;
const _: () = assert!(Pool::<()>::PACKETS_MAX == 1 << PAYLOAD_BITS, "a packet id fits into a payload");
/// The number of possible sources.
pub const SOURCES_MAX: usize = 1 << SOURCE_BITS;
/// The number of possible payloads.
pub const PAYLOADS_MAX: usize = 1 << PAYLOAD_BITS;

/// One cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    /// The number of events, including those that did not fit and are in [`Calendar::overflow`].
    len: usize,
    events: [Packed; BUCKET_CAPACITY],
}

/// Pending events in the order (time, class of the source, hash of the time and the source, payload).
///
/// The hash treats equal sources equally. If hosts are as fast as their bottleneck, packets of several hosts reach it at the same time again
/// and again. With a fixed order of links, the same flow would always find the queue one packet shorter: two DCTCP flows then shared a link
/// 2 : 1 for ever, and drop-tail starved one of two flows. An exclusive or of link numbers with a hash of the time is fair between two links
/// only: of the links 0, 1 and 2, link 2 is the last one half of the time. Here every order of tied sources is equally likely. The hash is
/// computed only where events are tied, which costs less than a hash in every event.
///
/// Alternatives that were slower: a vector per bucket (it needs a second cache line for each event, and fewer, longer buckets, whose
/// sorting mispredicts branches), linked lists in an arena (10 % more instructions per packet-hop), and a 4-ary heap (twice the
/// instructions).
pub struct Calendar {
    /// A bucket is 2^`width_bits` picoseconds wide.
    width_bits: u32,
    /// The mask for a time's offset within its bucket.
    offset_mask: u64,
    /// Selects the order of tied events.
    tie_seed: u64,
    /// One less than the number of buckets in use, which is a power of two and so large that a bucket holds an event or two, mostly one. Long links
    /// need more buckets, because more packets are in flight.
    ring_mask: u64,
    ring: Box<[Bucket; BUCKETS]>,
    occupied: [u64; WORDS],
    /// The next `remaining` events of bucket `cursor`, in descending order.
    current: [Packed; BUCKET_CAPACITY],
    remaining: usize,
    /// The events of bucket `cursor` that come after those in `current`, in descending order; mostly empty.
    following: Vec<Packed>,
    /// The number of the bucket being emptied, counted from time zero.
    cursor: u64,
    /// By bucket number, the events that did not fit: all hosts may have an event at the same time.
    overflow: BTreeMap<u64, Vec<Packed>>,
    beyond_ring: BinaryHeap<Reverse<(Time, EventSource, Payload)>>,
    /// The first bucket with an event that is in neither the ring nor `current`, [`NEVER`] if there is none.
    next_outside: u64,
}

impl Calendar {
    /// An empty calendar. Most events should be scheduled less than `horizon` ahead; later ones cost more. `pending` is the expected number
    /// of events in the queue of a busy network. `tie_seed` selects the order of tied events.
    pub fn new(horizon: Duration, pending: usize, tie_seed: u64) -> Calendar {
        let roomy = (2 * pending).next_power_of_two().min(BUCKETS_IN_CACHE);
        let buckets = pending.next_power_of_two().max(roomy).clamp(BUCKETS_MIN, BUCKETS) as u64;
        let width_bits =
            horizon.as_ps().div_ceil(buckets).next_power_of_two().ilog2().clamp(1, u64::BITS - SOURCE_BITS - PAYLOAD_BITS);
        Calendar {
            width_bits,
            offset_mask: (1 << width_bits) - 1,
            tie_seed,
            ring_mask: buckets - 1,
            ring: Box::new([Bucket { len: 0, events: [0; BUCKET_CAPACITY] }; BUCKETS]),
            occupied: [0; WORDS],
            current: [0; BUCKET_CAPACITY],
            remaining: 0,
            following: Vec::new(),
            cursor: 0,
            overflow: BTreeMap::new(),
            beyond_ring: BinaryHeap::new(),
            next_outside: NEVER,
        }
    }

    /// The index of a bucket in the ring.
    #[inline]
    fn ring_index(&self, bucket: u64) -> usize {
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

    /// Adds an event. `time` must not be before that of the last event taken out.
    #[inline(always)]
    pub fn schedule(&mut self, time: Time, source: EventSource, payload: Payload) {
        let number = self.bucket(time);
        debug_assert!(number >= self.cursor, "an event in the past");
        let ahead = number.wrapping_sub(self.cursor);
        if ahead.wrapping_sub(1) >= self.ring_mask {
            return self.schedule_outside(time, source, payload, ahead == 0);
        }
        let event = self.pack(time, source, payload);
        let index = self.ring_index(number);
        let bucket = &mut self.ring[index];
        match bucket.events.get_mut(bucket.len) {
            Some(free) => *free = event,
            None => return self.schedule_in_overflow(number, event),
        }
        bucket.len += 1;
        self.occupied[index / 64] |= 1 << (index % 64);
    }

    /// Adds an event that does not fit into its bucket. Like `schedule_outside`, it is called last, so that `schedule` need not save registers.
    #[cold]
    #[inline(never)]
    fn schedule_in_overflow(&mut self, bucket: u64, event: Packed) {
        self.overflow.entry(bucket).or_default().push(event);
        let index = self.ring_index(bucket);
        self.ring[index].len += 1;
    }

    #[inline(never)]
    fn schedule_outside(&mut self, time: Time, source: EventSource, payload: Payload, in_current: bool) {
        if in_current {
            self.following.extend_from_slice(&self.current[..self.remaining]);
            let event = self.pack(time, source, payload);
            // A new event is mostly the latest of its bucket, so the search starts at the latest ones.
            let order = self.order();
            let is_earlier = |pending: &Packed| order.compare(*pending, event).is_lt();
            let index = self.following.iter().position(is_earlier).unwrap_or(self.following.len());
            self.following.insert(index, event);
            self.refill_current();
        } else {
            self.beyond_ring.push(Reverse((time, source, payload)));
            self.next_outside = self.next_outside.min(self.bucket(time));
        }
    }

    /// Takes out the earliest event, unless it is after `limit`. Events after `limit` can be scheduled afterwards, and earlier ones may need a [`Calendar::rewind`].
    #[inline(always)]
    pub fn pop(&mut self, limit: Time) -> Option<(Time, EventSource, Payload)> {
        if self.remaining == 0 {
            let next = self.next_in_ring();
            let index = self.ring_index(next);
            let Bucket { len, events } = &self.ring[index];
            if *len == 1 && next < self.next_outside {
                // It is the only event of its bucket, as most are, and need not be copied and sorted.
                let found = self.unpack(next, events[0]);
                if found.0 > limit {
                    return None;
                }
                self.ring[index].len = 0;
                self.vacate(index);
                self.cursor = next;
                return Some(found);
            }
            if !self.advance(next, limit) {
                return None;
            }
        }
        let found = self.unpack(self.cursor, self.current[self.remaining - 1]);
        if found.0 > limit {
            return None;
        }
        self.remaining -= 1;
        Some(found)
    }

    /// The event that [`Calendar::pop`] would take out.
    pub fn peek(&mut self, limit: Time) -> Option<(Time, EventSource, Payload)> {
        if self.remaining == 0 && !self.advance(self.next_in_ring(), limit) {
            return None;
        }
        Some(self.unpack(self.cursor, self.current[self.remaining - 1])).filter(|(time, ..)| *time <= limit)
    }

    /// An event of a bucket.
    #[inline(always)]
    fn unpack(&self, bucket: u64, event: Packed) -> (Time, EventSource, Payload) {
        (self.time_of(bucket, event), source_of(event), event as Payload & ((1 << PAYLOAD_BITS) - 1))
    }

    /// The time of an event of a bucket.
    #[inline(always)]
    fn time_of(&self, bucket: u64, event: Packed) -> Time {
        Time::from_ps((bucket << self.width_bits) | (event >> (SOURCE_BITS + PAYLOAD_BITS)))
    }

    /// Notes that a bucket of the ring is empty.
    #[inline(always)]
    fn vacate(&mut self, index: usize) {
        self.occupied[index / 64] &= !(1 << (index % 64));
    }

    /// When the earliest event is; [`Time::MAX`] if there is none. This does not look ahead: earlier events can be scheduled afterwards.
    pub fn next_time(&self) -> Time {
        if let Some(event) = self.current[..self.remaining].last().or(self.following.last()) {
            return self.time_of(self.cursor, *event);
        }
        let next = self.next_in_ring();
        let in_ring = (next < NEVER).then(|| {
            let Bucket { len, events } = &self.ring[self.ring_index(next)];
            let overflow = self.overflow.get(&next).into_iter().flatten();
            events[..(*len).min(BUCKET_CAPACITY)].iter().chain(overflow).min().map(|event| self.time_of(next, *event))
        });
        let beyond = self.beyond_ring.peek().map(|Reverse((time, ..))| *time);
        in_ring.flatten().into_iter().chain(beyond).min().unwrap_or(Time::MAX)
    }

    /// Lets events be scheduled from `to` on, which must not be before the last event taken out. [`Calendar::pop`] may have looked at later events of the bucket that
    /// its limit is in.
    pub fn rewind(&mut self, to: Time) {
        if self.bucket(to) >= self.cursor {
            return;
        }
        let pending: Vec<_> = std::iter::from_fn(|| self.pop(Time::MAX)).collect();
        self.cursor = self.bucket(to);
        for (time, source, payload) in pending {
            self.schedule(time, source, payload);
        }
    }

    /// Whether no event is pending.
    pub fn is_empty(&self) -> bool {
        self.remaining == 0 && self.next_in_ring().min(self.next_outside) == NEVER
    }

    /// Refills `current` with the events of `next`, the first occupied bucket of the ring, or of an earlier one that is outside. Returns false if it is after that of `limit`.
    #[inline(always)]
    fn advance(&mut self, next: u64, limit: Time) -> bool {
        let next = next.min(self.next_outside);
        // A bucket is at least 2 ps wide, so no time is in the bucket `NEVER`.
        if next > self.bucket(limit) {
            return false;
        }
        self.cursor = next;
        let index = self.ring_index(next);
        let bucket = &mut self.ring[index];
        self.current = bucket.events;
        self.remaining = std::mem::take(&mut bucket.len);
        self.vacate(index);
        if self.remaining > BUCKET_CAPACITY || next == self.next_outside {
            self.collect_outside();
        } else {
            sort_latest_first(&mut self.current[..self.remaining], |one, other| one < other);
            if self.current[..self.remaining].windows(2).any(|pair| is_tie(pair[0], pair[1])) {
                self.break_ties();
            }
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn break_ties(&mut self) {
        let order = self.order();
        sort_latest_first(&mut self.current[..self.remaining], |one, other| order.compare(one, other).is_lt());
    }

    /// The order of the events of bucket `cursor`.
    fn order(&self) -> Order {
        Order { tie_seed: self.tie_seed, bucket_start_ps: self.cursor << self.width_bits }
    }

    /// Moves the earliest events of `following` into `current`.
    #[cold]
    fn refill_current(&mut self) {
        let from = self.following.len().saturating_sub(BUCKET_CAPACITY);
        self.remaining = self.following.len() - from;
        self.current[..self.remaining].copy_from_slice(&self.following[from..]);
        self.following.truncate(from);
        self.next_outside = match self.beyond_ring.peek() {
            _ if from > 0 => self.cursor,
            Some(Reverse((time, ..))) => self.bucket(*time),
            None => NEVER,
        };
    }

    /// Collects the events of the current bucket that did not fit into it or were beyond the ring.
    #[cold]
    #[inline(never)]
    fn collect_outside(&mut self) {
        let sorted = self.following.len();
        self.following.extend_from_slice(&self.current[..self.remaining.min(BUCKET_CAPACITY)]);
        if self.remaining > BUCKET_CAPACITY {
            self.following.extend(self.overflow.remove(&self.cursor).expect("the bucket has overflowed"));
        }
        while let Some(Reverse((time, source, payload))) = self.beyond_ring.peek().copied()
            && self.bucket(time) == self.cursor
        {
            self.beyond_ring.pop();
            self.following.push(self.pack(time, source, payload));
        }
        if self.following.len() > sorted {
            let order = self.order();
            self.following.sort_unstable_by(|one, other| order.compare(*other, *one));
        }
        self.refill_current();
    }

    /// The number of the first occupied bucket in the ring after the cursor, [`NEVER`] if there is none.
    #[inline]
    fn next_in_ring(&self) -> u64 {
        let first = self.cursor + 1;
        let near = self.occupied[self.ring_index(first) / 64] >> (first % 64);
        if near != 0 { first + u64::from(near.trailing_zeros()) } else { self.next_in_later_words(first) }
    }

    /// As [`Calendar::next_in_ring`], from the word of the occupancy bitmap that follows that of bucket `first`.
    #[inline(never)]
    fn next_in_later_words(&self, first: u64) -> u64 {
        let words = (1..=self.ring_mask / 64 + 1).map(|step| (first & !63) + 64 * step);
        // The last word is that of `first` again; its low bits are buckets almost a whole ring ahead.
        let bits = |start: &u64| self.occupied[self.ring_index(*start) / 64];
        words
            .map(|start| (start, bits(&start)))
            .find(|(_, bits)| *bits != 0)
            .map_or(NEVER, |(start, bits)| start + u64::from(bits.trailing_zeros()))
    }
}

/// The order of events within a bucket.
#[derive(Clone, Copy)]
struct Order {
    tie_seed: u64,
    bucket_start_ps: u64,
}

impl Order {
    fn compare(self, one: Packed, other: Packed) -> Ordering {
        // Most tied events are void ones of the same timer.
        let same_source = (one ^ other) >> PAYLOAD_BITS == 0;
        if same_source || !is_tie(one, other) {
            return one.cmp(&other);
        }
        self.place_in_tie(one).cmp(&self.place_in_tie(other))
    }

    /// No two sources have the same hash at one time, because [`mix`] is a bijection.
    fn place_in_tie(self, event: Packed) -> u64 {
        let time_ps = self.bucket_start_ps | (event >> (SOURCE_BITS + PAYLOAD_BITS));
        mix(self.tie_seed ^ time_ps ^ u64::from(source_of(event)) << (u64::BITS - SOURCE_BITS))
    }
}

#[inline]
fn source_of(event: Packed) -> EventSource {
    (event >> PAYLOAD_BITS) as EventSource & ((1 << SOURCE_BITS) - 1)
}

/// Whether two events have the same time, and sources of the same class.
#[inline]
fn is_tie(one: Packed, other: Packed) -> bool {
    (one ^ other) >> TIE_SHIFT == 0
}

/// Insertion sort for a handful of events; the library's sort takes twice the instructions.
#[inline]
fn sort_latest_first(events: &mut [Packed], is_earlier: impl Fn(Packed, Packed) -> bool) {
    for end in 1..events.len() {
        let event = events[end];
        let mut index = end;
        while index > 0 && is_earlier(events[index - 1], event) {
            events[index] = events[index - 1];
            index -= 1;
        }
        events[index] = event;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEED: u64 = 7;

    /// The key by which events are ordered.
    fn key(time: Time, source: EventSource, payload: Payload) -> (Time, u32, u64, EventSource, Payload) {
        (time, source >> CLASS_SHIFT, mix(SEED ^ time.as_ps() ^ u64::from(source) << 40), source, payload)
    }

    /// Sources of three classes.
    fn source() -> impl Strategy<Value = EventSource> {
        (0u32..3, 0u32..16).prop_map(|(class, index)| class << CLASS_SHIFT | index)
    }

    proptest! {
        /// Compared with a sorted set: any mix of near, far and equal times comes out in the order of the keys.
        #[test]
        fn same_order_as_a_sorted_set(steps in prop::collection::vec((prop_oneof![0u64..40_000, 0u64..1 << 22, 0u64..1 << 30, Just(0)], source(), 0u32..3, any::<bool>()), 1..400), pending in prop::sample::select(vec![0_usize, 5000])) {
            let mut calendar = Calendar::new(Duration::from_us(16), pending, SEED);
            let mut reference = std::collections::BTreeSet::new();
            let mut now = 0;
            for (ahead, source, payload, take) in steps {
                let time = Time::from_ps(now + ahead);
                if reference.insert(key(time, source, payload)) {
                    calendar.schedule(time, source, payload);
                }
                if take {
                    let (time, _, _, source, payload) = reference.pop_first().expect("just inserted");
                    prop_assert_eq!(calendar.next_time(), time);
                    // A step that ends before the event changes nothing.
                    let before = Time::from_ps(time.as_ps().saturating_sub(1 + u64::from(source) * 1000).max(now));
                    if before < time {
                        prop_assert_eq!(calendar.pop(before), None);
                    }
                    prop_assert_eq!(calendar.pop(Time::MAX), Some((time, source, payload)));
                    now = time.as_ps();
                }
            }
            while let Some((time, _, _, source, payload)) = reference.pop_first() {
                prop_assert_eq!(calendar.pop(Time::MAX), Some((time, source, payload)));
            }
            prop_assert_eq!((calendar.pop(Time::MAX), calendar.next_time()), (None, Time::MAX));
        }

        /// A calendar takes events from its last limit on, however far ahead its other events are.
        #[test]
        fn events_can_be_scheduled_after_any_limit(events in prop::collection::vec((0u64..1 << 30, source()), 1..200), limit in 0u64..1 << 30) {
            let mut calendar = Calendar::new(Duration::from_us(16), 100, SEED);
            let (early, late): (Vec<_>, Vec<_>) = events.into_iter().partition(|(time, _)| *time % 3 > 0);
            let mut all: Vec<_> = early.iter().chain(late.iter().filter(|(time, _)| *time > limit)).copied().collect();
            for (time, source) in &early {
                calendar.schedule(Time::from_ps(*time), *source, 0);
            }
            let mut found: Vec<_> = std::iter::from_fn(|| calendar.pop(Time::from_ps(limit))).collect();
            for (time, source) in late.iter().filter(|(time, _)| *time > limit) {
                calendar.schedule(Time::from_ps(*time), *source, 0);
            }
            found.extend(std::iter::from_fn(|| calendar.pop(Time::MAX)));
            all.sort_unstable_by_key(|(time, source)| key(Time::from_ps(*time), *source, 0));
            prop_assert_eq!(found.into_iter().map(|(time, source, _)| (time.as_ps(), source)).collect::<Vec<_>>(), all);
        }
    }

    proptest! {
        /// A calendar that has looked ahead takes earlier events after a rewind, and loses none.
        #[test]
        fn rewound_calendars_keep_the_order(events in prop::collection::vec((0u64..1 << 30, source()), 1..200), cut in 0u64..1 << 30) {
            let mut calendar = Calendar::new(Duration::from_us(16), 100, SEED);
            let (early, late): (Vec<_>, Vec<_>) = events.into_iter().partition(|(time, _)| *time < cut);
            for (time, source) in &late {
                calendar.schedule(Time::from_ps(*time), *source, 0);
            }
            prop_assert_eq!(calendar.peek(Time::ZERO), late.iter().filter(|(time, _)| *time == 0).min_by_key(|e| key(Time::ZERO, e.1, 0)).map(|e| (Time::ZERO, e.1, 0)));
            calendar.rewind(Time::ZERO);
            for (time, source) in &early {
                calendar.schedule(Time::from_ps(*time), *source, 0);
            }
            let mut all = [early, late].concat();
            all.sort_unstable_by_key(|(time, source)| key(Time::from_ps(*time), *source, 0));
            let found: Vec<_> = std::iter::from_fn(|| calendar.pop(Time::MAX)).map(|(time, source, _)| (time.as_ps(), source)).collect();
            prop_assert_eq!(found, all);
        }
    }

    #[test]
    fn nothing_after_the_limit() {
        let mut calendar = Calendar::new(Duration::from_us(16), 100, SEED);
        calendar.schedule(Time::from_ps(10), 1, 7);
        assert_eq!(calendar.pop(Time::from_ps(9)), None);
        assert!(!calendar.is_empty());
        assert_eq!(calendar.pop(Time::from_ps(10)), Some((Time::from_ps(10), 1, 7)));
        assert!(calendar.is_empty());
    }

    /// Packets of `count` links arrive at the same time, again and again. Returns the order of the links at each time.
    fn orders(first: EventSource, count: u32, times: impl Iterator<Item = Time>) -> Vec<Vec<EventSource>> {
        let mut calendar = Calendar::new(Duration::from_us(16), 100, SEED);
        let order = |time| {
            (first..first + count).for_each(|link| calendar.schedule(time, link, 0));
            std::iter::from_fn(|| calendar.pop(time)).map(|(_, link, _)| link - first).collect()
        };
        times.map(order).collect()
    }

    /// Each of N links has each place equally often, and each place is independent of the last one. The probability that one of the 3,400 counts
    /// of a fair order is further than five standard deviations from its mean is below 1 %; small counts contribute most of it.
    #[test]
    fn each_of_many_tied_sources_has_each_place_equally_often() {
        let ties = 10_000;
        // Full packets that follow one another at 1 Gb/s, and times of no order.
        let slots = || (1..=ties).map(|slot| Time::from_ps(slot * 12_320_000));
        let mut now = Time::ZERO;
        let scattered: Vec<Time> = (0..ties)
            .map(|tie| {
                now += Duration::from_ps(1 + mix(tie) % 20_000_000);
                now
            })
            .collect();
        let is_fair = |count: usize, cases: u32| {
            let share = 1.0 / f64::from(cases);
            let deviation = (ties as f64 * share * (1.0 - share)).sqrt();
            (count as f64 - ties as f64 * share).abs() < 5.0 * deviation
        };
        for (first, count) in [(0, 2), (7, 2), (0, 3), (1, 3), (14, 5), (0, 16), (9, 16), (1023, 17)] {
            for orders in [orders(first, count, slots()), orders(first, count, scattered.iter().copied())] {
                for (place, link) in (0..count as usize).flat_map(|place| (0..count).map(move |link| (place, link))) {
                    let there = orders.iter().filter(|order| order[place] == link).count();
                    assert!(is_fair(there, count), "link {link} of {count} from {first} has place {place} {there} times");
                    let again = orders.windows(2).filter(|pair| pair[0][place] == link && pair[1][place] == link).count();
                    assert!(
                        is_fair(again, count * count),
                        "link {link} of {count} from {first} has place {place} twice {again} times"
                    );
                }
            }
        }
        let orders = orders(5, 3, slots());
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            assert!(is_fair(orders.iter().filter(|found| **found == order).count(), 6), "{order:?}");
        }
    }
}
