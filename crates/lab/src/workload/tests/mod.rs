//! Flow lists: how much traffic they are, that they are the same every time, and what each kind promises.

mod loops;
mod mix;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use flowloom_core::{Coflow, Duration, Rate, Switching, topology};
use flowloom_transports::quantity::Quantity;

use super::*;

const WIRE: WireProfile = WireProfile::IP_1500;

fn fabric() -> Network {
    topology::leaf_spine(9, 16, 4, Rate::from_gbps(10), Rate::from_gbps(40), Duration::from_ns(200), Switching::StoreAndForward)
}
fn table(name: &str) -> Sizes {
    Sizes::Table(name.to_owned())
}
fn fixed(bytes: u64) -> Sizes {
    Sizes::Fixed(Fixed { fixed: Quantity(Bytes::new(bytes)) })
}
fn poisson(sizes: Sizes, load: f64, flows: u32) -> Poisson {
    Poisson {
        sizes,
        load,
        load_link: LoadLink::Host,
        flows,
        matrix: MatrixKind::AllToAll,
        sources: Sources::Independent,
        deadline: None,
        tenants: Vec::new(),
    }
}
fn flows_of(kind: &WorkloadKind, seed: u64) -> Vec<Flow> {
    flows_in(&WorkloadSpec::One(kind.clone()), &fabric(), seed)
}
fn flows_in(spec: &WorkloadSpec, network: &Network, seed: u64) -> Vec<Flow> {
    workload_in(spec, network, seed).flows
}
fn workload_in(spec: &WorkloadSpec, network: &Network, seed: u64) -> Workload {
    let table = WorkloadTable { spec: spec.clone(), background: Vec::new() };
    let workload = generate(&table, network, None, &WIRE, seed, Path::new("")).map_err(|error| error.to_string()).unwrap();
    let flows = &workload.flows;
    assert!(flows.iter().enumerate().all(|(index, flow)| flow.id.0 as usize == index));
    assert!(flows.is_sorted_by_key(|flow| flow.start));
    assert!(
        flows
            .iter()
            .all(|flow| flow.src != flow.dst && flow.src.index() < network.hosts() && flow.dst.index() < network.hosts())
    );
    workload
}
fn wire_bytes(flows: &[Flow]) -> f64 {
    flows.iter().map(|flow| WIRE.flow_wire_bytes(flow.size).get() as f64).sum()
}

/// One Poisson process over the 72 hosts on the left, whose flows go straight across: every host sends each 72nd flow, and the load is met.
#[test]
fn sources_take_turns() {
    let matrix = MatrixKind::LeftRightPairs;
    let spec = Poisson { matrix, sources: Sources::InTurn, ..poisson(fixed(14_600), 0.6, 100_000) };
    let flows = flows_of(&WorkloadKind::Poisson(spec.clone()), 1);
    for (number, flow) in (0u32..).zip(&flows) {
        assert_eq!((flow.src.0, flow.dst.0), (number % 72, number % 72 + 72));
    }
    let load = wire_bytes(&flows) / flows.last().unwrap().start.as_secs_f64() / (72.0 * 1.25e9);
    assert!((load / 0.6 - 1.0).abs() < 3.3 / 100_000f64.sqrt(), "{load}");
    // Exponential gaps: their standard deviation is their mean.
    let gaps: Vec<f64> = flows.windows(2).map(|pair| (pair[1].start - pair[0].start).as_secs_f64()).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{}", variance.sqrt() / mean);

    let uneven = WorkloadSpec::One(WorkloadKind::Poisson(Poisson { matrix: MatrixKind::Upward, ..spec }));
    let table = WorkloadTable { spec: uneven, background: Vec::new() };
    let error = generate(&table, &fabric(), None, &WIRE, 1, Path::new("")).map(drop).unwrap_err().to_string();
    assert!(error.contains("hosts that send more than others"), "{error}");
}

