//! `kind = "trace"`: flows from a CSV file.

use std::collections::HashMap;
use std::str::FromStr;

use flowloom_core::{Bytes, Duration, Flow, FlowId, Network, NodeId, Time};
use flowloom_fabric::End;
use flowloom_transports::quantity::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arrivals::check_length;
use super::coflows::{complete, numbered};
use super::hosts::{by_number, no_such_host};
use super::waiting::Before;
use super::{Context, FLOWS_MAX, FlowList, Kind, Waiting, Workload};
use crate::ScenarioError;
use crate::cdf::BYTES_MAX;
use crate::error::{shown, suggestion};
use crate::{files, memory};

/// A CSV file lists the flows.
///
/// Its first line names the columns, in any order: `start_s`, `src`, `dst`, `bytes`, and optionally `deadline_s`, `tenant`,
/// `coflow`, `id` and `after`. Then comes a line per flow, in order of start. `start_s` and `deadline_s` are seconds from the start of
/// the run, `src` and `dst` host numbers or names. An empty cell of an optional column says nothing; `#` starts a comment line.
///
/// A flow that starts when others are over has their `id`s in `after`, with spaces between them. `7` is over when this flow's source has received flow 7, or, if it
/// has sent flow 7, when it knows that this was received. If both ends of flow 7 are other hosts, it is over when it was received. `7@begun`, `7@received` and
/// `7@acknowledged` say what must have happened. `7+0.001` is a millisecond later; the shortest time is a picosecond. The flows that it waits for stand above it. It
/// starts when the last of these times has come, not before `start_s` if it has that, and it has no deadline and no coflow.
///
/// Flows are numbered in the order of the file, those that wait behind all others. `id` is for `after`, and must not occur twice.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The file, relative to the scenario's folder.
    #[schemars(example = "flows.csv")]
    pub file: String,
    /// How many times the flows of the file come, one `period` after the other. Coflows have new numbers each time.
    #[serde(default = "super::one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub repeat: u32,
    /// The time from one repetition to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-min" = "1ps", "x-max" = "1000000s"))]
    pub period: Option<Quantity<Duration>>,
}

/// The columns of a trace. The first four are required.
const COLUMNS: [&str; 9] = ["start_s", "src", "dst", "bytes", "deadline_s", "tenant", "coflow", "id", "after"];
const REQUIRED: usize = 4;
/// About eleven days, so that no run leaves the range of [`Time`].
const TIME_S_MAX: f64 = 1e6;

impl Kind for Trace {
    fn check(&self) -> Result<(), ScenarioError> {
        match self.period {
            None if self.repeat > 1 => {
                let message = format!("missing; with repeat = {}, give the time from one repetition to the next", self.repeat);
                Err(ScenarioError::at_key("workload.period", message))
            }
            Some(_) if self.repeat == 1 => Err(ScenarioError::at_key(
                "workload.period",
                "it says how repetitions follow each other; give repeat = 2 or more, too",
            )),
            Some(period) => check_length("workload.period", f64::from(self.repeat) * period.0.as_secs_f64()),
            None => Ok(()),
        }
    }

    fn flows(&self, context: &Context<'_>) -> Result<Workload, ScenarioError> {
        let (name, text) = files::read(context.base_dir, &self.file, "workload.file")?;
        let mut columns: Option<Columns> = None;
        let mut reader = Reader::new(context.network);
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let cells: Vec<&str> = line.split(',').map(str::trim).collect();
            let result = match &columns {
                None => Columns::of(&cells).map(|found| columns = Some(found)),
                Some(columns) => columns.row(&cells).and_then(|row| reader.flow(&row)),
            };
            result.map_err(|message| ScenarioError::at_line(&name, number, message))?;
        }
        if reader.flows.0.is_empty() {
            return Err(ScenarioError::at_place(&name, "the trace has no flows"));
        }
        let mut once = Workload { waiting: reader.waiting, ..reader.flows.0.into() };
        let count = u64::from(self.repeat) * (once.flows.len() + once.waiting.count()) as u64;
        if count > u64::from(FLOWS_MAX) {
            let message = format!("{} times the flows of {name} make {count}; the limit is {FLOWS_MAX}", self.repeat);
            return Err(ScenarioError::at_key("workload.repeat", message));
        }
        memory::check(count, once.flows.len())?;
        let Some(Quantity(period)) = self.period else { return Ok(once) };
        complete(&mut once.flows);
        let mut all = Workload::from(Vec::new());
        let mut coflows = 0;
        for repetition in 0..u64::from(self.repeat) {
            coflows = all.append(once.clone(), period * repetition, coflows).ok_or_else(|| {
                ScenarioError::at_key("workload.repeat", "with so many repetitions, there are more than 2^32 coflow numbers")
            })?;
        }
        Ok(all.in_order())
    }
}

