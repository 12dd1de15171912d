//! The summary of a run, which becomes `summary.json`.

use std::collections::BTreeMap;
use std::iter;

use flowloom_core::{Bytes, Duration, Time, WireProfile};
use flowloom_fabric::{CLASSES, ControlCounters, Report};
use serde::Serialize;

use super::ports::Hops;
use super::requests::{Judge, Requests};
use super::{Drops, HopQueue, HopUtilisation, JobResult, Lossless, Row, Stats, mean};
use crate::record::{Before, GapTotals};
use crate::workload::CoflowWorkload;

/// One warning.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// Its short name, which tables show beside the numbers.
    pub flag: &'static str,
    /// What was found, what follows from it, and what would help.
    pub text: String,
}

/// The parts of a summary that are not in the simulator's report.
#[derive(Clone, PartialEq, Debug)]
pub struct RunInfo<'a> {
    /// The transport's name.
    pub transport: &'a str,
    /// The seed.
    pub seed: u64,
    /// How long the run took on this machine, in seconds.
    pub wall_s: f64,
    /// The most memory the process ever had, in MB (10^6 B).
    pub peak_rss_mb: f64,
    /// The gaps at receivers, if the run recorded them.
    pub gaps: Option<GapTotals>,
    /// What ports had counted when the first flow started, if background flows run beside those of the rows.
    pub before: Option<Before>,
    /// What priority flow control did, if the run had it.
    pub lossless: Option<Lossless>,
    /// How many bytes packets take on a link.
    pub wire: WireProfile,
    /// How the workloads of coflows were made, if there are any.
    pub coflow_workloads: &'a [CoflowWorkload],
    /// The results of jobs, by tenant.
    pub jobs: BTreeMap<u16, JobResult>,
    /// What [`Setup::misfits`](crate::Setup::misfits) has.
    pub misfits: &'a [String],
    /// What the run has shown that makes its numbers misleading.
    pub findings: &'a [Finding],
}

/// Statistics over all finished flows, and over those of each size bin.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Distribution {
    /// The statistics over all finished flows.
    #[serde(flatten)]
    pub all: Stats,
    /// The same for each size bin, also for bins without flows.
    pub by_size: Vec<SizeBin>,
}

/// Statistics over the finished flows of one range of sizes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SizeBin {
    /// The flows of this bin are larger than this. The first bin starts at 0 and includes flows of no bytes.
    pub above_bytes: u64,
    /// The flows of this bin are at most this large; `None` for no limit.
    pub up_to_bytes: Option<u64>,
    /// How many flows are in the bin.
    pub flows: usize,
    /// How many of these finished.
    pub finished: usize,
    /// The statistics over the finished flows.
    #[serde(flatten)]
    pub stats: Stats,
}

/// The results of one tenant.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Tenant {
    /// How many flows it has.
    pub flows: usize,
    /// How many of these finished.
    pub finished: usize,
    /// Payload delivered.
    pub bytes: u64,
    /// As [`Summary::goodput_gbps`], over the tenant's own active interval.
    pub goodput_gbps: Option<f64>,
    /// As [`Summary::slowdown`].
    pub slowdown: Distribution,
    /// As [`Summary::fct_us`].
    pub fct_us: Distribution,
    /// As [`Summary::timeouts`].
    pub timeouts: u64,
    /// As [`Summary::second_timeouts`].
    pub second_timeouts: u64,
    /// As [`Summary::requests`].
    pub requests: Option<Requests>,
}

/// Background flows. They are in no other number of a summary that is about flows, unless the scenario asks for that.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Background {
    /// How many started.
    pub flows: usize,
    /// How many of these finished, which means that their senders know that every byte has arrived.
    pub finished: usize,
    /// Payload delivered.
    pub bytes: u64,
    /// Payload delivered by all of them together, per unit of time from the first start to the end of the run, in 10^9 b/s.
    pub goodput_gbps: Option<f64>,
}

/// The messages that control endpoints handled and sent. A message is a packet.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ControlMessages {
    /// Those of all control endpoints.
    #[serde(flatten)]
    pub all: TierMessages,
    /// Those of the control endpoints of each tier.
    pub by_tier: BTreeMap<String, TierMessages>,
}

/// The messages of some control endpoints.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct TierMessages {
    /// How many endpoints there are.
    pub endpoints: usize,
    /// Messages that were delivered to them.
    pub received: u64,
    /// Messages that they sent.
    pub sent: u64,
    /// Messages that were delivered to them, per second of simulated time; `None` if no time passed.
    pub received_per_s: Option<f64>,
    /// The same for the endpoint that received the most.
    pub received_per_s_max: Option<f64>,
    /// The largest number of flows whose states one of them kept at a time. A flow counts once for each link that an endpoint arbitrates
    /// for it.
    pub known_flows_peak: usize,
}

