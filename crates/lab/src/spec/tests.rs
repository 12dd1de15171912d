//! Scenarios: what they read as, and that they are written as they read.

use flowloom_core::{Bytes, Duration, Rate};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::catalogue;
use crate::cdf_file::Dialect;
use crate::metrics::FctEnd;
use crate::tables::TABLES;
use flowloom_transports::pfc::Pfc;

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
    assert_eq!(spec.fabric.buffer, Quantity(Bytes::new(36_864)));
    let WorkloadSpec::One(WorkloadKind::Poisson(poisson)) = &spec.workload.spec else { panic!("{:?}", spec.workload) };
    assert_eq!((poisson.load_link, poisson.matrix, &poisson.deadline), (LoadLink::Host, MatrixKind::AllToAll, &None));
    assert_eq!(spec.run, Run::default());
    assert_eq!(spec.metrics.size_bins.len(), 4);
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
    assert_eq!(spec.metrics.size_bins, [0, 102_400, 10_485_760].map(|bytes| Quantity(Bytes::new(bytes))));
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

fn quantity<T>(base: impl Strategy<Value = u64>, make: fn(u64) -> T) -> impl Strategy<Value = Quantity<T>>
where
    T: std::fmt::Debug,
{
    base.prop_map(move |value| Quantity(make(value)))
}
/// Up to 1000 s, which every duration may be.
fn duration() -> impl Strategy<Value = Quantity<Duration>> {
    quantity(0..=1_000_000_000_000_000_u64, Duration::from_ps)
}
fn positive_duration() -> impl Strategy<Value = Quantity<Duration>> {
    quantity(1..=1_000_000_000_000_000_u64, Duration::from_ps)
}
fn rate() -> impl Strategy<Value = Quantity<Rate>> {
    quantity(1..=1_000_000_000_000_000_u64, Rate::from_bps)
}
/// The size of a flow.
fn bytes() -> impl Strategy<Value = Quantity<Bytes>> {
    quantity(1..=1_000_000_000_000_000_u64, Bytes::new)
}
fn share() -> impl Strategy<Value = f64> {
    (1u64..=1 << 53).prop_map(|n| n as f64 / (1u64 << 53) as f64)
}

fn topology() -> impl Strategy<Value = Topology> {
    let counts = || (1u32..100, 1u32..100, 1u32..100);
    prop_oneof![
        (2u32..100, rate(), duration())
            .prop_map(|(hosts, host_rate, delay)| { Topology::SingleSwitch(SingleSwitch { hosts, host_rate, delay }) }),
        (1u32..100, rate(), rate(), duration()).prop_map(|(hosts_per_side, host_rate, middle_rate, delay)| {
            Topology::Dumbbell(Dumbbell { hosts_per_side, host_rate, middle_rate, delay })
        }),
        (counts(), rate(), rate(), duration(), option::of(duration())).prop_map(
            |((racks, hosts_per_rack, spines), host_rate, spine_rate, delay, host_delay)| {
                Topology::LeafSpine(LeafSpine { racks, hosts_per_rack, spines, host_rate, spine_rate, delay, host_delay })
            }
        ),
        (counts(), rate(), rate(), rate(), duration(), option::of(duration())).prop_map(
            |((racks, hosts_per_rack, aggregations), host_rate, aggregation_rate, core_rate, delay, host_delay)| {
                Topology::ThreeTier(ThreeTier {
                    racks,
                    hosts_per_rack,
                    aggregations,
                    host_rate,
                    aggregation_rate,
                    core_rate,
                    delay,
                    host_delay,
                })
            }
        ),
        (2u32..=64, rate(), duration(), option::of(duration()))
            .prop_map(|(k, rate, delay, host_delay)| Topology::FatTree(FatTree { k, rate, delay, host_delay })),
        "\\PC{0,9}".prop_map(|file| Topology::Custom(Custom { file })),
    ]
}

fn fabric() -> impl Strategy<Value = Fabric> {
    use {RoutingMode as R, SwitchingMode as S};
    let wire = prop::sample::select(vec![WirePreset::Ip1500, WirePreset::Ethernet1538, WirePreset::Ns21000]);
    let routing = prop::sample::select(vec![R::SprayRandom, R::SprayRoundRobin, R::Ecmp, R::EcmpSymmetric]);
    let switching = prop::sample::select(vec![S::CutThrough, S::StoreAndForward]);
    let sharing = prop::sample::select(vec![SharingMode::Port, SharingMode::Switch]);
    let alpha = option::of(0.001..=1000.0);
    let most = |bytes: Option<u64>| bytes.map(Bytes::new);
    let pfc = (1..=9000_u64, option::of(0..=1_000_000_000_u64), 0.0..=1.0).prop_map(move |(frame, limit, storm_share)| Pfc {
        frame: Bytes::new(frame),
        headroom: most(limit),
        xoff: most(limit),
        hysteresis: most(limit),
        storm_share,
        ..Pfc::default()
    });
    (wire, quantity(1..=2_000_000_000_u64, Bytes::new), sharing, alpha, routing, switching, option::of(pfc)).prop_map(
        |(wire, buffer, sharing, alpha, routing, switching, pfc)| Fabric {
            wire,
            buffer,
            sharing,
            alpha,
            routing,
            switching,
            pfc,
        },
    )
}

