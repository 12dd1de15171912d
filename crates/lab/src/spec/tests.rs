//! Scenarios: what they read as, and that they are written as they read.

use flowloom_core::{Bytes, Duration, Rate};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;
use toml::Table;

use super::*;
use crate::catalogue;
use crate::topologies::{LeafSpine, network_schema};
use crate::workload::{Deadline, LoadLink, MatrixKind, Sizes, Tenant, Uniform, UniformDeadline, WorkloadKind, WorkloadSpec};

const SMALL: &str = "
[topology]
kind = \"leaf_spine\"
[workload]
kind = \"poisson\"
sizes = \"imc10\"
load = 0.6
flows = 10
[transport]
name = \"phost\"
";

fn load(text: &str, overrides: &[&str]) -> Spec {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Scenario::load(text, "dir/s.toml", &overrides).map_err(|error| error.to_string()).unwrap().spec
}

#[test]
fn defaults_are_those_of_the_phost_paper() {
    let spec = load(SMALL, &[]);
    assert_eq!(spec.topology, Topology::LeafSpine(LeafSpine::default()));
    assert_eq!((spec.fabric.buffer, spec.fabric.routing), (None, None));
    let WorkloadSpec::One(WorkloadKind::Poisson(poisson)) = &spec.workload.spec else { panic!("{:?}", spec.workload) };
    assert_eq!((poisson.load_link, poisson.matrix, &poisson.deadline), (LoadLink::Host, MatrixKind::AllToAll, &None));
    assert_eq!(spec.run, Run::default());
    assert_eq!(spec.metrics.size_bins, Metrics::default().size_bins);
}

