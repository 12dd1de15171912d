//! Ends a run that makes no progress, and says why.
//!
//! Progress is a byte that a receiver reports as new, or a flow that is over: finished or aborted. Background flows do
//! not count. A run that makes none while flows are open either waits, so that simulated time passes, or handles many
//! events in little time. Both have a limit. The watchdog looks at the run between steps, so packets cost nothing more;
//! it looks at fixed counts of events and at fixed simulated instants, so that a scenario always stops at the same event. With
//! several threads, a count is reached at the end of a window, and there are as many times as many events between two looks. So where
//! a run makes too many events without progress, another number of threads can find it some events later.

use flowloom_core::{DropReason, Duration, LinkId, Time};
use flowloom_fabric::{Fault, FlowRecord, Report, Vitals};
use flowloom_transports::disciplines::ClassSet;

use crate::blocking::Blocking;
use crate::faults::highest_probability;
use crate::plan::Setup;
use crate::record::LinkPauses;

/// Events between two looks: some ten milliseconds of work.
pub(crate) const EVENTS_PER_LOOK: u64 = 200_000;
/// The least limit of simulated time, unless the scenario sets one.
const PATIENCE_MIN: Duration = Duration::from_ms(10_000);
/// This many tries of a transport fit into the limit. A few tries may all fail if most packets are lost.
const TRIES: u64 = 100;
/// The limit of events without progress for each host, and the least and the largest limit for a run.
const EVENTS_PER_HOST: u64 = 1_000_000;
const EVENTS_MIN: u64 = 2_000_000;
const EVENTS_MAX: u64 = 1_000_000_000;
/// The factor of this limit while links or nodes are down, when transports retry for long, and while no flow is open, when control nodes with
/// timers may wait for the next flow for long.
const WAITING_FACTOR: u64 = 20;
/// The most flows or links that a message names.
const EXAMPLES: usize = 5;

/// When the run last made progress, as far as the watchdog has seen.
struct Mark {
    at: Time,
    events: u64,
    over: usize,
    /// `None` if a flow had just finished, which is progress already.
    delivered_bytes: Option<u64>,
}

/// Watches one run.
pub(crate) struct Watchdog {
    patience: Duration,
    events_max: u64,
    /// From the first instant at which a link or a node goes down or a node pauses its neighbours to the last one at which this ends.
    outage: (Time, Time),
    mark: Mark,
}

/// The result of a look at the run.
pub(crate) enum Look {
    /// It goes on; the next look is at this instant, or earlier.
    GoOn(Time),
    /// It makes no progress.
    Stop(Stall),
}

/// A run without progress.
pub(crate) struct Stall {
    /// Its start and its end.
    span: (Time, Time),
    events: u64,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Simulated time passed.
    Wait,
    /// Many events happened in little simulated time.
    Storm,
    /// No event was left.
    Deadlock,
    /// The last instant of a run was reached.
    ClockEnd,
}

impl Watchdog {
    /// A watchdog for a run of this plan.
    pub fn new(setup: &Setup) -> Watchdog {
        Watchdog {
            patience: setup.stall_limit.unwrap_or_else(|| patience(setup)),
            events_max: (EVENTS_PER_HOST * setup.network.nics() as u64).clamp(EVENTS_MIN, EVENTS_MAX),
            outage: outages(setup).fold((Time::MAX, Time::ZERO), |all, (from, to)| (all.0.min(from), all.1.max(to))),
            mark: Mark { at: Time::ZERO, events: 0, over: 0, delivered_bytes: Some(0) },
        }
    }

    /// When it looks next while no flow is open, at the latest: a flow starts no sooner than something happens next.
    pub fn idle_until(&self, next_event: Option<Time>) -> Time {
        next_event.map_or(Time::MAX, |next| next + self.patience)
    }

    /// Looks at the run at the instant `at`, up to which all events were handled. `delivered_bytes` is called only if no flow has
    /// finished in a while.
    pub fn look(&mut self, at: Time, vitals: &Vitals, next_event: Option<Time>, delivered_bytes: impl FnOnce() -> u64) -> Look {
        let Vitals { events, open, over, background, busy_since, .. } = *vitals;
        let rest = if open == 0 { self.idle_until(next_event) } else { at + self.patience };
        if over != self.mark.over {
            return self.set_mark(at, vitals, None, rest);
        }
        if open == 0 {
            if events - self.mark.events <= WAITING_FACTOR * self.events_max {
                return Look::GoOn(rest);
            }
            let delivered_bytes = background.then(delivered_bytes);
            if background && self.mark.delivered_bytes != delivered_bytes {
                return self.set_mark(at, vitals, delivered_bytes, rest);
            }
            return self.stop(self.mark.at, at, events - self.mark.events, Kind::Storm);
        }
        let (since, events_since) = (self.mark.at.max(busy_since.0), self.mark.events.max(busy_since.1));
        let waits = self.outage.0 < at && since < self.outage.1;
        let events_max = self.events_max * if waits { WAITING_FACTOR } else { 1 };
        let kind = match (at - since >= self.patience, events - events_since >= events_max) {
            (true, _) => Kind::Wait,
            (_, true) => Kind::Storm,
            _ => return Look::GoOn(since + self.patience),
        };
        let delivered_bytes = delivered_bytes();
        if self.mark.delivered_bytes == Some(delivered_bytes) {
            return self.stop(since, at, events - events_since, kind);
        }
        self.set_mark(at, vitals, Some(delivered_bytes), rest)
    }

