//! `[workload]`: which flows there are.

use flowloom_core::{Bytes, Duration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{CoflowSynthetic, CoflowTrace, HostRef, Mix, Quantity, mix};
use crate::cdf_file::Dialect;
use crate::tables::TABLES;

/// The most flows that a workload may have, as the schema says for the kinds that give their number.
pub const FLOWS_MAX: u32 = 100_000_000;

/// Which flows there are, and when they start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(transform = mix::join_kinds)]
pub enum WorkloadSpec {
    /// Flows of one kind.
    One(WorkloadKind),
    /// Several workloads at the same time.
    Several(Mix),
}

/// Flows of one kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorkloadKind {
    /// Flows arrive at each source as a Poisson process, independent of the others.
    Poisson(Poisson),
    /// Requests: several senders answer one receiver at the same time.
    ///
    /// In each, a receiver, chosen as `receivers` says unless `receiver` names it, gets `bytes` in all, or a flow of `sizes` each, from
    /// `senders` others, drawn uniformly without replacement, all of which start at once. The flows of a request share a coflow number.
    /// Requests follow one of `load`, `mean_gap` and `period`.
    ///
    /// For example, queries of a search application within a rack (the PASE paper's all-to-all scenario) have `sizes = { uniform =
    /// ["2kB", "198kB"] }`, as many `senders` as there are workers, and `receivers = "round_robin"`: any host can aggregate answers, and hosts
    /// take turns.
    Incast(Incast),
    /// Each host sends one flow to a partner of its own, all at time 0.
    Permutation(Permutation),
    /// Random hosts send flows to random hosts, all at time 0.
    Burst(Burst),
    /// Flows form loops: the next flow starts when the last one has been received.
    ///
    /// Each loop sends one flow after the other from a host of `from` to `to`, as an application does that asks for the next one
    /// when it has all of the last. The first flow of each loop starts at time 0. Flows that have not started when the run ends are left
    /// out.
    ClosedLoop(ClosedLoop),
    /// A CSV file lists the flows.
    ///
    /// Its first line names the columns, in any order: `start_s`, `src`, `dst`, `bytes`, and optionally `deadline_s`, `tenant`,
    /// `coflow` and `id`. Then comes a line per flow, in order of start. `start_s` and `deadline_s` are seconds from the start of
    /// the run, `src` and `dst` host numbers or names. An empty cell of an optional column says nothing; `id` is checked for
    /// duplicates, but flows are numbered in the order of the file; `#` starts a comment line.
    Trace(Trace),
    /// Coflows from a file in the format of the Facebook trace of the public coflow benchmark (`coflow/coflow-benchmark`).
    ///
    /// The first line has the number of racks and the number of coflows. Each further line is one coflow, in order of arrival: its id, its arrival
    /// in milliseconds, the number of its mappers and the rack of each, the number of its reducers and for each `rack:megabytes`, where a
    /// megabyte is 10^6 B. Each reducer gets an equal share from each mapper, so a coflow of M mappers and R reducers has M x R flows, which
    /// all start when it arrives. A rack is the host whose number is the rack's number modulo the number of hosts. A flow between two racks that
    /// are one host is left out; the results count these flows. A coflow's number is its place in the file, from 0.
    CoflowTrace(CoflowTrace),
    /// Coflows that are drawn at random and resemble those of the Facebook trace.
    ///
    /// They arrive as a Poisson process. Each is short or long, by its longest flow, and narrow or wide, by its number of flows, as often as in the
    /// trace; the numbers of its mappers and reducers and the size of its flows, which is the same for all, are drawn from the trace's
    /// distributions in this class. Mappers and reducers are random hosts. docs/coflows.md says what is kept of the trace and what is not.
    CoflowSynthetic(CoflowSynthetic),
}

/// Poisson arrivals.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Poisson {
    /// The sizes of the flows.
    pub sizes: Sizes,
    /// The expected utilisation of the busiest link among those that `load_link` names. Payload and headers of every data packet
    /// sent once count; control packets and retransmissions do not.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0), example = 0.6)]
    pub load: f64,
    /// Which links `load` is about.
    #[serde(default)]
    pub load_link: LoadLink,
    /// How many flows there are.
    #[schemars(range(min = 1, max = 100_000_000), example = 20_000)]
    pub flows: u32,
    /// The traffic matrix: which host sends to which.
    #[serde(default)]
    pub matrix: MatrixKind,
    /// Which host sends the next flow.
    #[serde(default)]
    pub sources: Sources,
    /// The deadlines of the flows. Without it, flows have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
    /// The tenants that share the load. Without them there is one, number 0.
    #[serde(default, rename = "tenant", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 65_535))]
    pub tenants: Vec<Tenant>,
}

