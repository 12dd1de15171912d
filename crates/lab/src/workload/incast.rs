//! `kind = "incast"`: requests that several senders answer at the same time.

use flowloom_core::{Bytes, Duration, NodeId, Time};
use flowloom_fabric::seed::Purpose;
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arrivals::{PS_PER_S, check_length, next_start};
use super::coflows::numbered;
use super::hosts::{HostRef, find_host};
use super::load::{LoadLink, total_bytes_per_second};
use super::matrix::{Matrix, MatrixKind};
use super::sizes::distribution;
use super::{Context, Deadline, FLOWS_MAX, FlowList, Kind, Sizes, Workload};
use crate::ScenarioError;
use crate::cdf::Cdf;
use crate::random::{NETWORK, Stream};

/// Requests: several senders answer one receiver at the same time.
///
/// In each, a receiver, chosen as `receivers` says unless `receiver` names it, gets `bytes` in all, or a flow of `sizes` each, from
/// `senders` others, drawn uniformly without replacement, all of which start at once. The flows of a request share a coflow number.
/// Requests follow one of `load`, `mean_gap` and `period`; a single request needs none of them, and starts at time 0.
///
/// For example, queries of a search application within a rack (the PASE paper's all-to-all scenario) have `sizes = { uniform =
/// ["2kB", "198kB"] }`, as many `senders` as there are workers, and `receivers = "round_robin"`: any host can aggregate answers, and hosts
/// take turns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Incast {
    /// How many senders answer each request. If there are more of them than other hosts, each host has one, then each has a second one, and so on.
    #[schemars(range(min = 1, max = 10_000_000), example = 20)]
    pub senders: u32,
    /// How many flows each sender sends for a request.
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = 65_000))]
    pub flows_per_sender: u32,
    /// The payload of a request. It is split evenly among its flows, where the first ones carry the remainder, a byte each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1B", "x-max" = "1000TB"))]
    pub bytes: Option<Quantity<Bytes>>,
    /// The sizes of a request's flows, instead of `bytes`. Each is drawn independently of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// How many requests there are.
    #[schemars(range(min = 1, max = 100_000_000), example = 1_000)]
    pub requests: u32,
    /// The receiver of all requests, by number or name. Without it, each request has a receiver of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<HostRef>,
    /// How each request's receiver is chosen, if `receiver` does not name it.
    #[serde(default)]
    pub receivers: Receivers,
    /// Requests arrive as a Poisson process that loads the busiest of the hosts' links by this much on average, counted as for Poisson
    /// workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0), example = 0.6)]
    pub load: Option<f64>,
    /// Requests arrive as a Poisson process with this mean time between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1ps", "x-max" = "1000000s"))]
    pub mean_gap: Option<Quantity<Duration>>,
    /// One request starts every `period`, the first at time 0. With a period above the time that one request takes
    /// (`bytes` at the receiver's rate, and a round trip) requests follow each other without overlapping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1ps", "x-max" = "1000000s"))]
    pub period: Option<Quantity<Duration>>,
    /// The deadlines of the flows. Without it, flows have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
}

/// How the receivers of requests are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Receivers {
    /// Each request has a receiver drawn uniformly from all hosts.
    #[default]
    Random,
    /// Hosts take turns, in order of their numbers.
    RoundRobin,
}

impl Kind for Incast {
    fn check(&self) -> Result<(), ScenarioError> {
        let flows = self.flows_per_request();
        match self.request_sizes()? {
            PayloadOf::Request(bytes) if bytes.get() < flows => {
                let message = format!("{bytes} is less than a byte for each of {flows} flows");
                return Err(ScenarioError::at_key("workload.bytes", message));
            }
            PayloadOf::Request(_) => {}
            PayloadOf::Flow(sizes) => sizes.check("workload.sizes")?,
        }
        if self.receiver.is_some() && self.receivers != Receivers::Random {
            let message = "it has no effect where receiver names the receiver of all requests; leave one of them out";
            return Err(ScenarioError::at_key("workload.receivers", message));
        }
        let flow_count = u64::from(self.requests).saturating_mul(flows);
        if flow_count > u64::from(FLOWS_MAX) {
            let message = format!("{} requests of {flows} flows make {flow_count}; the limit is {FLOWS_MAX}", self.requests);
            return Err(ScenarioError::at_key("workload.requests", message));
        }
        self.request_starts().map(drop)
    }

    /// Each request has one receiver and several senders, and its flows have the request's number as their coflow.
    fn flows(&self, context: &Context<'_>) -> Result<Workload, ScenarioError> {
        let hosts = context.network.hosts();
        let only = self.receiver.as_ref().map(|host| find_host(host, context.network, "workload.receiver")).transpose()?;
        let mut sizes = RequestSizes::new(self, context)?;
        let mut clock = RequestClock::new(self, only, sizes.mean_wire_bytes(context), context)?;
        let mut choices = Stream::new(context.seed, Purpose::Destinations, NETWORK);
        let mut others: Vec<u32> = (1..hosts as u32).collect();
        let mut flows = FlowList::with_capacity(u64::from(self.requests) * self.flows_per_request())?;
        for request in 0..self.requests {
            let start = clock.next_start();
            let receiver = match (only, self.receivers) {
                (Some(host), _) => host.0,
                (None, Receivers::Random) => choices.below(hosts) as u32,
                (None, Receivers::RoundRobin) => request % hosts as u32,
            };
            for number in 0..self.senders {
                // Shuffling the front of any order of the others makes it a uniform choice without replacement.
                let index = number as usize % others.len();
                let chosen = index + choices.below(others.len() - index);
                others.swap(index, chosen);
                // Hosts other than the receiver, numbered from 1: those up to the receiver move down by one.
                let sender = if others[index] <= receiver { others[index] - 1 } else { others[index] };
                for flow in 0..self.flows_per_sender {
                    let size = sizes.next(u64::from(number) * u64::from(self.flows_per_sender) + u64::from(flow));
                    flows.push(start, NodeId(sender), NodeId(receiver), size).coflow = numbered(request);
                }
            }
        }
        Ok(flows.0.into())
    }

