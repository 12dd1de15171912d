//! Timers of flows, which are postponed with most packets.

use flowloom_core::Time;

use super::IndexedHeap;

/// A timer.
#[derive(Clone, Copy, Debug)]
struct Timer {
    /// When it expires.
    due: Time,
    /// Its time in the heap, [`Time::MAX`] if it is not there. It may be earlier than `due`, never later.
    looked_at: Time,
}

const UNSET: Timer = Timer { due: Time::MAX, looked_at: Time::MAX };

/// One timer for each slot; a slot is a small dense number (see [`FlowTable`](super::FlowTable)). Timers that expire at the same time do so in ascending order of slots.
///
/// A timer that is postponed stays where it is in the heap, and is moved when it comes first there. So the heap changes once per interval and not once per packet. One that is set to
/// an earlier time is moved at once: a timeout that was backed off, or measured on longer round trips, becomes shorter with the next sample.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    heap: IndexedHeap<Time>,
    /// By slot.
    timers: Vec<Timer>,
}

impl Timers {
    /// Sets or moves the timer of a slot.
    #[inline]
    pub fn set(&mut self, slot: u32, due: Time) {
        if self.timers.len() <= slot as usize {
            self.timers.resize(slot as usize + 1, UNSET);
        }
        let timer = &mut self.timers[slot as usize];
        timer.due = due;
        if due < timer.looked_at {
            timer.looked_at = due;
            self.heap.set(slot, due);
        }
    }

    /// When the timer of a slot expires; [`Time::MAX`] if it is not set.
    #[inline]
    pub fn due(&self, slot: u32) -> Time {
        self.timers.get(slot as usize).map_or(Time::MAX, |timer| timer.due)
    }

    /// Stops the timer of a slot, if it is set.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        if self.heap.remove(slot).is_some() {
            self.timers[slot as usize] = UNSET;
        }
    }

    /// When a timer may expire next. All may have been postponed since.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        self.heap.peek().map(|(at, _)| at)
    }

    /// Takes out the next timer that expires at `now` or before.
    pub fn expired(&mut self, now: Time) -> Option<u32> {
        while let Some((_, slot)) = self.heap.peek().filter(|(at, _)| *at <= now) {
            let timer = &mut self.timers[slot as usize];
            if timer.due <= now {
                *timer = UNSET;
                self.heap.pop();
                return Some(slot);
            }
            timer.looked_at = timer.due;
            self.heap.set(slot, timer.due);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const fn at(us: u64) -> Time {
        Time::from_ps(1_000_000 * us)
    }

    #[test]
    fn a_timer_may_be_moved_in_both_directions() {
        let mut timers = Timers::default();
        timers.set(0, at(10));
        timers.set(0, at(30));
        assert_eq!((timers.next(), timers.due(0)), (Some(at(10)), at(30)), "it is not moved yet");
        assert_eq!(timers.expired(at(10)), None);
        assert_eq!(timers.next(), Some(at(30)));
        timers.set(0, at(20));
        assert_eq!((timers.next(), timers.expired(at(20))), (Some(at(20)), Some(0)));
        assert_eq!((timers.next(), timers.due(0)), (None, Time::MAX));
    }

    proptest! {
        /// Whatever is set, moved and stopped in between, timers expire at their times, in order, and none is lost.
        #[test]
        fn timers_expire_as_a_sorted_list_says(steps in prop::collection::vec((0_u32..6, 0_u64..40, 0_u8..4), 1..200)) {
            let (mut timers, mut list, mut now) = (Timers::default(), BTreeMap::new(), 0);
            for (slot, span, kind) in steps {
                match kind {
                    0 => {
                        timers.remove(slot);
                        list.remove(&slot);
                    }
                    1 => {
                        now += span;
                        let mut expected: Vec<(u64, u32)> = list.iter().map(|(slot, due)| (*due, *slot)).filter(|(due, _)| *due <= now).collect();
                        expected.sort_unstable();
                        let mut found: Vec<(u64, u32)> = std::iter::from_fn(|| timers.expired(at(now))).map(|slot| (list[&slot], slot)).collect();
                        found.sort_unstable();
                        prop_assert_eq!(found, expected);
                        list.retain(|_, due| *due > now);
                    }
                    _ => {
                        timers.set(slot, at(now + span));
                        list.insert(slot, now + span);
                    }
                }
                let least = list.values().min().map(|due| at(*due));
                prop_assert!(timers.next() <= least || least.is_none(), "{:?} instead of {least:?}", timers.next());
                prop_assert_eq!(timers.next().is_some(), least.is_some());
            }
        }
    }
}
