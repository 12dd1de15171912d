//! The sources of events. Events at the same time are handled in the order of the variants of [`Kind`], and those of the same kind in a
//! random order (see [`Calendar`](crate::calendar::Calendar)).

use flowloom_core::{LinkId, NodeId};

use crate::calendar::{CLASS_SHIFT, EventSource, SOURCES_MAX};

/// The kind of an event, with the link or node that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A packet arrives at the end of a link; the payload is the packet's id.
    Arrival(LinkId),
    /// The egress port of a link may send.
    Service(LinkId),
    /// A node's timer expires.
    Timer(NodeId),
    /// Flows with a start time of their own start.
    Start,
    /// A flow that waited for another one starts; the payload identifies it.
    Follow,
    /// A node's endpoint goes down or comes up.
    Outage(NodeId),
    /// Switches get new routes; the payload is their number.
    Reroute,
    /// The egress port of a link has an alarm.
    Alarm(LinkId),
}

const INDEX_BITS: u32 = CLASS_SHIFT;
/// The largest number of links, and also of nodes.
pub(crate) const INDICES_MAX: usize = 1 << INDEX_BITS;
const _: () = assert!(8 << INDEX_BITS <= SOURCES_MAX, "eight kinds of sources");

impl Kind {
    /// The source number of an event of this kind.
    #[inline]
    pub fn source(self) -> EventSource {
        match self {
            Kind::Arrival(link) => link.0,
            Kind::Service(link) => 1 << INDEX_BITS | link.0,
            Kind::Timer(node) => 2 << INDEX_BITS | node.0,
            Kind::Start => 3 << INDEX_BITS,
            Kind::Follow => 4 << INDEX_BITS,
            Kind::Outage(node) => 5 << INDEX_BITS | node.0,
            Kind::Reroute => 6 << INDEX_BITS,
            Kind::Alarm(link) => 7 << INDEX_BITS | link.0,
        }
    }

    /// The inverse of [`Kind::source`].
    #[inline]
    pub fn of(source: EventSource) -> Kind {
        let index = source & (INDICES_MAX as EventSource - 1);
        if source < 1 << INDEX_BITS {
            Kind::Arrival(LinkId(source))
        } else if source < 2 << INDEX_BITS {
            Kind::Service(LinkId(index))
        } else if source < 3 << INDEX_BITS {
            Kind::Timer(NodeId(index))
        } else if source < 4 << INDEX_BITS {
            Kind::Start
        } else if source < 5 << INDEX_BITS {
            Kind::Follow
        } else if source < 6 << INDEX_BITS {
            Kind::Outage(NodeId(index))
        } else if source < 7 << INDEX_BITS {
            Kind::Reroute
        } else {
            Kind::Alarm(LinkId(index))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_classes_of_sources_in_their_order() {
        let indices = || [0, 1, 2, 1000, INDICES_MAX as u32 - 1].into_iter();
        let kinds = (indices().map(LinkId).map(Kind::Arrival))
            .chain(indices().map(LinkId).map(Kind::Service))
            .chain(indices().map(NodeId).map(Kind::Timer))
            .chain([Kind::Start, Kind::Follow])
            .chain(indices().map(NodeId).map(Kind::Outage))
            .chain([Kind::Reroute])
            .chain(indices().map(LinkId).map(Kind::Alarm));
        let mut classes = Vec::new();
        for kind in kinds {
            let source = kind.source();
            assert_eq!(Kind::of(source), kind);
            classes.push(source >> CLASS_SHIFT);
        }
        assert!(classes.is_sorted() && classes.last() < Some(&((SOURCES_MAX >> CLASS_SHIFT) as u32)));
    }
}