/// Flows of one size: the number of arrivals in a given time is Poisson, so the time until flow n has a relative standard
/// deviation of 1/sqrt(n).
#[test]
fn the_load_is_met_within_its_own_deviation() {
    let flows = flows_of(&WorkloadKind::Poisson(poisson(fixed(14_600), 0.6, 200_000)), 1);
    let seconds = flows.last().unwrap().start.as_secs_f64();
    let load = wire_bytes(&flows) / seconds / (144.0 * 1.25e9);
    assert!((load / 0.6 - 1.0).abs() < 3.3 / 200_000f64.sqrt(), "{load}");
    // And by hand: ten packets of 1500 B at 0.6 of 1.25 GB/s are 50,000 flows a second and host.
    assert!((f64::from(200_000) / seconds / 144.0 / 50_000.0 - 1.0).abs() < 3.3 / 200_000f64.sqrt());
}

#[test]
fn hosts_get_their_share_of_arrivals_and_of_destinations() {
    let flows = flows_of(&WorkloadKind::Poisson(poisson(table("imc10"), 0.6, 144_000)), 5);
    let chi_squared = |count: fn(&Flow) -> usize| {
        let mut counts = [0f64; 144];
        flows.iter().for_each(|flow| counts[count(flow)] += 1.0);
        counts.iter().map(|n| (n - 1000.0).powi(2) / 1000.0).sum::<f64>()
    };
    // 143 degrees of freedom: 201 is exceeded once in a thousand.
    assert!(chi_squared(|flow| flow.src.index()) < 201.0);
    assert!(chi_squared(|flow| flow.dst.index()) < 201.0);
}

/// Gaps between the flows of one source are exponential: their mean equals their standard deviation.
#[test]
fn gaps_of_one_source_are_exponential() {
    let flows = flows_of(&WorkloadKind::Poisson(poisson(fixed(1460), 0.5, 300_000)), 3);
    let starts: Vec<f64> = flows.iter().filter(|flow| flow.src == NodeId(7)).map(|flow| flow.start.as_secs_f64()).collect();
    let gaps: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n).sqrt();
    // 0.5 of 1.25 GB/s in packets of 1500 B: 2.4 us. Standard error of an exponential's deviation: about sqrt(2/n).
    assert!((mean / 2.4e-6 - 1.0).abs() < 3.3 / n.sqrt());
    assert!((deviation / mean - 1.0).abs() < 3.3 * (2.0 / n).sqrt());
}

#[test]
fn the_same_seed_gives_the_same_flows_and_another_seed_others() {
    let spec = WorkloadKind::Poisson(poisson(table("web_search"), 0.6, 5_000));
    assert_eq!(flows_of(&spec, 9), flows_of(&spec, 9));
    assert_ne!(flows_of(&spec, 9), flows_of(&spec, 10));
}

/// These numbers are the promise that a seed means the same flows on every machine and in every version.
#[test]
fn the_first_flows_of_seed_1() {
    let flows = flows_of(&WorkloadKind::Poisson(poisson(table("imc10"), 0.6, 4)), 1);
    let described: Vec<String> =
        flows.iter().map(|flow| format!("{} {}->{} {}", flow.start.as_ps(), flow.src.0, flow.dst.0, flow.size.get())).collect();
    let expected = ["424081 51->107 1460", "1555839 7->92 1460", "1586466 99->25 1460", "1909737 107->25 16035"];
    assert_eq!(described, expected);
}

#[test]
fn one_choice_does_not_change_the_others() {
    let base = poisson(table("imc10"), 0.6, 2_000);
    let plain = flows_of(&WorkloadKind::Poisson(base.clone()), 4);
    // The load scales the starts only; deadlines change nothing else; more flows go on from the same ones.
    let faster = flows_of(&WorkloadKind::Poisson(Poisson { load: 0.8, ..base.clone() }), 4);
    assert!(plain.iter().zip(&faster).all(|(a, b)| (a.src, a.dst, a.size) == (b.src, b.dst, b.size)));
    let exponential = ExponentialDeadline { mean: Quantity(Duration::from_ms(1)), floor: 1.25, handshake: false };
    let urgent = Poisson { deadline: Some(Deadline::Exponential(exponential)), ..base.clone() };
    let urgent = flows_of(&WorkloadKind::Poisson(urgent), 4);
    assert!(plain.iter().zip(&urgent).all(|(a, b)| *a == Flow { deadline: None, ..*b }));
    let more = flows_of(&WorkloadKind::Poisson(Poisson { flows: 3_000, ..base }), 4);
    assert_eq!(plain, more[..2_000]);
}

