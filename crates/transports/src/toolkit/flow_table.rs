//! State per flow, in an arena.

use std::ops::{Index, IndexMut};

use flowloom_core::FlowId;

use super::FlowMap;

#[derive(Clone, Debug)]
enum Slot<T> {
    Free { next: u32 },
    Used { flow: FlowId, state: T },
}

/// Ends the free list.
const NONE: u32 = u32::MAX;

/// The state of a node's flows. A packet's flow is looked up once by its [`FlowId`] and is then addressed by a `u32` slot. Slots are
/// dense and reused, so heaps and lists can be indexed by them. Memory follows the largest number of flows at one time.
#[derive(Clone, Debug)]
pub struct FlowTable<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    map: FlowMap,
}

impl<T> Default for FlowTable<T> {
    fn default() -> Self {
        FlowTable { slots: Vec::new(), free: NONE, map: FlowMap::default() }
    }
}

impl<T> FlowTable<T> {
    /// The number of flows.
    pub fn len(&self) -> usize {
        self.map.len()
    }
    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Adds a flow's state and returns its slot.
    ///
    /// # Panics
    /// If the flow is already in the table.
    pub fn insert(&mut self, flow: FlowId, state: T) -> u32 {
        let used = Slot::Used { flow, state };
        let slot = self.free;
        let slot = if slot == NONE {
            self.slots.push(used);
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 flows at a node")
        } else {
            match std::mem::replace(&mut self.slots[slot as usize], used) {
                Slot::Free { next } => self.free = next,
                Slot::Used { .. } => unreachable!("the free list holds free slots"),
            }
            slot
        };
        let before = self.map.insert(flow, slot);
        assert!(before.is_none(), "flow {} is already in the table", flow.0);
        slot
    }

    /// The slot of a flow.
    #[inline]
    pub fn slot_of(&self, flow: FlowId) -> Option<u32> {
        self.map.get(flow)
    }

    /// The flow in a slot.
    ///
    /// # Panics
    /// If the slot is free.
    #[inline]
    pub fn flow_of(&self, slot: u32) -> FlowId {
        match &self.slots[slot as usize] {
            Slot::Used { flow, .. } => *flow,
            Slot::Free { .. } => panic!("slot {slot} is free"),
        }
    }

    /// Removes a flow. Its slot may be reused from now on.
    ///
    /// # Panics
    /// If the slot is free.
    pub fn remove(&mut self, slot: u32) -> T {
        match std::mem::replace(&mut self.slots[slot as usize], Slot::Free { next: self.free }) {
            Slot::Used { flow, state } => {
                self.free = slot;
                self.map.remove(flow);
                state
            }
            Slot::Free { .. } => panic!("slot {slot} is free"),
        }
    }
}

impl<T> Index<u32> for FlowTable<T> {
    type Output = T;
    #[inline]
    fn index(&self, slot: u32) -> &T {
        match &self.slots[slot as usize] {
            Slot::Used { state, .. } => state,
            Slot::Free { .. } => panic!("slot {slot} is free"),
        }
    }
}
impl<T> IndexMut<u32> for FlowTable<T> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        match &mut self.slots[slot as usize] {
            Slot::Used { state, .. } => state,
            Slot::Free { .. } => panic!("slot {slot} is free"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_map_and_reuses_slots(steps in prop::collection::vec((any::<bool>(), 0_u32..20), 0..200)) {
            let mut table = FlowTable::default();
            let mut model = BTreeMap::new();
            let mut most = 0;
            for (number, (add, id)) in steps.into_iter().enumerate() {
                let flow = FlowId(id);
                match table.slot_of(flow) {
                    Some(slot) if !add => prop_assert_eq!(Some(table.remove(slot)), model.remove(&flow)),
                    Some(slot) => prop_assert_eq!(Some(&table[slot]), model.get(&flow)),
                    None => {
                        let slot = table.insert(flow, number);
                        model.insert(flow, number);
                        prop_assert_eq!(table.flow_of(slot), flow);
                    }
                }
                most = most.max(model.len());
                prop_assert_eq!(table.len(), model.len());
            }
            prop_assert_eq!(table.slots.len(), most);
            for (flow, state) in model {
                prop_assert_eq!(table.slot_of(flow).map(|slot| table[slot]), Some(state));
            }
        }
    }

    #[test]
    #[should_panic(expected = "slot 0 is free")]
    fn a_stale_slot_is_noticed() {
        let mut table = FlowTable::default();
        let slot = table.insert(FlowId(7), ());
        table.remove(slot);
        let () = table[slot];
    }
}
