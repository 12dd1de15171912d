//! Delegation: a link above the aggregation switches is divided into virtual links, which the switches below arbitrate (§3.1.2).

use flowloom_core::{Duration, LinkId, NodeId, NodeKind, Paths, Rate, Time};

use super::stamp::Stamp;

/// A report or a capacity is valid for this many periods.
const VALID_PERIODS: u64 = 3;

/// The node that would arbitrate `link`, and the switches below it that it delegates the link to; `None` if there is no such link.
fn delegation(paths: &Paths, link: LinkId) -> Option<(NodeId, Vec<NodeId>)> {
    let network = paths.network();
    let link = network.links().get(link.index())?;
    let level = |node: NodeId| network.node(node).level;
    let low = if level(link.from) <= level(link.to) { link.from } else { link.to };
    let below = |node: &NodeId| network.node(*node).kind == NodeKind::Switch && level(*node) < level(low);
    Some((low, network.ports(low).iter().map(|port| network.link(*port).to).filter(below).collect()))
}

/// A virtual link: a child's share of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Virtual {
    /// The switch at the lower end of the link.
    pub parent: NodeId,
    /// The capacity of the whole link.
    pub whole: Rate,
    /// The share of each child before anything is known.
    equal: Rate,
    /// The capacity that the parent gave, when it came, and when the report was sent that it answers.
    given: Option<(Time, Rate, Time)>,
    /// Whether it had flows at the last report.
    pub busy: bool,
}

impl Virtual {
    /// The share of `child`, which has just begun to use the link.
    ///
    /// # Panics
    /// If there is no such link, or `child` is not below it.
    pub fn new(paths: &Paths, link: LinkId, child: NodeId) -> Virtual {
        let (parent, children) = delegation(paths, link).expect("a link on a flow's path");
        assert!(children.contains(&child), "a link is delegated to the switches below it");
        let whole = paths.network().link(link).rate;
        let equal = Rate::from_bps(whole.as_bps() / children.len() as u64);
        Virtual { parent, whole, equal, given: None, busy: false }
    }

    /// Takes the capacity that the parent gives, unless the answer to a later report has overtaken it.
    pub fn set_capacity(&mut self, now: Time, stamp: Stamp, rate: Rate, period: Duration) {
        let reported = stamp.time(now, period);
        if self.given.is_none_or(|(.., last)| last <= reported) {
            self.given = Some((now, rate.min(self.whole), reported));
        }
    }

    /// The present capacity: an equal share if the parent has been silent.
    pub fn capacity(&self, now: Time, period: Duration) -> Rate {
        match self.given {
            Some((at, rate, _)) if now - at <= period * VALID_PERIODS => rate,
            _ => self.equal,
        }
    }
}

/// A child's report.
#[derive(Clone, Copy, Debug)]
struct Report {
    /// When it came.
    at: Time,
    stamp: Stamp,
    demand: Rate,
}

/// What the children demand of one link.
#[derive(Clone, Debug)]
pub(super) struct Children {
    whole: Rate,
    /// By child, its last report.
    demands: Vec<(NodeId, Option<Report>)>,
}

impl Children {
    /// The children of a link of `node`, `None` if the link is not `node`'s to delegate.
    pub fn of(paths: &Paths, link: LinkId, node: NodeId) -> Option<Children> {
        let (low, children) = delegation(paths, link).filter(|(low, _)| *low == node)?;
        let network = paths.network();
        let wire = network.link(link);
        let high = if wire.from == low { wire.to } else { wire.from };
        let upwards = network.node(high).kind == NodeKind::Switch && network.node(high).level >= network.node(low).level;
        let demands = children.into_iter().map(|child| (child, None)).collect();
        upwards.then_some(Children { whole: wire.rate, demands })
    }

    /// Notes a child's demand. Returns false if it is no child, or if a later report has overtaken this one.
    pub fn report(&mut self, now: Time, child: NodeId, stamp: Stamp, demand: Rate, period: Duration) -> bool {
        let Some((_, last)) = self.demands.iter_mut().find(|(node, _)| *node == child) else { return false };
        if last.is_some_and(|last| now - last.at <= period * VALID_PERIODS && stamp.precedes(last.stamp)) {
            return false;
        }
        *last = Some(Report { at: now, stamp, demand });
        true
    }