/// By column of [`COLUMNS`]: its place in a line.
struct Columns {
    places: [Option<usize>; COLUMNS.len()],
    count: usize,
}

/// By column of [`COLUMNS`]: the cell of one line.
struct Row<'a>([Option<&'a str>; COLUMNS.len()]);

impl Columns {
    fn of(names: &[&str]) -> Result<Columns, String> {
        let mut places = [None; COLUMNS.len()];
        for (place, name) in names.iter().enumerate() {
            let column = COLUMNS.iter().position(|column| column == name);
            let column = column.ok_or_else(|| format!("unknown column \"{}\"; {}", shown(name), suggestion(name, COLUMNS)))?;
            if places[column].replace(place).is_some() {
                return Err(format!("column {name} appears twice"));
            }
        }
        match (0..REQUIRED).find(|column| places[*column].is_none()) {
            Some(missing) => {
                let (missing, required) = (COLUMNS[missing], COLUMNS[..REQUIRED].join(","));
                Err(format!("column {missing} is missing; the first line names the columns, at least {required}"))
            }
            None => Ok(Columns { places, count: names.len() }),
        }
    }

    fn row<'a>(&self, cells: &[&'a str]) -> Result<Row<'a>, String> {
        if cells.len() != self.count {
            return Err(format!("{} cells, but the first line names {} columns", cells.len(), self.count));
        }
        Ok(Row(self.places.map(|place| place.map(|place| cells[place]).filter(|cell| !cell.is_empty()))))
    }
}

impl<'a> Row<'a> {
    fn get(&self, column: &str) -> Option<&'a str> {
        self.0[COLUMNS.iter().position(|name| *name == column).expect("a column of the list")]
    }

    fn required(&self, column: &str) -> Result<&'a str, String> {
        self.get(column).ok_or_else(|| format!("{column} is empty"))
    }

    /// A whole number up to `most`, if the cell is not empty.
    fn whole<T: FromStr>(&self, column: &str, most: u64) -> Result<Option<T>, String> {
        let Some(cell) = self.get(column) else { return Ok(None) };
        let inside = u64::from_str(cell).is_ok_and(|number| number <= most);
        let number = T::from_str(cell).ok().filter(|_| inside);
        number.map(Some).ok_or_else(|| format!("{column} is \"{}\"; it is a whole number from 0 to {most}", shown(cell)))
    }

    /// An instant, if the cell is not empty.
    fn instant(&self, column: &str) -> Result<Option<Time>, String> {
        let Some(cell) = self.get(column) else { return Ok(None) };
        let seconds = f64::from_str(cell).ok().filter(|seconds| (0.0..=TIME_S_MAX).contains(seconds));
        match seconds.and_then(Duration::checked_from_secs_f64) {
            Some(since_start) => Ok(Some(Time::ZERO + since_start)),
            None => Err(format!("{column} is \"{}\"; it is a number of seconds from 0 to {TIME_S_MAX}", shown(cell))),
        }
    }
}

/// Turns rows into flows.
struct Reader<'a> {
    network: &'a Network,
    hosts_by_name: HashMap<&'a str, NodeId>,
    /// The flows that have an id.
    by_id: HashMap<u64, (Before, Flow)>,
    flows: FlowList,
    waiting: Waiting,
}

