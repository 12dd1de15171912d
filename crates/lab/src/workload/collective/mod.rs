//! `kind = "collective"`: what the ranks of a parallel job send to each other.

mod patterns;
#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::sync::Arc;

use flowloom_core::{Bytes, Duration, Flow, FlowId, NodeId, Time};
use flowloom_fabric::calendar::PAYLOADS_MAX;
use flowloom_fabric::{End, Task};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::patterns::{Direct, Pattern, Round, Rounds, Send, Shape, Tree, Waiter};
use super::arrivals::check_length;
use super::hosts::{HostRef, different_hosts, random_hosts};
use super::{Context, Kind, Waiting, Workload};
use crate::ScenarioError;

/// The ranks of a parallel job exchange data, again and again.
///
/// A rank is a process on a host of its own. It sends when it has what it needs, and not before: so flows wait for others, and their starts follow from the network. An
/// iteration is over at a rank when the rank has received all that belongs to it; a rank that receives nothing waits until what it has sent is acknowledged. Several jobs are
/// the parts of a mix.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Collective {
    /// What the ranks do.
    pub collective: Operation,
    /// How they do it.
    pub algorithm: Algorithm,
    /// The size of the data, as in NCCL's tests: what each rank has before an all-reduce, a reduce-scatter or an all-to-all, and what it has after an all-gather or a broadcast.
    #[schemars(extend("x-min" = "1B", "x-max" = "1000TB"), example = "64MB")]
    pub size: Quantity<Bytes>,
    /// How many ranks there are. Without it, each host has one, or each of `hosts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 100_000))]
    pub ranks: Option<u32>,
    /// On which hosts the ranks are.
    #[serde(default)]
    pub placement: Placement,
    /// The hosts of the ranks, in the order of the ranks, by number or name, instead of a placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100_000))]
    pub hosts: Vec<HostRef>,
    /// The number of the host that the first rank is on, if they are placed in order.
    #[serde(default)]
    #[schemars(range(max = 99_999))]
    pub first_host: u32,
    /// Into how many parts each send is cut, so that the next rank can go on with one part while the next part comes (pipelining).
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = 10_000))]
    pub parts: u32,
    /// Whether a rank begins to send in a step although what it has sent in the step before is not acknowledged. Where the network delays some flows, several flows of a rank then share
    /// its link; a connection that keeps messages in order would not do that. Trees never overlap.
    #[serde(default = "yes")]
    pub overlap: bool,
    /// The time between what a rank has received and what it sends then.
    #[serde(default = "least")]
    #[schemars(extend("x-min" = "1ps", "x-max" = "1000000s"))]
    pub compute: Quantity<Duration>,
    /// How many times the ranks do it.
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub iterations: u32,
    /// The time between the end of an iteration at a rank and the beginning of the next one there.
    #[serde(default = "least")]
    #[schemars(extend("x-min" = "1ps", "x-max" = "1000000s"))]
    pub pause: Quantity<Duration>,
}

fn yes() -> bool {
    true
}

fn least() -> Quantity<Duration> {
    Quantity(Duration::from_ps(1))
}

/// What ranks do together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// All have the sum of what each had.
    AllReduce,
    /// All have what each had, side by side.
    AllGather,
    /// Each has its share of the sum of what each had.
    ReduceScatter,
    /// Each has what each other one had for it.
    AllToAll,
    /// All have what rank 0 had.
    Broadcast,
}

impl Operation {
    /// Its name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::AllReduce => "all_reduce",
            Operation::AllGather => "all_gather",
            Operation::ReduceScatter => "reduce_scatter",
            Operation::AllToAll => "all_to_all",
            Operation::Broadcast => "broadcast",
        }
    }

    /// The bandwidth at the hosts' links over that of the algorithm, size over time, as NCCL's tests define it.
    pub fn bus_factor(self, ranks: u32) -> f64 {
        let others = f64::from(ranks - 1) / f64::from(ranks);
        match self {
            Operation::AllReduce => 2.0 * others,
            Operation::AllGather | Operation::ReduceScatter | Operation::AllToAll => others,
            Operation::Broadcast => 1.0,
        }
    }
}