    fn number(&self, _: u64) -> Option<u64> {
        Some(self.flows_per_request().saturating_mul(self.requests.into()))
    }

    fn sizes(&self) -> Option<&Sizes> {
        self.sizes.as_ref()
    }

    fn deadline(&self) -> Option<&Deadline> {
        self.deadline.as_ref()
    }
}

/// What an incast gives a size to.
#[derive(Clone, Copy)]
enum PayloadOf<'a> {
    /// A whole request, which its senders share.
    Request(Bytes),
    /// Each flow.
    Flow(&'a Sizes),
}

/// When the requests of an incast start.
#[derive(Clone, Copy)]
enum RequestStarts {
    /// As a Poisson process that loads the busiest of the hosts' links by this much.
    PoissonOfLoad(f64),
    /// As a Poisson process with this mean time between requests.
    PoissonOfGap(Duration),
    /// One every period.
    Periodic(Duration),
}

impl Incast {
    fn flows_per_request(&self) -> u64 {
        u64::from(self.senders) * u64::from(self.flows_per_sender)
    }

    /// Which of the two keys gives the payload.
    ///
    /// # Errors
    /// Neither of the keys, or both.
    fn request_sizes(&self) -> Result<PayloadOf<'_>, ScenarioError> {
        match (self.bytes, &self.sizes) {
            (Some(bytes), None) => Ok(PayloadOf::Request(bytes.0)),
            (None, Some(sizes)) => Ok(PayloadOf::Flow(sizes)),
            (None, None) => {
                let message = "missing; give the payload of a request, such as \"1MB\", or sizes for that of each of its flows";
                Err(ScenarioError::at_key("workload.bytes", message))
            }
            (Some(_), Some(_)) => {
                Err(ScenarioError::at_key("workload.sizes", "bytes is given too; a request's payload follows one of them"))
            }
        }
    }

    /// Which of the three keys the requests follow.
    ///
    /// # Errors
    /// None of the keys, or more than one.
    fn request_starts(&self) -> Result<RequestStarts, ScenarioError> {
        let (key, found) = match (self.load, self.mean_gap, self.period) {
            (Some(load), None, None) => return Ok(RequestStarts::PoissonOfLoad(load)),
            (None, Some(gap), None) => return Ok(RequestStarts::PoissonOfGap(gap.0)),
            (None, None, Some(period)) => return Ok(RequestStarts::Periodic(period.0)),
            (None, None, None) if self.requests == 1 => return Ok(RequestStarts::Periodic(Duration::from_ps(1))),
            (None, None, None) => {
                let message =
                    "missing; give load = 0.6 or mean_gap = \"1ms\" (Poisson arrivals), or period = \"1ms\" (one every period)";
                return Err(ScenarioError::at_key("workload.load", message));
            }
            (Some(_), Some(_), _) => ("workload.mean_gap", "both load and mean_gap are"),
            (Some(_), None, Some(_)) => ("workload.period", "both load and period are"),
            (None, Some(_), Some(_)) => ("workload.period", "both mean_gap and period are"),
        };
        Err(ScenarioError::at_key(key, format!("{found} given; requests follow one of them")))
    }
}

/// The sizes of a request's flows.
enum RequestSizes {
    /// This many bytes are split among this many flows.
    Split { bytes: u64, flows: u64 },
    /// Each of this many flows draws a size.
    Drawn { cdf: Cdf, stream: Stream, flows: u64 },
}

impl RequestSizes {
    fn new(spec: &Incast, context: &Context<'_>) -> Result<RequestSizes, ScenarioError> {
        let flows = spec.flows_per_request();
        Ok(match spec.request_sizes()? {
            PayloadOf::Request(bytes) => RequestSizes::Split { bytes: bytes.get(), flows },
            PayloadOf::Flow(sizes) => RequestSizes::Drawn {
                cdf: distribution(sizes, context.base_dir, "workload.sizes")?,
                stream: Stream::new(context.seed, Purpose::Sizes, NETWORK),
                flows,
            },
        })
    }

    /// The size of flow number `index` of the next request.
    fn next(&mut self, index: u64) -> Bytes {
        match self {
            RequestSizes::Split { bytes, flows } => Bytes::new(share(*bytes, *flows, index)),
            RequestSizes::Drawn { cdf, stream, .. } => cdf.sample(stream.unit()),
        }
    }

    /// The mean number of wire bytes of a request.
    fn mean_wire_bytes(&self, context: &Context<'_>) -> f64 {
        match self {
            RequestSizes::Split { bytes, flows } => {
                let wire_bytes = |index| context.wire.flow_wire_bytes(Bytes::new(share(*bytes, *flows, index))).get();
                (0..*flows).map(wire_bytes).sum::<u64>() as f64
            }
            RequestSizes::Drawn { cdf, flows, .. } => *flows as f64 * cdf.mean_wire_bytes(context.wire),
        }
    }
}

/// How many of a request's `bytes` flow number `index` of so many has.
pub(super) fn share(bytes: u64, flows: u64, index: u64) -> u64 {
    bytes / flows + u64::from(index < bytes % flows)
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
    Ok(wire_bytes / total_bytes_per_second(load, LoadLink::Host, context.network, context.nics, &[(&matrix, 1.0)])?)
}
