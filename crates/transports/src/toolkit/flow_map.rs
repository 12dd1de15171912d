//! A map from flow ids to numbers.

use flowloom_core::FlowId;

/// Marks an empty place. It is not a valid number.
const EMPTY: u32 = u32::MAX;
/// The least capacity once a flow was inserted.
const LEAST: usize = 8;

/// A map from [`FlowId`] to a `u32` other than `u32::MAX`: open addressing with linear probing and backward-shift deletion. It is at
/// most half full and, above the least capacity, at least an eighth full.
///
/// The place of a flow is the top bits of a hash of its id. Ids are assigned in sequence, and a workload that pairs hosts in order
/// gives one host ids at a stride. The low bits of the id collide if the stride is a power of two. The top bits of its product with
/// 2³²/φ, as in Fibonacci hashing, collide if the stride is a Fibonacci number: a search then visits hundreds of places. So the
/// top half of the product is mixed into the lower half, and multiplied again.
#[derive(Clone, Debug, Default)]
pub struct FlowMap {
    places: Vec<(u32, u32)>,
    len: u32,
    /// 32 minus the logarithm of the capacity to base 2. The capacity is a power of two from 8 on.
    shift: u32,
}

impl FlowMap {
    /// The number of flows.
    pub fn len(&self) -> usize {
        self.len as usize
    }
    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn home(&self, flow: u32) -> usize {
        let mixed = flow.wrapping_mul(0x9E37_79B9);
        ((mixed ^ (mixed >> 15)).wrapping_mul(0x85EB_CA6B) >> self.shift) as usize
    }

    /// The place of the flow, or the empty place where it would be inserted. At least one place must be empty.
    #[inline]
    fn find(&self, flow: u32) -> usize {
        let mask = self.places.len() - 1;
        let mut at = self.home(flow);
        loop {
            let (key, slot) = self.places[at];
            if slot == EMPTY || key == flow {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    /// The number that the flow maps to.
    #[inline]
    pub fn get(&self, flow: FlowId) -> Option<u32> {
        let mask = self.places.len().wrapping_sub(1);
        let mut at = self.home(flow.0);
        // There are no places before the first flow comes.
        while let Some((key, slot)) = self.places.get(at)
            && *slot != EMPTY
        {
            if *key == flow.0 {
                return Some(*slot);
            }
            at = (at + 1) & mask;
        }
        None
    }

    /// Maps the flow to `slot` and returns what it was mapped to before.
    ///
    /// # Panics
    /// If `slot` is `u32::MAX`.
    pub fn insert(&mut self, flow: FlowId, slot: u32) -> Option<u32> {
        assert!(slot != EMPTY, "u32::MAX is not a slot");
        if (self.len() + 1) * 2 > self.places.len() {
            self.resize((self.places.len() * 2).max(LEAST));
        }
        let at = self.find(flow.0);
        let before = self.places[at].1;
        self.places[at] = (flow.0, slot);
        if before == EMPTY {
            self.len += 1;
            return None;
        }
        Some(before)
    }

    /// Removes the flow and returns what it was mapped to.
    pub fn remove(&mut self, flow: FlowId) -> Option<u32> {
        if self.places.is_empty() {
            return None;
        }
        let mask = self.places.len() - 1;
        let mut hole = self.find(flow.0);
        let slot = self.places[hole].1;
        if slot == EMPTY {
            return None;
        }
        // Close the gap: an entry that a collision pushed past the hole moves back into it.
        let mut at = (hole + 1) & mask;
        while self.places[at].1 != EMPTY {
            let distance = at.wrapping_sub(self.home(self.places[at].0)) & mask;
            if distance >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = self.places[at];
                hole = at;
            }
            at = (at + 1) & mask;
        }
        self.places[hole].1 = EMPTY;
        self.len -= 1;
        if self.places.len() > LEAST && self.len() * 8 < self.places.len() {
            self.resize(self.places.len() / 2);
        }
        Some(slot)
    }

    #[cold]
    fn resize(&mut self, capacity: usize) {
        let old = std::mem::replace(&mut self.places, vec![(0, EMPTY); capacity]);
        self.shift = 32 - capacity.trailing_zeros();
        for (flow, slot) in old.into_iter().filter(|(_, slot)| *slot != EMPTY) {
            let at = self.find(flow);
            self.places[at] = (flow, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Keys come from few values, or at a stride of a power of two, so that collisions and removals meet.
        #[test]
        fn behaves_as_a_map(
            stride in prop::sample::select(vec![1_u32, 7, 128, 4096, 1 << 20, 0x9E37_79B9]),
            steps in prop::collection::vec((0_u8..3, 0_u32..64, 0_u32..1000), 0..400),
        ) {
            let mut map = FlowMap::default();
            let mut model = BTreeMap::new();
            for (what, key, value) in steps {
                let flow = FlowId(key.wrapping_mul(stride));
                match what {
                    0 => prop_assert_eq!(map.insert(flow, value), model.insert(flow, value)),
                    1 => prop_assert_eq!(map.remove(flow), model.remove(&flow)),
                    _ => prop_assert_eq!(map.get(flow), model.get(&flow).copied()),
                }
                prop_assert_eq!(map.len(), model.len());
            }
            for (flow, value) in &model {
                prop_assert_eq!(map.get(*flow), Some(*value));
            }
        }
    }

    #[test]
    fn memory_follows_the_number_of_flows_both_ways() {
        let mut map = FlowMap::default();
        assert_eq!(map.places.len(), 0);
        for id in 0..10_000 {
            map.insert(FlowId(id), id);
        }
        assert!(map.places.len() <= 4 * 10_000);
        for id in 0..9_990 {
            assert_eq!(map.remove(FlowId(id)), Some(id));
        }
        assert!(map.places.len() <= 8 * 10 * 2, "{} places for 10 flows", map.places.len());
        assert_eq!(map.get(FlowId(9_995)), Some(9_995));
    }

    /// Whatever the stride of the ids, a search visits about as many places as with random ids. Knuth (TAOCP 3, 6.4) gives
    /// (1 + 1 / (1 - load)) / 2 for linear probing: 1.48 at this load.
    #[test]
    fn probes_are_short_for_ids_as_they_come() {
        for stride in (1..1024).chain([1597, 2584, 4181, 6765, 10_946, 17_711, 1 << 16, 0x9E37_79B9]) {
            let mut map = FlowMap::default();
            for id in 0..500_u32 {
                map.insert(FlowId(id.wrapping_mul(stride)), id);
            }
            let mask = map.places.len() - 1;
            let probes: usize = (0..500)
                .map(|id: u32| id.wrapping_mul(stride))
                .map(|id| (map.find(id).wrapping_sub(map.home(id)) & mask) + 1)
                .sum();
            assert!(probes < 3 * 500, "stride {stride}: {probes} probes for 500 ids");
        }
    }
}
