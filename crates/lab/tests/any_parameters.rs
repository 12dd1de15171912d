//! Whatever the parameters are within their ranges, a scenario ends: in a whole result, in an error before it runs, or in a diagnosis.
//!
//! Transports' parameters, and those of flow control, are drawn from their schemas, mostly from the ends of the ranges. Nothing limits the
//! runs from outside.

use std::collections::BTreeMap;
use std::path::Path;

use flowloom_core::{Bytes, Duration};
use flowloom_lab::spec::{Scenario, schema};
use flowloom_lab::{RunError, run};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde_json::Value;

/// Another seed can be given as `FLOWLOOM_SEED`.
const SEED: u64 = 20_261_124;
/// For each transport.
const SCENARIOS: usize = 60;
/// Far more steps than any run here takes: a run with more would never end.
const STEPS_MOST: u64 = 2_000;
/// What some of the scenarios that run to their end must have.
const FEATURES: [&str; 8] =
    ["spray_labelled", "fabric.pfc", "coflow_trace", "coflow_synthetic", "node_down", "pause_storm", "three_tier", "fat_tree"];
/// Four racks; a coflow of one flow, and one of four flows.
const COFLOWS: &str = "4 2\n1 0 1 0 1 1:0.02\n2 1 2 0 1 2 2:0.04 3:0.001\n";

struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Each transport has draws of its own: a new parameter of one transport changes no scenario of another.
    fn of(transport: &str, seed: u64) -> Random {
        let seed = transport.bytes().fold(seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }
    fn below(&mut self, count: usize) -> usize {
        (self.unit() * count as f64) as usize
    }
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
    fn one_of<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }
    /// One of the ends, or between them with all orders of magnitude alike.
    fn between(&mut self, least: f64, most: f64) -> f64 {
        match self.below(3) {
            0 => least,
            1 => most,
            _ => (((most - least + 1.0).ln() * self.unit()).exp() - 1.0 + least).clamp(least, most),
        }
    }
    fn quantity(&mut self, schema: &Value) -> String {
        let bound = |name: &str| schema[name].as_str().unwrap_or_else(|| panic!("{schema} has no range"));
        let (least, most) = (bound("x-min"), bound("x-max"));
        match schema["format"].as_str() {
            Some("quantity-duration") => {
                let [least, most] = [least, most].map(|text| text.parse::<Duration>().unwrap().as_ps() as f64);
                format!("\"{}ps\"", self.between(least, most) as u64)
            }
            Some("quantity-bytes") => {
                let [least, most] = [least, most].map(|text| text.parse::<Bytes>().unwrap().get() as f64);
                format!("\"{}B\"", self.between(least, most) as u64)
            }
            other => panic!("{other:?}"),
        }
    }
    fn value(&mut self, schema: &Value) -> String {
        if let Some(words) = schema["oneOf"].as_array() {
            return format!("\"{}\"", words[self.below(words.len())]["const"].as_str().expect("a word"));
        }
        if let Some(words) = schema["enum"].as_array() {
            return format!("\"{}\"", words[self.below(words.len())].as_str().expect("a word"));
        }
        if let Some(branches) = schema["anyOf"].as_array() {
            let branch = self.below(branches.len());
            return self.value(&branches[branch]);
        }
        let bound = |name: &str| schema[name].as_f64();
        let kind = schema["type"].as_str().unwrap_or_else(|| schema["type"][0].as_str().expect("a type"));
        match kind {
            "boolean" => (self.below(2) == 0).to_string(),
            "string" => self.quantity(schema),
            "integer" => format!("{}", self.between(bound("minimum").unwrap(), bound("maximum").unwrap()).round()),
            "number" => {
                let least = bound("minimum").or(bound("exclusiveMinimum").map(|least| least + 1e-9)).unwrap();
                format!("{:?}", self.between(least, bound("maximum").unwrap()))
            }
            "array" => {
                let count = self.below(schema["maxItems"].as_u64().unwrap() as usize + 1);
                let mut sizes: Vec<u64> = (0..count).map(|_| self.between(1.0, 1e12) as u64).collect();
                sizes.sort_unstable();
                format!("[{}]", sizes.iter().map(|size| format!("\"{size}B\"")).collect::<Vec<_>>().join(", "))
            }
            other => panic!("{other}"),
        }
    }

    /// Overrides for some of the parameters below `path`, each drawn with this probability.
    fn parameters(&mut self, path: &str, schema: &Value, share: f64, overrides: &mut Vec<String>) {
        for (name, property) in schema["properties"].as_object().expect("a table") {
            let key = format!("{path}.{name}");
            if property["properties"].is_object() {
                self.parameters(&key, property, share, overrides);
            } else if self.unit() < share {
                overrides.push(format!("{key}={}", self.value(property)));
            }
        }
    }

    fn network(&mut self, overrides: &mut Vec<String>) {
        let topology = self.one_of(&[
            "{ kind = \"single_switch\", hosts = 3 }",
            "{ kind = \"dumbbell\", hosts_per_side = 2 }",
            "{ kind = \"leaf_spine\", racks = 2, hosts_per_rack = 2, spines = 2 }",
            "{ kind = \"three_tier\", racks = 2, hosts_per_rack = 2 }",
            "{ kind = \"fat_tree\" }",
        ]);
        overrides.push(format!("topology={topology}"));
        if self.below(2) == 0 {
            let routing = self.one_of(&[
                "spray_random",
                "spray_labelled",
                "spray_labelled",
                "spray_round_robin",
                "ecmp",
                "ecmp_symmetric",
            ]);
            overrides.push(format!("fabric.routing={routing}"));
        }
        if self.below(3) > 0 {
            let buffer = self.one_of(&["1538B", "3kB", "36kB", "36kB", "200kB"]);
            overrides.push(format!("fabric.buffer={buffer}"));
            return;
        }
        let rates = ["8b/s", "1kb/s", "1Mb/s", "1Gb/s", "10Gb/s", "10Gb/s", "10Gb/s", "400Gb/s", "1000Tb/s"];
        let rate_of = if topology.contains("fat_tree") { "rate" } else { "host_rate" };
        overrides.push(format!("topology.{rate_of}={}", self.one_of(&rates)));
        let delays = ["0s", "1ps", "200ns", "200ns", "200ns", "10us", "1ms", "1s", "1000s", "1000000s"];
        overrides.push(format!("topology.delay={}", self.one_of(&delays)));
        let buffers = ["1.5kB", "1538B", "3kB", "36kB", "36kB", "200kB", "1GB", "2147483647B"];
        overrides.push(format!("fabric.buffer={}", self.one_of(&buffers)));
        let wire = self.one_of(&["ip_1500", "ip_1500", "ethernet_1538", "ns2_1000"]);
        overrides.push(format!("fabric.wire={wire}"));
        overrides.push(format!("fabric.switching={}", self.one_of(&["cut_through", "store_and_forward"])));
    }

    /// Priority flow control, with its defaults or with any parameters, in memory that often suffices.
    fn flow_control(&mut self, schema: &Value, overrides: &mut Vec<String>) {
        overrides.push("fabric.pfc={}".to_owned());
        overrides.push(format!("fabric.buffer={}", self.one_of(&["36kB", "200kB"])));
        let share = *self.one_of(&[&0.0, &0.4]);
        self.parameters("fabric.pfc", schema, share, overrides);
    }

    fn faults(&mut self, pauses: bool, overrides: &mut Vec<String>) {
        let probability = self.one_of(&["0.01", "0.3", "0.9", "0.999", "1.0"]);
        let (kind, more) = match self.below(14) {
            _ if pauses && self.below(3) == 0 => return self.outage(pauses, overrides),
            0 | 1 => ("loss", String::new()),
            2 => ("corrupt", String::new()),
            3 => ("duplicate", String::new()),
            4 => ("reorder", format!(", delay = \"{}\"", self.one_of(&["1ps", "10us", "1s", "1000000s"]))),
            5..=8 => return self.outage(pauses, overrides),
            _ => return,
        };
        overrides.push(format!("fault=[{{ kind = \"{kind}\", where = \"all\", probability = {probability}{more} }}]"));
    }

    /// A node or all links that are down for a while, or a storm of pauses.
    fn outage(&mut self, pauses: bool, overrides: &mut Vec<String>) {
        let (from, to) = (self.one_of(&["0s", "1ns", "10us"]), self.one_of(&["1us", "100us", "1s", "3s"]));
        let node = self.one_of(&["h0", "h1", "h2", "arbiter"]);
        // The peers of a host that was down may go on for as long as flows are to come: too long if the next one is far.
        let lasting = |text: &String| ["1000s", "100000s", "1e-9"].iter().any(|gap| text.contains(gap));
        let what = match self.below(4) {
            _ if pauses => "kind = \"pause_storm\", node = \"h1\"".to_owned(),
            kind if kind == 0 || overrides.iter().any(lasting) => "kind = \"link_down\", where = \"all\"".to_owned(),
            _ => format!("kind = \"node_down\", node = \"{node}\""),
        };
        overrides.push(format!("fault=[{{ {what}, from = \"{from}\", to = \"{to}\" }}]"));
    }

    fn workload(&mut self, trace: &str, overrides: &mut Vec<String>) {
        let size = self.one_of(&["1B", "1460B", "1461B", "20kB", "20kB", "60kB"]);
        let load = self.one_of(&["1e-9", "0.01", "0.9"]);
        let workload = match self.below(10) {
            0 | 1 => format!("{{ kind = \"burst\", flows = {}, sizes = {{ fixed = \"{size}\" }} }}", 1 + self.below(6)),
            2 | 3 => format!("{{ kind = \"poisson\", flows = 5, load = {load}, sizes = {{ fixed = \"{size}\" }} }}"),
            4 | 5 => format!(
                "{{ kind = \"closed_loop\", from = [0, 1], to = 2, loops = 2, requests = 2, think = \"{}\", sizes = {{ fixed = \"{size}\" }} }}",
                self.one_of(&["1ps", "1us", "1000s"])
            ),
            6 => format!("{{ kind = \"coflow_trace\", file = \"{trace}\" }}"),
            7 => format!("{{ kind = \"coflow_synthetic\", coflows = 1, load = {load}, size_divisor = 1e6 }}"),
            _ => format!(
                "{{ kind = \"incast\", senders = 2, requests = 2, bytes = \"40kB\", period = \"{}\" }}",
                self.one_of(&["1us", "1ms", "100000s"])
            ),
        };
        overrides.push(format!("workload={workload}"));
        if self.below(4) == 0 && !workload.contains("closed_loop") && !workload.contains("coflow") {
            let mean = self.one_of(&["1ps", "1ms", "1000s", "1000000s"]);
            let floor = self.one_of(&["0", "1.25", "1e6"]);
            overrides.push(format!("workload.deadline={{ kind = \"exponential\", mean = \"{mean}\", floor = {floor} }}"));
        }
        if self.below(4) == 0 {
            overrides.push(format!("run.stall_limit={}", self.one_of(&["1us", "1s", "1000000s"])));
        }
        if self.below(6) == 0 {
            overrides.push(format!("run.time_limit={}", self.one_of(&["1ps", "1ms", "10000000s"])));
        }
        overrides.push(format!("run.seed={}", self.0.next_u64() >> 2));
    }
}