/// With a mean of 1 ps, every deadline is the floor.
#[test]
fn a_handshake_counts_as_part_of_the_floor() {
    let spans = |handshake| {
        let exponential = ExponentialDeadline { mean: Quantity(Duration::from_ps(1)), floor: 2.0, handshake };
        let spec = Poisson { deadline: Some(Deadline::Exponential(exponential)), ..poisson(table("web_search"), 0.6, 20) };
        flows_of(&WorkloadKind::Poisson(spec), 1).into_iter().map(|flow| (flow, flow.deadline.unwrap() - flow.start))
    };
    let network = fabric();
    for ((flow, without), (_, with)) in spans(false).zip(spans(true)) {
        let control = |from, to| network.packet_time(&network.path(from, to), WIRE.control);
        assert_eq!(with - without, (control(flow.src, flow.dst) + control(flow.dst, flow.src)) * 2);
    }
}

#[test]
fn deadlines_are_exponential_but_never_below_the_floor() {
    let exponential = ExponentialDeadline { mean: Quantity(Duration::from_ms(1)), floor: 1.25, handshake: false };
    let spec = Poisson { deadline: Some(Deadline::Exponential(exponential)), ..poisson(table("web_search"), 0.6, 50_000) };
    let flows = flows_of(&WorkloadKind::Poisson(spec), 1);
    let network = fabric();
    let (mut at_floor, mut free) = (0u32, Vec::new());
    for flow in &flows {
        let span = flow.deadline.unwrap() - flow.start;
        let floor = network.flow_time(&network.path(flow.src, flow.dst), flow.size, &WIRE).scale(1.25);
        assert!(span >= floor);
        at_floor += u32::from(span == floor);
        // Flows of less than 12.5 us are hardly ever held up by the floor.
        if floor < Duration::from_us(20) {
            free.push(span.as_secs_f64());
        }
    }
    assert!(at_floor > 10_000, "most web-search bytes take longer than a millisecond: {at_floor}");
    let n = free.len() as f64;
    let mean = free.iter().sum::<f64>() / n;
    // The floor lifts the mean by its square over two means: at most 0.02 %.
    assert!((mean / 1e-3 - 1.0).abs() < 3.3 / n.sqrt() + 0.0002, "{mean} of {n}");
}

#[test]
fn uniform_deadlines_stay_in_their_range() {
    let uniform = UniformDeadline {
        min: Quantity(Duration::from_ms(5)),
        max: Quantity(Duration::from_ms(25)),
        floor: 0.0,
        handshake: false,
    };
    let spec = Permutation { deadline: Some(Deadline::Uniform(uniform)), ..permutation(fixed(100_000)) };
    let spans: Vec<f64> = (0..200)
        .flat_map(|seed| flows_of(&WorkloadKind::Permutation(spec.clone()), seed))
        .map(|flow| (flow.deadline.unwrap() - flow.start).as_secs_f64() * 1e3)
        .collect();
    assert!(spans.iter().all(|span| (5.0..=25.0).contains(span)));
    let mean = spans.iter().sum::<f64>() / spans.len() as f64;
    assert!((mean - 15.0).abs() < 3.3 * 20.0 / 12f64.sqrt() / (spans.len() as f64).sqrt());
}

