//! pFabric on networks: the flow with the fewest remaining bytes takes the time that it takes alone.

use flowloom_core::{Bytes, Duration, Flow, LinkId, Memory, Time, WireProfile, topology};
use flowloom_fabric::{PortCounters, Report, Routing, SimSetup};
use flowloom_transports::pfabric::{Config, PFabric};

use crate::common::networks::{
    CUT, Dice, HOP_DELAY, STORE, apart, beside_a_slow_path, flow, gbps, ns, pairs, poisson, run, setup, shapes,
};

const BUFFER: Bytes = Bytes::new(36_864);

fn go(network: flowloom_core::Network, flows: Vec<Flow>) -> Report {
    run::<PFabric>(&Config::default(), SimSetup { memory: Memory::PerPort(BUFFER), ..setup(network) }, flows)
}

/// Hosts start at line rate with a window of at least a round trip, so a single flow takes the time of the closed form, and so does its
/// acknowledgement.
#[test]
fn alone_it_takes_the_closed_form_on_every_shape() {
    for switching in [STORE, CUT] {
        for (name, network) in shapes(switching).into_iter().filter(|(name, _)| *name != "slow dumbbell") {
            let wire = WireProfile::IP_1500;
            let sizes = [1, 1459, 1460, 1461, 17_520, 17_521, 100_000, 1_000_000];
            let report = go(network.clone(), apart(&pairs(&network), &sizes, Duration::from_ms(20)));
            for (flow, record) in report.flows.iter().zip(&report.records) {
                let (path, back) = (network.path(flow.src, flow.dst), network.path(flow.dst, flow.src));
                assert_eq!(
                    record.received - flow.start,
                    network.flow_time(&path, flow.size, &wire),
                    "{name}, {switching:?}, {flow:?}"
                );
                assert_eq!(record.acknowledged - record.received, network.packet_time(&back, wire.control));
            }
        }
    }
}

/// Long flows fill the link to a host. A short flow from a third host waits only for the packet that is being sent.
#[test]
fn a_short_flow_waits_for_one_packet_of_the_long_ones() {
    for start_ns in [100_000, 100_300, 100_601, 101_111] {
        let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
        let long = |host| flow(host, host, 3, 1_460_000, Time::ZERO);
        let report = go(network, vec![long(0), long(1), flow(2, 2, 3, 14_600, ns(start_ns))]);
        let alone = 2800 + 9 * 1200;
        let fct = (report.records[2].received - ns(start_ns)).as_ps() / 1000;
        assert!((alone..=alone + 1200).contains(&fct), "{fct} ns, {alone} ns alone");
    }
}

/// Of two flows that start together, the shorter takes its time alone plus one packet at most, and the link never idles. The longer flow's
/// packets wait in the port for less than its timeout.
#[test]
fn the_link_never_idles_and_the_shorter_flow_is_first() {
    let network = topology::single_switch(3, gbps(10), HOP_DELAY, STORE);
    let report = go(network, vec![flow(0, 0, 2, 1460 * 300, Time::ZERO), flow(1, 1, 2, 1460 * 30, Time::ZERO)]);
    let short = report.records[1].received.as_ps() / 1000;
    let alone = 1600 + 30 * 1200;
    assert!((alone..=alone + 1200).contains(&short), "{short} ns");
    assert_eq!(report.records[0].received, ns(1600 + 330 * 1200));
    assert_eq!(report.ports.iter().map(PortCounters::drops).sum::<u64>(), 0);
    assert_eq!(report.records[0].retransmissions, 0);
}

/// If packets wait for longer than the timeout, they are retransmitted although none is lost. Only these retransmissions delay the end.
#[test]
fn a_flow_that_is_starved_beyond_its_timeout_retransmits_waiting_packets() {
    let network = topology::single_switch(3, gbps(10), HOP_DELAY, STORE);
    let report = go(network, vec![flow(0, 0, 2, 1460 * 300, Time::ZERO), flow(1, 1, 2, 1460 * 100, Time::ZERO)]);
    let again = u64::from(report.records[0].retransmissions);
    assert!(again > 0);
    let end = report.records[0].received;
    assert!((ns(1600 + 400 * 1200)..=ns(1600 + (400 + again) * 1200)).contains(&end), "{end}, {again} packets again");
}

/// The mean completion time of preemptive shortest-remaining-first over packets at one link of 10 Gb/s, after the first hop of each flow.
fn srpt(flows: &[Flow]) -> f64 {
    let mut left: Vec<u64> = flows.iter().map(|flow| WireProfile::IP_1500.packets(flow.size)).collect();
    // When a flow's first packet reaches the link.
    let ready: Vec<u64> = flows.iter().map(|flow| flow.start.as_ps() + 1_400_000).collect();
    let (mut now, mut sum, mut done, mut arrived) = (0, 0.0, 0, 0);
    let mut waiting: Vec<usize> = Vec::new();
    while done < flows.len() {
        while arrived < flows.len() && ready[arrived] <= now {
            waiting.push(arrived);
            arrived += 1;
        }
        let Some(place) = (0..waiting.len()).min_by_key(|place| (left[waiting[*place]], waiting[*place])) else {
            now = ready[arrived];
            continue;
        };
        let index = waiting[place];
        left[index] -= 1;
        now += 1_200_000;
        if left[index] == 0 {
            waiting.swap_remove(place);
            sum += (now + 200_000 - flows[index].start.as_ps()) as f64;
            done += 1;
        }
    }
    sum / flows.len() as f64
}