const SCENARIO: &str = "[topology]\nkind = \"single_switch\"\n[workload]\nkind = \"permutation\"\nsizes = { fixed = \"1kB\" }\n[transport]\nname = \"ideal\"\n";

#[test]
fn every_scenario_ends() {
    let catalogue = flowloom_lab::catalogue();
    let seed = std::env::var("FLOWLOOM_SEED").map_or(SEED, |seed| seed.parse().expect("FLOWLOOM_SEED is a number"));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let schema = schema();
    let flow_control = &schema["properties"]["fabric"]["properties"]["pfc"];
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("any_parameters.txt");
    std::fs::write(&trace, COFLOWS).unwrap();
    let trace = trace.display().to_string();
    for transport in catalogue["transports"].as_array().expect("a list") {
        let name = transport["name"].as_str().expect("a name");
        let over_pfc = [format!("transport.name={name}"), "fabric.pfc={}".to_owned()];
        let pausable = Scenario::load(SCENARIO, "scenario.toml", &over_pfc).is_ok_and(|scenario| scenario.validate().is_ok());
        let mut random = Random::of(name, seed);
        let mut ended = 0;
        for number in 0..SCENARIOS {
            let mut overrides = vec![format!("transport.name={name}")];
            random.network(&mut overrides);
            let pauses = pausable && random.below(3) == 0;
            if pauses {
                random.flow_control(flow_control, &mut overrides);
            }
            random.workload(&trace, &mut overrides);
            // A coflow may have thousands of flows: too many for links that lose nearly everything.
            if !overrides.iter().any(|text| text.contains("coflow_synthetic")) {
                random.faults(pauses, &mut overrides);
            }
            let share = [0.0, 0.03, 0.06, 0.1, 0.2, 1.0][number % 6];
            random.parameters(&format!("transport.{name}"), &transport["schema"], share, &mut overrides);
            let outcome = outcome(&overrides);
            *counts.entry(outcome).or_default() += 1;
            if outcome == "ended" {
                ended += 1;
                let has = |feature: &&str| overrides.iter().any(|text| text.contains(feature));
                FEATURES.into_iter().filter(has).for_each(|feature| *counts.entry(feature).or_default() += 1);
            }
        }
        assert!(ended >= SCENARIOS / 8, "{name}: {ended} scenarios ran to their end");
    }
    println!("seed {seed}: {counts:?}");
    for (kinds, least) in [(&["ended", "stopped without progress", "refused"][..], 20), (&FEATURES, 10)] {
        assert!(kinds.iter().all(|kind| counts.get(kind).is_some_and(|count| *count >= least)), "{counts:?}");
    }
}

fn outcome(overrides: &[String]) -> &'static str {
    let mut steps = 0;
    let result = Scenario::load(SCENARIO, "scenario.toml", overrides).map_err(RunError::Scenario).and_then(|scenario| {
        run(&scenario, &mut |_, _, _| {
            steps += 1;
            steps < STEPS_MOST
        })
    });
    let what = || overrides.join("\n");
    match result {
        Ok(outcome) => {
            let summary = outcome.summary;
            assert!(
                overrides.iter().any(|text| text.contains("time_limit")) || summary.finished + summary.aborted == summary.flows,
                "{}",
                what()
            );
            "ended"
        }
        Err(RunError::Scenario(error)) => {
            assert!(error.key().is_some(), "{error}\n{}", what());
            "refused"
        }
        Err(RunError::Failed(message)) => {
            let stall = message.contains("\n  open: flow ") && message.contains("\n  likely: ");
            let many = message.contains(" packets are on their way at once, the most there can be; ");
            assert!(stall || many, "{message}\n{}", what());
            if stall { "stopped without progress" } else { "stopped with too many packets" }
        }
        Err(RunError::Stopped) => panic!("no end:\n{}", what()),
    }
}