#[test]
fn tenants_share_the_bytes_and_not_the_flows() {
    let tenant = |name: &str, sizes, share| Tenant { name: name.to_owned(), sizes: Some(sizes), matrix: None, share };
    let tenants = vec![tenant("small", fixed(1460), 0.25), tenant("large", fixed(146_000), 0.75)];
    let spec =
        Burst { sizes: fixed(1), flows: 100_000, matrix: MatrixKind::AllToAll, deadline: None, tenants: tenants.clone() };
    let flows = flows_of(&WorkloadKind::Burst(spec), 1);
    assert!(flows.iter().all(|flow| flow.start == Time::ZERO && (flow.tenant == 0) == (flow.size.get() == 1460)));
    let bytes = |flows: &[Flow]| wire_bytes(&flows.iter().filter(|flow| flow.tenant == 1).copied().collect::<Vec<Flow>>());
    // 100 small packets weigh as much as a large flow: of the flows, 3/103 are large. Their number is binomial.
    let large = flows.iter().filter(|flow| flow.tenant == 1).count() as f64;
    let share: f64 = 3.0 / 103.0;
    assert!((large - 1e5 * share).abs() < 3.3 * (1e5 * share * (1.0 - share)).sqrt());
    assert!((bytes(&flows) / wire_bytes(&flows) - 0.75).abs() < 0.02);
    // The same shares under Poisson arrivals, and the load is that of both together.
    let spec = Poisson { tenants, ..poisson(fixed(1), 0.5, 200_000) };
    let flows = flows_of(&WorkloadKind::Poisson(spec), 1);
    let load = wire_bytes(&flows) / flows.last().unwrap().start.as_secs_f64() / (144.0 * 1.25e9);
    assert!((bytes(&flows) / wire_bytes(&flows) - 0.75).abs() < 0.02);
    assert!((load / 0.5 - 1.0).abs() < 0.05, "{load}");
}

/// The PIAS paper's heterogeneous traffic (§V-C4): between any two hosts, large flows one way and small ones the other, and as many
/// bytes each way; the load is that of every host's link.
#[test]
fn tenants_can_have_matrices_of_their_own() {
    let tenant =
        |name: &str, sizes, matrix| Tenant { name: name.to_owned(), sizes: Some(sizes), matrix: Some(matrix), share: 0.5 };
    let (small, large) = (fixed(14_600), fixed(146_000));
    let tenants = vec![tenant("up", small, MatrixKind::Upward), tenant("down", large, MatrixKind::Downward)];
    let burst =
        Burst { sizes: fixed(1), flows: 300_000, matrix: MatrixKind::AllToAll, deadline: None, tenants: tenants.clone() };
    let poisson = Poisson { tenants, ..poisson(fixed(1), 0.6, 300_000) };
    let rack = topology::single_switch(12, Rate::from_gbps(10), Duration::from_us(1), Switching::StoreAndForward);
    for kind in [WorkloadKind::Burst(burst), WorkloadKind::Poisson(poisson)] {
        let flows = flows_in(&WorkloadSpec::One(kind), &rack, 1);
        let mut bytes = HashMap::new();
        for flow in &flows {
            assert_eq!((flow.tenant == 0, flow.size.get() == 14_600), (flow.src < flow.dst, flow.src < flow.dst));
            *bytes.entry((flow.src, flow.dst)).or_insert(0f64) += WIRE.flow_wire_bytes(flow.size).get() as f64;
        }
        // Of eleven flows ten are small: a pair has 300000 / 11 / 66 = 413 large flows, or ten times as many small ones.
        let mean = bytes.values().sum::<f64>() / 132.0;
        assert!(bytes.len() == 132 && bytes.values().all(|bytes| (bytes / mean - 1.0).abs() < 4.5 / 413f64.sqrt()));
        let seconds = flows.last().unwrap().start.as_secs_f64();
        if seconds > 0.0 {
            let load = wire_bytes(&flows) / seconds / (12.0 * 1.25e9);
            // 27,273 large flows have half of the bytes.
            assert!((load / 0.6 - 1.0).abs() < 3.3 * 0.5 / 27_273f64.sqrt() + 0.001, "{load}");
        }
    }
}

/// A tenant that names the workload's own matrix gets the same flows as one that names none.
#[test]
fn a_matrix_said_twice_is_one() {
    let tenant = |name: &str, matrix| Tenant { name: name.to_owned(), sizes: Some(table("imc10")), matrix, share: 0.5 };
    let of = |matrix| {
        let tenants = vec![tenant("a", None), tenant("b", matrix)];
        flows_of(&WorkloadKind::Poisson(Poisson { tenants, ..poisson(fixed(1), 0.6, 1_000) }), 3)
    };
    assert_eq!(of(None), of(Some(MatrixKind::AllToAll)));
    assert_ne!(of(None), of(Some(MatrixKind::Across)));
}

