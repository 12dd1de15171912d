//! Who events are for. At one instant, they are handled in the order in which sources stand here.

use flowloom_core::{LinkId, Network, NodeId};

use crate::calendar::{SOURCES_MOST, Source};

/// What an event is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A packet, which is the topic, reaches a link's end.
    Arrival(LinkId),
    /// A link's port may send.
    Service(LinkId),
    /// A node's timer is due.
    Timer(NodeId),
    /// Flows start that have a start of their own.
    Start,
    /// A flow starts that waited for another; which one, the topic says.
    Follow,
}

/// The numbers of the sources of one network.
#[derive(Clone, Copy)]
pub(crate) struct Sources {
    links: Source,
    nodes: Source,
}

impl Sources {
    pub fn new(network: &Network) -> Sources {
        let (links, nodes) = (network.links().len(), network.len());
        assert!(2 * links + nodes + 1 < SOURCES_MOST, "a network has fewer than 5 million links");
        Sources { links: links as Source, nodes: nodes as Source }
    }

    #[inline]
    pub fn of(self, kind: Kind) -> Source {
        match kind {
            Kind::Arrival(link) => link.0,
            Kind::Service(link) => self.links + link.0,
            Kind::Timer(node) => 2 * self.links + node.0,
            Kind::Start => 2 * self.links + self.nodes,
            Kind::Follow => 2 * self.links + self.nodes + 1,
        }
    }

    #[inline]
    pub fn kind(self, source: Source) -> Kind {
        let (links, nodes) = (self.links, self.nodes);
        if source < links {
            Kind::Arrival(LinkId(source))
        } else if source < 2 * links {
            Kind::Service(LinkId(source - links))
        } else if source < 2 * links + nodes {
            Kind::Timer(NodeId(source - 2 * links))
        } else if source == 2 * links + nodes {
            Kind::Start
        } else {
            Kind::Follow
        }
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::{Duration, Rate, Switching};

    use super::*;
    use crate::topology::single_switch;

    #[test]
    fn every_source_has_a_number_of_its_own_in_order() {
        let network = single_switch(3, Rate::from_gbps(10), Duration::from_ns(200), Switching::StoreAndForward);
        let sources = Sources::new(&network);
        let links = || (0..network.links().len() as u32).map(LinkId);
        let kinds = (links().map(Kind::Arrival))
            .chain(links().map(Kind::Service))
            .chain(network.node_ids().map(Kind::Timer))
            .chain([Kind::Start, Kind::Follow]);
        for (number, kind) in (0..).zip(kinds) {
            assert_eq!((sources.of(kind), sources.kind(number)), (number, kind));
        }
    }
}
