//! Random scenarios of all features, so small that they end soon.

use std::sync::LazyLock;

use flowloom_core::{LinkId, NodeKind};
use flowloom_lab::Plan;
use flowloom_lab::spec::Scenario;
use flowloom_lab::topologies::Topology;
use serde_json::Value;

use super::Random;

/// The files that scenarios name, and what is in them.
pub const FILES: [(&str, &str); 6] = [
    ("network.toml", include_str!("files/network.toml")),
    ("nics.toml", include_str!("files/nics.toml")),
    ("trace.csv", include_str!("files/trace.csv")),
    ("after.csv", include_str!("files/after.csv")),
    ("coflows.txt", include_str!("files/coflows.txt")),
    ("sizes.csv", include_str!("files/sizes.csv")),
];

/// A topology, the keys of its rates, and a hop that it has.
struct Shape {
    table: &'static str,
    rates: Vec<String>,
    hop: String,
    /// A link without which every node can be reached, if there is one.
    spare: Option<String>,
}

/// Networks whose hosts have several links, besides that of `rails`.
const SEVERAL_LINKS: [&str; 2] =
    ["kind = \"leaf_spine\", racks = 2, hosts_per_rack = 2, spines = 2, planes = 2", "kind = \"custom\", file = \"nics.toml\""];

/// One of each kind, and those whose hosts have several links. All have the hosts h0, h1 and h2.
fn shapes() -> &'static [Shape] {
    static SHAPES: LazyLock<Vec<Shape>> =
        LazyLock::new(|| Topology::small().into_iter().chain(SEVERAL_LINKS).map(Shape::of).collect());
    &SHAPES
}

impl Shape {
    fn of(table: &'static str) -> Shape {
        let text = format!("topology = {{ {table} }}\n{REST}");
        let scenario = Scenario::load(&text, "tests/generator/files/s.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
        let plan = Plan::new(&scenario.validate().unwrap_or_else(|error| panic!("{error}")));
        let network = plan.unwrap_or_else(|error| panic!("{error}")).setup.network;
        let links = || (0..network.links().len() as u32).map(LinkId);
        let between_switches = |link: &LinkId| {
            let ends = network.link(*link);
            [ends.from, ends.to].iter().all(|node| network.node(*node).kind == NodeKind::Switch)
        };
        let hop = network.hop_name(links().find(between_switches).unwrap_or(LinkId(0)));
        let written: toml::Table = scenario.spec.to_toml().parse().expect("TOML");
        let keys = written["topology"].as_table().expect("a table");
        let dispensable = |link: &LinkId| network.is_connected_by(|other| other != *link && other != link.reverse());
        let spare = links().find(dispensable).map(|link| network.link_name(link));
        Shape { table, rates: keys.keys().filter(|key| key.ends_with("rate")).cloned().collect(), hop, spare }
    }
}

/// The rest of a scenario whose topology matters alone.
const REST: &str = "workload = { kind = \"burst\", sizes = { fixed = \"1B\" }, flows = 1 }\ntransport = { name = \"tcp\" }";

/// What a transport can do besides running alone over lossy ports of their own.
#[derive(Clone, Copy)]
pub struct Abilities {
    /// It can run over priority flow control.
    pub pauses: bool,
    /// Its ports can share a memory.
    pub shares_memory: bool,
}

/// A scenario of a transport of the catalogue: overrides of any other scenario. `flow_control` is the schema of `fabric.pfc`; `job` says whether flows wait for others.
pub fn overrides(transport: &Value, abilities: Abilities, flow_control: &Value, random: &mut Random, job: bool) -> Vec<String> {
    let name = transport["name"].as_str().expect("a name");
    let mut draft =
        Draft { random, overrides: vec![format!("transport.name={name}")], lasting: false, far: false, shape: &shapes()[0] };
    draft.network();
    let pauses = abilities.pauses && draft.random.below(3) == 0;
    if pauses {
        draft.flow_control(flow_control);
    } else if abilities.shares_memory && draft.random.chance(0.2) {
        draft.shared_memory();
    }
    if job {
        draft.job();
    }
    let quiet = (!job && draft.workload()) || draft.far;
    let faulty = !quiet && draft.faults(pauses);
    let share = *draft.random.one_of(&[&0.0, &0.0, &0.03, &0.06, &0.1, &0.2, &1.0]);
    if !quiet && draft.random.chance(0.15) {
        draft.background(!faulty && share == 0.0);
    }
    draft.metrics();
    draft.recording();
    draft.run();
    draft.random.parameters(&format!("transport.{name}"), &transport["schema"], share, &mut draft.overrides);
    draft.overrides
}

struct Draft<'a> {
    random: &'a mut Random,
    overrides: Vec<String>,
    /// Whether there may be 1000 s or more without a flow: too long for what goes on meanwhile.
    lasting: bool,
    /// Whether a round trip takes an hour or more. What is lost then is sent again for too long.
    far: bool,
    shape: &'static Shape,
}