fn permutation(sizes: Sizes) -> Permutation {
    Permutation { sizes, hosts: Vec::new(), random_hosts: None, deadline: None }
}

/// Some hosts take part, by name or by chance: each sends to another one of them, and receives from one.
#[test]
fn a_permutation_of_some_hosts() {
    let ends = |spec: Permutation, seed| {
        let flows = flows_of(&WorkloadKind::Permutation(spec), seed);
        let of = |end: fn(&Flow) -> NodeId| flows.iter().map(|flow| end(flow).0).collect::<BTreeSet<u32>>();
        assert!(flows.iter().all(|flow| flow.src != flow.dst));
        (flows.len(), of(|flow| flow.src), of(|flow| flow.dst))
    };
    let hosts = vec![HostRef::Number(5), HostRef::Name("h9".to_owned()), HostRef::Number(2)];
    let (count, sources, targets) = ends(Permutation { hosts, ..permutation(fixed(1)) }, 1);
    assert_eq!((count, sources, targets), (3, [2, 5, 9].into(), [2, 5, 9].into()));
    let some = |seed| ends(Permutation { random_hosts: Some(16), ..permutation(fixed(1)) }, seed);
    let (count, sources, targets) = some(1);
    assert_eq!((count, sources.len()), (16, 16));
    assert_eq!(sources, targets);
    assert_ne!(sources, some(2).1);
}

/// Twelve senders among five others: two at each, and two more at two of them. Each sends three flows, and one request needs no start.
#[test]
fn a_request_may_have_more_senders_than_there_are_hosts() {
    let rack = topology::single_switch(6, Rate::from_gbps(1), Duration::from_us(1), Switching::StoreAndForward);
    let WorkloadKind::Incast(any) = incast(12, 36_001, 1, None, None) else { unreachable!() };
    let kind = WorkloadKind::Incast(Incast { flows_per_sender: 3, receiver: Some(HostRef::Number(4)), ..any });
    let flows = flows_in(&WorkloadSpec::One(kind), &rack, 1);
    assert_eq!(flows.len(), 36);
    assert!(flows.iter().all(|flow| flow.start == Time::ZERO && flow.dst == NodeId(4)));
    assert_eq!(flows.iter().map(|flow| flow.size.get()).sum::<u64>(), 36_001);
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    flows.iter().for_each(|flow| *counts.entry(flow.src.0).or_default() += 1);
    assert_eq!(counts.keys().copied().collect::<Vec<u32>>(), [0, 1, 2, 3, 5]);
    let mut numbers: Vec<u32> = counts.into_values().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [6, 6, 6, 9, 9]);
}

/// A trace of 2 ms that is repeated every 10 ms: the same flows later, with coflows of their own, and flows that wait for those of the same repetition.
#[test]
fn a_trace_can_be_repeated() {
    let folder = std::env::temp_dir().join(format!("flowloom-repeated-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text =
        "id,start_s,src,dst,bytes,coflow,deadline_s,after\n1,0,0,1,10,3,,\n2,0.002,1,2,20,,0.004,\n3,0.001,1,0,30,,,1+0.5\n";
    std::fs::write(folder.join("flows.csv"), text).unwrap();
    let kind = Trace { file: "flows.csv".to_owned(), repeat: 3, period: Some(Quantity(Duration::from_ms(10))) };
    let table = WorkloadTable { spec: WorkloadSpec::One(WorkloadKind::Trace(kind)), background: Vec::new() };
    let workload = generate(&table, &fabric(), None, &WIRE, 1, &folder).map_err(|error| error.to_string()).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let ms = |ms| Time::ZERO + Duration::from_ms(ms);
    let listed: Vec<_> = workload.flows.iter().map(|flow| (flow.start, flow.size.get())).collect();
    assert_eq!(listed, [(ms(0), 10), (ms(2), 20), (ms(10), 10), (ms(12), 20), (ms(20), 10), (ms(22), 20)]);
    let numbers: Vec<u32> = workload.flows.iter().filter_map(|flow| Some(flow.coflow?.number)).collect();
    assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), 3);
    assert_eq!(workload.flows[3].deadline, Some(ms(14)));
    assert_eq!(workload.waiting.starts, [(0, ms(1)), (1, ms(11)), (2, ms(21))]);
    let waits: Vec<_> = workload.waiting.waits.iter().map(|wait| (wait.task, wait.before)).collect();
    let before = waiting::Before::Flow;
    assert_eq!(waits, [(0, before(0)), (1, before(2)), (2, before(4))]);
}

