//! When flows start, and between whom.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flowloom_core::{Bytes, Duration, Flow, NodeId, Time};
use flowloom_fabric::seed::Purpose;

use super::load::total_bytes_per_second;
use super::matrix::{Matrix, partners};
use super::sizes::{Mix, distribution};
use super::{Context, FlowList};
use crate::ScenarioError;
use crate::random::{NETWORK, Stream};
use crate::spec::{Burst, Incast, LoadLink, MatrixKind, Permutation, Poisson};

/// A workload whose last start is expected later than this is refused: it is a slip in a load or a rate, and further on starts
/// would leave the range of [`Time`].
const START_S_MAX: f64 = 1e6;
/// As for the other kinds, whose schema has it.
const FLOWS_MAX: u32 = 100_000_000;
const PS_PER_S: f64 = 1e12;

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

fn exponential_gap(stream: &mut Stream, mean_ps: f64) -> Duration {
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

/// Requests: each has one receiver and several senders, and its number as coflow.
pub(super) fn incast(spec: &Incast, context: &Context<'_>) -> Result<Vec<Flow>, ScenarioError> {
    let hosts = context.network.hosts();
    let (senders, bytes) = (spec.senders as usize, spec.bytes.0.get());
    if senders >= hosts {
        let message =
            format!("found {senders}; the topology has {hosts} hosts, so a receiver has at most {} senders", hosts - 1);
        return Err(ScenarioError::at_key("workload.senders", message));
    }
    if bytes < senders as u64 {
        return Err(ScenarioError::at_key(
            "workload.bytes",
            format!("{} is less than a byte for each of {senders} senders", spec.bytes.0),
        ));
    }
    let flow_count = u64::from(spec.requests) * u64::from(spec.senders);
    let Some(flow_count) = u32::try_from(flow_count).ok().filter(|count| *count <= FLOWS_MAX) else {
        let message = format!("{} requests of {senders} flows make {flow_count}; the limit is {FLOWS_MAX}", spec.requests);
        return Err(ScenarioError::at_key("workload.requests", message));
    };
    let mut clock = RequestClock::new(spec, context)?;
    let mut choices = Stream::new(context.seed, Purpose::Destinations, NETWORK);
    let mut others: Vec<u32> = (1..hosts as u32).collect();
    let mut flows = FlowList::with_capacity(flow_count);
    for request in 0..spec.requests {
        let start = clock.next_start();
        let receiver = choices.below(hosts) as u32;
        for index in 0..senders {
            // Shuffling the front of any order of the others makes it a uniform choice without replacement.
            let chosen = index + choices.below(others.len() - index);
            others.swap(index, chosen);
            // Hosts other than the receiver, numbered from 1: those up to the receiver move down by one.
            let sender = if others[index] <= receiver { others[index] - 1 } else { others[index] };
            let size = Bytes::new(share(bytes, senders as u64, index as u64));
            flows.push(start, NodeId(sender), NodeId(receiver), size).coflow = Some(request);
        }
    }
    Ok(flows.0)
}

/// How many of `bytes` the sender number `index` sends.
fn share(bytes: u64, senders: u64, index: u64) -> u64 {
    bytes / senders + u64::from(index < bytes % senders)
}

/// When requests start.
enum RequestClock {
    Periodic { next: Time, period: Duration },
    Poisson { last: Time, mean_gap_ps: f64, arrivals: Stream },
}

impl RequestClock {
    fn new(spec: &Incast, context: &Context<'_>) -> Result<RequestClock, ScenarioError> {
        let Context { network, wire, seed, .. } = *context;
        let gap_s = match (spec.load, spec.period) {
            (Some(_), Some(_)) => {
                return Err(ScenarioError::at_key(
                    "workload.period",
                    "both load and period are given; requests follow one of them",
                ));
            }
            (None, None) => {
                let message = "missing; give load = 0.6 (Poisson arrivals) or period = \"1ms\" (one request every period)";
                return Err(ScenarioError::at_key("workload.load", message));
            }
            (None, Some(period)) if period.0 == Duration::ZERO => {
                return Err(ScenarioError::at_key("workload.period", "found 0; the period is above zero"));
            }
            (None, Some(period)) => period.0.as_secs_f64(),
            (Some(load), None) => {
                // Receivers and senders are uniform, so is every ordered pair.
                let matrix = Matrix::new(MatrixKind::RandomPairs, network, seed);
                let senders = u64::from(spec.senders);
                let wire_bytes: u64 = (0..senders)
                    .map(|index| wire.flow_wire_bytes(Bytes::new(share(spec.bytes.0.get(), senders, index))).get())
                    .sum();
                wire_bytes as f64 / total_bytes_per_second(load, LoadLink::Host, network, &matrix)?
            }
        };
        check_length("workload.requests", f64::from(spec.requests) * gap_s)?;
        Ok(match spec.period {
            Some(period) => RequestClock::Periodic { next: Time::ZERO, period: period.0 },
            None => {
                let arrivals = Stream::new(seed, Purpose::Arrivals, NETWORK);
                RequestClock::Poisson { last: Time::ZERO, mean_gap_ps: gap_s * PS_PER_S, arrivals }
            }
        })
    }

    fn next_start(&mut self) -> Time {
        match self {
            RequestClock::Periodic { next, period } => {
                let start = *next;
                *next += *period;
                start
            }
            RequestClock::Poisson { last, mean_gap_ps, arrivals } => {
                *last += exponential_gap(arrivals, *mean_gap_ps);
                *last
            }
        }
    }
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

fn check_length(key: &str, seconds: f64) -> Result<(), ScenarioError> {
    if seconds <= START_S_MAX {
        return Ok(());
    }
    let message = format!("the last start would be {seconds:.3e} s after the first; the limit is {START_S_MAX:e} s");
    Err(ScenarioError::at_key(key, message))
}
