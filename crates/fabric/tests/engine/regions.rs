//! A run in several regions, each in a thread of its own, is the run in one region: the same packets at the same times.

use std::sync::Arc;

use flowloom_core::{Bytes, Duration, Flow, FlowId, LinkId, Memory, Network, NodeId, Paths, Time, Transport, topology};
use flowloom_fabric::{End, Fault, Faulty, Next, Outage, Report, Routing, Sim, SimSetup, Task, TaskList, Tasks};
use proptest::prelude::*;

use crate::common::blast::{Blast, Plain, PlainQueued};
use crate::common::networks::{CUT, Dice, HOP_DELAY, STORE, dag, flow, gbps, in_order, ns, setup, shapes};

/// What happens to a network, besides its flows.
#[derive(Clone, Debug, Default)]
struct Trouble {
    faults: Vec<Fault>,
    outages: Vec<Outage>,
    /// When switches notice that a link is dead.
    noticed: Vec<(Time, LinkId)>,
    /// When a link becomes four times as slow, and all others have their own rates.
    slower: Vec<(Time, LinkId)>,
    tasks: Option<TaskList>,
    /// Where the run pauses.
    pauses: Vec<Time>,
}

/// Everything that a run leaves behind, and what could be seen at its pauses.
fn outcome<T: Transport>(
    config: &T::Config,
    setup: &SimSetup,
    flows: &[Flow],
    trouble: &Trouble,
    regions: usize,
    budget: u64,
) -> (String, Report) {
    let seed = setup.seed;
    let routed = setup.clone().routed(T::placement(config));
    let wrap = |port, site: &flowloom_core::PortSite<'_>| Faulty::new(port, site, trouble.faults.clone(), seed);
    let sim = Sim::<T, Faulty<T::Port>, ()>::over_regions(config, routed, flows.to_vec(), vec![(); regions], wrap);
    let paths = Paths::new(Arc::new(setup.network.clone()), setup.routing, seed);
    let reroutes = trouble.noticed.iter().filter_map(|(at, link)| Some((*at, paths.without(&[*link])?)));
    let slower = trouble.slower.iter().map(|(at, link)| {
        let mut network = setup.network.clone();
        let rate = network.link(*link).rate;
        network.set_rate(*link, flowloom_core::Rate::from_bps(rate.as_bps() / 4));
        (*at, paths.over(Arc::new(network), &[]).expect("nothing is dead"))
    });
    let mut sim = sim.with_outages(&trouble.outages).with_reroutes(&reroutes.chain(slower).collect::<Vec<_>>());
    if let Some(tasks) = &trouble.tasks {
        sim = sim.with_tasks(Arc::new(tasks.clone()));
    }
    let tasks = trouble.tasks.as_ref().map_or(0, Tasks::count);
    let mut seen = String::new();
    for pause in trouble.pauses.iter().copied().chain([Time::MAX]) {
        sim.pause_at(pause);
        while sim.step(budget) {}
        let vitals = sim.vitals();
        seen += &format!(
            "{:?} {:?} {:?}\n",
            (vitals.now, vitals.events, vitals.open, vitals.over),
            sim.progress(),
            sim.next_event()
        );
        seen += &format!("{} {} {}\n", sim.packets(), sim.delivered_bytes(), sim.is_over());
        for link in (0..sim.network().links().len() as u32).step_by(3) {
            let port = sim.port(LinkId(link));
            seen += &format!("{} {} {:?}\n", port.queued_bytes, port.queued_packets, port.counters_at(pause.min(Time::LAST)));
        }
        seen += &format!("{:?}\n", (0..(flows.len() + tasks) as u32).map(|id| sim.flow(FlowId(id))).collect::<Vec<_>>());
    }
    let report = sim.finish().expect("conservation").0;
    seen += &format!("{:?}", (&report.flows, &report.records, &report.ports, &report.controls));
    seen += &format!("{:?}", (report.not_started, report.packet_hops, report.data_packets, report.events, report.end));
    (seen, report)
}

fn assert_same<T: Transport>(config: &T::Config, setup: &SimSetup, flows: &[Flow], trouble: &Trouble) -> Report {
    let (one, report) = outcome::<T>(config, setup, flows, trouble, 1, u64::MAX);
    for regions in [2, 3, 8] {
        let (several, _) = outcome::<T>(config, setup, flows, trouble, regions, u64::MAX);
        // Not `assert_eq`, which would print all of it.
        let line = one.lines().zip(several.lines()).find(|(one, other)| one != other);
        assert!(one == several, "{regions} regions: {line:?}");
    }
    report
}