/// How long links to hosts sent no data while flows to these hosts were open, over all hosts. The open time of a host is the time in which
/// at least one flow to it is open. [`record::Gaps`](crate::record::Gaps) says what a gap is.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Gaps {
    /// Gaps per second of the hosts' open time; `None` if there is no open time.
    pub per_s: Option<f64>,
    /// Of these, gaps between packets of two flows, per second of the hosts' open time.
    pub switch_per_s: Option<f64>,
    /// The time in gaps over the hosts' open time.
    pub idle_share: Option<f64>,
    /// The mean length of a gap, in microseconds; `None` if there is no gap.
    pub mean_us: Option<f64>,
}

impl From<GapTotals> for Gaps {
    fn from(totals: GapTotals) -> Gaps {
        const PS_PER_S: f64 = 1e12;
        const PS_PER_US: f64 = 1e6;
        let (idle_ps, open_ps) = (totals.idle_ps as f64, totals.open_ps as f64);
        let of_open = |part: f64| (totals.open_ps > 0).then(|| part / open_ps);
        Gaps {
            per_s: of_open(totals.gaps as f64 * PS_PER_S),
            switch_per_s: of_open(totals.switches as f64 * PS_PER_S),
            idle_share: of_open(idle_ps),
            mean_us: (totals.gaps > 0).then(|| idle_ps / PS_PER_US / totals.gaps as f64),
        }
    }
}

/// The summary of one run. A number that is not defined, such as the mean of no values, is `None`, and null in JSON.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// The transport's name.
    pub transport: String,
    /// The seed.
    pub seed: u64,
    /// How many flows started.
    pub flows: usize,
    /// How many of these finished. The others are missing from every statistic of finished flows.
    pub finished: usize,
    /// How many flows were aborted. They are not finished, and have missed their deadlines.
    pub aborted: usize,
    /// How many flows of the workload had not started when the run ended. They are missing from everything.
    pub not_started: usize,
    /// Slowdown: flow completion time over optimum.
    pub slowdown: Distribution,
    /// Flow completion time, in microseconds.
    pub fct_us: Distribution,
    /// Normalised flow completion time: mean flow completion time over mean optimum, of the finished flows (pHost, §4.3).
    pub nfct: Option<f64>,
    /// Payload delivered per host and unit of time, averaged over all hosts and the active interval, in 10^9 b/s.
    pub goodput_gbps: Option<f64>,
    /// Goodput over the mean rate of the hosts' links (pHost, §4.3).
    pub throughput: Option<f64>,
    /// Jain's fairness index of the flows' mean rates: 1 if all flows have the same, 1 / n if one of n flows has everything.
    pub jain: Option<f64>,
    /// The share of flows that met their deadline, of those that have one. Unfinished flows did not.
    pub deadlines_met: Option<f64>,
    /// Packets lost.
    pub drops: Drops,
    /// How many times a port marked a packet with congestion experienced.
    pub marks: u64,
    /// Packets that lost their payload.
    pub trims: u64,
    /// How long a packet waits in queues on its whole path, in microseconds.
    pub queueing_us_mean: Option<f64>,
    /// The most bytes ever queued at one port of a switch.
    pub queue_peak_bytes: u64,
    /// The queues of each kind of hop.
    pub queue: BTreeMap<String, HopQueue>,
    /// The utilisation of each kind of hop's links.
    pub utilisation: BTreeMap<String, HopUtilisation>,
    /// How many data packets were sent again.
    pub retransmissions: u64,
    /// How often retransmission timers of senders expired.
    pub timeouts: u64,
    /// How many of these came directly after another one without progress, as the second of a series (PIAS, §III-B3).
    pub second_timeouts: u64,
    /// The background flows, if there are any.
    pub background: Option<Background>,
    /// The messages of control endpoints, if there are any.
    pub control_messages: Option<ControlMessages>,
    /// The gaps at receivers, if the scenario asks for them and packets were simulated.
    pub gaps: Option<Gaps>,
    /// What priority flow control did, if the scenario has it and packets were simulated.
    pub pfc: Option<Lossless>,
    /// How many data packets left their sources, where each transmission counts.
    pub data_packets: u64,
    /// How many data and control packets left a port, by priority class from 0. The last entry includes all higher classes.
    pub sent_by_class: [u64; CLASSES],
    /// How many data and control packets left a port.
    pub packet_hops: u64,
    /// Requests, if any flow belongs to one.
    pub requests: Option<Requests>,
    /// How the workloads of coflows were made, if there are any.
    pub coflow_workloads: Vec<CoflowWorkload>,
    /// The results of each job, by the number of its tenant, if there are any.
    pub jobs: Option<BTreeMap<u16, JobResult>>,
    /// The values that do not suit the network or the flows.
    pub misfits: Vec<String>,
    /// What the run has shown that makes its numbers misleading, as far as the simulator can tell.
    pub findings: Vec<Finding>,
    /// The results of each tenant, by its number.
    pub tenants: BTreeMap<u16, Tenant>,
    /// When the last event was handled, in seconds.
    pub sim_s: f64,
    /// How long the run took on this machine, in seconds.
    pub wall_s: f64,
    /// The most memory the process ever had, in MB.
    pub peak_rss_mb: f64,
}

