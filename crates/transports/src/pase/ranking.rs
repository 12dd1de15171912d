//! Flows in order of priority, with the sum of the demands above each flow.

/// No node.
const NONE: u32 = u32::MAX;

/// A flow in the order. It has the slot of its flow in the arbitrator's table. Two nodes share a cache line. 2³² demands of 32 bits do not
/// overflow a sum.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// Its place in the order: the least rank is the most critical flow.
    rank: u64,
    demand: u32,
    /// The demands of this node and of all below it.
    sum: u64,
    left: u32,
    right: u32,
    /// No node is heavier than its parent.
    weight: u32,
}

impl Node {
    const FREE: Node = Node { rank: 0, demand: 0, sum: 0, left: NONE, right: NONE, weight: 0 };
}

/// A sorted list of flows. To insert a flow, to remove one, and to sum the demands above one each take O(log n) steps.
///
/// It is a treap (R. Seidel and C. Aragon, *Randomized search trees*, Algorithmica 16, 1996) in an arena. The weights are a hash of the flow
/// ids, so the shape of the tree depends only on the flows in it, and not on the order of the calls. Memory follows the largest number of
/// flows at one time.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    nodes: Vec<Node>,
    root: u32,
}

impl Default for Ranking {
    fn default() -> Ranking {
        Ranking { nodes: Vec::new(), root: NONE }
    }
}

/// The place of a flow in the order: by key, and by id among equal keys.
pub(super) fn rank(key: u32, flow: u32) -> u64 {
    u64::from(key) << 32 | u64::from(flow)
}

/// A one-to-one hash of 32 bits (the finalizer of MurmurHash3), so no two flows have the same weight.
fn weight(rank: u64) -> u32 {
    let mut hash = rank as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85EB_CA6B);
    hash = (hash ^ hash >> 13).wrapping_mul(0xC2B2_AE35);
    hash ^ hash >> 16
}