fn fault() -> impl Strategy<Value = FaultSpec> {
    let packets =
        || prop::sample::select(vec![FaultPackets::All, FaultPackets::Data, FaultPackets::Control, FaultPackets::Messages]);
    let random = ("\\PC{0,9}", share(), packets(), option::of(any::<u32>()))
        .prop_map(|(place, probability, packets, flow)| Random { place, probability, packets, flow });
    prop_oneof![
        (random, 0..3)
            .prop_map(|(random, kind)| [FaultSpec::Loss, FaultSpec::Corrupt, FaultSpec::Duplicate][kind as usize](random)),
        ("all", share(), duration(), packets(), option::of(any::<u32>())).prop_map(
            |(place, probability, delay, packets, flow)| FaultSpec::Reorder(Reorder {
                place,
                probability,
                delay,
                packets,
                flow
            })
        ),
        ("all", duration(), duration()).prop_map(|(place, from, to)| FaultSpec::LinkDown(LinkDown { place, from, to })),
        ("\\PC{0,9}", duration(), duration()).prop_map(|(node, from, to)| FaultSpec::NodeDown(NodeDown { node, from, to })),
        ("\\PC{0,9}", duration(), duration(), positive_duration())
            .prop_map(|(node, from, to, every)| FaultSpec::PauseStorm(PauseStorm { node, from, to, every })),
    ]
}

fn sizes() -> impl Strategy<Value = Sizes> {
    use Dialect as D;
    let dialects = vec![D::BytesPercent, D::BytesProbability, D::PacketsProbability, D::Ns2Bytes, D::Ns2Packets];
    prop_oneof![
        (0..TABLES.len()).prop_map(|index| Sizes::Table(TABLES[index].name.to_owned())),
        bytes().prop_map(|fixed| Sizes::Fixed(Fixed { fixed })),
        [bytes(), bytes()].prop_map(|uniform| Sizes::Uniform(Uniform { uniform })),
        ([bytes(), bytes()], share()).prop_map(|(bimodal, first_share)| Sizes::Bimodal(Bimodal { bimodal, first_share })),
        ("\\PC{0,9}", option::of(prop::sample::select(dialects)))
            .prop_map(|(cdf, dialect)| Sizes::Cdf(CdfFile { cdf, dialect })),
    ]
}

fn deadline() -> impl Strategy<Value = Option<Deadline>> {
    option::of(prop_oneof![
        (positive_duration(), 0.0..1e6, any::<bool>())
            .prop_map(|(mean, floor, handshake)| Deadline::Exponential(ExponentialDeadline { mean, floor, handshake })),
        (duration(), duration(), 0.0..1e6, any::<bool>())
            .prop_map(|(min, max, floor, handshake)| Deadline::Uniform(UniformDeadline { min, max, floor, handshake })),
    ])
}

fn kind() -> impl Strategy<Value = WorkloadKind> {
    let matrix = || prop::sample::select(MatrixKind::ALL.to_vec());
    let load_link = prop::sample::select(vec![LoadLink::Host, LoadLink::Core]);
    let sources = prop::sample::select(vec![Sources::Independent, Sources::InTurn]);
    let tenant = || {
        ("\\PC{0,9}", option::of(sizes()), option::of(matrix()), share()).prop_map(|(name, sizes, matrix, share)| Tenant {
            name,
            sizes,
            matrix,
            share,
        })
    };
    let tenants = || vec(tenant(), 0..3);
    let count = || 1u32..100_000_000;
    let loops = || (1u32..16_000_000, 1u32..65_000, positive_duration());
    let host = || prop_oneof![(0u32..100_000).prop_map(HostRef::Number), "\\PC{0,9}".prop_map(HostRef::Name)];
    let receivers = prop::sample::select(vec![Receivers::Random, Receivers::RoundRobin]);
    let clocks = [option::of(positive_duration()), option::of(positive_duration())];
    prop_oneof![
        (sizes(), share(), load_link, count(), matrix(), sources, deadline(), tenants()).prop_map(
            |(sizes, load, load_link, flows, matrix, sources, deadline, tenants)| {
                WorkloadKind::Poisson(Poisson { sizes, load, load_link, flows, matrix, sources, deadline, tenants })
            }
        ),
        (
            1u32..65_000,
            option::of(bytes()),
            option::of(sizes()),
            count(),
            (option::of(host()), receivers),
            option::of(share()),
            clocks,
            deadline()
        )
            .prop_map(
                |(senders, bytes, sizes, requests, (receiver, receivers), load, [mean_gap, period], deadline)| {
                    WorkloadKind::Incast(Incast {
                        senders,
                        bytes,
                        sizes,
                        requests,
                        receiver,
                        receivers,
                        load,
                        mean_gap,
                        period,
                        deadline,
                    })
                }
            ),
        (sizes(), deadline()).prop_map(|(sizes, deadline)| WorkloadKind::Permutation(Permutation { sizes, deadline })),
        (sizes(), count(), matrix(), deadline(), tenants()).prop_map(|(sizes, flows, matrix, deadline, tenants)| {
            WorkloadKind::Burst(Burst { sizes, flows, matrix, deadline, tenants })
        }),
        (vec(host(), 1..4), host(), sizes(), loops()).prop_map(|(from, to, sizes, (requests, loops, think))| {
            WorkloadKind::ClosedLoop(ClosedLoop { from, to, sizes, requests, loops, think })
        }),
        "\\PC{0,9}".prop_map(|file| WorkloadKind::Trace(Trace { file })),
        ("\\PC{0,9}", 1.0..1e9, 0.001..1e3, duration(), option::of(positive_duration()), option::of(count())).prop_map(
            |(file, size_divisor, time_divisor, from, until, coflows)| {
                WorkloadKind::CoflowTrace(CoflowTrace { file, size_divisor, time_divisor, from, until, coflows })
            }
        ),
        (1u32..1_000_000, share(), prop::sample::select(vec![LoadLink::Host, LoadLink::Core]), 0.001..1e9).prop_map(
            |(coflows, load, load_link, size_divisor)| {
                WorkloadKind::CoflowSynthetic(CoflowSynthetic { coflows, load, load_link, size_divisor })
            }
        ),
    ]
}

