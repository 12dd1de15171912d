//! `kind = "trace"`: flows from a CSV file.

use std::collections::{HashMap, HashSet};
use std::str::FromStr;

use flowloom_core::{Bytes, Duration, Network, NodeId, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::coflows::numbered;
use super::hosts::{by_number, no_such_host};
use super::{Context, FlowList, Kind, Workload};
use crate::ScenarioError;
use crate::cdf::BYTES_MAX;
use crate::error::{shown, suggestion};
use crate::files;

/// A CSV file lists the flows.
///
/// Its first line names the columns, in any order: `start_s`, `src`, `dst`, `bytes`, and optionally `deadline_s`, `tenant`,
/// `coflow` and `id`. Then comes a line per flow, in order of start. `start_s` and `deadline_s` are seconds from the start of
/// the run, `src` and `dst` host numbers or names. An empty cell of an optional column says nothing; `id` is checked for
/// duplicates, but flows are numbered in the order of the file; `#` starts a comment line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The file, relative to the scenario's folder.
    #[schemars(example = "flows.csv")]
    pub file: String,
}

/// The columns of a trace. The first four are required.
const COLUMNS: [&str; 8] = ["start_s", "src", "dst", "bytes", "deadline_s", "tenant", "coflow", "id"];
const REQUIRED: usize = 4;
/// About eleven days, so that no run leaves the range of [`Time`].
const TIME_S_MAX: f64 = 1e6;

impl Kind for Trace {
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
        Ok(reader.flows.0.into())
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
    ids: HashSet<u64>,
    flows: FlowList,
}

impl<'a> Reader<'a> {
    fn new(network: &'a Network) -> Reader<'a> {
        let hosts = (0..network.hosts() as u32).map(NodeId);
        let hosts_by_name = hosts.map(|host| (network.node(host).name.as_str(), host)).collect();
        Reader { network, hosts_by_name, ids: HashSet::new(), flows: FlowList(Vec::new()) }
    }

    fn flow(&mut self, row: &Row<'_>) -> Result<(), String> {
        let start = row.instant("start_s")?.ok_or("start_s is empty")?;
        if let Some(before) = self.flows.0.last().filter(|before| before.start > start) {
            return Err(format!(
                "the flow starts at {start}, before the one above it at {}; sort the trace by start_s",
                before.start
            ));
        }
        let (src, dst) = (self.host(row, "src")?, self.host(row, "dst")?);
        if src == dst {
            return Err(format!("src and dst are the same host, {}", shown(row.required("src")?)));
        }
        let bytes = row.whole("bytes", BYTES_MAX)?.ok_or("bytes is empty")?;
        let deadline = row.instant("deadline_s")?;
        if let Some(deadline) = deadline.filter(|deadline| *deadline <= start) {
            let message = "deadlines are instants in seconds from the start of the run, as start_s is";
            return Err(format!("the deadline {deadline} is not after the start {start}; {message}"));
        }
        if let Some(id) = row.whole("id", u64::MAX)?.filter(|id| !self.ids.insert(*id)) {
            return Err(format!("a second flow has id {id}"));
        }
        if self.flows.0.len() >= u32::MAX as usize {
            return Err("a run has fewer than 2^32 flows".to_owned());
        }
        let tenant = row.whole("tenant", u64::from(u16::MAX))?.unwrap_or(0);
        let coflow = row.whole("coflow", u64::from(u32::MAX))?.and_then(numbered);
        let flow = self.flows.push(start, src, dst, Bytes::new(bytes));
        (flow.deadline, flow.tenant, flow.coflow) = (deadline, tenant, coflow);
        Ok(())
    }

    fn host(&self, row: &Row<'_>, column: &str) -> Result<NodeId, String> {
        let cell = row.required(column)?;
        let by_number = u32::from_str(cell).ok().and_then(|number| by_number(number, self.network));
        by_number
            .or_else(|| self.hosts_by_name.get(cell).copied())
            .ok_or_else(|| format!("{column} is {}", no_such_host(&format!("\"{}\"", shown(cell)), self.network)))
    }
}