fn incast(senders: u32, bytes: u64, requests: u32, load: Option<f64>, period: Option<Duration>) -> WorkloadKind {
    WorkloadKind::Incast(Incast {
        senders,
        bytes: Some(Quantity(Bytes::new(bytes))),
        sizes: None,
        flows_per_sender: 1,
        requests,
        receiver: None,
        receivers: Receivers::Random,
        load,
        mean_gap: None,
        period: period.map(Quantity),
        deadline: None,
    })
}

#[test]
fn requests_are_whole_and_their_senders_distinct() {
    let flows = flows_of(&incast(7, 1_000_003, 500, None, Some(Duration::from_ms(1))), 1);
    assert_eq!(flows.len(), 3_500);
    for (request, flows) in flows.chunks(7).enumerate() {
        assert!(flows.iter().all(|flow| flow.coflow.unwrap().number == request as u32 && flow.dst == flows[0].dst));
        assert!(flows.iter().all(|flow| flow.start == Time::ZERO + Duration::from_ms(request as u64)));
        assert_eq!(flows.iter().map(|flow| flow.src).collect::<HashSet<NodeId>>().len(), 7);
        assert_eq!(flows.iter().map(|flow| flow.size.get()).sum::<u64>(), 1_000_003);
        assert!(flows.iter().all(|flow| (142_857..=142_858).contains(&flow.size.get())));
    }
}

#[test]
fn requests_choose_receivers_and_senders_uniformly_and_keep_the_load() {
    let flows = flows_of(&incast(50, 730_000, 28_800, Some(0.4), None), 2);
    let counts = |end: fn(&Flow) -> NodeId| {
        let mut counts = HashMap::new();
        flows.iter().for_each(|flow| *counts.entry(end(flow)).or_insert(0f64) += 1.0);
        counts.into_values().collect::<Vec<f64>>()
    };
    // 200 requests for each receiver, 10,000 flows from each sender: chi squared with 143 degrees of freedom.
    let receivers = counts(|flow| flow.dst);
    assert_eq!(receivers.len(), 144);
    assert!(receivers.iter().map(|n| (n / 50.0 - 200.0).powi(2) / 200.0).sum::<f64>() < 201.0);
    assert!(counts(|flow| flow.src).iter().map(|n| (n - 10_000.0).powi(2) / 10_000.0).sum::<f64>() < 201.0);
    let load = wire_bytes(&flows) / flows.last().unwrap().start.as_secs_f64() / (144.0 * 1.25e9);
    assert!((load / 0.4 - 1.0).abs() < 3.3 / 28_800f64.sqrt(), "{load}");
}

/// The PIAS paper's queries (§V-A): one client, all fifteen others answer.
#[test]
fn one_receiver_gets_all_requests() {
    let rack = topology::single_switch(16, Rate::from_gbps(1), Duration::from_us(1), Switching::StoreAndForward);
    let receivers = [HostRef::Number(3), HostRef::Name("h3".to_owned())];
    for receiver in receivers.map(Some) {
        let WorkloadKind::Incast(any) = incast(15, 15_000, 200, None, Some(Duration::from_ms(50))) else { unreachable!() };
        let flows = flows_in(&WorkloadSpec::One(WorkloadKind::Incast(Incast { receiver, ..any })), &rack, 1);
        for (query, flows) in flows.chunks(15).enumerate() {
            assert!(flows.iter().all(|flow| flow.dst == NodeId(3) && flow.size == Bytes::new(1000)));
            assert!(flows.iter().all(|flow| flow.start == Time::ZERO + Duration::from_ms(50 * query as u64)));
            let senders: HashSet<u32> = flows.iter().map(|flow| flow.src.0).collect();
            assert_eq!(senders, (0..16).filter(|host| *host != 3).collect());
        }
    }
}