/// How ranks do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// Each rank sends to the next one, and the last to the first: an n-th of the size in each of n - 1 steps, or twice as many for an all-reduce. A broadcast
    /// goes through the chain of ranks.
    Ring,
    /// The ranks are a binomial tree with rank 0 as its root. A rank sends to its children one after the other.
    Tree,
    /// Ranks whose numbers differ in one bit exchange data in each step. The number of ranks is a power of two.
    RecursiveDoubling,
    /// Each rank sends to each other one, one step after the other.
    Pairwise,
    /// Each rank sends to each other one, all at once.
    Direct,
}

impl Algorithm {
    /// Its name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Ring => "ring",
            Algorithm::Tree => "tree",
            Algorithm::RecursiveDoubling => "recursive_doubling",
            Algorithm::Pairwise => "pairwise",
            Algorithm::Direct => "direct",
        }
    }

    const ALL: [Algorithm; 5] =
        [Algorithm::Ring, Algorithm::Tree, Algorithm::RecursiveDoubling, Algorithm::Pairwise, Algorithm::Direct];
}

/// On which hosts ranks are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// On one host after the other.
    #[default]
    InOrder,
    /// In order, with equal distances, over all hosts.
    Spread,
    /// On random hosts.
    Random,
}

impl Kind for Collective {
    fn check(&self) -> Result<(), ScenarioError> {
        let (what, how) = (self.collective, self.algorithm);
        if self.pattern(2).is_none() {
            let known = Algorithm::ALL
                .into_iter()
                .filter(|algorithm| Collective { algorithm: *algorithm, ..self.clone() }.pattern(2).is_some());
            let known: Vec<&str> = known.map(Algorithm::name).collect();
            let message = format!("found {} for {}; choose {}", how.name(), what.name(), known.join(", "));
            return Err(ScenarioError::at_key("workload.algorithm", message));
        }
        if self.parts > 1 && !self.has_parts() {
            let message =
                format!("{} with {} is not cut into parts, since no rank sends on what it receives", what.name(), how.name());
            return Err(ScenarioError::at_key("workload.parts", message));
        }
        if !self.overlap && how == Algorithm::Direct {
            return Err(ScenarioError::at_key(
                "workload.overlap",
                "direct sends everything at once; pairwise sends one after the other",
            ));
        }
        if !self.hosts.is_empty() {
            let ignored = [
                ("ranks", self.ranks.is_some()),
                ("first_host", self.first_host > 0),
                ("placement", self.placement != Placement::InOrder),
            ];
            if let Some((key, _)) = ignored.into_iter().find(|(_, given)| *given) {
                return Err(ScenarioError::at_key(
                    format!("workload.{key}"),
                    "hosts lists the hosts of all ranks; leave one of the two out",
                ));
            }
            if self.hosts.len() < 2 {
                return Err(ScenarioError::at_key("workload.hosts", "a job has at least two ranks"));
            }
        } else if self.first_host > 0 && self.placement != Placement::InOrder {
            return Err(ScenarioError::at_key("workload.first_host", "only placement = \"in_order\" begins at a host"));
        }
        check_length("workload.pause", f64::from(self.iterations) * self.pause.0.as_secs_f64())
    }

    fn flows(&self, context: &Context<'_>) -> Result<Workload, ScenarioError> {
        let hosts = self.places(context)?;
        let ranks = hosts.len() as u32;
        if self.algorithm == Algorithm::RecursiveDoubling && !ranks.is_power_of_two() {
            let message = format!("recursive_doubling needs a power of two; found {ranks} ranks");
            return Err(ScenarioError::at_key(
                if self.hosts.is_empty() { "workload.ranks" } else { "workload.hosts" },
                message,
            ));
        }
        let pattern = self.pattern(ranks).expect("it has been checked");
        let tasks = (pattern.sends() + u64::from(ranks)).saturating_mul(self.iterations.into());
        if tasks > PAYLOADS_MAX as u64 {
            let message = format!(
                "{} iterations of {} sends make {tasks} tasks; the limit is {PAYLOADS_MAX}",
                self.iterations,
                pattern.sends()
            );
            return Err(ScenarioError::at_key("workload.iterations", message));
        }
        check_length("workload.compute", tasks as f64 / f64::from(ranks) * self.compute.0.as_secs_f64())?;
        let job = Job { spec: self.clone(), pattern, hosts: hosts.into(), start: Time::ZERO, tenant: 0 };
        Ok(Workload { waiting: Waiting { jobs: vec![job], ..Waiting::default() }, ..Vec::new().into() })
    }
}

