//! The sources of events. Events at the same time are handled in the order of the variants of [`Kind`]. Among arrivals at the same time,
//! a hash of the time breaks ties, so no link always wins.

use flowloom_core::{LinkId, NodeId, Time};

use crate::calendar::{EventSource, SOURCES_MAX};

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
}

const INDEX_BITS: u32 = 21;
/// The largest number of links, and also of nodes.
pub(crate) const INDICES_MAX: usize = 1 << INDEX_BITS;
const _: () = assert!(6 << INDEX_BITS <= SOURCES_MAX, "six kinds of sources");

impl Kind {
    /// The source number of an event of this kind at time `at`.
    #[inline]
    pub fn source(self, at: Time) -> EventSource {
        match self {
            Kind::Arrival(link) => link.0 ^ tie_break(at),
            Kind::Service(link) => 1 << INDEX_BITS | link.0,
            Kind::Timer(node) => 2 << INDEX_BITS | node.0,
            Kind::Start => 3 << INDEX_BITS,
            Kind::Follow => 4 << INDEX_BITS,
            Kind::Outage(node) => 5 << INDEX_BITS | node.0,
        }
    }

    /// The inverse of [`Kind::source`].
    #[inline]
    pub fn of(source: EventSource, at: Time) -> Kind {
        let index = source & (INDICES_MAX as EventSource - 1);
        if source < 1 << INDEX_BITS {
            Kind::Arrival(LinkId(source ^ tie_break(at)))
        } else if source < 2 << INDEX_BITS {
            Kind::Service(LinkId(index))
        } else if source < 3 << INDEX_BITS {
            Kind::Timer(NodeId(index))
        } else if source < 4 << INDEX_BITS {
            Kind::Start
        } else if source < 5 << INDEX_BITS {
            Kind::Follow
        } else {
            Kind::Outage(NodeId(index))
        }
    }
}

/// Permutes the order of links, differently at each time. If hosts are as fast as their bottleneck, they are all clocked by
/// acknowledgements, and packets of several hosts reach the bottleneck at the same time again and again. With a fixed order of links,
/// the same flow would always find the queue one packet shorter: two DCTCP flows then shared a link 2 : 1 for ever, and drop-tail starved
/// one of two flows.
#[inline]
fn tie_break(at: Time) -> EventSource {
    (at.as_ps().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - INDEX_BITS)) as EventSource
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_at_one_time_have_distinct_numbers_in_the_order_of_their_kinds() {
        let indices = || [0, 1, 2, 1000, INDICES_MAX as u32 - 1].into_iter();
        for at in [Time::ZERO, Time::from_ps(1), Time::from_ps(1 << 40), Time::MAX] {
            let kinds = (indices().map(LinkId).map(Kind::Arrival))
                .chain(indices().map(LinkId).map(Kind::Service))
                .chain(indices().map(NodeId).map(Kind::Timer))
                .chain([Kind::Start, Kind::Follow])
                .chain(indices().map(NodeId).map(Kind::Outage));
            let mut blocks = Vec::new();
            for kind in kinds {
                let source = kind.source(at);
                assert_eq!(Kind::of(source, at), kind);
                blocks.push(source >> INDEX_BITS);
            }
            assert!(blocks.is_sorted() && blocks.last() < Some(&((SOURCES_MAX >> INDEX_BITS) as u32)));
        }
    }

    #[test]
    fn each_of_two_links_comes_first_equally_often() {
        for (one, other) in [(0, 1), (3, 4), (17, 1200)] {
            // Times of full-size packets that follow one another at 1 Gb/s.
            let first = (0..10_000).filter(|slot| {
                let at = Time::from_ps(slot * 12_320_000);
                Kind::Arrival(LinkId(one)).source(at) < Kind::Arrival(LinkId(other)).source(at)
            });
            // Five standard deviations of a fair coin.
            assert!(first.count().abs_diff(5_000) < 250);
        }
    }
}