/// Requests.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Incast {
    /// How many hosts answer each request.
    #[schemars(range(min = 1, max = 65_000), example = 20)]
    pub senders: u32,
    /// The payload of a request. It is split evenly among its senders, where the first ones carry the remainder, a byte each.
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

/// Each host sends one flow to a partner of its own, and receives one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Permutation {
    /// The sizes of the flows.
    pub sizes: Sizes,
    /// The deadlines of the flows. Without it, flows have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
}

/// All flows start at time 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// The sizes of the flows.
    pub sizes: Sizes,
    /// How many flows there are.
    #[schemars(range(min = 1, max = 100_000_000), example = 1_000)]
    pub flows: u32,
    /// The traffic matrix: which host sends to which.
    #[serde(default)]
    pub matrix: MatrixKind,
    /// The deadlines of the flows. Without it, flows have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
    /// The tenants that share the bytes. Without them there is one, number 0.
    #[serde(default, rename = "tenant", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 65_535))]
    pub tenants: Vec<Tenant>,
}

/// One flow after the other.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClosedLoop {
    /// The hosts that send, by number or name.
    #[schemars(length(min = 1, max = 65_000))]
    pub from: Vec<HostRef>,
    /// The host that receives, by number or name.
    pub to: HostRef,
    /// The sizes of the flows.
    pub sizes: Sizes,
    /// How many flows each loop has.
    #[schemars(range(min = 1, max = 16_000_000), example = 1_000)]
    pub requests: u32,
    /// How many loops each sender has.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 65_000))]
    pub loops: u32,
    /// The time between a flow's last byte at the receiver and the start of the next flow, such as the delay of the request.
    #[schemars(extend("x-min" = "1ps", "x-max" = "1000000s"))]
    pub think: Quantity<Duration>,
}

fn one() -> u32 {
    1
}

/// Flows from a CSV file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The file, relative to the scenario's folder.
    #[schemars(example = "flows.csv")]
    pub file: String,
}

/// Which links a load is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadLink {
    /// The hosts' links.
    #[default]
    Host,
    /// The links between switches.
    Core,
}

/// Which host sends the next flow of a Poisson workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sources {
    /// Each host has a Poisson process of its own, independent of the others.
    #[default]
    Independent,
    /// There is one Poisson process, and the hosts that send take turns. They must send equally much. So no host has two flows at once unless
    /// flows last for longer than a turn of all hosts.
    InTurn,
}

/// A traffic matrix: which host sends to which.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatrixKind {
    /// Every host offers load in proportion to its link's rate; each flow goes to any other host with equal probability.
    #[default]
    AllToAll,
    /// Every ordered pair of hosts is equally likely. The same as `all_to_all` where all hosts' links are alike.
    RandomPairs,
    /// Every host sends all its flows to one partner of its own.
    Permutation,
    /// Hosts of the first half send to hosts of the second half (the PASE paper's left-right).
    LeftRight,
    /// Each host of the first half sends to one host of the second half: the first to the first, the second to the second, and so on.
    LeftRightPairs,
    /// Hosts of either half send to hosts of the other (the TOP paper's dumbbell).
    Across,
    /// All hosts send to host 0 (the rack of the PIAS paper's testbed).
    ManyToOne,
    /// Every ordered pair of hosts whose sender has the smaller number is equally likely (one tenant of the PIAS paper's heterogeneous
    /// traffic).
    Upward,
    /// Every ordered pair of hosts whose sender has the larger number is equally likely (the other tenant).
    Downward,
}

impl MatrixKind {
    /// Every kind.
    pub const ALL: [MatrixKind; 9] = [
        MatrixKind::AllToAll,
        MatrixKind::RandomPairs,
        MatrixKind::Permutation,
        MatrixKind::LeftRight,
        MatrixKind::LeftRightPairs,
        MatrixKind::Across,
        MatrixKind::ManyToOne,
        MatrixKind::Upward,
        MatrixKind::Downward,
    ];
}

/// The sizes of flows: the name of a table, or a distribution.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Sizes {
    /// The name of a table that comes with the simulator.
    #[schemars(schema_with = "table_names")]
    Table(String),
    /// `{ fixed = "100kB" }`: all flows have this size.
    Fixed(Fixed),
    /// `{ uniform = ["2kB", "198kB"] }`: sizes are uniform from the first to the second.
    Uniform(Uniform),
    /// `{ bimodal = ["4380B", "1022000B"], first_share = 0.9 }`: a flow has one of two sizes.
    Bimodal(Bimodal),
    /// `{ cdf = "my.csv", dialect = "bytes_percent" }`: a file has the distribution.
    Cdf(CdfFile),
}

/// Gives the items of a list the range of flow sizes.
fn size_range(schema: &mut Schema) {
    if let Some(items) = schema.get_mut("items").and_then(serde_json::Value::as_object_mut) {
        items.insert("x-min".to_owned(), "1B".into());
        items.insert("x-max".to_owned(), "1000TB".into());
    }
}

