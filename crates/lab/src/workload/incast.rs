//! Requests that several senders answer at the same time.

use flowloom_core::{Bytes, Duration, Flow, NodeId, Time};
use flowloom_fabric::seed::Purpose;

use super::arrivals::{PS_PER_S, check_length, next_start};
use super::coflows::numbered;
use super::hosts::find_host;
use super::load::total_bytes_per_second;
use super::matrix::Matrix;
use super::sizes::distribution;
use super::{Context, FlowList};
use crate::ScenarioError;
use crate::cdf::Cdf;
use crate::random::{NETWORK, Stream};
use crate::spec::{Incast, LoadLink, MatrixKind, PayloadOf, Receivers, RequestStarts};

/// Makes requests. Each has one receiver and several senders, and its flows have the request's number as their coflow.
pub(super) fn flows(spec: &Incast, context: &Context<'_>) -> Result<Vec<Flow>, ScenarioError> {
    let hosts = context.network.hosts();
    let only = spec.receiver.as_ref().map(|host| find_host(host, context.network, "workload.receiver")).transpose()?;
    let senders = spec.senders as usize;
    if senders >= hosts {
        let message =
            format!("found {senders}; the topology has {hosts} hosts, so a receiver has at most {} senders", hosts - 1);
        return Err(ScenarioError::at_key("workload.senders", message));
    }
    let mut sizes = RequestSizes::new(spec, context)?;
    let mut clock = RequestClock::new(spec, only, sizes.mean_wire_bytes(context), context)?;
    let mut choices = Stream::new(context.seed, Purpose::Destinations, NETWORK);
    let mut others: Vec<u32> = (1..hosts as u32).collect();
    let mut flows = FlowList::with_capacity(u64::from(spec.requests) * u64::from(spec.senders))?;
    for request in 0..spec.requests {
        let start = clock.next_start();
        let receiver = match (only, spec.receivers) {
            (Some(host), _) => host.0,
            (None, Receivers::Random) => choices.below(hosts) as u32,
            (None, Receivers::RoundRobin) => request % hosts as u32,
        };
        for index in 0..senders {
            // Shuffling the front of any order of the others makes it a uniform choice without replacement.
            let chosen = index + choices.below(others.len() - index);
            others.swap(index, chosen);
            // Hosts other than the receiver, numbered from 1: those up to the receiver move down by one.
            let sender = if others[index] <= receiver { others[index] - 1 } else { others[index] };
            flows.push(start, NodeId(sender), NodeId(receiver), sizes.next(index as u64)).coflow = numbered(request);
        }
    }
    Ok(flows.0)
}

/// The sizes of a request's flows.
enum RequestSizes {
    /// This many bytes are split among this many senders.
    Split { bytes: u64, senders: u64 },
    /// Each of this many senders draws a size.
    Drawn { cdf: Cdf, stream: Stream, senders: u64 },
}

impl RequestSizes {
    fn new(spec: &Incast, context: &Context<'_>) -> Result<RequestSizes, ScenarioError> {
        let senders = u64::from(spec.senders);
        Ok(match spec.request_sizes()? {
            PayloadOf::Request(bytes) => RequestSizes::Split { bytes: bytes.get(), senders },
            PayloadOf::Flow(sizes) => RequestSizes::Drawn {
                cdf: distribution(sizes, context.base_dir, "workload.sizes")?,
                stream: Stream::new(context.seed, Purpose::Sizes, NETWORK),
                senders,
            },
        })
    }

    /// The size of the flow from sender number `index` of the next request.
    fn next(&mut self, index: u64) -> Bytes {
        match self {
            RequestSizes::Split { bytes, senders } => Bytes::new(share(*bytes, *senders, index)),
            RequestSizes::Drawn { cdf, stream, .. } => cdf.sample(stream.unit()),
        }
    }

    /// The mean number of wire bytes of a request.
    fn mean_wire_bytes(&self, context: &Context<'_>) -> f64 {
        match self {
            RequestSizes::Split { bytes, senders } => {
                let wire_bytes = |index| context.wire.flow_wire_bytes(Bytes::new(share(*bytes, *senders, index))).get();
                (0..*senders).map(wire_bytes).sum::<u64>() as f64
            }
            RequestSizes::Drawn { cdf, senders, .. } => *senders as f64 * cdf.mean_wire_bytes(context.wire),
        }
    }
}

/// How many of a request's `bytes` sender number `index` sends.
pub(super) fn share(bytes: u64, senders: u64, index: u64) -> u64 {
    bytes / senders + u64::from(index < bytes % senders)
}

/// Gives the starts of requests, one after the other.
enum RequestClock {
    Periodic { next: Time, period: Duration },
    Poisson { last: Time, mean_gap_ps: f64, arrivals: Stream },
}

impl RequestClock {
    fn new(spec: &Incast, only: Option<NodeId>, wire_bytes: f64, context: &Context<'_>) -> Result<RequestClock, ScenarioError> {
        let starts = spec.request_starts()?;
        let gap_s = match starts {
            RequestStarts::PoissonOfLoad(load) => gap_at_load(wire_bytes, load, only, context)?,
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

/// The mean time between requests of this many wire bytes at which the utilisation of the busiest host's link is `load`.
fn gap_at_load(wire_bytes: f64, load: f64, only: Option<NodeId>, context: &Context<'_>) -> Result<f64, ScenarioError> {
    let matrix = match only {
        Some(receiver) => Matrix::to_one(receiver, context.network),
        // Receivers take turns or are uniform, and senders are uniform, so every ordered pair is as likely as any other.
        None => Matrix::new(MatrixKind::RandomPairs, context.network, context.seed),
    };
    Ok(wire_bytes / total_bytes_per_second(load, LoadLink::Host, context.network, &[(&matrix, 1.0)])?)
}
