//! Every routing mode delivers packets over shortest paths.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flowloom_core::{FlowId, LinkId, NodeId, Paths, Time, Way, topology};
use flowloom_fabric::{Routing, SimSetup};

use crate::common::blast::{Blast, Header, Plain};
use crate::common::networks::{CUT, HOP_DELAY, STORE, flow, gbps, setup, shapes, watch};
use crate::common::watch::Log;

#[test]
fn every_mode_delivers_everything_by_shortest_paths() {
    for (switching, routing) in
        [STORE, CUT].into_iter().flat_map(|switching| Routing::EVERY.map(|routing| (switching, routing)))
    {
        for (name, network) in shapes(switching) {
            let hosts = network.hosts() as u32;
            let ends = (0..hosts).flat_map(|src| (0..hosts).filter(move |dst| *dst != src).map(move |dst| (src, dst)));
            let flows: Vec<_> = (0..).zip(ends).map(|(id, (src, dst))| flow(id, src, dst, 5000, Time::ZERO)).collect();
            let links = |a, b| network.path(a, b).len() as u64;
            // Four data packets, and an answer in the other direction.
            let hops: u64 = flows.iter().map(|flow| 4 * links(flow.src, flow.dst) + links(flow.dst, flow.src)).sum();
            let (report, ()) = watch::<Blast<Plain>, ()>(&(), SimSetup { routing, ..setup(network.clone()) }, flows, ());
            assert!(report.records.iter().all(|record| record.acknowledged != Time::MAX), "{name}, {routing:?}");
            assert_eq!(report.packet_hops, hops, "{name}, {routing:?}");
        }
    }
}

/// The links that each flow's data used, and the reverse directions of those that its answer used.
fn links_used(routing: Routing) -> BTreeMap<FlowId, (BTreeSet<LinkId>, BTreeSet<LinkId>)> {
    let network = topology::fat_tree(4, gbps(10), HOP_DELAY, STORE);
    let flows = (0..64).map(|id| flow(id, id % 16, (id + 5 + id / 16) % 16, 20_000, Time::ZERO)).collect();
    let (report, log) =
        watch::<Blast<Plain>, Log<Header<()>>>(&(), SimSetup { routing, ..setup(network) }, flows, Log::default());
    let mut links_used: BTreeMap<FlowId, (BTreeSet<LinkId>, BTreeSet<LinkId>)> = BTreeMap::new();
    for (_, link, packet) in &log.sent {
        let (forth, back) = links_used.entry(packet.flow).or_default();
        if packet.src == report.flows[packet.flow.0 as usize].src {
            forth.insert(*link);
        } else {
            back.insert(link.reverse());
        }
    }
    links_used
}

#[test]
fn symmetric_routing_brings_answers_back_over_the_links_of_the_data() {
    assert!(links_used(Routing::EcmpSymmetric).values().all(|(forth, back)| forth == back));
    let apart = links_used(Routing::Ecmp).values().filter(|(forth, back)| forth != back).count();
    assert!(apart > 10, "plain ECMP chooses for each direction: {apart} of 64");
}

/// A flow of 1000 packets between pods uses one of four paths, or all four evenly.
#[test]
fn hashing_keeps_a_flow_together_and_spraying_shares_it_out() {
    let network = topology::fat_tree(4, gbps(10), HOP_DELAY, STORE);
    let core_links: Vec<usize> = (0..network.links().len())
        .filter(|link| network.hop_name(LinkId(*link as u32)) == "agg-core")
        .filter(|link| network.path(network.link(LinkId(*link as u32)).from, NodeId(0)).len() == 2)
        .collect();
    assert_eq!(core_links.len(), 4, "host 0's pod has four links to cores");
    for routing in Routing::EVERY {
        let flows = vec![flow(0, 0, 15, 1460 * 1000, Time::ZERO)];
        let (report, ()) = watch::<Blast<Plain>, ()>(&(), SimSetup { routing, ..setup(network.clone()) }, flows, ());
        let mut shares: Vec<u64> = core_links.iter().map(|link| report.ports[*link].packets()).collect();
        shares.sort_unstable();
        match routing {
            // One packet follows the other within 1.2 µs.
            Routing::Ecmp | Routing::EcmpSymmetric | Routing::Flowlet(_) => assert_eq!(shares, [0, 0, 0, 1000]),
            // Nothing else is in the network, so a link that has just got a packet is the worst one.
            Routing::LeastQueue | Routing::Drill(_) => assert!(shares[3] < 400, "{routing:?}: {shares:?}"),
            Routing::SprayRoundRobin => assert_eq!(shares, [250; 4]),
            // Four standard deviations of a binomial distribution: √(1000 × ¼ × ¾) = 13.7. These packets have no labels.
            Routing::SprayRandom | Routing::SprayLabelled => {
                assert!(shares.iter().all(|share| share.abs_diff(250) < 55), "{shares:?}");
            }
        }
    }
}

/// The 180 switches of a fat tree with k = 12 are enough for several threads to search for the next hops, once one more has no position.
#[test]
fn a_search_finds_what_positions_say() {
    let placed = topology::fat_tree(12, gbps(10), HOP_DELAY, STORE);
    let mut searched = placed.clone();
    let leaf = searched.add_switch(1, "edge", "without hosts");
    searched.connect(leaf, NodeId(432), gbps(10), HOP_DELAY);
    let [placed, searched] = [placed, searched].map(|network| Paths::new(Arc::new(network), Routing::SprayLabelled, 7));
    for at in placed.network().switches() {
        for dst in (0..432).map(NodeId) {
            let (one, other) = (placed.way(at, dst), searched.way(at, dst));
            assert_eq!(one.links(), other.links());
            if let (Way::OneOf(one), Way::OneOf(other)) = (one, other) {
                let label = (at.0 + dst.0) as u16;
                assert_eq!(placed.labelled(one, at, dst, label), searched.labelled(other, at, dst, label));
            }
        }
    }
}
