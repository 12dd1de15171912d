//! When flows start, and between whom.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flowloom_core::{Duration, Flow, NodeId, Time};
use flowloom_fabric::seed::Purpose;

use super::load::total_bytes_per_second;
use super::matrix::{Matrix, partners};
use super::sizes::{Mix, distribution};
use super::{Context, FlowList};
use crate::ScenarioError;
use crate::random::{NETWORK, Stream};
use crate::spec::{Burst, Permutation, Poisson};

/// A workload whose last start is expected later than this is refused: it is a slip in a load or a rate, and further on starts
/// would leave the range of [`Time`].
pub(super) const START_S_MAX: f64 = 1e6;
/// As the schema has it for the kinds that say their number of flows.
pub(super) const FLOWS_MAX: u32 = 100_000_000;
pub(super) const PS_PER_S: f64 = 1e12;

/// What one source draws from.
struct Source {
    mean_gap_ps: f64,
    arrivals: Stream,
    sizes: Stream,
    destinations: Stream,
}

impl Source {
    fn new(host: u32, mean_gap_ps: f64, seed: u64) -> Source {
        let stream = |purpose| Stream::new(seed, purpose, u64::from(host));
        Source {
            mean_gap_ps,
            arrivals: stream(Purpose::Arrivals),
            sizes: stream(Purpose::Sizes),
            destinations: stream(Purpose::Destinations),
        }
    }

    fn gap(&mut self) -> Duration {
        exponential_gap(&mut self.arrivals, self.mean_gap_ps)
    }
}

pub(super) fn exponential_gap(stream: &mut Stream, mean_ps: f64) -> Duration {
    Duration::from_ps((stream.exponential() * mean_ps).round() as u64)
}

/// The first `flows` flows of independent Poisson processes, one per source, merged in order of (start, source).
pub(super) fn poisson(spec: &Poisson, context: &Context<'_>) -> Result<Vec<Flow>, ScenarioError> {
    let Context { network, wire, seed, base_dir } = *context;
    let mix = Mix::of(&spec.sizes, &spec.tenants, wire, base_dir)?;
    let matrix = Matrix::new(spec.matrix, network, seed);
    let flows_per_s = total_bytes_per_second(spec.load, spec.load_link, network, &matrix)? / mix.mean_wire_bytes();
    check_length("workload.flows", f64::from(spec.flows) / flows_per_s)?;

    let mut sources: Vec<Option<Source>> = Vec::with_capacity(matrix.weights().len());
    let mut next = BinaryHeap::new();
    for (host, weight) in (0u32..).zip(matrix.weights()) {
        let mut source = (*weight > 0.0).then(|| Source::new(host, PS_PER_S / (weight * flows_per_s), seed));
        next.extend(source.as_mut().map(|source| Reverse((Time::ZERO + source.gap(), host))));
        sources.push(source);
    }
    let mut flows = FlowList::with_capacity(spec.flows);
    for _ in 0..spec.flows {
        let mut earliest = next.peek_mut().expect("some host sends");
        let Reverse((start, host)) = *earliest;
        let source = sources[host as usize].as_mut().expect("it sends");
        *earliest = Reverse((start + source.gap(), host));
        drop(earliest);
        let (tenant, size) = mix.draw(&mut source.sizes);
        let dst = matrix.destination(host, &mut source.destinations);
        flows.push(start, NodeId(host), dst, size).tenant = tenant;
    }
    Ok(flows.0)
}

/// One flow from each host to its partner.
pub(super) fn permutation(spec: &Permutation, context: &Context<'_>) -> Result<Vec<Flow>, ScenarioError> {
    let hosts = context.network.hosts() as u32;
    let cdf = distribution(&spec.sizes, context.base_dir, "workload.sizes")?;
    let mut flows = FlowList::with_capacity(hosts);
    for (host, partner) in (0u32..).zip(partners(hosts, context.seed)) {
        let mut sizes = Stream::new(context.seed, Purpose::Sizes, u64::from(host));
        flows.push(Time::ZERO, NodeId(host), NodeId(partner), cdf.sample(sizes.unit()));
    }
    Ok(flows.0)
}

/// Flows at time 0, from sources in proportion to their share of the traffic.
pub(super) fn burst(spec: &Burst, context: &Context<'_>) -> Result<Vec<Flow>, ScenarioError> {
    let mix = Mix::of(&spec.sizes, &spec.tenants, context.wire, context.base_dir)?;
    let matrix = Matrix::new(spec.matrix, context.network, context.seed);
    let mut sum = 0.0;
    let running_weights: Vec<f64> = matrix
        .weights()
        .iter()
        .map(|weight| {
            sum += weight;
            sum
        })
        .collect();
    let stream = |purpose| Stream::new(context.seed, purpose, NETWORK);
    let (mut arrivals, mut sizes) = (stream(Purpose::Arrivals), stream(Purpose::Sizes));
    let mut destinations = stream(Purpose::Destinations);
    let mut flows = FlowList::with_capacity(spec.flows);
    for _ in 0..spec.flows {
        let src = arrivals.weighted(&running_weights) as u32;
        let (tenant, size) = mix.draw(&mut sizes);
        flows.push(Time::ZERO, NodeId(src), matrix.destination(src, &mut destinations), size).tenant = tenant;
    }
    Ok(flows.0)
}

/// Refuses a workload whose last start is expected this long after its first.
pub(super) fn check_length(key: &str, seconds: f64) -> Result<(), ScenarioError> {
    if seconds <= START_S_MAX {
        return Ok(());
    }
    let message = format!("the last start would be {seconds:.3e} s after the first; the limit is {START_S_MAX:e} s");
    Err(ScenarioError::at_key(key, message))
}
