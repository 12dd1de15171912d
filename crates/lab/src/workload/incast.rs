//! Requests that several senders answer at the same time.

use flowloom_core::{Bytes, Duration, Flow, NodeId, Time};
use flowloom_fabric::seed::Purpose;

use super::arrivals::{PS_PER_S, check_length, next_start};
use super::hosts::find_host;
use super::load::total_bytes_per_second;
use super::matrix::Matrix;
use super::{Context, FlowList};
use crate::ScenarioError;
use crate::random::{NETWORK, Stream};
use crate::spec::{Incast, LoadLink, MatrixKind};
use crate::validate::workload::{RequestStarts, request_starts};

/// Makes requests. Each has one receiver and several senders, and its flows have the request's number as their coflow.
pub(super) fn flows(spec: &Incast, context: &Context<'_>) -> Result<Vec<Flow>, ScenarioError> {
    let hosts = context.network.hosts();
    let only = spec.receiver.as_ref().map(|host| find_host(host, context.network, "workload.receiver")).transpose()?;
    let (senders, bytes) = (spec.senders as usize, spec.bytes.0.get());
    if senders >= hosts {
        let message =
            format!("found {senders}; the topology has {hosts} hosts, so a receiver has at most {} senders", hosts - 1);
        return Err(ScenarioError::at_key("workload.senders", message));
    }
    let mut clock = RequestClock::new(spec, only, context)?;
    let mut choices = Stream::new(context.seed, Purpose::Destinations, NETWORK);
    let mut others: Vec<u32> = (1..hosts as u32).collect();
    let mut flows = FlowList::with_capacity(spec.requests * spec.senders);
    for request in 0..spec.requests {
        let start = clock.next_start();
        let receiver = only.map_or_else(|| choices.below(hosts) as u32, |host| host.0);
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

/// How many of the `bytes` of a request its sender number `index` sends.
fn share(bytes: u64, senders: u64, index: u64) -> u64 {
    bytes / senders + u64::from(index < bytes % senders)
}

/// Gives the starts of requests, one after the other.
enum RequestClock {
    Periodic { next: Time, period: Duration },
    Poisson { last: Time, mean_gap_ps: f64, arrivals: Stream },
}

impl RequestClock {
    fn new(spec: &Incast, only: Option<NodeId>, context: &Context<'_>) -> Result<RequestClock, ScenarioError> {
        let starts = request_starts(spec)?;
        let gap_s = match starts {
            RequestStarts::PoissonOfLoad(load) => gap_at_load(spec, load, only, context)?,
            RequestStarts::PoissonOfGap(gap) | RequestStarts::Periodic(gap) => gap.as_secs_f64(),
        };
        check_length("workload.requests", f64::from(spec.requests) * gap_s)?;
        Ok(match starts {
            RequestStarts::Periodic(period) => RequestClock::Periodic { next: Time::ZERO, period },
            RequestStarts::PoissonOfLoad(_) | RequestStarts::PoissonOfGap(_) => {
                let arrivals = Stream::new(context.seed, Purpose::Arrivals, NETWORK);
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
                *last = next_start(*last, arrivals, *mean_gap_ps);
                *last
            }
        }
    }
}

/// The mean time between requests at which the busiest host's link is utilised to `load`.
fn gap_at_load(spec: &Incast, load: f64, only: Option<NodeId>, context: &Context<'_>) -> Result<f64, ScenarioError> {
    let Context { network, wire, seed, .. } = *context;
    let matrix = match only {
        Some(receiver) => Matrix::to_one(receiver, network),
        // Receivers and senders are uniform, so is every ordered pair.
        None => Matrix::new(MatrixKind::RandomPairs, network, seed),
    };
    let senders = u64::from(spec.senders);
    let wire_bytes: u64 =
        (0..senders).map(|index| wire.flow_wire_bytes(Bytes::new(share(spec.bytes.0.get(), senders, index))).get()).sum();
    Ok(wire_bytes as f64 / total_bytes_per_second(load, LoadLink::Host, network, &[(&matrix, 1.0)])?)
}
