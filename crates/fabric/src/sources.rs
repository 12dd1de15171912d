//! The sources of events. Events of one instant are handled in the order in which the kinds stand here. Among arrivals of one instant,
//! a hash of the time breaks ties, so no link always wins.

use flowloom_core::{LinkId, NodeId, Time};

use crate::calendar::{EventSource, SOURCES_MAX};

/// What an event is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A packet reaches a link's end; the payload is its id.
    Arrival(LinkId),
    /// A link's port may send.
    Service(LinkId),
    /// A node's timer is due.
    Timer(NodeId),
    /// Flows start that have a start of their own.
    Start,
    /// A flow starts that waited for another; the payload says which.
    Follow,
}

const INDEX_BITS: u32 = 21;
/// The most links, and the most nodes, that there may be.
pub(crate) const PLACES_MAX: usize = 1 << INDEX_BITS;
const _: () = assert!(5 << INDEX_BITS <= SOURCES_MAX, "five kinds of sources");

impl Kind {
    /// The number of this source for an event at `at`.
    #[inline]
    pub fn source(self, at: Time) -> EventSource {
        match self {
            Kind::Arrival(link) => link.0 ^ tie_break(at),
            Kind::Service(link) => 1 << INDEX_BITS | link.0,
            Kind::Timer(node) => 2 << INDEX_BITS | node.0,
            Kind::Start => 3 << INDEX_BITS,
            Kind::Follow => 4 << INDEX_BITS,
        }
    }

    /// The kind and place of a source's number; the inverse of [`Kind::source`].
    #[inline]
    pub fn of(source: EventSource, at: Time) -> Kind {
        let index = source & (PLACES_MAX as EventSource - 1);
        if source < 1 << INDEX_BITS {
            Kind::Arrival(LinkId(source ^ tie_break(at)))
        } else if source < 2 << INDEX_BITS {
            Kind::Service(LinkId(index))
        } else if source < 3 << INDEX_BITS {
            Kind::Timer(NodeId(index))
        } else if source < 4 << INDEX_BITS {
            Kind::Start
        } else {
            Kind::Follow
        }
    }
}

/// Permutes the order of links anew at each instant. Where hosts are as fast as their bottleneck, acknowledgements clock all of them, and
/// packets of several hosts reach the bottleneck at the same instant again and again. With a fixed order of links, the same flow would
/// always find the queue one packet shorter: two DCTCP flows then shared a link 2 : 1 for ever, and drop-tail locked one out.
#[inline]
fn tie_break(at: Time) -> EventSource {
    (at.as_ps().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - INDEX_BITS)) as EventSource
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_an_instant_every_source_has_a_number_of_its_own_and_kinds_are_in_order() {
        let places = || [0, 1, 2, 1000, PLACES_MAX as u32 - 1].into_iter();
        for at in [Time::ZERO, Time::from_ps(1), Time::from_ps(1 << 40), Time::MAX] {
            let kinds = (places().map(LinkId).map(Kind::Arrival))
                .chain(places().map(LinkId).map(Kind::Service))
                .chain(places().map(NodeId).map(Kind::Timer))
                .chain([Kind::Start, Kind::Follow]);
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
    fn either_of_two_links_comes_first_as_often() {
        for (one, other) in [(0, 1), (3, 4), (17, 1200)] {
            // A full-size packet after another at 1 Gb/s, as acknowledgements clock them.
            let first = (0..10_000).filter(|slot| {
                let at = Time::from_ps(slot * 12_320_000);
                Kind::Arrival(LinkId(one)).source(at) < Kind::Arrival(LinkId(other)).source(at)
            });
            // Five standard deviations of fair coins.
            assert!(first.count().abs_diff(5_000) < 250);
        }
    }
}
