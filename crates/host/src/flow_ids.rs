//! Flow ids that nodes choose independently: the source's node number in the high bits, and the source's own count in the low bits.

use flowloom_core::{FlowId, NodeId};

const COUNT_BITS: u32 = 20;
const COUNT_MASK: u32 = (1 << COUNT_BITS) - 1;

/// The number of nodes that the high bits can tell apart.
pub const NODES_MAX: usize = 1 << (32 - COUNT_BITS);

/// The source of a flow.
pub const fn source_of(flow: FlowId) -> NodeId {
    NodeId(flow.0 >> COUNT_BITS)
}

/// Generates the flow ids of one source. An id is reused after 2^20 others.
#[derive(Clone, Debug)]
pub struct FlowIds {
    source: NodeId,
    count: u32,
}

impl FlowIds {
    /// `seed` determines where the count starts. It should be random: destinations may still remember the last ids of a node that was
    /// restarted, and these must not be reused at once.
    pub fn new(source: NodeId, seed: u64) -> FlowIds {
        assert!(source.index() < NODES_MAX);
        FlowIds { source, count: seed as u32 & COUNT_MASK }
    }

    /// The next id that is not `taken`, `None` if all are.
    pub fn next(&mut self, taken: impl Fn(FlowId) -> bool) -> Option<FlowId> {
        for _ in 0..=COUNT_MASK {
            let id = FlowId(self.source.0 << COUNT_BITS | self.count);
            self.count = (self.count + 1) & COUNT_MASK;
            if !taken(id) {
                return Some(id);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_contain_their_source_and_wrap_within_it() {
        let mut ids = FlowIds::new(NodeId(5), u64::from(COUNT_MASK) - 1);
        let given: Vec<FlowId> = (0..4).map(|_| ids.next(|_| false).unwrap()).collect();
        assert_eq!(given.iter().map(|id| id.0 & COUNT_MASK).collect::<Vec<_>>(), [COUNT_MASK - 1, COUNT_MASK, 0, 1]);
        assert!(given.iter().all(|id| source_of(*id) == NodeId(5)));
    }

    #[test]
    fn an_id_in_use_is_skipped() {
        let mut ids = FlowIds::new(NodeId(0), 7);
        let taken = HashSet::from([FlowId(7), FlowId(8)]);
        assert_eq!(ids.next(|id| taken.contains(&id)), Some(FlowId(9)));
        assert_eq!(ids.next(|_| true), None);
    }
}
