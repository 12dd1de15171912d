//! A priority queue in which members can be found, changed and removed.

use flowloom_core::Time;

const ABSENT: u32 = u32::MAX;
const ARITY: usize = 4;

/// A min-heap of (key, slot). A slot is a small dense number (see [`FlowTable`](super::FlowTable)) that is in the heap at most once.
/// Slots with equal keys are removed in ascending order, so the order of removal depends only on the content.
///
/// The heap is four-ary: half as deep as a binary heap, and four children share a cache line or two.
#[derive(Clone, Debug)]
pub struct IndexedHeap<K> {
    items: Vec<(K, u32)>,
    position: Vec<u32>,
}

impl<K> Default for IndexedHeap<K> {
    fn default() -> Self {
        IndexedHeap { items: Vec::new(), position: Vec::new() }
    }
}

/// Timers.
impl IndexedHeap<Time> {
    /// The next slot that is due at `now` or before, according to `due`. The caller sets its next time. A timer that was postponed is
    /// moved here, when it comes first in the heap. So the heap changes once per interval and not once per packet.
    pub fn expired(&mut self, now: Time, due: impl Fn(u32) -> Time) -> Option<u32> {
        while let Some((_, slot)) = self.peek().filter(|(at, _)| *at <= now) {
            if due(slot) <= now {
                return Some(slot);
            }
            self.set(slot, due(slot));
        }
        None
    }
}

impl<K: Ord + Copy> IndexedHeap<K> {
    /// The number of slots in the heap.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether the heap is empty.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Whether the slot is in the heap.
    #[inline]
    pub fn contains(&self, slot: u32) -> bool {
        self.place(slot).is_some()
    }
    /// The slot's key.
    #[inline]
    pub fn key_of(&self, slot: u32) -> Option<K> {
        self.place(slot).map(|at| self.items[at].0)
    }
    /// The least key and its slot.
    #[inline]
    pub fn peek(&self) -> Option<(K, u32)> {
        self.items.first().copied()
    }

    /// Inserts the slot with `key`, or changes its key if it is already in the heap.
    #[inline]
    pub fn set(&mut self, slot: u32, key: K) {
        if let Some(at) = self.place(slot) {
            let worse = key > self.items[at].0;
            self.items[at].0 = key;
            if worse {
                self.sink(at);
            } else {
                self.rise(at);
            }
            return;
        }
        if self.position.len() <= slot as usize {
            self.position.resize(slot as usize + 1, ABSENT);
        }
        self.items.push((key, slot));
        self.rise(self.items.len() - 1);
    }

    /// Removes the slot with the least key.
    #[inline]
    pub fn pop(&mut self) -> Option<(K, u32)> {
        let least = self.peek()?;
        self.take(0);
        Some(least)
    }

    /// Removes a slot and returns its key.
    #[inline]
    pub fn remove(&mut self, slot: u32) -> Option<K> {
        let at = self.place(slot)?;
        Some(self.take(at).0)
    }

    #[inline]
    fn place(&self, slot: u32) -> Option<usize> {
        match self.position.get(slot as usize) {
            Some(at) if *at != ABSENT => Some(*at as usize),
            _ => None,
        }
    }

    fn take(&mut self, at: usize) -> (K, u32) {
        let taken = self.items.swap_remove(at);
        self.position[taken.1 as usize] = ABSENT;
        if at < self.items.len() {
            if self.items[at] < taken {
                self.rise(at);
            } else {
                self.sink(at);
            }
        }
        taken
    }

    fn rise(&mut self, mut at: usize) {
        let item = self.items[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.items[parent] < item {
                break;
            }
            self.settle(at, self.items[parent]);
            at = parent;
        }
        self.settle(at, item);
    }

    fn sink(&mut self, mut at: usize) {
        let item = self.items[at];
        loop {
            let first = at * ARITY + 1;
            // A slice of the children, so that bounds are checked once for all of them.
            let Some((child, others)) = self.items.get(first..).and_then(<[_]>::split_first) else { break };
            let (mut least, mut place) = (*child, first);
            for (child, index) in others.iter().take(ARITY - 1).zip(first + 1..) {
                if *child < least {
                    (least, place) = (*child, index);
                }
            }
            if item < least {
                break;
            }
            self.settle(at, least);
            at = place;
        }
        self.settle(at, item);
    }

    #[inline]
    fn settle(&mut self, at: usize, item: (K, u32)) {
        self.items[at] = item;
        self.position[item.1 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_sorted_set(steps in prop::collection::vec((0_u8..4, 0_u32..40, 0_u32..30), 0..400)) {
            let mut heap = IndexedHeap::default();
            let mut sorted = BTreeSet::new();
            let mut keys = BTreeMap::new();
            for (what, slot, key) in steps {
                match what {
                    0 | 1 => {
                        heap.set(slot, key);
                        if let Some(old) = keys.insert(slot, key) {
                            sorted.remove(&(old, slot));
                        }
                        sorted.insert((key, slot));
                    }
                    2 => {
                        let expected = keys.remove(&slot);
                        prop_assert_eq!(heap.remove(slot), expected);
                        if let Some(old) = expected {
                            sorted.remove(&(old, slot));
                        }
                    }
                    _ => {
                        let expected = sorted.pop_first();
                        prop_assert_eq!(heap.pop(), expected);
                        if let Some((_, slot)) = expected {
                            keys.remove(&slot);
                        }
                    }
                }
                prop_assert_eq!(heap.peek(), sorted.first().copied());
                prop_assert_eq!(heap.key_of(slot), keys.get(&slot).copied());
                prop_assert_eq!(heap.contains(slot), keys.contains_key(&slot));
                prop_assert_eq!(heap.len(), sorted.len());
            }
            prop_assert_eq!(std::iter::from_fn(|| heap.pop()).collect::<Vec<_>>(), Vec::from_iter(sorted));
        }
    }
}
