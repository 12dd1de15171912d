//! `kind = "poisson"`: flows that arrive as Poisson processes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flowloom_core::{NodeId, Time};
use flowloom_fabric::seed::Purpose;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arrivals::{PS_PER_S, check_length, next_start};
use super::load::{LoadLink, total_bytes_per_second};
use super::matrix::{Matrix, MatrixKind};
use super::traffic::{Tenant, Traffic};
use super::{Context, Deadline, FlowList, Kind, Sizes, Workload};
use crate::ScenarioError;
use crate::random::Stream;

/// Flows arrive at each source as a Poisson process, independent of the others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Poisson {
    /// The sizes of the flows.
    pub sizes: Sizes,
    /// The expected utilisation of the busiest link among those that `load_link` names. Payload and headers of every data packet
    /// sent once count; control packets and retransmissions do not.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0), example = 0.6)]
    pub load: f64,
    /// Which links `load` is about.
    #[serde(default)]
    pub load_link: LoadLink,
    /// How many flows there are.
    #[schemars(range(min = 1, max = 100_000_000), example = 20_000)]
    pub flows: u32,
    /// The traffic matrix: which host sends to which.
    #[serde(default)]
    pub matrix: MatrixKind,
    /// Which host sends the next flow.
    #[serde(default)]
    pub sources: Sources,
    /// The deadlines of the flows. Without it, flows have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
    /// The tenants that share the load. Without them there is one, number 0.
    #[serde(default, rename = "tenant", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 65_535))]
    pub tenants: Vec<Tenant>,
}

/// Which host sends the next flow of a Poisson workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sources {
    /// Each host has a Poisson process of its own, independent of the others.
    #[default]
    Independent,
    /// There is one Poisson process, and the hosts that send take turns. They must send equally much. So no host has two flows at once unless
    /// flows last for longer than a turn of all hosts.
    InTurn,
}

impl Kind for Poisson {
    fn check(&self) -> Result<(), ScenarioError> {
        self.sizes.check("workload.sizes")
    }

    /// Flows of independent Poisson processes, one for each matrix and source, or one for each matrix whose sources take turns. The first `flows` of
    /// all of them are taken, in order of (start, matrix, source).
    fn flows(&self, context: &Context<'_>) -> Result<Workload, ScenarioError> {
        let traffic = Traffic::of(&self.sizes, self.matrix, &self.tenants, context)?;
        let shares: Vec<(&Matrix, f64)> = traffic.iter().map(|part| (&part.matrix, part.share)).collect();
        let bytes_per_s = total_bytes_per_second(self.load, self.load_link, context.network, context.nics, &shares)?;
        let flows_per_s: f64 = traffic.iter().map(|part| part.flows_in(bytes_per_s)).sum();
        check_length("workload.flows", f64::from(self.flows) / flows_per_s)?;

        let mut sources = Vec::new();
        for (matrix, part) in traffic.iter().enumerate() {
            let flows_per_s = part.flows_in(bytes_per_s);
            let sending =
                (0u32..).zip(part.matrix.weights()).filter(|(_, weight)| **weight > 0.0).map(|(host, weight)| (host, *weight));
            match self.sources {
                Sources::Independent => sources.extend(sending.map(|(host, weight)| {
                    ArrivalProcess::new(vec![host], matrix, PS_PER_S / (weight * flows_per_s), context.seed)
                })),
                Sources::InTurn => {
                    let (hosts, weights): (Vec<u32>, Vec<f64>) = sending.unzip();
                    check_alike(&weights)?;
                    sources.push(ArrivalProcess::new(hosts, matrix, PS_PER_S / flows_per_s, context.seed));
                }
            }
        }
        let first = |(index, source): (usize, &mut ArrivalProcess)| Reverse((source.next_start(Time::ZERO), index));
        let mut next: BinaryHeap<Reverse<(Time, usize)>> = sources.iter_mut().enumerate().map(first).collect();
        let mut flows = FlowList::with_capacity(self.flows.into())?;
        for _ in 0..self.flows {
            let mut earliest = next.peek_mut().expect("some host sends");
            let Reverse((start, index)) = *earliest;
            let source = &mut sources[index];
            *earliest = Reverse((source.next_start(start), index));
            drop(earliest);
            let part = &traffic[source.matrix];
            let (tenant, size) = part.draw(&mut source.sizes);
            let host = source.next_host();
            let dst = part.matrix.destination(host, &mut source.destinations);
            flows.push(start, NodeId(host), dst, size).tenant = tenant;
        }
        Ok(flows.0.into())
    }

    fn number(&self, _: u64) -> Option<u64> {
        Some(self.flows.into())
    }

    fn sizes(&self) -> Option<&Sizes> {
        Some(&self.sizes)
    }

    fn matrix(&self) -> Option<MatrixKind> {
        Some(self.matrix)
    }

    fn deadline(&self) -> Option<&Deadline> {
        self.deadline.as_ref()
    }

    fn tenants(&self) -> &[Tenant] {
        &self.tenants
    }
}

/// A Poisson process of flows, with its random streams, for one matrix of the traffic.
struct ArrivalProcess {
    /// The hosts that send its flows, in turn.
    hosts: Vec<u32>,
    /// The place of the next one.
    turn: usize,
    /// The number of its matrix among those of the traffic.
    matrix: usize,
    mean_gap_ps: f64,
    arrivals: Stream,
    sizes: Stream,
    destinations: Stream,
}

impl ArrivalProcess {
    /// A process whose streams are those of its first host.
    fn new(hosts: Vec<u32>, matrix: usize, mean_gap_ps: f64, seed: u64) -> ArrivalProcess {
        let stream = |purpose| Stream::new(seed, purpose, (matrix as u64) << 32 | u64::from(hosts[0]));
        ArrivalProcess {
            turn: 0,
            matrix,
            mean_gap_ps,
            arrivals: stream(Purpose::Arrivals),
            sizes: stream(Purpose::Sizes),
            destinations: stream(Purpose::Destinations),
            hosts,
        }
    }

    /// The host that sends the next flow.
    fn next_host(&mut self) -> u32 {
        let host = self.hosts[self.turn];
        self.turn = (self.turn + 1) % self.hosts.len();
        host
    }

    fn next_start(&mut self, last: Time) -> Time {
        next_start(last, &mut self.arrivals, self.mean_gap_ps)
    }
}

/// Sources that take turns send the same number of flows each.
fn check_alike(weights: &[f64]) -> Result<(), ScenarioError> {
    const TOLERANCE: f64 = 1e-9; // of sums in another order
    let most = weights.iter().copied().fold(0.0, f64::max);
    if weights.iter().all(|weight| most - weight <= TOLERANCE * most) {
        return Ok(());
    }
    let message = "found \"in_turn\", but the matrix has hosts that send more than others; use \"independent\"";
    Err(ScenarioError::at_key("workload.sources", message))
}