/// With one receiver its link is the busiest, and carries everything; senders are uniform among the others.
#[test]
fn the_load_of_one_receiver_is_that_of_its_link() {
    let WorkloadKind::Incast(any) = incast(10, 146_000, 20_000, Some(0.3), None) else { unreachable!() };
    let flows = flows_of(&WorkloadKind::Incast(Incast { receiver: Some(HostRef::Number(143)), ..any }), 1);
    let load = wire_bytes(&flows) / flows.last().unwrap().start.as_secs_f64() / 1.25e9;
    assert!((load / 0.3 - 1.0).abs() < 3.3 / 20_000f64.sqrt(), "{load}");
    let mut counts = [0f64; 143];
    flows.iter().for_each(|flow| counts[flow.src.index()] += 1.0);
    let expected = 200_000.0 / 143.0;
    // 142 degrees of freedom: 200 is exceeded once in a thousand.
    assert!(counts.iter().map(|n| (n - expected).powi(2) / expected).sum::<f64>() < 200.0);
}

/// The PASE paper's rack (§4.2.2): 40 hosts at 1 Gb/s aggregate the answers of all others in turn. A flow has 2 to 198 kB, 100 kB on
/// average, each drawn on its own.
#[test]
fn hosts_take_turns_to_receive_and_flows_draw_their_sizes() {
    let rack = topology::single_switch(40, Rate::from_gbps(1), Duration::from_us(25), Switching::StoreAndForward);
    let sizes = Sizes::Uniform(Uniform { uniform: [2_000, 198_000].map(|bytes| Quantity(Bytes::new(bytes))) });
    let WorkloadKind::Incast(any) = incast(39, 1, 2_000, Some(0.5), None) else { unreachable!() };
    let kind = WorkloadKind::Incast(Incast { bytes: None, sizes: Some(sizes), receivers: Receivers::RoundRobin, ..any });
    let flows = flows_in(&WorkloadSpec::One(kind), &rack, 1);
    for (query, flows) in flows.chunks(39).enumerate() {
        let receiver = NodeId(query as u32 % 40);
        assert!(flows.iter().all(|flow| flow.dst == receiver && flow.coflow.unwrap().number == query as u32));
        assert_eq!(flows.iter().map(|flow| flow.src).collect::<HashSet<NodeId>>().len(), 39);
    }
    // The standard deviation of a uniform size is 196 kB / √12.
    let bytes: Vec<f64> = flows.iter().map(|flow| flow.size.get() as f64).collect();
    let n = bytes.len() as f64;
    let mean = bytes.iter().sum::<f64>() / n;
    assert!((mean - 100_000.0).abs() < 3.3 * 196_000.0 / (12.0 * n).sqrt(), "{mean}");
    assert!(bytes.iter().all(|bytes| (2_000.0..=198_000.0).contains(bytes)));
    let load = wire_bytes(&flows) / flows.last().unwrap().start.as_secs_f64() / (40.0 * 1.25e8);
    assert!((load / 0.5 - 1.0).abs() < 3.3 / 2_000f64.sqrt(), "{load}");
}

/// Gaps between requests are exponential: their mean equals their standard deviation.
#[test]
fn requests_at_a_mean_gap_are_a_poisson_process() {
    let WorkloadKind::Incast(any) = incast(1, 1000, 20_000, None, None) else { unreachable!() };
    let flows = flows_of(&WorkloadKind::Incast(Incast { mean_gap: Some(Quantity(Duration::from_ms(25))), ..any }), 1);
    let gaps: Vec<f64> = flows.windows(2).map(|pair| (pair[1].start - pair[0].start).as_secs_f64() / 25e-3).collect();
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n).sqrt();
    assert!((mean - 1.0).abs() < 3.3 / n.sqrt(), "{mean}");
    assert!((deviation - 1.0).abs() < 3.3 * (2.0 / n).sqrt(), "{deviation}");
}