impl Collective {
    /// What so many ranks send in one iteration; `None` if the operation is not done in this way.
    fn pattern(&self, ranks: u32) -> Option<Sends> {
        let (bytes, parts, overlap) = (self.size.0.get(), self.parts, self.overlap);
        let others = ranks - 1;
        let rounds = |round, steps| Some(Sends::Rounds(Rounds { ranks, round, steps, bytes, parts, overlap }));
        let tree = |shape, up| Some(Sends::Tree(Tree { ranks, shape, up, bytes, parts }));
        match (self.collective, self.algorithm) {
            (Operation::AllReduce, Algorithm::Ring) => rounds(Round::Ring, 2 * others),
            (Operation::AllGather | Operation::ReduceScatter, Algorithm::Ring) => rounds(Round::Ring, others),
            (Operation::Broadcast, Algorithm::Ring) => tree(Shape::Chain, false),
            (Operation::AllReduce, Algorithm::Tree) => tree(Shape::Binomial, true),
            (Operation::Broadcast, Algorithm::Tree) => tree(Shape::Binomial, false),
            (Operation::AllReduce, Algorithm::RecursiveDoubling) => rounds(Round::Exchange, ranks.ilog2()),
            (Operation::AllGather, Algorithm::RecursiveDoubling) => rounds(Round::Doubling, ranks.ilog2()),
            (Operation::ReduceScatter, Algorithm::RecursiveDoubling) => rounds(Round::Halving, ranks.ilog2()),
            (Operation::AllReduce, Algorithm::Pairwise) => rounds(Round::ScatterGather, 2 * others),
            (Operation::AllGather, Algorithm::Pairwise) => rounds(Round::Gather, others),
            (Operation::ReduceScatter | Operation::AllToAll, Algorithm::Pairwise) => rounds(Round::Scatter, others),
            (Operation::AllToAll, Algorithm::Direct) => Some(Sends::Direct(Direct { ranks, bytes })),
            _ => None,
        }
    }

    /// Whether ranks send on what they receive, so that it helps to cut it into parts.
    fn has_parts(&self) -> bool {
        matches!(self.algorithm, Algorithm::Ring | Algorithm::Tree | Algorithm::RecursiveDoubling)
    }

    /// The host of each rank.
    fn places(&self, context: &Context<'_>) -> Result<Vec<NodeId>, ScenarioError> {
        let network = context.network;
        if !self.hosts.is_empty() {
            return different_hosts(&self.hosts, network, "workload.hosts");
        }
        let hosts = network.hosts() as u32;
        let free = hosts.saturating_sub(self.first_host);
        let ranks = self.ranks.unwrap_or(free);
        if ranks > free || ranks < 2 {
            let from = if self.first_host > 0 { format!(" from number {} on", self.first_host) } else { String::new() };
            let key = if self.ranks.is_some() { "workload.ranks" } else { "workload.first_host" };
            return Err(ScenarioError::at_key(
                key,
                format!("found {ranks} ranks; the network has {free} hosts{from}, and a job has at least two"),
            ));
        }
        Ok(match self.placement {
            Placement::InOrder => (self.first_host..self.first_host + ranks).map(NodeId).collect(),
            Placement::Spread => {
                (0..u64::from(ranks)).map(|rank| NodeId((rank * u64::from(hosts) / u64::from(ranks)) as u32)).collect()
            }
            Placement::Random => random_hosts(ranks, context),
        })
    }
}

/// The sends of one iteration, as one of the patterns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sends {
    Rounds(Rounds),
    Direct(Direct),
    Tree(Tree),
}

impl Deref for Sends {
    type Target = dyn Pattern;

    fn deref(&self) -> &Self::Target {
        match self {
            Sends::Rounds(rounds) => rounds,
            Sends::Direct(direct) => direct,
            Sends::Tree(tree) => tree,
        }
    }
}