impl Draft<'_> {
    fn set(&mut self, key: &str, value: impl std::fmt::Display) {
        self.overrides.push(format!("{key}={value}"));
    }

    fn network(&mut self) {
        self.shape = &shapes()[self.random.below(shapes().len())];
        self.set("topology", format!("{{ {} }}", self.shape.table));
        // Many transports need one path for both directions of a flow.
        let modes = ["spray_random", "spray_labelled", "spray_round_robin", "least_queue", "drill", "flowlet", "ecmp"];
        let routing = if self.random.below(2) == 0 { "ecmp_symmetric" } else { self.random.one_of(&modes) };
        self.set("fabric.routing", routing);
        if self.random.below(3) > 0 || self.shape.rates.is_empty() {
            let buffer = self.random.one_of(&["1538B", "3kB", "36kB", "36kB", "200kB"]);
            return self.set("fabric.buffer", buffer);
        }
        self.extremes();
    }

    /// Rates, delays and sizes far from those of a data center.
    fn extremes(&mut self) {
        let rates = ["8b/s", "1kb/s", "1Mb/s", "1Gb/s", "10Gb/s", "10Gb/s", "10Gb/s", "400Gb/s", "1000Tb/s"];
        for key in &self.shape.rates {
            if *key == self.shape.rates[0] || self.random.chance(0.3) {
                let rate = self.random.one_of(&rates);
                self.set(&format!("topology.{key}"), rate);
            }
        }
        let delays = ["0s", "1ps", "200ns", "200ns", "200ns", "10us", "1ms", "1s", "1000s"];
        let delay = self.random.one_of(&delays);
        self.far = delay.starts_with("1000");
        self.set("topology.delay", delay);
        let buffers = ["1.5kB", "1538B", "3kB", "9kB", "36kB", "36kB", "200kB", "1GB", "2GB"];
        let buffer = self.random.one_of(&buffers);
        self.set("fabric.buffer", buffer);
        let wire = self.random.one_of(&["ip_1500", "ip_1500", "ethernet_1538", "ns2_1000", "jumbo_9000"]);
        self.set("fabric.wire", wire);
        let switching = self.random.one_of(&["cut_through", "store_and_forward"]);
        self.set("fabric.switching", switching);
    }

    /// Priority flow control, with its defaults or with any parameters, in memory that often suffices.
    fn flow_control(&mut self, schema: &Value) {
        self.set("fabric.pfc", "{}");
        let buffer = self.random.one_of(&["36kB", "200kB"]);
        self.set("fabric.buffer", buffer);
        let share = *self.random.one_of(&[&0.0, &0.4]);
        self.random.parameters("fabric.pfc", schema, share, &mut self.overrides);
    }

    fn shared_memory(&mut self) {
        self.set("fabric.sharing", "switch");
        if self.random.below(2) == 0 {
            let alpha = self.random.one_of(&["0.001", "0.5", "8", "1000"]);
            self.set("fabric.alpha", alpha);
        }
    }

    /// Returns whether there may be thousands of flows.
    fn workload(&mut self) -> bool {
        let workload = if self.random.below(8) == 0 {
            let parts: Vec<String> = (0..2 + self.random.below(2)).map(|index| self.part(index)).collect();
            format!("kind = \"mix\", part = [{}]", parts.join(", "))
        } else {
            self.kind(true)
        };
        self.set("workload", format!("{{ {workload} }}"));
        workload.contains("coflow_synthetic")
    }

    fn part(&mut self, index: usize) -> String {
        let start = self.random.one_of(&["0s", "1us", "1ms", "1000s"]);
        self.lasting |= start == "1000s";
        format!("{{ name = \"part {index}\", start = \"{start}\", {} }}", self.kind(false))
    }

    /// A job, or a trace whose flows wait for others.
    fn job(&mut self) {
        let workload = match self.random.below(3) {
            0 => "kind = \"trace\", file = \"after.csv\", repeat = 2, period = \"1ms\"".to_owned(),
            _ => self.collective(),
        };
        self.set("workload", format!("{{ {workload} }}"));
    }

    /// The keys of a workload of any kind but a mix and a job.
    fn kind(&mut self, tenants: bool) -> String {
        let sizes = self.sizes();
        match self.random.below(12) {
            0 | 1 => {
                let (flows, common) = (1 + self.random.below(6), self.common(tenants));
                format!("kind = \"burst\", flows = {flows}, sizes = {sizes}{common}")
            }
            2 | 3 => {
                let (load, common) = (self.load(), self.common(tenants));
                let link = self.random.one_of(&["", "", ", load_link = \"core\"", ", sources = \"in_turn\""]);
                format!("kind = \"poisson\", flows = 5, {load}, sizes = {sizes}{link}{common}")
            }
            4 | 5 => {
                let think = self.random.one_of(&["1ps", "1us", "1000s"]);
                self.lasting |= think == "1000s";
                format!(
                    "kind = \"closed_loop\", from = [0, \"h1\"], to = 2, loops = 2, requests = 2, think = \"{think}\", sizes = {sizes}"
                )
            }
            6 => {
                let cut = self.random.one_of(&[
                    "",
                    ", coflows = 1",
                    ", from = \"1ms\"",
                    ", size_divisor = 1e9",
                    ", time_divisor = 0.5",
                ]);
                format!("kind = \"coflow_trace\", file = \"coflows.txt\"{cut}")
            }
            7 => format!("kind = \"coflow_synthetic\", coflows = 1, {}, size_divisor = 1e6", self.load()),
            8 => format!("kind = \"permutation\", sizes = {sizes}{}", self.deadline()),
            // Its flows have tenants, which those of a part have not.
            9 if tenants => "kind = \"trace\", file = \"trace.csv\"".to_owned(),
            _ => {
                let what = self.random.one_of(&["bytes = \"40kB\"", "bytes = \"2B\"", "sizes = { fixed = \"1461B\" }"]);
                let receiver = self.random.one_of(&["", ", receiver = \"h2\"", ", receivers = \"round_robin\""]);
                let (pace, deadline) = (self.pace(), self.deadline());
                format!("kind = \"incast\", senders = 2, requests = 2, {what}{receiver}, {pace}{deadline}")
            }
        }
    }

    /// Three ranks, and few flows.
    fn collective(&mut self) -> String {
        let (what, how) = *self.random.one_of(&[
            &("all_reduce", "ring"),
            &("all_reduce", "tree"),
            &("all_gather", "pairwise"),
            &("all_to_all", "direct"),
            &("broadcast", "tree"),
        ]);
        let more = match how {
            "ring" | "tree" => self.random.one_of(&["", ", parts = 2", ", overlap = false"]),
            _ => "",
        };
        let times = self.random.one_of(&["", ", iterations = 2, pause = \"1us\"", ", compute = \"10us\""]);
        let size = self.random.one_of(&["2B", "3kB", "60kB"]);
        format!(
            "kind = \"collective\", collective = \"{what}\", algorithm = \"{how}\", size = \"{size}\", ranks = 3{more}{times}"
        )
    }

    fn sizes(&mut self) -> String {
        match self.random.below(10) {
            0 => "{ uniform = [\"1B\", \"60kB\"] }".to_owned(),
            1 => format!("{{ bimodal = [\"1B\", \"60kB\"], first_share = {} }}", self.random.one_of(&["0", "0.5", "1"])),
            2 => "{ cdf = \"sizes.csv\" }".to_owned(),
            3 => "\"homa_w1\"".to_owned(),
            _ => format!("{{ fixed = \"{}\" }}", self.random.one_of(&["1B", "1460B", "1461B", "20kB", "20kB", "60kB"])),
        }
    }

    fn load(&mut self) -> String {
        let load = self.random.one_of(&["1e-9", "0.01", "0.9"]);
        self.lasting |= load == "1e-9";
        format!("load = {load}")
    }

    fn pace(&mut self) -> String {
        let span = self.random.one_of(&["1us", "1ms", "100000s"]);
        match self.random.below(3) {
            0 => self.load(),
            pace => {
                self.lasting |= span == "100000s";
                format!("{} = \"{span}\"", ["period", "mean_gap"][pace - 1])
            }
        }
    }

    /// What Poisson arrivals and bursts have in common.
    fn common(&mut self, tenants: bool) -> String {
        const MATRICES: [&str; 8] =
            ["random_pairs", "permutation", "left_right", "left_right_pairs", "across", "many_to_one", "upward", "downward"];
        let mut keys = self.deadline();
        if self.random.chance(0.3) {
            keys += &format!(", matrix = \"{}\"", self.random.one_of(&MATRICES));
        }
        if tenants && self.random.chance(0.2) {
            let (sizes, matrix) = (self.sizes(), self.random.one_of(&MATRICES));
            let second = format!("name = \"b\", share = 0.75, sizes = {sizes}, matrix = \"{matrix}\"");
            keys += &format!(", tenant = [{{ name = \"a\", share = 0.25 }}, {{ {second} }}]");
        }
        keys
    }

    fn deadline(&mut self) -> String {
        if self.random.below(4) > 0 {
            return String::new();
        }
        let span = self.random.one_of(&["1ps", "1ms", "1000s", "1000000s"]);
        let spans = match self.random.below(2) {
            0 => format!("kind = \"exponential\", mean = \"{span}\""),
            _ => format!("kind = \"uniform\", min = \"0s\", max = \"{span}\""),
        };
        let (floor, handshake) = (self.random.one_of(&["0", "1.25", "1e6"]), self.random.below(2) == 0);
        format!(", deadline = {{ {spans}, floor = {floor}, handshake = {handshake} }}")
    }

    /// Flows that the run does not wait for. They have an end unless nothing delays the others.
    fn background(&mut self, endless: bool) {
        let size = if endless && !self.lasting { "" } else { ", size = \"100kB\"" };
        let flows = match self.random.below(2) {
            0 => format!("src = 0, dst = \"h1\"{size}"),
            _ => format!("pairs = 2, matrix = \"random_pairs\", start = \"1us\"{size}"),
        };
        self.set("workload.background", format!("[{{ {flows} }}]"));
    }

    /// Returns whether there are any.
    fn faults(&mut self, pauses: bool) -> bool {
        let count = [0, 0, 1, 1, 1, 2][self.random.below(6)];
        let faults: Vec<String> = (0..count).map(|_| format!("{{ {} }}", self.fault(pauses))).collect();
        if count > 0 {
            self.set("fault", format!("[{}]", faults.join(", ")));
        }
        count > 0
    }

    fn fault(&mut self, pauses: bool) -> String {
        let outage = self.random.below(if pauses { 2 } else { 4 }) == 0;
        if outage {
            return self.outage(pauses);
        }
        let probability = self.random.one_of(&["0.01", "0.3", "0.9", "0.999", "1.0"]);
        let (kind, delay) = match self.random.below(5) {
            0 | 1 => ("loss", String::new()),
            2 => ("corrupt", String::new()),
            3 => ("duplicate", String::new()),
            _ => ("reorder", format!(", delay = \"{}\"", self.random.one_of(&["1ps", "10us", "1s", "1000000s"]))),
        };
        let place = self.random.one_of(&["all", "all", "all", &self.shape.hop]);
        let aim = self.random.one_of(&["", "", "", ", packets = \"data\"", ", packets = \"control\"", ", flow = 0"]);
        format!("kind = \"{kind}\", where = \"{place}\", probability = {probability}{delay}{aim}")
    }

    /// A node or links that are down for a while, or a storm of pauses.
    fn outage(&mut self, pauses: bool) -> String {
        let (from, to) = (self.random.one_of(&["0s", "1ns", "500ns"]), self.random.one_of(&["1us", "100us", "1s", "3s"]));
        let node = self.random.one_of(&["h0", "h1", "h2", "arbiter"]);
        let what = match self.random.below(4) {
            _ if pauses => "kind = \"pause_storm\", node = \"h1\"".to_owned(),
            0 => match &self.shape.spare {
                Some(link) if self.random.below(2) == 0 => {
                    let after = self.random.one_of(&["0s", "1us", "300us"]);
                    format!("kind = \"link_down\", where = \"{link}\", reroute_after = \"{after}\"")
                }
                _ if from != "500ns" => "kind = \"link_rate\", where = \"all\", rate = \"100Mb/s\"".to_owned(),
                _ => "kind = \"link_down\", where = \"all\"".to_owned(),
            },
            // The peers of a host that was down may go on for as long as flows are to come.
            _ if self.lasting && from == "1ns" => {
                format!("kind = \"link_rate\", where = \"{}\", rate = \"100Mb/s\"", self.shape.hop)
            }
            _ if self.lasting => format!("kind = \"link_down\", where = \"{}\"", self.shape.hop),
            _ => format!("kind = \"node_down\", node = \"{node}\""),
        };
        format!("{what}, from = \"{from}\", to = \"{to}\"")
    }

    fn metrics(&mut self) {
        for (key, values) in [
            ("optimum", ["closed_form", "handshake", "solo"]),
            ("fct_end", ["receiver", "sender", "sender"]),
            ("request_delay", ["0s", "1us", "3600s"]),
            ("size_bins", ["\"deciles\"", "[\"0B\", \"1B\", \"1000TB\"]", "[\"0B\", \"20kB\"]"]),
            ("gaps", ["true", "true", "false"]),
            ("background", ["true", "true", "false"]),
        ] {
            if self.random.chance(0.1) {
                let value = self.random.one_of(&values);
                self.set(&format!("metrics.{key}"), value);
            }
        }
    }

    /// What is recorded over the course of the run, on which nothing depends.
    fn recording(&mut self) {
        if self.random.chance(0.2) {
            let hop = &self.shape.hop;
            let period = self.random.one_of(&["10us", "1ms", "1000s"]);
            let what = self.random.one_of(&["queues = [\"all\"]", "flows = \"all\"", "hosts = [\"all\"]", "pending = false"]);
            self.set("observe", format!("{{ links = [\"{hop}\"], period = \"{period}\", {what} }}"));
        }
        if self.random.chance(0.2) {
            let what = self.random.one_of(&["", "flows = [0, 2]", "timeline = false", "to = \"20us\""]);
            self.set("trace", format!("{{ {what} }}"));
        }
    }

    fn run(&mut self) {
        if self.random.below(4) == 0 {
            let limit = self.random.one_of(&["1us", "1s", "1000000s"]);
            self.set("run.stall_limit", limit);
        }
        if self.random.below(6) == 0 {
            let limit = self.random.one_of(&["1ps", "1ms", "10000000s"]);
            self.set("run.time_limit", limit);
        }
        let seed = self.random.below(usize::MAX >> 12);
        self.set("run.seed", seed);
    }
}