impl Ranking {
    #[inline]
    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }
    #[inline]
    fn node_mut(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }
    #[inline]
    fn sum(&self, at: u32) -> u64 {
        if at == NONE { 0 } else { self.node(at).sum }
    }

    /// The demands of all flows.
    pub fn total(&self) -> u64 {
        self.sum(self.root)
    }

    /// The demands of all flows before the one in `slot`.
    #[inline]
    pub fn above(&self, slot: u32) -> u64 {
        let rank = self.node(slot).rank;
        let (mut at, mut above) = (self.root, 0);
        while at != slot {
            let node = self.node(at);
            if rank < node.rank {
                at = node.left;
            } else {
                above += node.sum - self.sum(node.right);
                at = node.right;
            }
        }
        above + self.sum(self.node(slot).left)
    }

    /// Adds a flow, which is not in the list.
    pub fn insert(&mut self, slot: u32, rank: u64, demand: u32) {
        if self.nodes.len() <= slot as usize {
            self.nodes.resize(slot as usize + 1, Node::FREE);
        }
        let weight = weight(rank);
        let (mut parent, mut at) = (NONE, self.root);
        while at != NONE && self.node(at).weight > weight {
            let node = self.node_mut(at);
            node.sum += u64::from(demand);
            parent = at;
            at = if rank < node.rank { node.left } else { node.right };
        }
        let (left, right) = self.split(at, rank);
        let sum = u64::from(demand) + self.sum(left) + self.sum(right);
        *self.node_mut(slot) = Node { rank, demand, sum, left, right, weight };
        self.hang(parent, rank, slot);
    }

    /// Removes a flow, which is in the list.
    pub fn remove(&mut self, slot: u32) {
        let Node { rank, demand, left, right, .. } = *self.node(slot);
        let (mut parent, mut at) = (NONE, self.root);
        while at != slot {
            let node = self.node_mut(at);
            node.sum -= u64::from(demand);
            parent = at;
            at = if rank < node.rank { node.left } else { node.right };
        }
        let joined = self.join(left, right);
        self.hang(parent, rank, joined);
    }

    /// The rank of the flow in `slot`.
    pub fn rank(&self, slot: u32) -> u64 {
        self.node(slot).rank
    }

    /// Changes a flow's rank, of which only the key may change, and its demand. Returns whether they were others before.
    pub fn change(&mut self, slot: u32, rank: u64, demand: u32) -> bool {
        let Node { rank: before, demand: old, .. } = *self.node(slot);
        if (before, old) == (rank, demand) {
            return false;
        }
        if !self.fits(slot, rank) {
            self.remove(slot);
            self.insert(slot, rank, demand);
            return true;
        }
        let change = u64::from(demand).wrapping_sub(u64::from(old));
        let mut at = self.root;
        while at != slot {
            let node = self.node_mut(at);
            node.sum = node.sum.wrapping_add(change);
            at = if rank < node.rank { node.left } else { node.right };
        }
        let node = self.node_mut(slot);
        (node.rank, node.demand, node.sum) = (rank, demand, node.sum.wrapping_add(change));
        true
    }

    /// Whether a flow keeps its place in the tree with another rank: most flows that have sent a packet do.
    fn fits(&self, slot: u32, rank: u64) -> bool {
        let mut at = self.root;
        while at != slot {
            if at == NONE {
                return false;
            }
            let node = self.node(at);
            at = if rank < node.rank { node.left } else { node.right };
        }
        let Node { left, right, .. } = *self.node(slot);
        let (mut before, mut after) = (left, right);
        while before != NONE {
            let node = self.node(before);
            if node.rank > rank {
                return false;
            }
            before = node.right;
        }
        while after != NONE {
            let node = self.node(after);
            if node.rank < rank {
                return false;
            }
            after = node.left;
        }
        true
    }

    /// Makes `child` the child of `parent` on the side of `rank`.
    fn hang(&mut self, parent: u32, rank: u64, child: u32) {
        if parent == NONE {
            self.root = child;
        } else if rank < self.node(parent).rank {
            self.node_mut(parent).left = child;
        } else {
            self.node_mut(parent).right = child;
        }
    }

    fn add_up(&mut self, at: u32) {
        let node = self.node(at);
        self.node_mut(at).sum = u64::from(node.demand) + self.sum(node.left) + self.sum(node.right);
    }

    /// Splits a tree into the flows before `rank` and those after it. The expected number of steps is less than two.
    fn split(&mut self, at: u32, rank: u64) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        let Node { rank: here, left, right, .. } = *self.node(at);
        if here < rank {
            let (before, after) = self.split(right, rank);
            self.node_mut(at).right = before;
            self.add_up(at);
            (at, after)
        } else {
            let (before, after) = self.split(left, rank);
            self.node_mut(at).left = after;
            self.add_up(at);
            (before, at)
        }
    }

    /// Joins two trees, of which the first holds the flows before all flows of the second.
    fn join(&mut self, before: u32, after: u32) -> u32 {
        if before == NONE || after == NONE {
            return before.min(after);
        }
        if self.node(before).weight > self.node(after).weight {
            let right = self.join(self.node(before).right, after);
            self.node_mut(before).right = right;
            self.add_up(before);
            before
        } else {
            let left = self.join(before, self.node(after).left);
            self.node_mut(after).left = left;
            self.add_up(after);
            after
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Checks a subtree, and returns its height.
    fn check(ranking: &Ranking, at: u32, within: std::ops::Range<u64>) -> usize {
        if at == NONE {
            return 0;
        }
        let node = *ranking.node(at);
        assert!(within.contains(&node.rank));
        assert_eq!(node.sum, u64::from(node.demand) + ranking.sum(node.left) + ranking.sum(node.right));
        for child in [node.left, node.right].into_iter().filter(|child| *child != NONE) {
            assert!(ranking.node(child).weight < node.weight);
        }
        let left = check(ranking, node.left, within.start..node.rank);
        1 + left.max(check(ranking, node.right, node.rank + 1..within.end))
    }

    proptest! {
        #[test]
        fn behaves_as_a_sorted_list(steps in prop::collection::vec((0_u8..3, 0_u32..30, 0_u32..10, any::<u32>()), 0..200)) {
            let mut ranking = Ranking::default();
            let mut model = BTreeMap::new(); // rank by slot
            for (what, slot, key, demand) in steps {
                let rank = rank(key, slot);
                match (what, model.contains_key(&slot)) {
                    (0, true) => {
                        ranking.remove(slot);
                        model.remove(&slot);
                    }
                    (_, true) => {
                        ranking.change(slot, rank, demand);
                        model.insert(slot, (rank, demand));
                    }
                    (_, false) => {
                        ranking.insert(slot, rank, demand);
                        model.insert(slot, (rank, demand));
                    }
                }
                check(&ranking, ranking.root, 0..u64::MAX);
                for (slot, (rank, _)) in &model {
                    let above: u64 = model.values().filter(|(other, _)| other < rank).map(|(_, it)| u64::from(*it)).sum();
                    prop_assert_eq!(ranking.above(*slot), above);
                }
                prop_assert_eq!(ranking.total(), model.values().map(|(_, it)| u64::from(*it)).sum::<u64>());
            }
        }
    }

    /// 4.3 ln n is the limit that the expected height of a random search tree approaches.
    #[test]
    fn it_stays_flat_whatever_the_order_of_ids_and_keys() {
        let orders: [fn(u32) -> u32; 4] = [|_| 7, |id| id, |id| u32::MAX - id, |id| id.wrapping_mul(0x9E37_79B9)];
        for key in orders {
            let mut ranking = Ranking::default();
            for id in 0..10_000 {
                ranking.insert(id, rank(key(id), id), 1);
            }
            let height = check(&ranking, ranking.root, 0..u64::MAX);
            assert!(height <= 40, "{height}");
        }
    }

    #[test]
    fn two_nodes_share_a_cache_line() {
        assert_eq!(size_of::<Node>(), 32);
    }

    #[test]
    fn sums_do_not_overflow() {
        let mut ranking = Ranking::default();
        for id in 0..100 {
            ranking.insert(id, rank(id, id), u32::MAX);
        }
        assert_eq!(ranking.above(99), 99 * u64::from(u32::MAX));
    }
}