/// A collective on its hosts. Its tasks follow from formulas, and are numbered from 0: in each iteration, first a join for each rank, which begins it there, and then the sends.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// What it does.
    pub spec: Collective,
    pattern: Sends,
    hosts: Arc<[NodeId]>,
    /// When it begins.
    pub(super) start: Time,
    /// The tenant of its flows.
    pub tenant: u16,
}

/// To which iteration and step of a job a flow belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Step {
    /// The iteration, from 0 on.
    pub iteration: u32,
    /// The step, from 0 on.
    pub step: u32,
}

impl Job {
    /// The same, but so much later.
    pub(super) fn begun(mut self, later: Duration) -> Job {
        self.start += later;
        self
    }

    /// How many ranks it has.
    pub fn ranks(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// How many flows an iteration has.
    pub fn sends(&self) -> u32 {
        self.pattern.sends() as u32
    }

    /// How many tasks it has.
    pub fn count(&self) -> usize {
        self.spec.iterations as usize * self.block() as usize
    }

    /// How many tasks an iteration has.
    fn block(&self) -> u32 {
        self.ranks() + self.sends()
    }

    /// The flows of all iterations. Their ids mean nothing.
    pub fn flows(&self) -> impl Iterator<Item = Flow> {
        let one = (0..self.sends()).map(|number| self.flow(number));
        std::iter::repeat_n(one, self.spec.iterations as usize).flatten()
    }

    fn flow(&self, number: u32) -> Flow {
        let Send { from, to, bytes, .. } = self.pattern.send(number);
        Flow {
            id: FlowId(0),
            src: self.hosts[from as usize],
            dst: self.hosts[to as usize],
            size: Bytes::new(bytes),
            start: Time::MAX,
            deadline: None,
            tenant: self.tenant,
            coflow: None,
            background: false,
        }
    }

    /// The iteration of a task, and its number in it: the rank of a join, or the number of a send.
    fn place(&self, task: u32) -> (u32, Result<u32, u32>) {
        let (iteration, number) = (task / self.block(), task % self.block());
        (iteration, number.checked_sub(self.ranks()).map_or(Ok(number), Err))
    }

    /// One of its tasks.
    pub fn task(&self, task: u32) -> Task {
        match self.place(task).1 {
            Ok(rank) => Task::Join(self.hosts[rank as usize]),
            Err(send) => Task::Flow(self.flow(send)),
        }
    }

    /// Where a flow belongs.
    ///
    /// # Panics
    /// If the task is no flow.
    pub fn step(&self, task: u32) -> Step {
        let (iteration, place) = self.place(task);
        Step { iteration, step: self.pattern.send(place.expect_err("a flow")).step }
    }

    /// What waits for a time, and for which.
    pub fn starts(&self) -> impl Iterator<Item = (u32, Time)> {
        (0..self.ranks()).map(|rank| (rank, self.start))
    }

    /// How many things must have happened before a task begins.
    pub fn needs(&self, task: u32) -> usize {
        match self.place(task) {
            (0, Ok(_)) => 1, // the time
            (_, Ok(rank)) => self.pattern.needs_at_end(rank),
            (_, Err(send)) => self.pattern.needs(send),
        }
    }

    /// Calls `visit` with each task that waits for this one, with what must have happened to it and how long it takes then.
    pub fn each_next(&self, task: u32, visit: &mut dyn FnMut(u32, End, Duration)) {
        let (iteration, place) = self.place(task);
        let first = iteration * self.block() + self.ranks();
        let send = match place {
            Ok(rank) => return self.pattern.each_first(rank, &mut |send| visit(first + send, End::Begun, self.spec.compute.0)),
            Err(send) => send,
        };
        self.pattern.each_next(send, &mut |waiter, end| match waiter {
            Waiter::Send(next) => {
                let delay = if end == End::Received { self.spec.compute.0 } else { least().0 };
                visit(first + next, end, delay);
            }
            Waiter::End(rank) if iteration + 1 < self.spec.iterations => {
                visit(first + self.sends() + rank, end, self.spec.pause.0);
            }
            Waiter::End(_) => {}
        });
    }
}
