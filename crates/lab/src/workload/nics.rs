//! Between which NICs a flow goes, where hosts have several.

use std::collections::HashMap;

use flowloom_core::{Flow, FlowId, Network, NodeId, NodeKind, Time, mix};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::matrix::Matrix;
use crate::ScenarioError;

/// How the two NICs of a flow are chosen where hosts have several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NicChoice {
    /// A hash of the flow chooses one of the pairs of NICs that the fewest links join.
    #[default]
    FlowHash,
    /// A hash of the flow chooses one of those pairs whose NICs have the same number, so that flows stay in a plane.
    SameNumber,
    /// The first of those pairs has all flows, and the other links are in reserve.
    First,
}

/// The NICs of the hosts of a network in which some have several, and which of them a flow uses.
#[derive(Debug)]
pub struct Nics {
    choice: NicChoice,
    seed: u64,
    /// NICs that flows do not use which start from one time on until another.
    outages: Vec<(NodeId, Time, Time)>,
    by_host: Vec<Vec<NodeId>>,
    /// By NIC, the node at the other end of its link, and the number of this node in `hops` if it is a switch.
    next: Vec<(NodeId, Option<usize>)>,
    /// How many links are on a shortest path between two of the switches with hosts; [`FAR`] if there is none.
    hops: Vec<u16>,
    switches: usize,
}

const FAR: u16 = u16::MAX;

impl Nics {
    /// Those of a network; `None` if each host has one. `outages` are NICs whose links are known to be down, from when until when.
    pub fn new(network: &Network, choice: NicChoice, outages: Vec<(NodeId, Time, Time)>, seed: u64) -> Option<Nics> {
        if !network.has_several_nics() {
            return None;
        }
        let mut numbers = HashMap::new();
        let mut switches = Vec::new();
        let next = network.nic_ids().map(|nic| {
            let node = network.link(network.ports(nic)[0]).to;
            let number = (network.node(node).kind == NodeKind::Switch).then(|| {
                *numbers.entry(node).or_insert_with(|| {
                    switches.push(node);
                    switches.len() - 1
                })
            });
            (node, number)
        });
        let next = next.collect();
        let mut hops = Vec::with_capacity(switches.len() * switches.len());
        for switch in &switches {
            let distance = network.distances(*switch);
            hops.extend(switches.iter().map(|other| u16::try_from(distance[other.index()]).unwrap_or(FAR)));
        }
        Some(Nics { choice, seed, outages, by_host: network.nics_by_host(), next, hops, switches: switches.len() })
    }

    /// How many links join two NICs; `None` if there is no path.
    fn distance(&self, a: NodeId, b: NodeId) -> Option<u16> {
        let [(at, from), (_, to)] = [a, b].map(|nic| self.next[nic.index()]);
        if at == b {
            return Some(1);
        }
        let hops = self.hops[from? * self.switches + to?];
        (hops < FAR).then(|| hops.saturating_add(2))
    }

    /// The pairs of NICs that flows from one host to another can use.
    pub fn pairs(&self, src: NodeId, dst: NodeId) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.nearest(src, dst, |_| true)
    }

    /// The pairs that the fewest links join, of these NICs.
    fn nearest(
        &self,
        src: NodeId,
        dst: NodeId,
        is_up: impl Fn(NodeId) -> bool + Copy,
    ) -> impl Iterator<Item = (NodeId, NodeId)> {
        let near = move || {
            let nics =
                move |host: NodeId| self.by_host[host.index()].iter().copied().enumerate().filter(move |(_, nic)| is_up(*nic));
            let pairs = nics(src).flat_map(move |from| nics(dst).map(move |to| (from, to)));
            let allowed = pairs.filter(|((i, _), (k, _))| self.choice != NicChoice::SameNumber || i == k);
            allowed.filter_map(|((_, a), (_, b))| Some((self.distance(a, b)?, (a, b))))
        };
        let nearest = near().map(|(distance, _)| distance).min();
        let most = if self.choice == NicChoice::First { 1 } else { usize::MAX };
        near().filter(move |(distance, _)| Some(*distance) == nearest).map(|(_, pair)| pair).take(most)
    }

    /// A flow between two hosts as a flow between two of their NICs. It uses no NIC that is known to be down when it starts, if others lead to its destination. A flow that waits for
    /// others chooses as at time 0.
    ///
    /// # Panics
    /// If no NICs of the two are joined.
    pub fn attach(&self, flow: Flow) -> Flow {
        let start = if flow.start == Time::MAX { Time::ZERO } else { flow.start };
        let is_down = |nic| self.outages.iter().any(|(other, from, to)| *other == nic && (*from..*to).contains(&start));
        let up = || self.nearest(flow.src, flow.dst, |nic| !is_down(nic));
        let any = || self.pairs(flow.src, flow.dst);
        let hash = self.hash(flow.id, flow.src, flow.dst) as usize;
        let pair = match up().count() {
            0 => any().nth(hash % any().count()),
            count => up().nth(hash % count),
        };
        let (src, dst) = pair.expect("it is one of them");
        Flow { src, dst, ..flow }
    }

    /// Calls `visit` with each pair of NICs that flows use, and the share of all traffic that goes from one to the other.
    pub fn each_share(&self, matrix: &Matrix, mut visit: impl FnMut(NodeId, NodeId, f64)) {
        let hosts = || (0..self.by_host.len() as u32).map(NodeId);
        for (src, dst) in hosts().flat_map(|src| hosts().map(move |dst| (src, dst))) {
            let share = matrix.pair_share(src.0, dst.0);
            if share > 0.0 {
                let each = share / self.pairs(src, dst).count() as f64;
                self.pairs(src, dst).for_each(|(src, dst)| visit(src, dst, each));
            }
        }
    }

    fn hash(&self, flow: FlowId, src: NodeId, dst: NodeId) -> u64 {
        let ends = (u64::from(src.0) << 32) | u64::from(dst.0);
        mix(mix(ends ^ mix(self.seed)) ^ u64::from(flow.0)) >> 32
    }

    /// Checks that each flow has a way.
    ///
    /// # Errors
    /// The two hosts of a flow of which no NICs are joined.
    pub fn check(&self, flows: impl Iterator<Item = Flow>, network: &Network) -> Result<(), ScenarioError> {
        let mut cut =
            flows.map(|flow| (flow.src, flow.dst)).filter(|(src, dst)| src != dst && self.pairs(*src, *dst).next().is_none());
        let Some((src, dst)) = cut.next() else { return Ok(()) };
        let [src, dst] = [src, dst].map(|host| &network.node(host).name);
        let which = if self.choice == NicChoice::SameNumber { " with the same number (fabric.nics)" } else { "" };
        let message = format!(
            "there is a flow from {src} to {dst}, but no path joins NICs of these hosts{which}; hosts do not forward packets of others"
        );
        Err(ScenarioError::at_key("workload", message))
    }
}
