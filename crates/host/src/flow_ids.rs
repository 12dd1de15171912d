//! Flow ids that nodes choose independently: the source's node number in the high bits, as many as the hosts of the cluster need, and the source's own count in the low
//! bits.

use std::collections::HashMap;

use flowloom_core::{FlowId, NodeId};

/// The largest number of hosts. A source then has ids for 2^20 flows.
pub const HOSTS_MAX: usize = 1 << 12;
/// The low bits of an id that are the same for all ids of a page.
const PAGE_BITS: u32 = 10;
/// How many ids a page has.
pub const PAGE: usize = 1 << PAGE_BITS;
/// The last page of all ids.
const LAST_PAGE: u32 = u32::MAX >> PAGE_BITS;

/// What names no flow: packets that are about none have this id.
pub const NO_FLOW: FlowId = FlowId(0);
/// Transports use it for no flow, too.
const NOBODY: FlowId = FlowId(u32::MAX);

/// How the ids of a cluster are divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdSpace {
    count_bits: u32,
}

impl IdSpace {
    /// That of a cluster of this many hosts, which are the first nodes.
    pub fn new(hosts: usize) -> IdSpace {
        assert!((2..=HOSTS_MAX).contains(&hosts));
        IdSpace { count_bits: (hosts as u32 - 1).leading_zeros() }
    }

    /// The source of a flow.
    pub const fn source_of(self, flow: FlowId) -> NodeId {
        NodeId(flow.0 >> self.count_bits)
    }

    /// The source of all flows of a page.
    pub const fn source_of_page(self, page: u32) -> NodeId {
        self.source_of(FlowId(page << PAGE_BITS))
    }
}

/// The page of an id.
pub const fn page_of(flow: FlowId) -> u32 {
    flow.0 >> PAGE_BITS
}

/// Where an id is in its page.
pub const fn place_of(flow: FlowId) -> usize {
    flow.0 as usize % PAGE
}

/// The id with the place of `flow` in another page.
const fn moved(flow: FlowId, page: u32) -> FlowId {
    FlowId(page << PAGE_BITS | place_of(flow) as u32)
}

/// Generates the flow ids of one process. It uses none twice: destinations remember flows that have ended, for hours, and take what comes with their ids for repetitions.
#[derive(Clone, Debug)]
pub struct FlowIds {
    space: IdSpace,
    source: NodeId,
    count: u32,
    left: u32,
}

impl FlowIds {
    /// `seed` determines where the count starts. It should be random: arbitrators may still remember the last flows of a node that was restarted.
    pub fn new(space: IdSpace, source: NodeId, seed: u64) -> FlowIds {
        let ids = 1 << space.count_bits;
        FlowIds { space, source, count: seed as u32 % ids, left: ids }
    }

    /// The next id, `None` if all have been used.
    pub fn next(&mut self) -> Option<FlowId> {
        loop {
            self.left = self.left.checked_sub(1)?;
            let id = FlowId(self.source.0 << self.space.count_bits | self.count);
            self.count = (self.count + 1) % (1 << self.space.count_bits);
            if id != NO_FLOW && id != NOBODY {
                return Some(id);
            }
        }
    }
}

/// Under which ids this node's endpoint knows the flows of other nodes. A process that was restarted may use ids that its predecessor has used, and the endpoint would take
/// its flows for the old ones and acknowledge what it never got. So the endpoint gets no id twice as long as it lives: each session's ids are renamed page by page. A page
/// keeps its number if it can, so that an endpoint calls a flow as arbitrators do, which order flows of equal priority by their ids.
#[derive(Debug)]
pub struct Names {
    space: IdSpace,
    me: NodeId,
    /// The pages of the present sessions by their numbers on the network: their numbers here.
    here: HashMap<u32, u32>,
    /// Their numbers on the network by their numbers here; `None` for those of sessions that have ended.
    there: HashMap<u32, Option<u32>>,
    /// The next page to try where one cannot keep its number.
    fresh: u32,
}

impl Names {
    /// Those at node `me`.
    pub fn new(space: IdSpace, me: NodeId) -> Names {
        // Transports use an id of the first page and one of the last for no flow.
        Names { space, me, here: HashMap::new(), there: HashMap::new(), fresh: LAST_PAGE - 1 }
    }

    /// The id here of another node's flow; `None` if it has none.
    pub fn here(&self, flow: FlowId) -> Option<FlowId> {
        Some(moved(flow, *self.here.get(&page_of(flow))?))
    }