    fn set_mark(&mut self, at: Time, vitals: &Vitals, delivered_bytes: Option<u64>, next_look: Time) -> Look {
        self.mark = Mark { at, events: vitals.events, over: vitals.over, delivered_bytes };
        Look::GoOn(next_look)
    }

    fn stop(&self, since: Time, at: Time, events: u64, kind: Kind) -> Look {
        Look::Stop(Stall { span: (since, at), events, kind })
    }
}

/// How long a run may make no progress if the scenario does not set it.
fn patience(setup: &Setup) -> Duration {
    let round_trip = setup.network.base_rtt(&setup.wire);
    let pause = setup.longest_pause().expect("the plan was checked").max(round_trip);
    let tries = pause.checked_mul(TRIES).unwrap_or(Duration::LONGEST);
    tries.max(PATIENCE_MIN) + longest_outage(setup, pause)
}

/// When links and nodes go down and come up again, and when nodes pause their neighbours without need.
fn outages(setup: &Setup) -> impl Iterator<Item = (Time, Time)> {
    let links = setup.faults.iter().flatten().filter_map(|aimed| match aimed.fault {
        Fault::Down(from, to) | Fault::Cut(from, to) => Some((from, to)),
        _ => None,
    });
    let nodes = setup.outages.iter().map(|outage| (outage.from, outage.to));
    let storms = setup.storms.iter().map(|storm| (storm.from, storm.to));
    links.chain(nodes).chain(storms)
}

/// The longest time for which something is down. A flow may need all that is down in turn, and may not try in between if it tries once per `pause`: outages that are no further apart
/// are one.
fn longest_outage(setup: &Setup, pause: Duration) -> Duration {
    let mut all: Vec<_> = outages(setup).collect();
    all.sort_unstable();
    let mut longest = Duration::ZERO;
    let mut last = None;
    for (from, to) in all {
        let (begin, end) = match last {
            Some((begin, end)) if from.saturating_since(end) <= pause => (begin, to.max(end)),
            _ => (from, to),
        };
        last = Some((begin, end));
        longest = longest.max(end.saturating_since(begin).min(Duration::LONGEST));
    }
    longest
}

impl Stall {
    /// A run that ended with open flows although it has no time limit.
    pub fn at_end(at: Time, has_no_event: bool) -> Stall {
        let kind = if has_no_event { Kind::Deadlock } else { Kind::ClockEnd };
        Stall { span: (at, at), events: 0, kind }
    }

    /// The diagnosis: which flows are open, where packets were dropped, and which keys are likely at fault.
    /// `pauses` is what priority flow control did to each link, if the run had it.
    pub fn explain(&self, setup: &Setup, report: &Report, pauses: Option<&[LinkPauses]>) -> String {
        let is_open = |index: &usize| !report.flows[*index].background && !report.records[*index].is_over();
        let open: Vec<usize> = (0..report.flows.len()).filter(is_open).collect();
        let drops = worst_links(report);
        let paused = pauses.and_then(|links| describe_pauses(setup, report, links));
        let likely = match &paused {
            Some((_, likely)) => likely.clone(),
            None => few(&self.likely_keys(setup, report, &open, &drops), String::clone),
        };
        let mut lines = vec![
            self.headline(open.len()),
            format!("open: {}", few(&open, |index| describe(report, *index))),
            match drops[..] {
                [] => "dropped packets: none".to_owned(),
                _ => format!("dropped packets: {}", few(&drops, |drop| describe_drop(report, drop))),
            },
        ];
        lines.extend(paused.map(|(paused, _)| paused));
        lines.push(format!("likely: {likely}"));
        lines.join("\n  ")
    }

