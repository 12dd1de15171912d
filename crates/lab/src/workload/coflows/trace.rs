//! `kind = "coflow_trace"`: coflows from a file in the format of the Facebook trace.

use std::collections::HashSet;
use std::str::{FromStr, SplitWhitespace};

use flowloom_core::{Duration, Time};
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::classes::MEGABYTE;
use super::{Expansion, Shuffle, one};
use crate::ScenarioError;
use crate::cdf::BYTES_MAX;
use crate::error::shown;
use crate::files;
use crate::workload::{Context, FLOWS_MAX, Kind, Workload};

/// About eleven days, so that no run leaves the range of [`Time`].
const ARRIVAL_MS_MAX: f64 = 1e9;
/// More racks than any topology has hosts.
const RACKS_MAX: u32 = 1_000_000;

/// Coflows from a file in the format of the Facebook trace of the public coflow benchmark (`coflow/coflow-benchmark`).
///
/// The first line has the number of racks and the number of coflows. Each further line is one coflow, in order of arrival: its id, its arrival
/// in milliseconds, the number of its mappers and the rack of each, the number of its reducers and for each `rack:megabytes`, where a
/// megabyte is 10^6 B. Each reducer gets an equal share from each mapper, so a coflow of M mappers and R reducers has M x R flows, which
/// all start when it arrives. A rack is the host whose number is the rack's number modulo the number of hosts. A flow between two racks that
/// are one host is left out; the results count these flows. A coflow's number is its place in the file, from 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoflowTrace {
    /// The file, relative to the scenario's folder.
    #[schemars(example = "FB2010-1Hr-150-0.txt")]
    pub file: String,
    /// All sizes are divided by this number. A flow has one byte at least.
    #[serde(default = "one")]
    #[schemars(range(min = 0.001, max = 1_000_000_000))]
    pub size_divisor: f64,
    /// All times between arrivals are divided by this number.
    #[serde(default = "one")]
    #[schemars(range(min = 0.001, max = 1_000_000_000))]
    pub time_divisor: f64,
    /// Coflows that arrive earlier than this in the trace are left out. The run starts at this time of the trace.
    #[serde(default)]
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub from: Quantity<Duration>,
    /// Coflows that arrive at this time of the trace or later are left out. Without it, none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1ps", "x-max" = "1000000s"))]
    pub until: Option<Quantity<Duration>>,
    /// The most coflows that are taken, in order of arrival. Without it, all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000_000), example = 100)]
    pub coflows: Option<u32>,
}

impl Kind for CoflowTrace {
    fn check(&self) -> Result<(), ScenarioError> {
        match self.until {
            Some(until) if until <= self.from => {
                let message = format!("found {}; it must be after from, {}", until.0, self.from.0);
                Err(ScenarioError::at_key("workload.until", message))
            }
            _ => Ok(()),
        }
    }

    /// Every line is checked, also those of coflows that are not taken.
    fn flows(&self, context: &Context<'_>) -> Result<Workload, ScenarioError> {
        let (name, text) = files::read(context.base_dir, &self.file, "workload.file")?;
        let wrong = |line, message: String| ScenarioError::at_line(&name, line, message);
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let (first, line) = lines.next().ok_or_else(|| ScenarioError::at_place(&name, "the trace is empty"))?;
        let [racks, expected] = header(line).map_err(|message| wrong(first, message))?;
        let mut taken =
            Taken { spec: self, hosts: context.network.hosts() as u32, expansion: Expansion::new(self.size_divisor), count: 0 };
        let (mut ids, mut last, mut number) = (HashSet::new(), Duration::ZERO, 0);
        for (at, line) in lines {
            let row = row(line, racks).map_err(|message| wrong(at, message))?;
            if number == expected {
                return Err(wrong(at, format!("the number of coflows in the first line is {expected}; this is one more")));
            }
            if row.arrival < last {
                return Err(wrong(
                    at,
                    format!("the coflow arrives at {}, before the one above it at {last}; sort them", row.arrival),
                ));
            }
            if !ids.insert(row.id) {
                return Err(wrong(at, format!("a second coflow has id {}", row.id)));
            }
            last = row.arrival;
            taken.add(number, &row).map_err(|error| error.unwrap_or_else(|message| wrong(at, message)))?;
            number += 1;
        }
        if number < expected {
            let message = format!("the number of coflows in the first line is {expected}, but {number} follow");
            return Err(ScenarioError::at_place(&name, message));
        }
        taken.into_workload(&name, context)
    }
}

/// One line of the trace.
struct Row {
    id: u64,
    arrival: Duration,
    /// Racks.
    mappers: Vec<u32>,
    /// Racks, and megabytes.
    reducers: Vec<(u32, f64)>,
}

/// The coflows that the scenario takes.
struct Taken<'a> {
    spec: &'a CoflowTrace,
    hosts: u32,
    expansion: Expansion,
    count: u32,
}