/// Many sources send mostly short and some long flows to one destination at 60 % load. The oracle, which has no windows and no timeouts,
/// is at most 15 % better.
#[test]
fn one_bottleneck_is_close_to_preemptive_srpt() {
    for seed in 1..=3 {
        let network = topology::single_switch(33, gbps(10), HOP_DELAY, STORE);
        let mut dice = Dice::new(seed);
        let mut now = Time::ZERO;
        // 9 in 10 flows have 1 to 8 packets, the others 50 to 99. The mean is 4.05 + 7.45 packets, which at 60 % is one flow every 23 µs.
        let flows: Vec<Flow> = (0..4000)
            .map(|id| {
                now += dice.exponential(Duration::from_ns(23_000));
                let packets = if dice.below(10) < 9 { 1 + dice.below(8) } else { 50 + dice.below(50) };
                flow(id, dice.below(32) as u32, 32, 1460 * packets, now)
            })
            .collect();
        let oracle = srpt(&flows);
        let report = go(network, flows);
        let fct = |(flow, record): (&Flow, &flowloom_fabric::FlowRecord)| (record.received - flow.start).as_ps() as f64;
        let mean = report.flows.iter().zip(&report.records).map(fct).sum::<f64>() / 4000.0;
        assert!((0.995..1.15).contains(&(mean / oracle)), "seed {seed}: {mean} ps, the oracle {oracle} ps");
    }
}

/// With full bisection bandwidth at 60 % load, packets are dropped at the sources' NICs and at the last hop, not in the core.
#[test]
fn drops_are_at_the_edge() {
    let network = topology::leaf_spine(4, 8, 4, gbps(10), gbps(40), HOP_DELAY, CUT);
    let flows = poisson(&network, 0.6, 3000, 2);
    let setup = SimSetup { memory: Memory::PerPort(BUFFER), routing: Routing::SprayRoundRobin, ..setup(network) };
    let report = run::<PFabric>(&Config::default(), setup, flows);
    assert!(report.records.iter().all(|record| record.acknowledged != Time::MAX));
    let mut drops = [0; 3];
    for (link, counters) in (0..).map(LinkId).zip(&report.ports) {
        let place = match report.network.hop_name(link).as_str() {
            "host-leaf" => 0,
            "leaf-host" => 2,
            _ => 1,
        };
        drops[place] += counters.drops();
    }
    assert!(drops[0] > 100 && drops[2] > 100, "{drops:?}");
    assert!(drops[1] * 100 < drops[0] + drops[2], "{drops:?}");
}

/// Three flows of 10 Gb/s share three paths of 10 Gb/s and one of 2.5 Gb/s. Evenly, each path would get 7.5 Gb/s. So the slow one loses packets, each loss costs a timeout, and all flows are held back to what the
/// slow path takes. The other paths have room for all.
#[test]
fn senders_can_avoid_a_slow_path() {
    let (network, slow) = beside_a_slow_path(3, gbps(10));
    let go = |avoid_paths| {
        let memory = Memory::PerPort(BUFFER);
        let setup = SimSetup { routing: Routing::SprayLabelled, memory, ..setup(network.clone()) };
        let flows = (0..3).map(|host| flow(host, host, 3 + host, 14_600_000, Time::ZERO)).collect();
        let config = Config { avoid_paths, initial_window: 30, max_window: 30, ..Config::default() };
        let report = run::<PFabric>(&config, setup, flows);
        let last = report.records.iter().map(|record| record.received.as_secs_f64()).fold(0.0, f64::max);
        let on_slow = report.ports[slow.index()].sent[1].packets;
        println!("{avoid_paths}: {last} s, {on_slow} packets over the slow path");
        (last, on_slow)
    };
    let ((even, all), (avoiding, fewer)) = (go(false), go(true));
    assert!(avoiding < 0.5 * even && fewer < all, "{even} s, {all} packets; {avoiding} s, {fewer} packets");
}

/// Of the 16 paths between two pods of a fat tree with k = 8, each gets as many packets of a flow as the others.
#[test]
fn a_flow_uses_every_labelled_path_equally() {
    let network = topology::fat_tree(8, gbps(10), HOP_DELAY, STORE);
    let setup = SimSetup { routing: Routing::SprayLabelled, ..setup(network) };
    let report = run::<PFabric>(&Config::default(), setup, vec![flow(0, 0, 127, 1460 * 16 * 20, Time::ZERO)]);
    let uses = |from: &str, to: &str| -> Vec<u64> {
        let tiers = |link: usize| {
            let link = report.network.link(LinkId(link as u32));
            [link.from, link.to].map(|node| report.network.node(node).tier.to_string())
        };
        let data =
            (0..report.ports.len()).filter(|link| tiers(*link) == [from, to]).map(|link| report.ports[link].sent[1].packets);
        data.filter(|packets| *packets > 0).collect()
    };
    assert_eq!((uses("agg", "core"), uses("core", "agg")), (vec![20; 16], vec![20; 16]));
}