    fn headline(&self, open: usize) -> String {
        let (since, until) = self.span;
        let flows = if open == 1 { "1 flow is open".to_owned() } else { format!("{open} flows are open") };
        match self.kind {
            Kind::Wait => format!(
                "no progress: {flows}, but no byte was delivered and no flow finished from {since} to {until} of simulated time \
                 (run.stall_limit)"
            ),
            Kind::Storm => format!(
                "no progress: {flows}, but no byte was delivered and no flow finished in {} events, from {since} to {until} of \
                 simulated time",
                self.events
            ),
            Kind::ClockEnd => format!("{flows} at the end of the simulator's clock, after {} of simulated time", Time::LAST),
            Kind::Deadlock => format!("no progress: {flows}, but nothing is left to happen after {until} of simulated time"),
        }
    }

    /// The keys that are likely at fault, each with its present value.
    fn likely_keys(&self, setup: &Setup, report: &Report, open: &[usize], drops: &[Drops]) -> Vec<String> {
        let mut keys = Vec::new();
        match drops.first() {
            Some((link, DropReason::Lost | DropReason::Corrupted, _)) => {
                keys.push(format!("lower fault.probability ({})", probability(setup, *link)));
            }
            Some((_, DropReason::LinkDown, _)) => keys.push("bring links up earlier (fault.to)".to_owned()),
            Some((_, DropReason::NodeDown, _)) => keys.push("bring nodes up earlier (fault.to)".to_owned()),
            Some((_, DropReason::Overflow | DropReason::PushedOut | DropReason::Expired, _)) => {
                keys.push(format!("raise fabric.buffer ({}), or let the transport send less at once", setup.memory.bytes()));
            }
            Some((_, DropReason::Unclaimed, _)) | None => {}
        }
        let round_trip = setup.network.base_rtt(&setup.wire);
        if self.kind == Kind::Storm {
            let raise = |(key, span)| format!("raise {key} ({span}, less than a round trip of {round_trip})");
            keys.extend(short_timeouts(setup, round_trip).into_iter().map(raise));
        }
        if let Some(limit) = setup.stall_limit.filter(|limit| self.kind == Kind::Wait && *limit < patience(setup)) {
            keys.push(format!(
                "raise run.stall_limit ({limit}, less than {}, its value here where it is not set)",
                patience(setup)
            ));
        }
        if keys.is_empty() {
            let name = setup.transport.name;
            let expired = open.iter().any(|index| report.records[*index].timeouts > 0);
            keys.push(if expired || !drops.is_empty() {
                format!("look at the timeouts of transport.{name}")
            } else {
                format!(
                    "nothing was lost and no timeout expired, so {name} holds the flows back itself; look at which keys of transport.{name} do \
                     not suit the rates and delays of this network"
                )
            });
        }
        keys
    }
}

/// The first items of a list, and how many more there are.
fn few<T>(list: &[T], describe: impl Fn(&T) -> String) -> String {
    let mut texts: Vec<String> = list.iter().take(EXAMPLES).map(describe).collect();
    if list.len() > EXAMPLES {
        texts.push(format!("and {} more", list.len() - EXAMPLES));
    }
    texts.join("; ")
}

fn describe(report: &Report, index: usize) -> String {
    let (flow, record) = (&report.flows[index], &report.records[index]);
    let FlowRecord { delivered_bytes, dropped_packets, timeouts, received, .. } = *record;
    let name = |node| &report.network.node(node).name;
    let state = if received == Time::MAX {
        format!("{delivered_bytes} of {} bytes delivered", flow.size.get())
    } else {
        "all delivered, but its source does not know".to_owned()
    };
    format!(
        "flow {} from {} to {} ({state}, {dropped_packets} data packets dropped, {timeouts} timeouts)",
        flow.id.0,
        name(flow.src),
        name(flow.dst)
    )
}

/// The links that are paused at the end: the cycle that they form, if they form one, and what is likely at fault.
fn describe_pauses(setup: &Setup, report: &Report, links: &[LinkPauses]) -> Option<(String, String)> {
    let standing: Vec<LinkId> =
        (0..).map(LinkId).zip(links).filter(|(_, link)| link.standing != ClassSet::NONE).map(|(link, _)| link).collect();
    if standing.is_empty() {
        return None;
    }
    if let Some((cycle, flows)) = Blocking::at_end(report, links, setup).and_then(|blocking| blocking.cycle()) {
        let names: Vec<String> = cycle.iter().map(|link| report.network.link_name(*link)).collect();
        let paused = format!(
            "deadlock: the links {} are paused in a cycle, each until the next one may send; in it stand {}",
            names.join(", "),
            few(&flows, |index| describe(report, *index))
        );
        let likely = "routes that form a cycle of buffer dependencies; change the topology, or remove fabric.pfc";
        return Some((paused, likely.to_owned()));
    }
    let since = |link: &LinkId| {
        let paused = &links[link.index()];
        let since =
            paused.since.iter().enumerate().filter(|(class, _)| paused.standing.has(*class)).map(|(_, since)| *since).min();
        format!("{} since {}", report.network.link_name(*link), since.unwrap_or_default())
    };
    let needless = standing.iter().find(|link| links[link.index()].needless_frames > 0);
    let likely = match needless.map(|link| &report.network.node(report.network.link(*link).to).name) {
        Some(node) => format!("end the pause storm of {node} earlier (fault.to)"),
        None => "a pause frame that was lost, or a node that pauses its links for ever".to_owned(),
    };
    Some((format!("paused links: {}", few(&standing, since)), likely))
}