fn traffic(network: &Network, count: usize, span_ns: u64, seed: u64) -> Vec<Flow> {
    let (mut dice, hosts) = (Dice::new(seed), network.hosts() as u64);
    let one = |dice: &mut Dice| {
        let src = dice.below(hosts);
        let dst = (src + 1 + dice.below(hosts - 1)) % hosts;
        // Several flows start at one instant, some of them at one host.
        let start = ns(dice.below(span_ns) / 400 * 400);
        let background = dice.below(20) == 0;
        Flow { background, ..flow(0, src as u32, dst as u32, dice.below(30_000), start) }
    };
    in_order((0..count).map(|_| one(&mut dice)).collect())
}

/// Nothing is lost, so that all flows end, and the run with the last of them. Hosts are as fast as their network, so that packets meet at the same instants again and again.
#[test]
fn a_run_ends_at_the_same_event_however_it_is_divided() {
    for (name, network) in [STORE, CUT].into_iter().flat_map(shapes) {
        for (routing, seed) in [
            (Routing::Ecmp, 1),
            (Routing::SprayRandom, 2),
            (Routing::SprayRoundRobin, 3),
            (Routing::LeastQueue, 4),
            (Routing::Flowlet(Duration::from_us(1)), 5),
        ] {
            let setup = SimSetup { routing, seed, ..setup(network.clone()) };
            let flows = traffic(&network, 60, 60_000, seed);
            let report = assert_same::<Blast<Plain>>(&(), &setup, &flows, &Trouble::default());
            assert!(
                report.records.iter().zip(&report.flows).all(|(record, flow)| flow.background || record.is_over()),
                "{name}"
            );
            assert_same::<Blast<PlainQueued>>(&(), &setup, &flows, &Trouble::default());
        }
    }
}

/// Loops whose flows go back and forth between hosts of different regions, with think times below and above the delay of a link.
fn loops(network: &Network, seed: u64) -> (Vec<Flow>, TaskList) {
    let (mut dice, hosts) = (Dice::new(seed), network.hosts() as u32);
    let mut flows: Vec<Flow> = (0..4).map(|id| flow(id, id % hosts, (id + 1 + hosts / 2) % hosts, 3000, ns(0))).collect();
    flows.iter_mut().for_each(|flow| flow.dst = if flow.dst == flow.src { NodeId((flow.src.0 + 1) % hosts) } else { flow.dst });
    let (mut tasks, mut nexts) = (Vec::new(), Vec::new());
    for first in &flows {
        let mut last = *first;
        for _ in 0..10 {
            let id = (flows.len() + tasks.len()) as u32;
            let delay = Duration::from_ps(1 + dice.below(2_000_000));
            nexts.push((last.id, Next { task: FlowId(id), end: End::Received, delay }));
            last = flow(id, last.dst.0, last.src.0, dice.below(20_000), Time::MAX);
            tasks.push(Task::Flow(last));
        }
    }
    let tasks = TaskList::new(&flows, tasks, nexts, Vec::new());
    (flows, tasks)
}

#[test]
fn closed_loops_are_the_same_however_the_run_is_divided() {
    for (_, network) in shapes(CUT) {
        let (flows, tasks) = loops(&network, 5);
        let trouble = Trouble { tasks: Some(tasks), pauses: vec![ns(20_000), ns(100_000)], ..Trouble::default() };
        let report = assert_same::<Blast<Plain>>(&(), &setup(network), &flows, &trouble);
        assert_eq!(report.flows.len(), 44);
    }
}

/// Tasks that need several others, at both ends and at other hosts, while hosts go down and flows are given up.
#[test]
fn tasks_are_the_same_however_the_run_is_divided() {
    let mut aborted = 0;
    for seed in 0..4 {
        for (_, network) in shapes(STORE) {
            let (flows, tasks, nexts) = dag(&network, 40, seed);
            let tasks = Some(TaskList::new(&flows, tasks, nexts, Vec::new()));
            let outages = vec![Outage { node: NodeId(1), from: ns(9_000), to: ns(40_000) }];
            let trouble = Trouble { tasks, outages, pauses: vec![ns(20_000)], ..Trouble::default() };
            let limit = SimSetup { seed, time_limit: ns(900_000), ..setup(network) };
            let report = assert_same::<Blast<Plain>>(&(), &limit, &flows, &trouble);
            aborted += report.records.iter().filter(|record| record.aborted.is_some()).count();
        }
    }
    assert!(aborted > 24, "{aborted}");
}