impl Taken<'_> {
    /// Adds a coflow if it is in the window. An error is a key's fault or, as a text, the line's.
    fn add(&mut self, number: u32, row: &Row) -> Result<(), Result<ScenarioError, String>> {
        let CoflowTrace { from, until, coflows, time_divisor, .. } = self.spec;
        let inside = row.arrival >= from.0 && until.is_none_or(|until| row.arrival < until.0);
        if !inside || coflows.is_some_and(|most| self.count >= most) {
            return Ok(());
        }
        self.count += 1;
        let start = (row.arrival - from.0).checked_scale(1.0 / time_divisor).ok_or_else(|| {
            let message =
                format!("found {time_divisor}; with it, coflow {number} would arrive after more than {}", Duration::LONGEST);
            Ok(ScenarioError::at_key("workload.time_divisor", message))
        })?;
        let host = |rack: &u32| rack % self.hosts;
        let reducers = row.reducers.iter().map(|(rack, megabytes)| (host(rack), megabytes * MEGABYTE));
        let shuffle = Shuffle { mappers: row.mappers.iter().map(host).collect(), reducers: reducers.collect() };
        self.expansion.add(number, Time::ZERO + start, &shuffle).map_err(Err)
    }

    fn into_workload(self, name: &str, context: &Context<'_>) -> Result<Workload, ScenarioError> {
        if self.count == 0 {
            let message = format!("found {}; no coflow of {} arrives then", self.spec.from.0, shown(name));
            return Err(ScenarioError::at_key("workload.from", message));
        }
        if self.expansion.flows.0.is_empty() {
            let message = format!("with {} hosts, both ends of every flow are one host, so no flow is left", self.hosts);
            return Err(ScenarioError::at_place(name, message));
        }
        Ok(self.expansion.into_workload(self.count, Some(self.spec.time_divisor), context))
    }
}

/// The numbers of racks and of coflows.
fn header(line: &str) -> Result<[u32; 2], String> {
    let mut words = Words(line.split_whitespace());
    let racks = words.whole("the number of racks", 1, RACKS_MAX.into())?;
    let coflows = words.whole("the number of coflows", 1, FLOWS_MAX.into())?;
    words.end()?;
    Ok([racks as u32, coflows as u32])
}

fn row(line: &str, racks: u32) -> Result<Row, String> {
    let mut words = Words(line.split_whitespace());
    let id = words.whole("the coflow's id", 0, u64::MAX)?;
    let arrival = words.number("the arrival in milliseconds", ARRIVAL_MS_MAX)?;
    let mapper_count = words.whole("the number of mappers", 1, FLOWS_MAX.into())?;
    let mappers = (0..mapper_count).map(|_| rack(words.next("the rack of a mapper")?, racks)).collect::<Result<_, _>>()?;
    let reducer_count = words.whole("the number of reducers", 1, FLOWS_MAX.into())?;
    let reducers = (0..reducer_count).map(|_| reducer(words.next("a reducer")?, racks)).collect::<Result<_, _>>()?;
    words.end()?;
    let arrival = Duration::checked_from_secs_f64(arrival / 1e3).expect("an arrival within a run");
    Ok(Row { id, arrival, mappers, reducers })
}

fn rack(word: &str, racks: u32) -> Result<u32, String> {
    let number = u32::from_str(word).ok().filter(|number| *number < racks);
    number
        .ok_or_else(|| format!("a rack is \"{}\"; the first line says that racks are numbered 0 to {}", shown(word), racks - 1))
}

fn reducer(word: &str, racks: u32) -> Result<(u32, f64), String> {
    let Some((place, megabytes)) = word.split_once(':') else {
        return Err(format!("a reducer is \"{}\"; it is rack:megabytes, such as 17:25", shown(word)));
    };
    Ok((rack(place, racks)?, number(megabytes, "the size of a reducer in megabytes", BYTES_MAX as f64 / MEGABYTE)?))
}

fn number(word: &str, what: &str, most: f64) -> Result<f64, String> {
    let number = f64::from_str(word).ok().filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("{what} is \"{}\"; it is a number from 0 to {most}", shown(word)))
}

/// The words of a line, one after the other.
struct Words<'a>(SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| format!("the line ends where {what} should be"))
    }

    fn whole(&mut self, what: &str, least: u64, most: u64) -> Result<u64, String> {
        let word = self.next(what)?;
        let number = u64::from_str(word).ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("{what} is \"{}\"; it is a whole number from {least} to {most}", shown(word)))
    }

    fn number(&mut self, what: &str, most: f64) -> Result<f64, String> {
        number(self.next(what)?, what, most)
    }

    fn end(&mut self) -> Result<(), String> {
        let more = self.0.next();
        more.map_or(Ok(()), |word| Err(format!("\"{}\" is more than the line says it has", shown(word))))
    }
}