#[test]
fn what_is_written_names_every_default() {
    let text = load(SMALL, &["run.seed=7"]).to_toml();
    for line in [
        "seed = 7",
        "spines = 4",
        "delay = \"200ns\"",
        "matrix = \"all_to_all\"",
        "switching = \"cut_through\"",
        "[transport.phost]",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
}

#[test]
fn overrides_are_toml_or_bare_words() {
    let spec = load(
        SMALL,
        &[
            "topology.delay=1us",
            "workload.load=0.7",
            "workload.load = 0.8",
            "workload.sizes={ uniform = [\"2kB\", \"198kB\"] }",
            "workload.deadline.kind=uniform",
            "workload.deadline.min=5ms",
            "workload.deadline.max='25ms'",
            "workload.tenant=[{ name = \"a\", share = 1 }]",
            "workload.tenant.0.name=b",
            "transport.phost.data_priorities=false",
            "metrics.size_bins=[\"0B\", \"100KiB\", \"10MiB\"]",
            "metrics.request_delay=85.2us",
        ],
    );
    let Topology::LeafSpine(topology) = &spec.topology else { panic!("{:?}", spec.topology) };
    assert_eq!(topology.delay, Quantity(Duration::from_us(1)));
    let WorkloadSpec::One(WorkloadKind::Poisson(poisson)) = &spec.workload.spec else { panic!("{:?}", spec.workload) };
    assert_eq!(poisson.load, 0.8);
    assert_eq!(poisson.sizes, Sizes::Uniform(Uniform { uniform: [2_000, 198_000].map(|bytes| Quantity(Bytes::new(bytes))) }));
    let deadline = UniformDeadline {
        min: Quantity(Duration::from_ms(5)),
        max: Quantity(Duration::from_ms(25)),
        floor: 0.0,
        handshake: false,
    };
    assert_eq!(poisson.deadline, Some(Deadline::Uniform(deadline)));
    assert_eq!(poisson.tenants, [Tenant { name: "b".to_owned(), sizes: None, matrix: None, share: 1.0 }]);
    let edges = [0, 102_400, 10_485_760].map(Bytes::new);
    assert_eq!(spec.metrics.size_bins.edges(std::iter::empty()), edges);
    assert_eq!(spec.metrics.request_delay, Quantity(Duration::from_ns(85_200)));
    assert_eq!(spec.transport.parameters["phost"].to_table()["data_priorities"], toml::Value::Boolean(false));
}

#[test]
fn files_are_relative_to_the_scenario() {
    let base = |path| Scenario::load(SMALL, path, &[]).map_err(|error| error.to_string()).unwrap().base_dir;
    assert_eq!(base("a/b/s.toml"), Path::new("a/b"));
    assert_eq!(base("s.toml"), Path::new(""));
}

/// The schema is the reference: every key says what it is.
#[test]
fn every_key_is_described() {
    fn walk(path: &str, schema: &Value, bare: &mut Vec<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if property["description"].as_str().unwrap_or_default().is_empty() && property["const"].is_null() {
                bare.push(path.clone());
            }
            walk(&path, property, bare);
        }
        let branches = ["oneOf", "anyOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten();
        branches.for_each(|branch| walk(path, branch, bare));
        if schema["items"].is_object() {
            walk(path, &schema["items"], bare);
        }
    }
    let mut bare = Vec::new();
    walk("", schema(), &mut bare);
    assert!(bare.is_empty(), "{bare:?}");
}

/// Transports' parameters are held to the same elsewhere.
#[test]
fn every_number_has_a_range() {
    fn walk(path: &str, schema: &Value, bare: &mut Vec<String>) {
        let is = |kind: &str| schema["type"] == kind || schema["type"].as_array().is_some_and(|kinds| kinds[0] == kind);
        let has = |name: &str| !schema[name].is_null();
        let lacks = if is("integer") || is("number") {
            !(has("minimum") || has("exclusiveMinimum")) || !has("maximum")
        } else {
            schema["format"].as_str().is_some_and(|format| format.starts_with("quantity-")) && !(has("x-min") && has("x-max"))
        };
        if lacks {
            bare.push(path.to_owned());
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            walk(&format!("{path}.{name}"), property, bare);
        }
        let branches = ["oneOf", "anyOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten();
        branches.for_each(|branch| walk(path, branch, bare));
        if schema["items"].is_object() {
            walk(&format!("{path}[]"), &schema["items"], bare);
        }
    }
    let mut bare = Vec::new();
    for (name, property) in schema()["properties"].as_object().expect("tables") {
        if name != "transport" {
            walk(name, property, &mut bare);
        }
    }
    walk("file of a custom topology", network_schema(), &mut bare);
    assert!(bare.is_empty(), "{bare:?}");
}

#[test]
fn the_example_in_the_architecture_is_a_scenario() {
    let text = include_str!("../../../../ARCHITECTURE.md");
    let (_, after) = text.split_once("```toml\n").expect("an example");
    let (example, _) = after.split_once("```").expect("its end");
    let spec = load(example, &[]);
    assert_eq!(load(&spec.to_toml(), &[]), spec);
}

/// Any value that a schema allows.
fn any_of(schema: &Value) -> BoxedStrategy<toml::Value> {
    let number = |key: &str| schema[key].as_f64();
    let whole = |key: &str| schema[key].as_i64();
    if let Some(word) = schema["const"].as_str() {
        return Just(word.into()).boxed();
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<toml::Value> = words.iter().filter_map(Value::as_str).map(toml::Value::from).collect();
        return prop::sample::select(words).boxed();
    }
    if let Some(branches) = ["oneOf", "anyOf"].iter().find_map(|key| schema[*key].as_array()) {
        let branches: Vec<Value> = branches.iter().filter(|branch| branch["type"] != "null").cloned().collect();
        return prop::sample::select(branches).prop_flat_map(|branch| any_of(&branch)).boxed();
    }
    match (schema["type"].as_str().or(schema["type"][0].as_str()), schema["format"].as_str()) {
        (Some("object"), _) => any_table(schema),
        (Some("array"), _) => {
            let least = schema["minItems"].as_u64().unwrap_or(0) as usize;
            let most = schema["maxItems"].as_u64().map_or(3, |most| most.min(3)) as usize;
            vec(any_of(&schema["items"]), least..=most.max(least)).prop_map(toml::Value::Array).boxed()
        }
        (Some("boolean"), _) => any::<bool>().prop_map(toml::Value::from).boxed(),
        (Some("integer"), _) => {
            let range = whole("minimum").unwrap_or(0)..=whole("maximum").unwrap_or(i64::from(u16::MAX));
            range.prop_map(toml::Value::from).boxed()
        }
        (Some("number"), _) => {
            let least = number("minimum").or(number("exclusiveMinimum").map(|least| least + 1e-9)).expect("a range");
            (least..=number("maximum").expect("a range")).prop_map(toml::Value::from).boxed()
        }
        (_, Some("quantity-rate")) => any_quantity(schema, Rate::as_bps, Rate::from_bps),
        (_, Some("quantity-duration")) => any_quantity(schema, Duration::as_ps, Duration::from_ps),
        (_, Some("quantity-bytes")) => any_quantity(schema, Bytes::get, Bytes::new),
        (Some("string"), None) => "\\PC{0,9}".prop_map(toml::Value::from).boxed(),
        _ => panic!("{schema}"),
    }
}

fn any_quantity<T: std::str::FromStr<Err: std::fmt::Debug> + ToString + 'static>(
    schema: &Value,
    read: fn(T) -> u64,
    make: fn(u64) -> T,
) -> BoxedStrategy<toml::Value> {
    let bound = |key: &str| read(schema[key].as_str().expect("a range").parse().expect("a quantity"));
    (bound("x-min")..=bound("x-max")).prop_map(move |value| make(value).to_string().into()).boxed()
}

/// A table with all keys that are required, and with some of the others.
fn any_table(schema: &Value) -> BoxedStrategy<toml::Value> {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut table = Just(Table::new()).boxed();
    for (key, property) in schema["properties"].as_object().expect("a table") {
        let (key, optional) = (key.clone(), !required.contains(&key.as_str()));
        table = (table, any_of(property), any::<bool>())
            .prop_map(move |(mut table, value, given)| {
                if given || !optional {
                    table.insert(key.clone(), value);
                }
                table
            })
            .boxed();
    }
    table.prop_map(toml::Value::Table).boxed()
}

/// Any transport, with the defaults of it and of some others written out.
fn transport() -> impl Strategy<Value = TransportSpec> {
    let with = |name: &str| {
        let entry = catalogue::transport(name).expect("a listed name");
        (name.to_owned(), entry.defaults())
    };
    let names: Vec<&str> = catalogue::transport_names().collect();
    (prop::sample::select(names.clone()), prop::sample::subsequence(names.clone(), 0..=names.len())).prop_map(
        move |(name, others)| {
            let parameters = others.into_iter().chain([name]).map(with).collect();
            TransportSpec { name: name.to_owned(), parameters }
        },
    )
}

fn spec() -> impl Strategy<Value = Spec> {
    let mut others = schema().clone();
    others["properties"].as_object_mut().expect("a table").remove("transport");
    others["required"].as_array_mut().expect("a list").retain(|key| key != "transport");
    (any_table(&others), transport()).prop_map(|(mut table, transport)| {
        let transport = toml::Value::try_from(transport).expect("it is written as TOML");
        table.as_table_mut().expect("a table").insert("transport".to_owned(), transport);
        table.try_into().expect("the schema allows it")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_scenario_reads_back_as_it_was_written(spec in spec()) {
        let text = spec.to_toml();
        let read = Scenario::load(&text, "s.toml", &[]).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?.spec;
        prop_assert_eq!(&read, &spec);
        prop_assert_eq!(read.to_toml(), text);
    }

    #[test]
    fn no_text_breaks_the_reader(text in "\\PC{0,40}", override_text in "\\PC{0,20}") {
        let _ = Scenario::load(&text, "s.toml", &[]);
        let _ = Scenario::load(SMALL, "s.toml", &[override_text]);
        let _ = Scenario::load(&format!("{SMALL}{text}"), "s.toml", &[]);
    }
}

/// Of ten sizes from 1 to 10 B, each is the upper edge of a bin, but for the largest. Where most flows have one size, bins that would be the same are one.
#[test]
fn deciles_by_hand() {
    let deciles = SizeBins::Deciles(Deciles::Deciles);
    let of = |sizes: &[u64]| -> Vec<u64> {
        deciles.edges(sizes.iter().map(|bytes| Bytes::new(*bytes))).iter().map(|edge| edge.get()).collect()
    };
    assert_eq!(of(&[3, 1, 2, 10, 9, 8, 7, 6, 5, 4]), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(of(&[7, 7, 7, 7, 7, 7, 7, 7, 8, 9, 0]), [0, 7, 8]);
    assert_eq!(of(&[5]), [0]);
    assert_eq!(of(&[]), [0]);
}