/// The last flow is aborted when its host goes down.
#[test]
fn outages_are_the_same_however_the_run_is_divided() {
    let network = topology::leaf_spine(3, 2, 2, gbps(10), gbps(40), HOP_DELAY, CUT);
    for node in 0..6 {
        let outages = [(node, 9_000, 30_000), ((node + 1) % 6, 20_000, 21_000), (node, 40_000, 900_000)];
        let outages = outages.map(|(node, from, to)| Outage { node: NodeId(node), from: ns(from), to: ns(to) }).to_vec();
        let mut flows = traffic(&network, 40, 50_000, u64::from(node));
        flows.push(flow(flows.len() as u32, node, (node + 3) % 6, 1000, ns(50_000)));
        let trouble = Trouble { outages, ..Trouble::default() };
        assert_same::<Blast<Plain>>(&(), &SimSetup { time_limit: ns(200_000), ..setup(network.clone()) }, &flows, &trouble);
    }
}

/// A watchdog looks between steps. So a step must not end where a measurement of time has made the run change between threads and turns, the first of which comes after
/// 100,000 events.
#[test]
fn a_step_ends_with_the_window_in_which_its_events_are_reached() {
    let network = topology::fat_tree(4, gbps(10), HOP_DELAY, CUT);
    let flows = in_order((0..16).map(|host| flow(0, host, (host + 5) % 16, 3_000_000, ns(0))).collect());
    let after_a_step = |budget: u64| {
        let routed = setup(network.clone()).routed(Blast::<Plain>::placement(&()));
        let mut sim = Sim::<Blast<Plain>>::over_regions(&(), routed, flows.clone(), vec![(); 2], |port, _| port);
        assert!(sim.step(budget), "the flows have more than {budget} events");
        (sim.vitals().events, sim.now())
    };
    for budget in [50_000, 150_000, 200_000] {
        let (events, now) = after_a_step(budget);
        // A window is shorter than a link's delay, in which a link of 10 Gb/s carries a few packets.
        assert!((budget..budget + 1000).contains(&events), "{events} events in a step of {budget}");
        assert_eq!(after_a_step(budget), (events, now));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    /// Ports overflow, links lose, damage, double and delay packets, and the run pauses, and ends at a time limit.
    #[test]
    fn any_run_is_the_same_however_it_is_divided(
        seed in any::<u64>(),
        shape in 0_usize..6,
        cut in any::<bool>(),
        p in prop_oneof![Just(0.0), 0.0..0.1],
        buffer in 3000_u64..40_000,
        limit_us in 20_u64..300,
        routing in prop::sample::select(vec![
            Routing::Ecmp, Routing::EcmpSymmetric, Routing::SprayRandom, Routing::SprayRoundRobin, Routing::LeastQueue, Routing::Drill(2),
            Routing::Flowlet(Duration::from_us(2)),
        ]),
        pauses in prop::collection::vec(1_u64..200_000, 0..4),
    ) {
        let (_, network) = shapes(if cut { CUT } else { STORE }).swap_remove(shape);
        let flows = traffic(&network, 60, 100_000, seed);
        let setup = SimSetup { memory: Memory::PerPort(Bytes::new(buffer)), routing, seed, time_limit: ns(limit_us * 1000), ..setup(network) };
        let mut pauses: Vec<Time> = pauses.into_iter().map(ns).collect();
        pauses.sort();
        let faults = vec![
            Fault::Loss(p), Fault::Corrupt(p), Fault::Duplicate(p), Fault::Reorder(p, Duration::from_us(5)),
            Fault::Down(ns(40_000), ns(60_000)), Fault::Cut(ns(70_000), ns(75_000)),
        ];
        let links = setup.network.links().len() as u64;
        let noticed = vec![(ns(30_000), LinkId((seed % links) as u32)), (ns(80_000), LinkId((seed / links % links) as u32))];
        let slower = vec![(ns(20_000), LinkId((seed / 3 % links) as u32)), (ns(50_000), LinkId((seed / 5 % links) as u32))];
        assert_same::<Blast<Plain>>(&(), &setup, &flows, &Trouble { faults, noticed, slower, pauses, ..Trouble::default() });
    }

    /// A step may end after any number of events.
    #[test]
    fn steps_change_nothing(seed in any::<u64>(), budget in 1_u64..3000, regions in 2_usize..5) {
        let network = topology::fat_tree(4, gbps(10), HOP_DELAY, CUT);
        let flows = traffic(&network, 30, 40_000, seed);
        let (setup, trouble) = (setup(network), Trouble::default());
        let one = outcome::<Blast<Plain>>(&(), &setup, &flows, &trouble, 1, u64::MAX).0;
        prop_assert!(one == outcome::<Blast<Plain>>(&(), &setup, &flows, &trouble, regions, budget).0);
    }
}