impl<'a> Reader<'a> {
    fn new(network: &'a Network) -> Reader<'a> {
        let hosts = (0..network.hosts() as u32).map(NodeId);
        let hosts_by_name = hosts.map(|host| (network.node(host).name.as_str(), host)).collect();
        Reader { network, hosts_by_name, by_id: HashMap::new(), flows: FlowList(Vec::new()), waiting: Waiting::default() }
    }

    fn flow(&mut self, row: &Row<'_>) -> Result<(), String> {
        let (src, dst) = (self.host(row, "src")?, self.host(row, "dst")?);
        if src == dst {
            return Err(format!("src and dst are the same host, {}", shown(row.required("src")?)));
        }
        let bytes = row.whole("bytes", BYTES_MAX)?.ok_or("bytes is empty")?;
        let id = row.whole("id", u64::MAX)?;
        if let Some(id) = id.filter(|id| self.by_id.contains_key(id)) {
            return Err(format!("a second flow has id {id}"));
        }
        if self.flows.0.len() + self.waiting.count() >= u32::MAX as usize {
            return Err("a run has fewer than 2^32 flows".to_owned());
        }
        let tenant = row.whole("tenant", u64::from(u16::MAX))?.unwrap_or(0);
        let size = Bytes::new(bytes);
        let flow =
            Flow { id: FlowId(0), src, dst, size, start: Time::MAX, deadline: None, tenant, coflow: None, background: false };
        let place = match row.get("after") {
            Some(after) => self.waiting(row, flow, after)?,
            None => self.starting(row, flow)?,
        };
        id.map(|id| self.by_id.insert(id, (place, flow)));
        Ok(())
    }

    /// Adds a flow with a start of its own.
    fn starting(&mut self, row: &Row<'_>, flow: Flow) -> Result<Before, String> {
        let start = row.instant("start_s")?.ok_or("start_s is empty, and so is after")?;
        if let Some(before) = self.flows.0.last().filter(|before| before.start > start) {
            return Err(format!(
                "the flow starts at {start}, before the one above it at {}; sort the trace by start_s",
                before.start
            ));
        }
        let deadline = row.instant("deadline_s")?;
        if let Some(deadline) = deadline.filter(|deadline| *deadline <= start) {
            let message = "deadlines are instants in seconds from the start of the run, as start_s is";
            return Err(format!("the deadline {deadline} is not after the start {start}; {message}"));
        }
        let coflow = row.whole("coflow", u64::from(u32::MAX))?.and_then(numbered);
        let place = self.flows.0.len() as u32;
        *self.flows.push(start, flow.src, flow.dst, flow.size) = Flow { id: FlowId(place), start, deadline, coflow, ..flow };
        Ok(Before::Flow(place))
    }

    /// Adds a flow that starts after others.
    fn waiting(&mut self, row: &Row<'_>, flow: Flow, after: &str) -> Result<Before, String> {
        if let Some(other) = ["deadline_s", "coflow"].into_iter().find(|column| row.get(column).is_some()) {
            return Err(format!(
                "a flow with after has no {other}, since its start is not known before the run; leave the cell empty"
            ));
        }
        let mut needs: Vec<(Before, End, Duration)> = Vec::new();
        for text in after.split_ascii_whitespace() {
            let (flow_end, delay) = text.split_once('+').unwrap_or((text, "0"));
            let (id, end) = flow_end.split_once('@').map_or((flow_end, None), |(id, end)| (id, Some(end)));
            let known = u64::from_str(id).ok().and_then(|id| self.by_id.get(&id));
            let (before, other) =
                *known.ok_or_else(|| format!("after names \"{}\", and no flow above has this id", shown(id)))?;
            let end = match end {
                None if other.src == flow.src => End::Acknowledged,
                None | Some("received") => End::Received,
                Some("acknowledged") => End::Acknowledged,
                Some("begun") => End::Begun,
                Some(end) => {
                    let ends = ["begun", "received", "acknowledged"];
                    return Err(format!("after has \"@{}\"; {}", shown(end), suggestion(end, ends)));
                }
            };
            if needs.iter().any(|(known, same, _)| (*known, *same) == (before, end)) {
                return Err(format!("after names {flow_end} twice"));
            }
            let seconds = f64::from_str(delay).ok().filter(|seconds| (0.0..=TIME_S_MAX).contains(seconds));
            let delay = seconds.and_then(Duration::checked_from_secs_f64).ok_or_else(|| {
                format!("after has \"{}\"; what follows the + is a number of seconds from 0 to {TIME_S_MAX}", shown(text))
            })?;
            needs.push((before, end, delay.max(Duration::from_ps(1))));
        }
        let task = self.waiting.push(flow, &needs);
        if let Some(start) = row.instant("start_s")? {
            self.waiting.starts.push((task, start));
        }
        Ok(Before::Task(task))
    }

    fn host(&self, row: &Row<'_>, column: &str) -> Result<NodeId, String> {
        let cell = row.required(column)?;
        let by_number = u32::from_str(cell).ok().and_then(|number| by_number(number, self.network));
        by_number
            .or_else(|| self.hosts_by_name.get(cell).copied())
            .ok_or_else(|| format!("{column} is {}", no_such_host(&format!("\"{}\"", shown(cell)), self.network)))
    }
}
