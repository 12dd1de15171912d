//! Workloads whose flows arrive as Poisson processes or all at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flowloom_core::{Flow, NodeId, Time};
use flowloom_fabric::seed::Purpose;

use super::load::total_bytes_per_second;
use super::matrix::{Matrix, partners};
use super::sizes::distribution;
use super::traffic::Traffic;
use super::{Context, FlowList};
use crate::ScenarioError;
use crate::random::{NETWORK, Stream};
use crate::spec::{Burst, Permutation, Poisson, Sources};

/// A workload whose last start is expected later than this is refused: a load or a rate has a slip, and later starts would leave the
/// range of [`Time`].
pub(super) const START_S_MAX: f64 = 1e6;
pub(super) const PS_PER_S: f64 = 1e12;

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

/// The start after `last` in a Poisson process. It may saturate, and is then later than any run: a host that seldom sends may have its
/// first flow that late.
pub(super) fn next_start(last: Time, stream: &mut Stream, mean_gap_ps: f64) -> Time {
    let gap_ps = (stream.exponential() * mean_gap_ps).round() as u64;
    Time::from_ps(last.as_ps().saturating_add(gap_ps))
}

/// Flows of independent Poisson processes, one for each matrix and source, or one for each matrix whose sources take turns. The first `flows` of all of
/// them are taken, in order of (start, matrix, source).
pub(super) fn poisson(spec: &Poisson, context: &Context<'_>) -> Result<Vec<Flow>, ScenarioError> {
    let traffic = Traffic::of(&spec.sizes, spec.matrix, &spec.tenants, context)?;
    let shares: Vec<(&Matrix, f64)> = traffic.iter().map(|part| (&part.matrix, part.share)).collect();
    let bytes_per_s = total_bytes_per_second(spec.load, spec.load_link, context.network, &shares)?;
    let flows_per_s: f64 = traffic.iter().map(|part| part.flows_in(bytes_per_s)).sum();
    check_length("workload.flows", f64::from(spec.flows) / flows_per_s)?;

    let mut sources = Vec::new();
    for (matrix, part) in traffic.iter().enumerate() {
        let flows_per_s = part.flows_in(bytes_per_s);
        let sending =
            (0u32..).zip(part.matrix.weights()).filter(|(_, weight)| **weight > 0.0).map(|(host, weight)| (host, *weight));
        match spec.sources {
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
    let mut flows = FlowList::with_capacity(spec.flows.into())?;
    for _ in 0..spec.flows {
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
    Ok(flows.0)
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

/// Makes one flow from each host to its partner.
pub(super) fn permutation(spec: &Permutation, context: &Context<'_>) -> Result<Vec<Flow>, ScenarioError> {
    let hosts = context.network.hosts() as u32;
    let cdf = distribution(&spec.sizes, context.base_dir, "workload.sizes")?;
    let mut flows = FlowList::with_capacity(hosts.into())?;
    for (host, partner) in (0u32..).zip(partners(hosts, context.seed)) {
        let mut sizes = Stream::new(context.seed, Purpose::Sizes, u64::from(host));
        flows.push(Time::ZERO, NodeId(host), NodeId(partner), cdf.sample(sizes.unit()));
    }
    Ok(flows.0)
}

/// Makes flows at time 0. Their sources are drawn in proportion to the sources' shares of the traffic.
pub(super) fn burst(spec: &Burst, context: &Context<'_>) -> Result<Vec<Flow>, ScenarioError> {
    let traffic = Traffic::of(&spec.sizes, spec.matrix, &spec.tenants, context)?;
    let hosts = context.network.hosts();
    let flows_per_byte: f64 = traffic.iter().map(|part| part.flows_in(1.0)).sum();
    let mut sum = 0.0;
    let mut running_weights = Vec::with_capacity(traffic.len() * hosts);
    for part in &traffic {
        let share = part.flows_in(1.0) / flows_per_byte;
        running_weights.extend(part.matrix.weights().iter().map(|weight| {
            sum += share * weight;
            sum
        }));
    }
    let stream = |purpose| Stream::new(context.seed, purpose, NETWORK);
    let (mut arrivals, mut sizes) = (stream(Purpose::Arrivals), stream(Purpose::Sizes));
    let mut destinations = stream(Purpose::Destinations);
    let mut flows = FlowList::with_capacity(spec.flows.into())?;
    for _ in 0..spec.flows {
        let chosen = arrivals.weighted(&running_weights);
        let (part, src) = (&traffic[chosen / hosts], (chosen % hosts) as u32);
        let (tenant, size) = part.draw(&mut sizes);
        flows.push(Time::ZERO, NodeId(src), part.matrix.destination(src, &mut destinations), size).tenant = tenant;
    }
    Ok(flows.0)
}

/// Refuses a workload whose last start is expected more than [`START_S_MAX`] after its first.
pub(super) fn check_length(key: &str, seconds: f64) -> Result<(), ScenarioError> {
    if seconds <= START_S_MAX {
        return Ok(());
    }
    let message = format!("the last start would be {seconds:.3e} s after the first; the limit is {START_S_MAX:e} s");
    Err(ScenarioError::at_key(key, message))
}
