//! Flow ids without a coordinator: the source's number in the high bits, a count of its own in the low ones.

use flowloom_core::{FlowId, NodeId};

const COUNT_BITS: u32 = 20;
const COUNT_MASK: u32 = (1 << COUNT_BITS) - 1;

/// As many nodes as the high bits can name.
pub const NODES_MAX: usize = 1 << (32 - COUNT_BITS);

/// The node that named a flow: its source.
pub const fn source_of(flow: FlowId) -> NodeId {
    NodeId(flow.0 >> COUNT_BITS)
}

/// Names the flows of one source. A name comes again after 2^20 others.
#[derive(Clone, Debug)]
pub struct FlowIds {
    source: NodeId,
    count: u32,
}

impl FlowIds {
    /// Begins to count anywhere: a process that starts anew must not reuse the names that its predecessor gave last, which
    /// destinations may still remember.
    pub fn new(source: NodeId, seed: u64) -> FlowIds {
        assert!(source.index() < NODES_MAX);
        FlowIds { source, count: seed as u32 & COUNT_MASK }
    }

    /// The next name that is not `taken`; `None` if all are.
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
    fn names_say_their_source_and_wrap_within_it() {
        let mut ids = FlowIds::new(NodeId(5), u64::from(COUNT_MASK) - 1);
        let given: Vec<FlowId> = (0..4).map(|_| ids.next(|_| false).unwrap()).collect();
        assert_eq!(given.iter().map(|id| id.0 & COUNT_MASK).collect::<Vec<_>>(), [COUNT_MASK - 1, COUNT_MASK, 0, 1]);
        assert!(given.iter().all(|id| source_of(*id) == NodeId(5)));
    }

    #[test]
    fn a_name_in_use_is_passed_over() {
        let mut ids = FlowIds::new(NodeId(0), 7);
        let taken = HashSet::from([FlowId(7), FlowId(8)]);
        assert_eq!(ids.next(|id| taken.contains(&id)), Some(FlowId(9)));
        assert_eq!(ids.next(|_| true), None);
    }
}
