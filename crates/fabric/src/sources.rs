//! Who events are for. At one instant, they are handled in the order in which kinds stand here; of arrivals, the order is by lot.

use flowloom_core::{LinkId, NodeId, Time};

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

const INDEX_BITS: u32 = 21;
/// The most links, and the most nodes, that there may be.
pub(crate) const PLACES_MOST: usize = 1 << INDEX_BITS;
const _: () = assert!(5 << INDEX_BITS <= SOURCES_MOST, "five kinds of sources");

impl Kind {
    /// The number of this source for an event at an instant.
    #[inline]
    pub fn source(self, at: Time) -> Source {
        match self {
            Kind::Arrival(link) => link.0 ^ lot(at),
            Kind::Service(link) => 1 << INDEX_BITS | link.0,
            Kind::Timer(node) => 2 << INDEX_BITS | node.0,
            Kind::Start => 3 << INDEX_BITS,
            Kind::Follow => 4 << INDEX_BITS,
        }
    }

    /// Whose number this is.
    #[inline]
    pub fn of(source: Source, at: Time) -> Kind {
        let index = source & (PLACES_MOST as Source - 1);
        if source < 1 << INDEX_BITS {
            Kind::Arrival(LinkId(source ^ lot(at)))
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

/// Turns the order of links about at each instant. Where hosts are as fast as their bottleneck, packets of several reach it at the same
/// instant again and again, since acknowledgements clock all of them. In the order of links, the same flow would find the queue one packet
/// shorter each time: lasting shares of 2 : 1 under DCTCP, and lock-out under drop-tail.
#[inline]
fn lot(at: Time) -> Source {
    (at.as_ps().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - INDEX_BITS)) as Source
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_an_instant_every_source_has_a_number_of_its_own_and_kinds_are_in_order() {
        let places = || [0, 1, 2, 1000, PLACES_MOST as u32 - 1].into_iter();
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
            assert!(blocks.is_sorted() && blocks.last() < Some(&((SOURCES_MOST >> INDEX_BITS) as u32)));
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