    /// The id here of another node's flow, which gets one if it has none. `None` if the endpoint has seen all ids.
    pub fn admit(&mut self, flow: FlowId) -> Option<FlowId> {
        if let Some(known) = self.here(flow) {
            return Some(known);
        }
        let page = page_of(flow);
        let mine = if self.is_free(page) { page } else { self.fresh()? };
        self.here.insert(page, mine);
        self.there.insert(mine, Some(page));
        Some(moved(flow, mine))
    }

    fn is_free(&self, page: u32) -> bool {
        self.space.source_of_page(page) != self.me && !self.there.contains_key(&page)
    }

    fn fresh(&mut self) -> Option<u32> {
        while self.fresh > 0 {
            let page = self.fresh;
            self.fresh -= 1;
            if self.is_free(page) {
                return Some(page);
            }
        }
        None
    }

    /// The id on the network of another node's flow that the endpoint calls `flow`. `None` if there is none, or its session has ended.
    pub fn there(&self, flow: FlowId) -> Option<FlowId> {
        Some(moved(flow, (*self.there.get(&page_of(flow))?)?))
    }

    /// The session with a node has ended. Its ids have no meaning any more, and are not used again.
    pub fn forget(&mut self, peer: NodeId) {
        let Names { space, here, there, .. } = self;
        here.retain(|page, mine| {
            let stays = space.source_of_page(*page) != peer;
            if !stays {
                there.insert(*mine, None);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_of_nodes_take_the_bits_that_they_need() {
        // How many hosts, a host, and its first id.
        for (hosts, host, first) in
            [(2, 1, 1 << 31), (3, 1, 1 << 30), (4, 3, 3 << 30), (5, 4, 4 << 29), (HOSTS_MAX, 4095, 4095 << 20)]
        {
            let space = IdSpace::new(hosts);
            let id = FlowIds::new(space, NodeId(host), 0).next();
            assert_eq!((id, space.source_of(FlowId(first))), (Some(FlowId(first)), NodeId(host)), "{hosts} hosts");
            assert_eq!(space.source_of(FlowId(first - 1)), NodeId(host - 1));
        }
    }

    #[test]
    fn a_source_uses_each_id_once() {
        // The last count of the last node and the first of the first stand for no flow.
        for (source, seed, ids) in [(0, 5, (1 << 20) - 1), (7, u64::MAX - 3, 1 << 20), (4095, 1 << 19, (1 << 20) - 1)] {
            let mut left = FlowIds::new(IdSpace::new(HOSTS_MAX), NodeId(source), seed);
            let given: HashSet<FlowId> = std::iter::from_fn(|| left.next()).collect();
            assert_eq!((given.len(), left.next()), (ids, None));
            assert!(given.iter().all(|id| IdSpace::new(HOSTS_MAX).source_of(*id) == NodeId(source)));
            assert!(!given.contains(&NO_FLOW) && !given.contains(&NOBODY));
        }
    }

    fn names() -> Names {
        Names::new(IdSpace::new(3), NodeId(1))
    }

    #[test]
    fn an_id_is_kept_until_its_session_ends_and_never_used_again() {
        let mut names = names();
        let flow = FlowId(2 << 30 | 5000);
        assert_eq!((names.here(flow), names.there(flow)), (None, None));
        let mut seen = HashSet::new();
        for session in 0..5 {
            let here = names.admit(flow).unwrap();
            assert_eq!(here == flow, session == 0, "the first process has the id to itself");
            assert!(seen.insert(here), "session {session}");
            assert_eq!((names.admit(flow), names.here(flow), names.there(here)), (Some(here), Some(here), Some(flow)));
            names.forget(NodeId(0));
            assert_eq!(names.there(here), Some(flow), "another node's session has ended");
            names.forget(NodeId(2));
            assert_eq!((names.here(flow), names.there(here)), (None, None));
        }
    }

    #[test]
    fn a_page_that_was_taken_by_another_moves_too() {
        let mut names = names();
        names.admit(FlowId(2 << 30)).unwrap();
        names.forget(NodeId(2));
        // The page that takes the place of the first is the last but one of all, which belongs to no node here.
        let renamed = names.admit(FlowId(2 << 30)).unwrap();
        assert_eq!(page_of(renamed), LAST_PAGE - 1);
        let other = names.admit(renamed).unwrap();
        assert_eq!(
            (page_of(other), names.there(other), names.there(renamed)),
            (LAST_PAGE - 2, Some(renamed), Some(FlowId(2 << 30)))
        );
    }

    #[test]
    fn an_endpoint_that_has_seen_all_ids_gets_no_more() {
        let mut names = names();
        names.fresh = 2;
        let flow = FlowId(2 << 30);
        for page in [page_of(flow), 2, 1] {
            assert_eq!(names.admit(flow).map(page_of), Some(page));
            names.forget(NodeId(2));
        }
        assert_eq!(names.admit(flow), None);
    }
}