fn table_names(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// All flows have one size.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    /// The size of every flow.
    #[schemars(extend("x-min" = "1B", "x-max" = "1000TB"))]
    pub fixed: Quantity<Bytes>,
}

/// Uniform between two sizes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uniform {
    /// The smallest and the largest size.
    #[schemars(transform = size_range)]
    pub uniform: [Quantity<Bytes>; 2],
}

/// One of two sizes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bimodal {
    /// The smaller and the larger size.
    #[schemars(transform = size_range)]
    pub bimodal: [Quantity<Bytes>; 2],
    /// The share of flows that have the first size.
    #[schemars(range(min = 0, max = 1), example = 0.9)]
    pub first_share: f64,
}

/// The distribution is in a file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CdfFile {
    /// The file, relative to the scenario's folder.
    #[schemars(example = "my.csv")]
    pub cdf: String,
    /// What its columns mean. It is required unless the file names its columns, or its last row says 100 (percent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
}

/// The deadline of a flow is a random time after its start, but never less than `floor` times what the flow would need alone.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Deadline {
    /// The time is exponentially distributed.
    Exponential(ExponentialDeadline),
    /// The time is uniformly distributed.
    Uniform(UniformDeadline),
}

/// Exponentially distributed deadlines.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExponentialDeadline {
    /// The mean time before the floor is applied.
    #[schemars(extend("x-min" = "1ps", "x-max" = "1000000s"))]
    pub mean: Quantity<Duration>,
    /// No deadline is below this many times the flow's optimum.
    #[serde(default = "usual_floor")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub floor: f64,
    /// Whether the flow's optimum has a handshake before it, as with `metrics.optimum = "handshake"`. Without it, a transport that asks before
    /// it sends misses the deadline of a short flow that is drawn early.
    #[serde(default)]
    pub handshake: bool,
}

/// Uniformly distributed deadlines.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UniformDeadline {
    /// The shortest time before the floor is applied.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub min: Quantity<Duration>,
    /// The longest time before the floor is applied.
    #[schemars(extend("x-min" = "0s", "x-max" = "1000000s"))]
    pub max: Quantity<Duration>,
    /// No deadline is below this many times the flow's optimum.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub floor: f64,
    /// Whether the flow's optimum has a handshake before it, as with `metrics.optimum = "handshake"`. Without it, a transport that asks before
    /// it sends misses the deadline of a short flow that is drawn early.
    #[serde(default)]
    pub handshake: bool,
}

/// The pHost paper's, §4.3.
fn usual_floor() -> f64 {
    1.25
}

/// One of several tenants, which share the load of a Poisson workload or the bytes of a burst.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// The tenant's name, which no other tenant has. It serves readers of the scenario. Results number tenants from 0, in this order.
    #[schemars(example = &"a")]
    pub name: String,
    /// The sizes of its flows. By default, they are the workload's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// Its traffic matrix. By default, it is the workload's. The load is that of all tenants together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<MatrixKind>,
    /// Its expected share of the wire bytes. All shares together make 1.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0), example = 0.5)]
    pub share: f64,
}

impl WorkloadKind {
    /// The deadlines, where the workload draws them.
    pub fn deadline(&self) -> Option<&Deadline> {
        match self {
            WorkloadKind::Poisson(Poisson { deadline, .. })
            | WorkloadKind::Incast(Incast { deadline, .. })
            | WorkloadKind::Permutation(Permutation { deadline, .. })
            | WorkloadKind::Burst(Burst { deadline, .. }) => deadline.as_ref(),
            WorkloadKind::ClosedLoop(_)
            | WorkloadKind::Trace(_)
            | WorkloadKind::CoflowTrace(_)
            | WorkloadKind::CoflowSynthetic(_) => None,
        }
    }

    /// The traffic matrix of all flows, where there is one.
    pub fn matrix(&self) -> Option<MatrixKind> {
        match self {
            WorkloadKind::Poisson(Poisson { matrix, .. }) | WorkloadKind::Burst(Burst { matrix, .. }) => Some(*matrix),
            WorkloadKind::Permutation(_) => Some(MatrixKind::Permutation),
            WorkloadKind::Incast(_)
            | WorkloadKind::ClosedLoop(_)
            | WorkloadKind::Trace(_)
            | WorkloadKind::CoflowTrace(_)
            | WorkloadKind::CoflowSynthetic(_) => None,
        }
    }

    /// The tenants, none if there is just one.
    pub fn tenants(&self) -> &[Tenant] {
        match self {
            WorkloadKind::Poisson(Poisson { tenants, .. }) | WorkloadKind::Burst(Burst { tenants, .. }) => tenants,
            _ => &[],
        }
    }
}