impl Summary {
    /// Summarises a run, given its [`rows`](super::rows) and the ascending edges of the size bins. A flow as large as an edge is below
    /// it, and the first bin starts at zero.
    ///
    /// # Panics
    /// If the edges do not ascend.
    pub fn of(report: &Report, rows: &[Row], size_bins: &[Bytes], run: &RunInfo<'_>) -> Summary {
        let span = active(rows.iter(), report.end);
        let hosts = report.network.hosts();
        let hops = Hops::of(report, span, run.before.as_ref());
        let optima: Vec<f64> = rows.iter().filter(|row| row.finish.is_some()).map(|row| row.optimum.as_us_f64()).collect();
        let deadlines: Vec<f64> = rows.iter().filter_map(Row::on_time).map(|met| if met { 1.0 } else { 0.0 }).collect();
        let all: Vec<&Row> = rows.iter().collect();
        let fct = spread(&all, size_bins, fct_us);
        let judge = Judge::new(report, rows, run);
        let goodput_gbps = goodput(rows.iter(), span, hosts);
        let rates: Vec<f64> = report.network.host_bps().into_iter().map(|bps| bps as f64 / 1e9).collect();
        Summary {
            transport: run.transport.to_owned(),
            seed: run.seed,
            flows: rows.len(),
            finished: optima.len(),
            aborted: rows.iter().filter(|row| row.aborted.is_some()).count(),
            not_started: report.not_started,
            slowdown: spread(&all, size_bins, Row::slowdown),
            nfct: fct.all.mean.zip(mean(&optima)).map(|(fct, optimum)| fct / optimum),
            fct_us: fct,
            goodput_gbps,
            throughput: goodput_gbps.zip(mean(&rates)).map(|(goodput, rate)| goodput / rate),
            jain: jain(rows, report.end),
            deadlines_met: mean(&deadlines),
            drops: hops.drops(),
            marks: hops.marks(),
            trims: hops.trims(),
            queueing_us_mean: hops.queueing_us_mean(),
            queue_peak_bytes: hops.queue_peak_bytes(),
            queue: hops.queues(),
            utilisation: hops.utilisation(),
            retransmissions: total(&all, |row| row.retransmissions),
            timeouts: total(&all, |row| row.timeouts),
            second_timeouts: total(&all, |row| row.second_timeouts),
            background: background(report),
            control_messages: control_messages(report),
            gaps: run.gaps.map(Gaps::from),
            pfc: run.lossless.clone(),
            data_packets: report.data_packets,
            sent_by_class: hops.sent_by_class(),
            packet_hops: report.packet_hops,
            requests: judge.requests(&all),
            coflow_workloads: run.coflow_workloads.to_vec(),
            jobs: (!run.jobs.is_empty()).then(|| run.jobs.clone()),
            misfits: run.misfits.to_vec(),
            findings: run.findings.to_vec(),
            tenants: tenants(rows, size_bins, report.end, hosts, &judge),
            sim_s: report.end.as_secs_f64(),
            wall_s: run.wall_s,
            peak_rss_mb: run.peak_rss_mb,
        }
    }
}

fn background(report: &Report) -> Option<Background> {
    let flows = || report.flows.iter().zip(&report.records).filter(|(flow, _)| flow.background);
    let span = report.end.saturating_since(flows().map(|(flow, _)| flow.start).min()?);
    let bytes = flows().map(|(_, record)| record.delivered_bytes).sum();
    Some(Background {
        flows: flows().count(),
        finished: flows().filter(|(_, record)| record.acknowledged != Time::MAX && record.aborted.is_none()).count(),
        bytes,
        goodput_gbps: (span > Duration::ZERO).then(|| 8.0 * bytes as f64 / 1e9 / span.as_secs_f64()),
    })
}

