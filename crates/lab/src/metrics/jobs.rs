//! The results of jobs: how long their collectives and the steps of these take.

use std::collections::BTreeMap;

use flowloom_core::{FlowId, Time};
use serde::Serialize;

use super::{Row, Stats};
use crate::sink::{Samples, Table};
use crate::workload::{Job, RunTasks, Step};

/// The results of one job.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct JobResult {
    /// What its ranks do.
    pub collective: &'static str,
    /// How they do it.
    pub algorithm: &'static str,
    /// How many ranks it has.
    pub ranks: u32,
    /// The size of the data, as NCCL's tests count it.
    pub bytes: u64,
    /// How many iterations it has.
    pub iterations: u32,
    /// How many of these have every flow finished.
    pub finished: usize,
    /// How long a finished iteration takes, in microseconds: from the start of its first flow to the end of its last one.
    pub time_us: Stats,
    /// The algorithm bandwidth as NCCL's tests define it: the size over the mean time, in 10^9 b/s.
    pub algorithm_gbps: Option<f64>,
    /// The bus bandwidth as NCCL's tests define it: what each host's link carries if the collective is done as well as possible, in 10^9 b/s.
    pub bus_gbps: Option<f64>,
}

/// What is known of some flows that belong together.
#[derive(Clone, Copy)]
struct Span {
    flows: u64,
    finished: u64,
    start: Time,
    /// When the last finished one did.
    end: Time,
    /// The flow that takes longest, and how long, if one has finished.
    slowest: Option<(f64, FlowId)>,
}

impl Span {
    fn of(row: &Row) -> Span {
        Span {
            flows: 1,
            finished: row.finish.is_some().into(),
            start: row.flow.start,
            end: row.finish.unwrap_or(Time::ZERO),
            slowest: row.fct().map(|fct| (fct.as_secs_f64(), row.flow.id)),
        }
    }

    /// Adds what is known of further flows to what is known of those with the same key.
    fn add<K: Ord>(self, spans: &mut BTreeMap<K, Span>, key: K) {
        spans.entry(key).and_modify(|before| *before = before.join(self)).or_insert(self);
    }

    fn join(self, other: Span) -> Span {
        let slower = |one: (f64, FlowId), other: (f64, FlowId)| if other.0 > one.0 { other } else { one };
        Span {
            flows: self.flows + other.flows,
            finished: self.finished + other.finished,
            start: self.start.min(other.start),
            end: self.end.max(other.end),
            slowest: self.slowest.into_iter().chain(other.slowest).reduce(slower),
        }
    }
}

/// The results of all jobs by tenant, and a table of their steps, if there are any jobs.
pub(crate) fn of(tasks: &RunTasks, rows: &[Row]) -> (BTreeMap<u16, JobResult>, Option<Table>) {
    let mut spans: BTreeMap<(u16, Step), Span> = BTreeMap::new();
    for row in rows {
        let Some((first, job)) = tasks.job_of(row.flow.id) else { continue };
        Span::of(row).add(&mut spans, (job.tenant, job.step(row.flow.id.0 - first)));
    }
    let mut iterations: BTreeMap<(u16, u32), Span> = BTreeMap::new();
    spans.iter().for_each(|((tenant, step), span)| span.add(&mut iterations, (*tenant, step.iteration)));
    let result = |(_, job): &(u32, Job)| {
        let own = iterations.range((job.tenant, 0)..=(job.tenant, u32::MAX)).map(|(_, span)| span);
        let finished = own.filter(|span| span.finished == u64::from(job.sends()));
        let times: Vec<f64> = finished.map(|span| (span.end - span.start).as_us_f64()).collect();
        let (bytes, ranks, finished) = (job.spec.size.0.get(), job.ranks(), times.len());
        let time_us = Stats::of(times);
        let gbps = time_us.mean.map(|mean| 8.0 * bytes as f64 / (mean * 1e3));
        let result = JobResult {
            collective: job.spec.collective.name(),
            algorithm: job.spec.algorithm.name(),
            ranks,
            bytes,
            iterations: job.spec.iterations,
            finished,
            time_us,
            algorithm_gbps: gbps,
            bus_gbps: gbps.map(|gbps| gbps * job.spec.collective.bus_factor(ranks)),
        };
        (job.tenant, result)
    };
    (tasks.jobs().iter().map(result).collect(), (!spans.is_empty()).then(|| steps(&spans)))
}

fn steps(spans: &BTreeMap<(u16, Step), Span>) -> Table {
    let counts =
        |of: &dyn Fn(&(u16, Step), &Span) -> u64| Samples::Counts(spans.iter().map(|(key, span)| of(key, span)).collect());
    let seconds = |of: &dyn Fn(&Span) -> f64| Samples::Numbers(spans.values().map(of).collect());
    let since_start = |time: Time| (time - Time::ZERO).as_secs_f64();
    let end = |span: &Span| if span.finished == span.flows { since_start(span.end) } else { f64::NAN };
    let columns = vec![
        ("job", counts(&|(tenant, _), _| (*tenant).into())),
        ("iteration", counts(&|(_, step), _| step.iteration.into())),
        ("step", counts(&|(_, step), _| step.step.into())),
        ("flows", counts(&|_, span| span.flows)),
        ("start", seconds(&|span| since_start(span.start))),
        ("end", seconds(&end)),
        (
            "slowest_flow",
            Samples::Numbers(spans.values().map(|span| span.slowest.map_or(f64::NAN, |(_, flow)| flow.0.into())).collect()),
        ),
        ("slowest_fct", seconds(&|span| span.slowest.map_or(f64::NAN, |(fct, _)| fct))),
    ];
    Table { name: "steps", columns }
}