/// The link, the reason and the number of dropped packets.
type Drops = (LinkId, DropReason, u64);

fn describe_drop(report: &Report, (link, reason, packets): &Drops) -> String {
    let link = report.network.link(*link);
    let name = |node| &report.network.node(node).name;
    let reason = reason.name().replace('_', " ");
    format!("{packets} at {}-{} ({reason})", name(link.from), name(link.to))
}

/// Drops by link and reason, the largest number first.
fn worst_links(report: &Report) -> Vec<Drops> {
    let links = (0..).map(LinkId).zip(&report.ports);
    let mut drops: Vec<Drops> = links
        .flat_map(|(link, port)| {
            let reasons = DropReason::ALL.into_iter().zip(port.dropped_packets);
            reasons.map(move |(reason, packets)| (link, reason, packets))
        })
        .filter(|(.., packets)| *packets > 0)
        .collect();
    drops.sort_by_key(|(link, reason, packets)| (std::cmp::Reverse(*packets), *link, *reason));
    drops
}

/// The largest probability with which a fault loses or corrupts packets on a link.
fn probability(setup: &Setup, link: LinkId) -> f64 {
    let faults = setup.faults.get(link.index()).into_iter().flatten();
    highest_probability(faults.map(|aimed| aimed.fault)).unwrap_or(0.0)
}

/// The transport's timeouts below `most`, by key.
fn short_timeouts(setup: &Setup, most: Duration) -> Vec<(String, Duration)> {
    fn walk(path: &str, table: &toml::Table, most: Duration, found: &mut Vec<(String, Duration)>) {
        for (name, value) in table {
            let key = format!("{path}.{name}");
            match value {
                toml::Value::Table(inner) => walk(&key, inner, most, found),
                toml::Value::String(text) if name.starts_with("rto") => {
                    let span = text.parse().ok().filter(|span| *span < most);
                    found.extend(span.map(|span| (key, span)));
                }
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    walk(&format!("transport.{}", setup.transport.name), &setup.parameters.to_table(), most, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::simulate::Simulated;
    use crate::spec::Scenario;

    /// What the diagnosis holds likely if a run stands still at this instant, with flows that have been open for as long.
    fn likely(overrides: &[&str]) -> String {
        const SCENARIO: &str = "topology = { kind = \"single_switch\", hosts = 2, delay = \"1ms\" }\n\
             workload = { kind = \"burst\", flows = 1, sizes = { fixed = \"100kB\" } }\ntransport.name = \"dctcp\"\n";
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let scenario = Scenario::load(SCENARIO, "", &overrides).expect("it fits the schema");
        let plan = Plan::new(&scenario.validate().expect("its rules hold")).expect("it can be planned");
        let simulated = crate::simulate(plan, crate::Execution::new(&mut |_, _, _| true, &mut crate::observe::Nowhere));
        let Simulated { setup, report, .. } = simulated.unwrap_or_else(|error| panic!("{error}"));
        let stall = Stall { span: (Time::ZERO, report.end), events: 0, kind: Kind::Wait };
        let told = stall.explain(&setup, &report, None);
        told.lines().last().expect("it ends with what is likely").trim().to_owned()
    }

    #[test]
    fn timeouts_are_blamed_only_if_some_expired() {
        let roomy = "fabric.buffer=1MB";
        let held = likely(&[roomy, "run.time_limit=1ms", "transport.dctcp.rto_min=1s", "transport.dctcp.rto_initial=1s"]);
        assert!(
            held.starts_with("likely: nothing was lost and no timeout expired, so dctcp holds the flows back itself"),
            "{held}"
        );
        let early =
            likely(&[roomy, "run.time_limit=1ms", "transport.dctcp.rto_min=100us", "transport.dctcp.rto_initial=100us"]);
        assert_eq!(early, "likely: look at the timeouts of transport.dctcp");
    }
}