/// The PIAS paper's rack (§V-A): host 0 fetches from fifteen servers, each as likely as the others, and its link has the load.
#[test]
fn many_to_one_is_a_client_and_its_servers() {
    let rack = topology::single_switch(16, Rate::from_gbps(1), Duration::from_us(1), Switching::StoreAndForward);
    let spec = Poisson { matrix: MatrixKind::ManyToOne, ..poisson(fixed(14_600), 0.8, 150_000) };
    let flows = flows_in(&WorkloadSpec::One(WorkloadKind::Poisson(spec)), &rack, 1);
    let mut counts = [0f64; 16];
    flows.iter().for_each(|flow| counts[flow.src.index()] += 1.0);
    assert!(counts[0] == 0.0 && flows.iter().all(|flow| flow.dst == NodeId(0)));
    // 14 degrees of freedom: 36.1 is exceeded once in a thousand.
    assert!(counts[1..].iter().map(|n| (n - 10_000.0).powi(2) / 10_000.0).sum::<f64>() < 36.1);
    let load = wire_bytes(&flows) / flows.last().unwrap().start.as_secs_f64() / 0.125e9;
    assert!((load / 0.8 - 1.0).abs() < 3.3 / 150_000f64.sqrt(), "{load}");
}

#[test]
fn a_request_can_take_all_hosts() {
    let flows = flows_of(&incast(143, 143_000, 300, None, Some(Duration::from_ms(1))), 1);
    for flows in flows.chunks(143) {
        let hosts: HashSet<NodeId> = flows.iter().map(|flow| flow.src).chain([flows[0].dst]).collect();
        assert_eq!(hosts.len(), 144);
    }
}

#[test]
fn a_permutation_has_each_host_once_at_either_end() {
    let flows = flows_of(&WorkloadKind::Permutation(permutation(table("web_search"))), 6);
    assert_eq!(flows.iter().map(|flow| flow.src).collect::<HashSet<NodeId>>().len(), 144);
    assert_eq!(flows.iter().map(|flow| flow.dst).collect::<HashSet<NodeId>>().len(), 144);
    // Poisson arrivals with this matrix keep to partners, too.
    let spec = Poisson { matrix: MatrixKind::Permutation, ..poisson(table("imc10"), 0.6, 10_000) };
    let partners: HashSet<(NodeId, NodeId)> =
        flows_of(&WorkloadKind::Poisson(spec), 6).iter().map(|flow| (flow.src, flow.dst)).collect();
    assert_eq!(partners, flows.iter().map(|flow| (flow.src, flow.dst)).collect());
}

#[test]
fn a_trace_is_read_as_it_is_written() {
    let folder = std::env::temp_dir().join(format!("flowloom-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text =
        "# made by hand\nstart_s, src, dst, bytes, deadline_s, tenant, coflow\n0, 0, 143, 1460, , ,\n1.5e-6,h3,2,0,0.25,1,7\n";
    std::fs::write(folder.join("flows.csv"), text).unwrap();
    let trace = WorkloadSpec::One(WorkloadKind::Trace(Trace { file: "flows.csv".to_owned(), repeat: 1, period: None }));
    let flows = generate(&WorkloadTable { spec: trace, background: Vec::new() }, &fabric(), None, &WIRE, 1, &folder)
        .map_err(|error| error.to_string())
        .unwrap()
        .flows;
    std::fs::remove_dir_all(&folder).unwrap();
    let first = Flow {
        id: FlowId(0),
        src: NodeId(0),
        dst: NodeId(143),
        size: Bytes::new(1460),
        start: Time::ZERO,
        deadline: None,
        tenant: 0,
        coflow: None,
        background: false,
    };
    let second = Flow {
        id: FlowId(1),
        src: NodeId(3),
        dst: NodeId(2),
        size: Bytes::ZERO,
        start: Time::from_ps(1_500_000),
        deadline: Some(Time::ZERO + Duration::from_ms(250)),
        tenant: 1,
        coflow: Some(Coflow { number: 7, size: Bytes::ZERO, start: Time::ZERO + Duration::from_ns(1500) }),
        background: false,
    };
    assert_eq!(flows, [first, second]);
}