fn control_messages(report: &Report) -> Option<ControlMessages> {
    let messages = |counters: &[&ControlCounters]| {
        let received = counters.iter().map(|counters| counters.received).sum();
        let per_s = |received: u64| (report.end > Time::ZERO).then(|| received as f64 / report.end.as_secs_f64());
        TierMessages {
            endpoints: counters.len(),
            received,
            sent: counters.iter().map(|counters| counters.sent).sum(),
            received_per_s: per_s(received),
            received_per_s_max: per_s(counters.iter().map(|counters| counters.received).max().unwrap_or(0)),
            known_flows_peak: counters.iter().map(|counters| counters.known_flows_peak).max().unwrap_or(0),
        }
    };
    let mut by_tier: BTreeMap<String, Vec<&ControlCounters>> = BTreeMap::new();
    for counters in &report.controls {
        by_tier.entry(report.network.node(counters.node).tier.clone()).or_default().push(counters);
    }
    let all: Vec<&ControlCounters> = report.controls.iter().collect();
    (!all.is_empty()).then(|| ControlMessages {
        all: messages(&all),
        by_tier: by_tier.into_iter().map(|(tier, counters)| (tier, messages(&counters))).collect(),
    })
}

fn fct_us(row: &Row) -> Option<f64> {
    row.fct().map(Duration::as_us_f64)
}

fn total(rows: &[&Row], of: impl Fn(&Row) -> u32) -> u64 {
    rows.iter().map(|row| u64::from(of(row))).sum()
}

/// When a flow finished or was aborted, or the end of the run.
fn over(row: &Row, end: Time) -> Time {
    row.finish.or(row.aborted.map(|abort| abort.at)).unwrap_or(end)
}

/// The active interval, which lasts from the first start to the last finish or abortion, or to the end of the run if a flow is open.
fn active<'a>(rows: impl Iterator<Item = &'a Row> + Clone, end: Time) -> Duration {
    let first = rows.clone().map(|row| row.flow.start).min();
    let last = rows.map(|row| over(row, end)).max();
    first.zip(last).map_or(Duration::ZERO, |(first, last)| last.saturating_since(first))
}

fn goodput<'a>(rows: impl Iterator<Item = &'a Row>, span: Duration, hosts: usize) -> Option<f64> {
    let bytes: u64 = rows.map(|row| row.delivered.get()).sum();
    (span > Duration::ZERO).then(|| 8.0 * bytes as f64 / 1e9 / span.as_secs_f64() / hosts as f64)
}

/// (Σx)² / (n Σx²), where x is a flow's payload over the time for which it was open.
fn jain(rows: &[Row], end: Time) -> Option<f64> {
    let open = |row: &Row| over(row, end).saturating_since(row.flow.start).as_secs_f64();
    let rates: Vec<f64> = rows.iter().filter(|row| open(row) > 0.0).map(|row| row.delivered.get() as f64 / open(row)).collect();
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

fn spread(rows: &[&Row], edges: &[Bytes], of: impl Fn(&Row) -> Option<f64>) -> Distribution {
    assert!(edges.is_sorted_by(|a, b| a < b), "size bins ascend");
    // The first bin always starts at zero, so that every flow has a bin.
    let edges: Vec<Bytes> = iter::once(Bytes::ZERO).chain(edges.iter().copied().filter(|edge| *edge > Bytes::ZERO)).collect();
    let mut bins = vec![(0, Vec::new()); edges.len()];
    for row in rows {
        let bin = edges.partition_point(|edge| *edge < row.flow.size).saturating_sub(1);
        bins[bin].0 += 1;
        bins[bin].1.extend(of(row));
    }
    let by_size = bins.into_iter().enumerate().map(|(index, (flows, values))| SizeBin {
        above_bytes: edges[index].get(),
        up_to_bytes: edges.get(index + 1).map(|edge| edge.get()),
        flows,
        finished: values.len(),
        stats: Stats::of(values),
    });
    Distribution { all: Stats::of(rows.iter().filter_map(|row| of(row)).collect()), by_size: by_size.collect() }
}

fn tenants(rows: &[Row], size_bins: &[Bytes], end: Time, hosts: usize, judge: &Judge<'_>) -> BTreeMap<u16, Tenant> {
    let mut members: BTreeMap<u16, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        members.entry(row.flow.tenant).or_default().push(row);
    }
    let summarise = |rows: Vec<&Row>| {
        let span = active(rows.iter().copied(), end);
        Tenant {
            flows: rows.len(),
            finished: rows.iter().filter(|row| row.finish.is_some()).count(),
            bytes: rows.iter().map(|row| row.delivered.get()).sum(),
            goodput_gbps: goodput(rows.iter().copied(), span, hosts),
            slowdown: spread(&rows, size_bins, Row::slowdown),
            fct_us: spread(&rows, size_bins, fct_us),
            timeouts: total(&rows, |row| row.timeouts),
            second_timeouts: total(&rows, |row| row.second_timeouts),
            requests: judge.requests(&rows),
        }
    };
    members.into_iter().map(|(tenant, rows)| (tenant, summarise(rows))).collect()
}
