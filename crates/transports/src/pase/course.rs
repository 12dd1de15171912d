//! The halves of a flow's path, and which node arbitrates which link (§3.1.2).
//!
//! The path from source to destination goes up to a highest switch and down again. Each link on the way up is arbitrated where it begins,
//! and each link on the way down where it ends. So a host arbitrates both directions of its own link, a top-of-rack switch both
//! directions of its links to aggregation switches, and so on. A link between switches of one level counts as a link on the way up.

use flowloom_core::{FlowId, Link, LinkId, NodeId, Paths, wire_format};

wire_format! {
    /// A half of a flow's path.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub enum Half {
        /// The way up, from the source.
        Source,
        /// The way down, to the destination.
        Destination,
    }
}

/// Half of a flow's path, climbed from the host at its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Course {
    /// The flow.
    pub flow: FlowId,
    /// Its source.
    pub src: NodeId,
    /// Its destination.
    pub dst: NodeId,
    /// Which half.
    pub half: Half,
}

/// A link of a half, and the node that arbitrates it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The link, in the direction of the flow.
    pub link: LinkId,
    /// The node that arbitrates it.
    pub arbitrator: NodeId,
    /// The next node upwards.
    up: NodeId,
}

impl Course {
    /// The host at its end.
    pub fn host(&self) -> NodeId {
        match self.half {
            Half::Source => self.src,
            Half::Destination => self.dst,
        }
    }

    /// The links of this half, from the source to the destination.
    fn steps(self, paths: &Paths) -> impl Iterator<Item = Step> {
        let network = paths.network();
        let upwards = self.half == Half::Source;
        let mut descends = false;
        let links = paths.path(self.flow, self.src, self.dst).map(move |id| {
            let link = network.link(id);
            descends |= network.node(link.to).level < network.node(link.from).level;
            (descends, id, link)
        });
        let half = links.skip_while(move |(down, ..)| !upwards && !down).take_while(move |(down, ..)| !(upwards && *down));
        half.map(move |(_, link, &Link { from, to, .. })| match self.half {
            Half::Source => Step { link, arbitrator: from, up: to },
            Half::Destination => Step { link, arbitrator: to, up: from },
        })
    }

    /// The first `N` steps upwards from `at`, its own first. All are `None` if `at` arbitrates no link of this half.
    pub fn climb<const N: usize>(self, paths: &Paths, at: NodeId) -> [Option<Step>; N] {
        let mut steps = self.steps(paths);
        let mut climbed = [None; N];
        match self.half {
            Half::Source => {
                climbed[0] = steps.find(|step| step.arbitrator == at);
                if climbed[0].is_some() {
                    climbed[1..].fill_with(|| steps.next());
                }
            }
            Half::Destination => {
                for step in steps {
                    climbed.rotate_right(1);
                    climbed[0] = Some(step);
                    if step.arbitrator == at {
                        return climbed;
                    }
                }
                climbed = [None; N];
            }
        }
        climbed
    }

    /// The next arbitrator above `at`, `None` if `at` has no link of this half or the topmost one.
    pub fn parent(self, paths: &Paths, at: NodeId) -> Option<NodeId> {
        let [_, above] = self.climb(paths, at);
        above.map(|step| step.arbitrator)
    }

    /// How many switches arbitrate links of this half, unless they delegate them.
    pub fn switches(self, paths: &Paths) -> u64 {
        self.steps(paths).skip(1).count() as u64
    }

    /// The next arbitrator below `at`, `None` if `at` is not above one.
    pub fn child(self, paths: &Paths, at: NodeId) -> Option<NodeId> {
        self.steps(paths).find(|step| step.up == at).map(|step| step.arbitrator)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flowloom_core::{Duration, Network, Rate, Routing, Switching, topology};

    use super::*;

    fn course(half: Half, src: u32, dst: u32) -> Course {
        Course { flow: FlowId(0), src: NodeId(src), dst: NodeId(dst), half }
    }

    fn paths(network: Network) -> Paths {
        Paths::new(Arc::new(network), Routing::Ecmp, 1)
    }

    /// The names of the arbitrators from the host upwards, and the links that they arbitrate.
    fn climb(paths: &Paths, course: Course) -> Vec<String> {
        let network = paths.network();
        let name = |node: NodeId| network.node(node).name.clone();
        let mut at = Some(course.host());
        let mut below = None;
        let mut seen = Vec::new();
        while let Some(node) = at {
            let [own] = course.climb(paths, node);
            let link = network.link(own.unwrap().link);
            seen.push(format!("{}: {}>{}", name(node), name(link.from), name(link.to)));
            assert_eq!(course.child(paths, node), below);
            below = Some(node);
            at = course.parent(paths, node);
        }
        seen
    }

    #[test]
    fn each_link_of_a_tree_has_its_arbitrator_below_it() {
        let rate = Rate::from_gbps(1);
        let tree = paths(topology::three_tier(4, 2, 2, rate, rate, rate, Duration::ZERO, Switching::StoreAndForward));
        // In one rack.
        assert_eq!(climb(&tree, course(Half::Source, 0, 1)), ["h0: h0>t0"]);
        assert_eq!(climb(&tree, course(Half::Destination, 0, 1)), ["h1: t0>h1"]);
        // Under one aggregation switch.
        assert_eq!(climb(&tree, course(Half::Source, 0, 2)), ["h0: h0>t0", "t0: t0>a0"]);
        assert_eq!(climb(&tree, course(Half::Destination, 0, 2)), ["h2: t1>h2", "t1: a0>t1"]);
        // Across the core.
        assert_eq!(climb(&tree, course(Half::Source, 0, 7)), ["h0: h0>t0", "t0: t0>a0", "a0: a0>c0"]);
        assert_eq!(climb(&tree, course(Half::Destination, 0, 7)), ["h7: t3>h7", "t3: a1>t3", "a1: c0>a1"]);
    }

    #[test]
    fn a_link_between_equals_belongs_to_the_way_up() {
        let rate = Rate::from_gbps(1);
        let dumbbell = paths(topology::dumbbell(2, rate, rate, Duration::ZERO, Switching::StoreAndForward));
        assert_eq!(climb(&dumbbell, course(Half::Source, 0, 3)), ["h0: h0>l0", "l0: l0>l1"]);
        assert_eq!(climb(&dumbbell, course(Half::Destination, 0, 3)), ["h3: l1>h3"]);
    }

    #[test]
    fn a_node_off_the_path_arbitrates_nothing() {
        let rate = Rate::from_gbps(1);
        let tree = paths(topology::three_tier(4, 2, 2, rate, rate, rate, Duration::ZERO, Switching::StoreAndForward));
        for course in [course(Half::Source, 0, 7), course(Half::Source, 0, 999), course(Half::Destination, 5, 5)] {
            for node in [NodeId(6), NodeId(9), NodeId(14), NodeId(12345)] {
                assert_eq!(course.climb(&tree, node), [None; 3]);
                assert_eq!(course.parent(&tree, node), None);
            }
        }
    }
}
