//! Flows that wait behind links which are down.

use std::collections::HashMap;

use flowloom_core::{Duration, Flow, LinkId, NodeId, Paths, Time};
use flowloom_fabric::Report;

use crate::faults::LinkOutage;
use crate::ideal::UnloadedTimes;
use crate::plan::Setup;
use crate::row::Row;
use crate::workload::Flows;

/// A flow waits if it takes at least this many times as long as alone.
const WAITS: u64 = 2;
/// The most links that a message names.
const EXAMPLES: usize = 3;

/// What is wrong with links that are down from before the first flow starts until after the last one could have finished in an idle network: a sentence for each fault,
/// which starts with its key. Nothing is known in advance where flows wait for others.
pub(crate) fn foreseen(setup: &Setup, flows: &Flows) -> Vec<String> {
    if setup.link_outages.is_empty() {
        return Vec::new();
    }
    let flows: Vec<Flow> = flows.iter().filter(|flow| !flow.background).collect();
    let mut unloaded = UnloadedTimes::new(&setup.network, &setup.wire);
    let first = flows.iter().map(|flow| flow.start).min().unwrap_or(Time::MAX);
    let ends = flows.iter().map(|flow| if flow.start < Time::MAX { flow.start + unloaded.received(flow) } else { Time::MAX });
    let last = ends.max().unwrap_or(Time::MAX).min(setup.time_limit);
    let dead = setup.link_outages.iter().filter(|outage| outage.from <= first && outage.to >= last);
    let sentences = dead.filter_map(|outage| {
        let mut routes = Routes::new(setup, outage);
        let behind = flows.iter().filter(|flow| routes.cross(flow)).count();
        let LinkOutage { fault, from, to, .. } = outage;
        (behind > 0).then(|| {
            format!(
                "fault.{fault}.to: {} from {from} to {to}, from before the first flow starts until after the last could have finished, and {behind} of \
                 {} flows cross it; bring it up earlier",
                down(setup, outage),
                flows.len()
            )
        })
    });
    sentences.collect()
}

/// The same after the run: flows that spent most of their time while a link on their way was down, if it was down for most of the run.
pub(crate) fn observed(setup: &Setup, report: &Report, rows: &[Row]) -> Vec<String> {
    let first = rows.iter().map(|row| row.flow.start).min().unwrap_or(Time::MAX);
    let sentences = setup.link_outages.iter().filter_map(|outage| {
        if !is_most(outage, first, report.end) {
            return None;
        }
        let mut routes = Routes::new(setup, outage);
        let waited = |row: &&Row| {
            let end = row.finish.or(row.aborted.map(|abort| abort.at)).unwrap_or(report.end);
            let took = end.saturating_since(row.flow.start);
            took >= row.optimum * WAITS && is_most(outage, row.flow.start, end) && routes.cross(&row.flow)
        };
        let behind = rows.iter().filter(waited).count();
        let LinkOutage { fault, from, to, .. } = outage;
        (behind > 0).then(|| {
            format!(
                "fault.{fault}.to: {} from {from} to {to}, which is most of the run, and {behind} of {} flows waited behind it, so their slowdowns \
                 tell about the fault alone; bring it up earlier",
                down(setup, outage),
                rows.len()
            )
        })
    });
    sentences.collect()
}

/// Whether links were down for at least half of the time from `start` to `end`.
fn is_most(outage: &LinkOutage, start: Time, end: Time) -> bool {
    let both = outage.to.min(end).saturating_since(outage.from.max(start));
    let span = end.saturating_since(start);
    span > Duration::ZERO && both * 2 >= span
}

/// The links that are down, as the beginning of a sentence.
fn down(setup: &Setup, outage: &LinkOutage) -> String {
    let links = &outage.links;
    let names: Vec<String> = links.iter().take(EXAMPLES).map(|link| setup.network.link_name(*link)).collect();
    match links.len() {
        1 => format!("the link {} is down", names[0]),
        count if count <= EXAMPLES => format!("the links {} are down", names.join(", ")),
        count => format!("the links {} and {} more are down", names.join(", "), count - EXAMPLES),
    }
}

/// Which flows can cross one of some links.
struct Routes<'a> {
    paths: &'a Paths,
    /// By link: whether this direction or the other is among them.
    is_down: Vec<bool>,
    /// By the switches of source and destination, where packets of a flow take several paths.
    known: HashMap<(NodeId, NodeId), bool>,
}

impl<'a> Routes<'a> {
    fn new(setup: &'a Setup, outage: &LinkOutage) -> Routes<'a> {
        let mut is_down = vec![false; setup.paths.network().links().len()];
        for link in &outage.links {
            is_down[link.index()] = true;
            is_down[link.reverse().index()] = true;
        }
        Routes { paths: &setup.paths, is_down, known: HashMap::new() }
    }

    /// Whether packets of a flow, or their answers, can cross one of the links.
    fn cross(&mut self, flow: &Flow) -> bool {
        let Flow { id, src, dst, .. } = *flow;
        let is_down = |link: LinkId| self.is_down[link.index()];
        if self.paths.are_fixed() {
            return self.paths.path(id, src, dst).any(is_down) || self.paths.path(id, dst, src).any(is_down);
        }
        let [first, last] = [src, dst].map(|host| self.paths.network().ports(host)[0]);
        let [from, to] = [first, last].map(|link| self.paths.network().link(link).to);
        if is_down(first) || is_down(last) {
            return true;
        }
        if let Some(known) = self.known.get(&(from, to)) {
            return *known;
        }
        let found = self.is_between(from, to);
        self.known.insert((from, to), found);
        found
    }

    /// Whether one of the links is on a shortest path between two switches.
    fn is_between(&self, from: NodeId, to: NodeId) -> bool {
        let (mut reached, mut next) = (vec![from], 0);
        while let Some(at) = reached.get(next).copied().filter(|at| *at != to) {
            let way = self.paths.way(at, to);
            let links = way.links();
            if links.iter().any(|link| self.is_down[link.index()]) {
                return true;
            }
            for node in links.iter().map(|link| self.paths.network().link(*link).to) {
                if !reached.contains(&node) {
                    reached.push(node);
                }
            }
            next += 1;
        }
        false
    }
}
