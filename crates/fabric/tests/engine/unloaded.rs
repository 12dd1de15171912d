//! A flow on an idle network takes the time of the closed form, to the picosecond.

use flowloom_core::{Bytes, Duration, Flow, LinkId, Network, NodeId, Rate, Switching, Time, Transport, WireProfile, topology};
use flowloom_fabric::{Routing, SimSetup};
use proptest::prelude::*;

use crate::common::blast::{Blast, Plain, PlainQueued};
use crate::common::networks::{CUT, HOP_DELAY, STORE, apart, flow, gbps, pairs, run, setup, shapes, watch};
use crate::common::tandem;
use crate::common::watch::Log;

/// Runs the flows and compares each one with the closed form and with the recursion of [`tandem`].
fn check<T: Transport<Config = ()>>(name: &str, network: &Network, wire: WireProfile, flows: Vec<Flow>) {
    let report = run::<T>(&(), SimSetup { wire, ..setup(network.clone()) }, flows);
    for (flow, record) in report.flows.iter().zip(&report.records) {
        let (path, back) = (network.path(flow.src, flow.dst), network.path(flow.dst, flow.src));
        let closed = network.flow_time(&path, flow.size, &wire);
        let recursion = tandem::back_to_back(network, &path, &tandem::sizes_on_wire(flow.size, &wire));
        let what = format!("{name}, {}, {:?}, {flow:?}", wire.name, network.switching());
        assert_eq!(closed, recursion, "closed form and recursion: {what}");
        assert_eq!(record.received - flow.start, closed, "received: {what}");
        let answer = tandem::back_to_back(network, &back, &[wire.control.get()]);
        assert_eq!(record.acknowledged - record.received, answer, "acknowledged: {what}");
    }
}

#[test]
fn every_shape_size_and_wire_to_the_picosecond() {
    for switching in [STORE, CUT] {
        for (name, network) in shapes(switching) {
            for wire in WireProfile::ALL {
                let payload = wire.payload().get();
                let sizes = [1, payload - 1, payload, payload + 1, 2 * payload, 10_000, 1_000_000];
                let flows = apart(&pairs(&network), &sizes, Duration::from_ms(100));
                check::<Blast<Plain>>(name, &network, wire, flows.clone());
                check::<Blast<PlainQueued>>(name, &network, wire, flows);
            }
        }
    }
}

#[test]
fn a_hundred_megabytes_to_the_picosecond() {
    for (switching, (name, network)) in
        [STORE, CUT].into_iter().flat_map(|s| shapes(s).into_iter().map(move |shape| (s, shape)))
    {
        let farthest = *pairs(&network).last().expect("two hosts");
        let wire = if switching == STORE { WireProfile::IP_1500 } else { WireProfile::ETHERNET_1538 };
        check::<Blast<Plain>>(name, &network, wire, apart(&[farthest], &[100_000_000], Duration::ZERO));
    }
}

/// A flow of 1461 B from leaf to leaf. On one path the 41 B packet waits behind the full packet: 1200 + 300 + 300 + 1200 ns, four links of
/// 200 ns, and 32.8 ns. With spraying, it takes the other spine and reaches the last port 550.8 ns before the full packet.
#[test]
fn spraying_may_be_faster_than_the_closed_form_by_the_last_packet() {
    let network = topology::leaf_spine(2, 1, 2, gbps(10), gbps(40), HOP_DELAY, STORE);
    let received = |routing| {
        let flows = vec![flow(0, 0, 1, 1461, Time::ZERO)];
        run::<Blast<Plain>>(&(), SimSetup { routing, ..setup(network.clone()) }, flows).records[0].received.as_ps()
    };
    assert_eq!(received(Routing::Ecmp), 3_832_800);
    assert_eq!(received(Routing::SprayRoundRobin), 3_800_000);
}

#[derive(Clone, Debug)]
struct Shape {
    switching: Switching,
    /// For each switch after the first: its parent among the switches before it, the rate and the delay of its link.
    switches: Vec<(prop::sample::Index, u64, u64)>,
    hosts: Vec<(prop::sample::Index, u64, u64)>,
    /// Additional links between any two switches.
    more: Vec<(prop::sample::Index, prop::sample::Index, u64, u64)>,
}

