//! Which flows priority flow control blocks: those that wait for a congested port which they do not cross, and those in a cycle of paused links.

use std::collections::{BTreeMap, HashMap, VecDeque};

use flowloom_core::{Flow, FlowId, LinkId, Paths};
use flowloom_fabric::Report;

use crate::plan::Setup;
use crate::record::LinkPauses;

/// A flow whose packets came to a paused port, although most pauses of that port came from a port that the flow does not cross.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Victim {
    pub flow: FlowId,
    /// The paused link at which it waited.
    pub at: LinkId,
    /// The port to which most of the link's pauses are traced back.
    pub congested: LinkId,
    /// How many of its packets waited.
    pub packets: u64,
}

/// The flows' paths, and the pauses of every link.
pub(crate) struct Blocking<'a> {
    report: &'a Report,
    links: &'a [LinkPauses],
    paths: &'a Paths,
    /// The index of each flow in the report.
    index: HashMap<FlowId, usize>,
}

/// Shares of a link's pauses, by the congested port.
type Shares = BTreeMap<LinkId, f64>;

impl<'a> Blocking<'a> {
    /// `None` where packets of one flow take different paths, or a flow's path changes during the run, so that nothing can be traced back.
    pub fn of(report: &'a Report, links: &'a [LinkPauses], setup: &'a Setup) -> Option<Blocking<'a>> {
        let blocking = Blocking::at_end(report, links, setup)?;
        let path = |paths: &'a Paths, flow: &'a Flow| paths.path(flow.id, flow.src, flow.dst);
        let stay = |paths: &'a Paths| report.flows.iter().all(|flow| path(paths, flow).eq(path(&setup.paths, flow)));
        let mut changes = setup.reroutes.iter().take_while(|(at, _)| *at <= report.end);
        changes.all(|(_, paths)| stay(paths)).then_some(blocking)
    }

    /// The same with the paths that flows have when the run ends. It knows what they block then, and not what they blocked before. `None` where packets of one flow take different paths.
    pub fn at_end(report: &'a Report, links: &'a [LinkPauses], setup: &'a Setup) -> Option<Blocking<'a>> {
        let index = || report.flows.iter().enumerate().map(|(index, flow)| (flow.id, index)).collect();
        let last = setup.reroutes.iter().rfind(|(at, _)| *at <= report.end);
        let paths = last.map_or(&setup.paths, |(_, paths)| paths);
        paths.are_fixed().then(|| Blocking { report, links, paths, index: index() })
    }

    fn path(&self, flow: FlowId) -> impl Iterator<Item = LinkId> {
        let flow = &self.report.flows[self.index[&flow]];
        self.paths.path(flow.id, flow.src, flow.dst)
    }

    /// The link that a flow's data takes after this one; `None` if its data does not cross this one, or ends there.
    fn after(&self, flow: FlowId, link: LinkId) -> Option<LinkId> {
        self.path(flow).skip_while(|other| *other != link).nth(1)
    }

    /// Where the pauses of a link come from. A link is stopped for packets that wait at a port behind it. If that port is paused itself, its
    /// own pauses are traced back in turn. A link that is stopped for no packet is the origin of its own pauses.
    fn origins(&self, link: LinkId, known: &mut BTreeMap<LinkId, Shares>) -> Shares {
        if let Some(shares) = known.get(&link) {
            return shares.clone();
        }
        known.insert(link, Shares::from([(link, 1.0)])); // the end of a cycle
        let mut shares = Shares::new();
        let causes =
            || self.links[link.index()].causes.iter().filter_map(|(flow, stops)| Some((self.after(*flow, link)?, *stops)));
        let needless = self.links[link.index()].needless_stops;
        let all = needless + causes().map(|(_, stops)| stops).sum::<u64>();
        if needless > 0 {
            shares.insert(link, needless as f64 / all as f64);
        }
        for (next, stops) in causes() {
            let weight = stops as f64 / all as f64;
            if self.links[next.index()].stops == 0 {
                *shares.entry(next).or_default() += weight;
                continue;
            }
            for (origin, share) in self.origins(next, known) {
                *shares.entry(origin).or_default() += weight * share;
            }
        }
        known.insert(link, shares.clone());
        shares
    }

    /// For each paused link, the port to which most of its pauses are traced back.
    pub fn origin_of_each(&self) -> BTreeMap<LinkId, LinkId> {
        let mut known = BTreeMap::new();
        let paused = (0..).map(LinkId).zip(self.links).filter(|(_, link)| link.stops > 0);
        paused.filter_map(|(link, _)| Some((link, most(&self.origins(link, &mut known))?))).collect()
    }

    /// The head-of-line victims, by flow and link.
    pub fn victims(&self) -> Vec<Victim> {
        let mut known = BTreeMap::new();
        let mut victims = Vec::new();
        for (at, link) in (0..).map(LinkId).zip(self.links) {
            if link.waiting.is_empty() {
                continue;
            }
            let origins = self.origins(at, &mut known);
            let Some(congested) = most(&origins) else { continue };
            for (flow, packets) in &link.waiting {
                let path: Vec<LinkId> = self.path(*flow).collect();
                let own: f64 = path.iter().filter_map(|link| origins.get(link)).sum();
                if path.contains(&at) && own < 0.5 {
                    victims.push(Victim { flow: *flow, at, congested, packets: *packets });
                }
            }
        }
        victims.sort_by_key(|victim| (victim.flow, victim.at));
        victims
    }

    /// A cycle of links that are paused at the end, each of which holds packets for the next one, and the open flows that go from one to the
    /// next, by their indices in the report.
    pub fn cycle(&self) -> Option<(Vec<LinkId>, Vec<usize>)> {
        let standing = |link: &LinkId| self.links[link.index()].standing != Default::default();
        let mut edges: BTreeMap<LinkId, BTreeMap<LinkId, Vec<usize>>> = BTreeMap::new();
        for (index, flow) in self.report.flows.iter().enumerate() {
            if self.report.records[index].is_over() {
                continue;
            }
            let path: Vec<LinkId> = self.path(flow.id).collect();
            for pair in path.windows(2).filter(|pair| pair.iter().all(standing)) {
                edges.entry(pair[0]).or_default().entry(pair[1]).or_default().push(index);
            }
        }
        let cycle = edges.keys().find_map(|first| cycle_through(*first, &edges))?;
        let mut flows: Vec<usize> = (0..cycle.len())
            .flat_map(|at| edges[&cycle[at]].get(&cycle[(at + 1) % cycle.len()]).cloned().unwrap_or_default())
            .collect();
        flows.sort_unstable();
        flows.dedup();
        Some((cycle, flows))
    }
}

/// The port with the largest share.
fn most(shares: &Shares) -> Option<LinkId> {
    shares.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(link, _)| *link)
}

/// The shortest cycle through a node of a graph.
fn cycle_through<E>(first: LinkId, edges: &BTreeMap<LinkId, BTreeMap<LinkId, E>>) -> Option<Vec<LinkId>> {
    let mut came_from: BTreeMap<LinkId, LinkId> = BTreeMap::new();
    let mut queue = VecDeque::from([first]);
    while let Some(at) = queue.pop_front() {
        for next in edges.get(&at).into_iter().flat_map(BTreeMap::keys) {
            if *next == first {
                let mut cycle: Vec<LinkId> = std::iter::successors(Some(at), |link| came_from.get(link).copied()).collect();
                cycle.reverse();
                return Some(cycle);
            }
            if !came_from.contains_key(next) {
                came_from.insert(*next, at);
                queue.push_back(*next);
            }
        }
    }
    None
}
