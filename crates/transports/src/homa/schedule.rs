//! Which messages a receiver grants to (§3.3, §3.5): the best ones, of different senders.

use crate::toolkit::IndexedHeap;

/// The order of service, least first: the bytes that are missing, then the order of arrival.
pub(super) type Rank = (u64, u32);

/// A message that is granted to.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Granted {
    rank: Rank,
    slot: u32,
    group: u32,
}

/// The messages that need grants. They are in groups, of which each has at most one message among those that are granted to. Each call
/// takes O(log n) steps, and one for each message that is granted to.
pub(super) struct Schedule {
    most: usize,
    /// The messages of each group.
    groups: Vec<IndexedHeap<Rank>>,
    /// The messages that are granted to, best first.
    granted: Vec<Granted>,
    /// The other groups, by the rank of their best message.
    waiting: IndexedHeap<Rank>,
    /// Whether a message was added to those that are granted to.
    changed: bool,
}

impl Schedule {
    /// A schedule in which at most this many messages are granted to.
    pub fn new(most: usize) -> Schedule {
        Schedule {
            most,
            groups: Vec::new(),
            granted: Vec::with_capacity(most + 1),
            waiting: IndexedHeap::default(),
            changed: false,
        }
    }

    /// How many messages are granted to.
    #[inline]
    pub fn len(&self) -> usize {
        self.granted.len()
    }
    /// The message at a place among those that are granted to.
    #[inline]
    pub fn slot_at(&self, place: usize) -> u32 {
        self.granted[place].slot
    }
    /// The place of a message among those that are granted to.
    #[inline]
    pub fn place_of(&self, slot: u32) -> Option<usize> {
        self.granted.iter().position(|granted| granted.slot == slot)
    }
    /// Whether a message was added to those that are granted to since the last call.
    #[inline]
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Adds a message, or changes its rank.
    pub fn set(&mut self, group: u32, slot: u32, rank: Rank) {
        if self.groups.len() <= group as usize {
            self.groups.resize_with(group as usize + 1, IndexedHeap::default);
        }
        self.groups[group as usize].set(slot, rank);
        self.settle(group);
    }

    /// Removes a message, if it is there.
    pub fn remove(&mut self, group: u32, slot: u32) {
        if self.groups.get_mut(group as usize).is_some_and(|messages| messages.remove(slot).is_some()) {
            self.settle(group);
        }
    }

    /// Puts a group where its best message belongs.
    fn settle(&mut self, group: u32) {
        let best = self.groups[group as usize].peek().map(|(rank, slot)| Granted { rank, slot, group });
        let place = self.granted.iter().position(|granted| granted.group == group);
        match (best, place) {
            (Some(best), Some(place)) if self.waiting.peek().is_none_or(|(next, _)| best.rank < next) => {
                self.changed |= self.granted[place].slot != best.slot;
                self.move_to_rank(place, best);
            }
            (best, Some(place)) => {
                self.granted.remove(place);
                if let Some(best) = best {
                    self.waiting.set(group, best.rank);
                }
                if let Some((_, next)) = self.waiting.pop() {
                    self.admit(next);
                }
            }
            (Some(best), None) => {
                self.waiting.set(group, best.rank);
                let worst = self.granted.last().map(|worst| (worst.rank, worst.group));
                match worst.filter(|_| self.granted.len() == self.most) {
                    Some((rank, _)) if rank < best.rank => {}
                    Some((rank, worst)) => {
                        self.granted.pop();
                        self.waiting.set(worst, rank);
                        self.waiting.remove(group);
                        self.admit(group);
                    }
                    None => {
                        self.waiting.remove(group);
                        self.admit(group);
                    }
                }
            }
            (None, None) => {
                self.waiting.remove(group);
            }
        }
    }

    /// Grants to the best message of a group from now on.
    fn admit(&mut self, group: u32) {
        let (rank, slot) = self.groups[group as usize].peek().expect("a group that waits has messages");
        self.granted.push(Granted { rank, slot, group });
        self.move_to_rank(self.granted.len() - 1, Granted { rank, slot, group });
        self.changed = true;
    }

    /// Replaces the content of a place and moves it to where its rank belongs.
    fn move_to_rank(&mut self, mut place: usize, granted: Granted) {
        while place > 0 && granted.rank < self.granted[place - 1].rank {
            self.granted[place] = self.granted[place - 1];
            place -= 1;
        }
        while place + 1 < self.granted.len() && self.granted[place + 1].rank < granted.rank {
            self.granted[place] = self.granted[place + 1];
            place += 1;
        }
        self.granted[place] = granted;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// The best message of each group, of which the best `most` are granted to.
    fn model(messages: &BTreeMap<u32, (u32, Rank)>, most: usize) -> Vec<u32> {
        let mut all: Vec<(Rank, u32, u32)> = messages.iter().map(|(slot, (group, rank))| (*rank, *slot, *group)).collect();
        all.sort_unstable();
        let mut seen = BTreeSet::new();
        all.into_iter().filter(|(.., group)| seen.insert(*group)).take(most).map(|(_, slot, _)| slot).collect()
    }

    proptest! {
        #[test]
        fn it_grants_to_the_best_of_each_group(
            most in 1_usize..5,
            steps in prop::collection::vec((0_u8..3, 0_u32..24, 0_u64..20), 0..300),
        ) {
            let mut schedule = Schedule::new(most);
            let mut messages: BTreeMap<u32, (u32, Rank)> = BTreeMap::new();
            let mut before = Vec::new();
            for (what, slot, bytes) in steps {
                let group = slot % 6;
                if what == 0 {
                    schedule.remove(group, slot);
                    messages.remove(&slot);
                } else {
                    schedule.set(group, slot, (bytes, slot));
                    messages.insert(slot, (group, (bytes, slot)));
                }
                let expected = model(&messages, most);
                let found: Vec<u32> = (0..schedule.len()).map(|place| schedule.slot_at(place)).collect();
                prop_assert_eq!(&found, &expected);
                for slot in 0..24 {
                    prop_assert_eq!(schedule.place_of(slot), expected.iter().position(|other| *other == slot));
                }
                let new = expected.iter().any(|slot| !before.contains(slot));
                prop_assert!(schedule.take_changed() || !new);
                before = expected;
            }
        }
    }
}