impl Shape {
    fn build(&self, switching: Switching) -> Network {
        let mut network = Network::new(self.hosts.len(), switching);
        let mut switches = vec![network.add_switch(1, "switch", "s")];
        let delay = Duration::from_ps;
        for (parent, bps, ps) in &self.switches {
            let switch = network.add_switch(1, "switch", "s");
            network.connect(switch, switches[parent.index(switches.len())], Rate::from_bps(*bps), delay(*ps));
            switches.push(switch);
        }
        for (host, (at, bps, ps)) in (0..).zip(&self.hosts) {
            network.connect(NodeId(host), switches[at.index(switches.len())], Rate::from_bps(*bps), delay(*ps));
        }
        for (a, b, bps, ps) in &self.more {
            let (a, b) = (switches[a.index(switches.len())], switches[b.index(switches.len())]);
            if a != b {
                network.connect(a, b, Rate::from_bps(*bps), delay(*ps));
            }
        }
        network.check().expect("a tree is connected");
        network
    }
}

fn shape(more: usize) -> impl Strategy<Value = Shape> {
    let place = any::<prop::sample::Index>;
    // Odd rates exercise rounding; round rates take an integer number of picoseconds per byte.
    let rate = || prop_oneof![(1_u64..=100).prop_map(|n| n * 1_000_000_000), 1_000_000_000_u64..100_000_000_000];
    let delay = || 0_u64..2_000_000;
    let switching = prop_oneof![Just(STORE), (1_u64..300).prop_map(|n| Switching::CutThrough { header: Bytes::new(n) })];
    (
        switching,
        prop::collection::vec((place(), rate(), delay()), 0..5),
        prop::collection::vec((place(), rate(), delay()), 2..6),
        prop::collection::vec((place(), place(), rate(), delay()), 0..=more),
    )
        .prop_map(|(switching, switches, hosts, more)| Shape { switching, switches, hosts, more })
}

fn all_pairs(network: &Network) -> Vec<(NodeId, NodeId)> {
    let hosts = 0..network.hosts() as u32;
    hosts.clone().flat_map(|a| hosts.clone().map(move |b| (NodeId(a), NodeId(b)))).filter(|(a, b)| a != b).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    /// On trees, which have one path between two hosts, with any rates.
    #[test]
    fn any_tree_to_the_picosecond(
        shape in shape(0),
        size in 0_u64..100_000,
        wire in prop::sample::select(WireProfile::ALL.to_vec()),
    ) {
        let network = shape.build(shape.switching);
        let flows = apart(&all_pairs(&network), &[size], Duration::from_ms(10));
        check::<Blast<Plain>>("tree", &network, wire, flows);
    }

    /// With equal-cost paths of different rates. Under store-and-forward, times are exact for the path that was taken. A cut-through switch
    /// waits for the whole packet if any of the equal-cost links is faster, because it has not chosen the link yet. So it never sends
    /// bytes that have not arrived.
    #[test]
    fn any_network_on_the_path_that_was_taken(shape in shape(6), size in 0_u64..20_000) {
        let wire = WireProfile::IP_1500;
        for switching in [STORE, shape.switching] {
            let network = shape.build(switching);
            let flows = apart(&all_pairs(&network), &[size], Duration::from_ms(10));
            let (report, log) = watch::<Blast<Plain>, Log<_>>(&(), setup(network.clone()), flows, Log::default());
            for (flow, record) in report.flows.iter().zip(&report.records) {
                let path: Vec<LinkId> = log
                    .sent
                    .iter()
                    .filter(|(_, _, packet)| packet.flow == flow.id && packet.src == flow.src && packet.offset == Bytes::ZERO)
                    .map(|(_, link, _)| *link)
                    .collect();
                let (fct, alone) = (record.received - flow.start, network.flow_time(&path, flow.size, &wire));
                if switching == STORE {
                    prop_assert_eq!(fct, alone);
                } else {
                    prop_assert!(fct >= alone, "{fct} < {alone}");
                    prop_assert!(fct <= shape.build(STORE).flow_time(&path, flow.size, &wire));
                }
            }
        }
    }
}