fn background() -> impl Strategy<Value = Background> {
    let matrix = option::of(prop::sample::select(MatrixKind::ALL.to_vec()));
    let hosts = || option::of(prop_oneof![(0..100_000u32).prop_map(HostRef::Number), "h[0-9]".prop_map(HostRef::Name)]);
    (hosts(), hosts(), option::of(1..=1_000_000u32), matrix, duration(), option::of(bytes()))
        .prop_map(|(src, dst, pairs, matrix, start, size)| Background { src, dst, pairs, matrix, start, size })
}

fn workload() -> impl Strategy<Value = WorkloadTable> {
    let part = || ("\\PC{0,9}", duration(), kind()).prop_map(|(name, start, kind)| Part { name, start, kind });
    let spec = prop_oneof![
        kind().prop_map(WorkloadSpec::One),
        vec(part(), 1..4).prop_map(|parts| WorkloadSpec::Several(Mix::Mix(Parts { parts }))),
    ];
    (spec, vec(background(), 0..3)).prop_map(|(spec, background)| WorkloadTable { spec, background })
}

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
    let run = (0u64..=i64::MAX as u64, option::of(positive_duration()), option::of(1_000_000u64..1 << 59)).prop_map(
        |(seed, time_limit, stall_ps)| Run {
            seed,
            time_limit,
            stall_limit: stall_ps.map(|ps| Quantity(Duration::from_ps(ps))),
        },
    );
    let ends = prop::sample::select(vec![FctEnd::Receiver, FctEnd::Sender]);
    let optima = prop::sample::select(vec![Optimum::ClosedForm, Optimum::Handshake, Optimum::Solo]);
    let metrics = (ends, optima, duration(), any::<bool>(), vec(bytes(), 0..5), any::<bool>()).prop_map(
        |(fct_end, optimum, request_delay, background, size_bins, gaps)| Metrics {
            fct_end,
            optimum,
            request_delay,
            background,
            size_bins,
            gaps,
        },
    );
    let places = || vec(prop::sample::select(vec!["all", "leaf-host", "l0-s1"]).prop_map(str::to_owned), 0..3);
    let chosen = || prop_oneof![Just(FlowChoice::All(AllFlows::All)), vec(any::<u32>(), 0..3).prop_map(FlowChoice::Ids)];
    let trace = (chosen(), places(), duration(), 1..=100_000_000_u32, any::<bool>(), any::<bool>()).prop_map(
        |(flows, links, from, records, capture, timeline)| PacketTrace {
            flows,
            links,
            from,
            to: None,
            records,
            capture,
            timeline,
        },
    );
    let observe =
        (any::<bool>(), places(), places(), chosen(), vec(any::<u16>(), 0..3), places(), positive_duration(), duration())
            .prop_map(|(pending, queues, links, flows, tenants, hosts, period, from)| Observe {
                pending,
                queues,
                links,
                flows,
                tenants,
                hosts,
                period,
                from,
                to: None,
            });
    (run, topology(), fabric(), vec(fault(), 0..3), workload(), transport(), metrics, observe, option::of(trace)).prop_map(
        |(run, topology, fabric, faults, workload, transport, metrics, observe, trace)| Spec {
            run,
            topology,
            fabric,
            faults,
            workload,
            transport,
            metrics,
            observe,
            trace,
        },
    )
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