    /// The capacity of a child's virtual link. If the link can carry all demands, it is the child's demand and an equal part of what is
    /// left. If not, the link is divided in proportion to the demands, but with at least `floor` of an equal share for each child, both before
    /// the shares are scaled to the whole link.
    pub fn capacity(&self, now: Time, child: NodeId, floor: f64, period: Duration) -> Rate {
        let demand = |last: &Option<Report>| match last {
            Some(report) if now - report.at <= period * VALID_PERIODS => report.demand.as_bps() as f64,
            _ => 0.0,
        };
        let total: f64 = self.demands.iter().map(|(_, last)| demand(last)).sum();
        let spare = self.whole.as_bps() as f64 - total;
        if spare >= 0.0 {
            let own: f64 = self.demands.iter().filter(|(node, _)| *node == child).map(|(_, last)| demand(last)).sum();
            return Rate::from_bps((own + spare / self.demands.len() as f64) as u64);
        }
        let least = floor / self.demands.len() as f64;
        let part = |last: &Option<Report>| (demand(last) / total).max(least);
        let all: f64 = self.demands.iter().map(|(_, last)| part(last)).sum();
        let own: f64 = self.demands.iter().filter(|(node, _)| *node == child).map(|(_, last)| part(last)).sum();
        Rate::from_bps((self.whole.as_bps() as f64 * own / all) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flowloom_core::{Routing, Switching, topology};

    use super::*;

    const PERIOD: Duration = Duration::from_ms(1);

    fn at_ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_ms(ms)
    }

    /// The paper's tree, the link from its first aggregation switch to the core, and the two switches below.
    fn tree() -> (Paths, LinkId, NodeId, [NodeId; 2]) {
        let gbps = Rate::from_gbps;
        let network = topology::three_tier(4, 2, 2, gbps(1), gbps(10), gbps(10), Duration::ZERO, Switching::StoreAndForward);
        let link = network.path(NodeId(0), NodeId(7))[2];
        (Paths::new(Arc::new(network), Routing::Ecmp, 1), link, NodeId(12), [NodeId(8), NodeId(9)])
    }

    /// By hand: of 10 Gb/s, 3 and 1 are demanded, and each child gets half of the other 6. If 15 and 5 are demanded, they get three quarters
    /// and a quarter. One child alone leaves the other a tenth of half the link: 1 and 0.05 of 1.05.
    #[test]
    fn shares_follow_demands_and_leave_a_floor() {
        let (paths, link, agg, [one, other]) = tree();
        let mut children = Children::of(&paths, link, agg).unwrap();
        let shares = |children: &Children, ms| {
            [one, other].map(|child| children.capacity(at_ms(ms), child, 0.1, PERIOD).as_bps() as f64 / 1e9)
        };
        let near = |found: [f64; 2], expected: [f64; 2]| {
            assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6), "{found:?}");
        };
        near(shares(&children, 0), [5.0, 5.0]);
        let report = |children: &mut Children, ms, child, gbps| {
            children.report(at_ms(ms), child, Stamp(ms as u8), Rate::from_gbps(gbps), PERIOD)
        };
        assert!(report(&mut children, 1, one, 3));
        assert!(report(&mut children, 1, other, 1));
        near(shares(&children, 1), [6.0, 4.0]);
        assert!(report(&mut children, 1, one, 15));
        assert!(report(&mut children, 1, other, 5));
        near(shares(&children, 1), [7.5, 2.5]);
        assert!(report(&mut children, 2, other, 0));
        near(shares(&children, 2), [10.0 / 1.05, 0.5 / 1.05]);
        // A child that is silent for more than three periods demands nothing.
        near(shares(&children, 4), [10.0 / 1.05, 0.5 / 1.05]);
        near(shares(&children, 5), [5.0, 5.0]);
        assert!(!report(&mut children, 5, NodeId(10), 1), "not a child");
    }

    /// A message that a later one has overtaken changes nothing. After a silence, any report counts: the stamps may have wrapped.
    #[test]
    fn late_reports_and_capacities_are_ignored() {
        let (paths, link, agg, [one, _]) = tree();
        let mut children = Children::of(&paths, link, agg).unwrap();
        let mut report = |ms, stamp, gbps| children.report(at_ms(ms), one, Stamp(stamp), Rate::from_gbps(gbps), PERIOD);
        assert_eq!([report(2, 2, 15), report(3, 1, 1), report(5, 2, 7), report(9, 1, 3)], [true, false, true, true]);
        let mut lent = Virtual::new(&paths, link, one);
        lent.set_capacity(at_ms(3), Stamp(2), Rate::from_gbps(8), PERIOD);
        lent.set_capacity(at_ms(4), Stamp(1), Rate::from_gbps(2), PERIOD);
        assert_eq!(lent.capacity(at_ms(4), PERIOD), Rate::from_gbps(8));
    }

    #[test]
    fn a_link_is_delegated_only_by_its_own_switch_and_only_upwards() {
        let (paths, link, agg, [one, _]) = tree();
        for direction in [link, link.reverse()] {
            assert!(Children::of(&paths, direction, agg).is_some());
            assert!(Children::of(&paths, direction, one).is_none());
        }
        let below = paths.network().path(NodeId(0), NodeId(7))[1];
        assert!(Children::of(&paths, below, agg).is_none());
        assert!(Children::of(&paths, LinkId(12_345), agg).is_none());
    }

    #[test]
    fn a_virtual_link_is_an_equal_share_until_the_parent_speaks_and_when_it_is_silent() {
        let (paths, link, agg, [one, _]) = tree();
        let mut lent = Virtual::new(&paths, link, one);
        assert_eq!((lent.parent, lent.capacity(at_ms(0), PERIOD)), (agg, Rate::from_gbps(5)));
        lent.set_capacity(at_ms(1), Stamp(1), Rate::from_gbps(8), PERIOD);
        assert_eq!(lent.capacity(at_ms(4), PERIOD), Rate::from_gbps(8));
        assert_eq!(lent.capacity(at_ms(5), PERIOD), Rate::from_gbps(5));
        lent.set_capacity(at_ms(6), Stamp(6), Rate::from_gbps(80), PERIOD);
        assert_eq!(lent.capacity(at_ms(6), PERIOD), Rate::from_gbps(10), "no more than the link has");
    }
}
