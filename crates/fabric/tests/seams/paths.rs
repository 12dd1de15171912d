//! Paths that are lent to endpoints: each packet says which links it will cross according to its sender, and crosses these.

use std::collections::BTreeMap;

use flowloom_core::{
    Endpoint, Event, Flow, LinkId, Network, Nic, NoControl, NodeId, Packet, Paths, PortSite, Site, Time, Transport,
};
use flowloom_fabric::{Routing, SimSetup};
use flowloom_transports::disciplines::DropTail;
use proptest::prelude::*;

use crate::common::blast::{Blaster, Header};
use crate::common::networks::{CUT, Dice, HOP_DELAY, STORE, flow, gbps, setup, shapes, watch};
use crate::common::watch::Log;

const MODES: [Routing; 4] = [Routing::SprayRandom, Routing::SprayRoundRobin, Routing::Ecmp, Routing::EcmpSymmetric];

/// The links that the sender of a packet expects, and how many they are; `None` if the sender was lent no paths.
type Expected = Option<([LinkId; 12], usize)>;

struct Host {
    paths: Option<Paths>,
    blaster: Blaster<Expected>,
}

impl Endpoint for Host {
    type Header = Header<Expected>;
    fn open(&mut self, now: Time, flow: &Flow) {
        self.blaster.open(now, flow);
    }
    fn handle_packet(&mut self, now: Time, packet: &Packet<Header<Expected>>) {
        self.blaster.handle_packet(now, packet);
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header<Expected>>> {
        let mut packet = self.blaster.poll_transmit(now)?;
        packet.header.extra = self.paths.as_ref().map(|paths| {
            let links: Vec<LinkId> = paths.path(packet.flow, packet.src, packet.dst).collect();
            let mut expected = [LinkId(u32::MAX); 12];
            expected[..links.len()].copy_from_slice(&links);
            (expected, links.len())
        });
        Some(packet)
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.blaster.poll_event()
    }
}

enum Guided {}

impl Transport for Guided {
    const NAME: &'static str = "guided";
    const ABOUT: &'static str = "its packets say where they will go";
    const NIC: Nic = Nic::Pulled;
    type Config = ();
    type Header = Header<Expected>;
    type Host = Host;
    type Port = DropTail;
    type Control = NoControl<Header<Expected>>;

    fn host((): &(), site: &Site<'_>) -> Host {
        Host { paths: site.paths.cloned(), blaster: Blaster::new(site, true) }
    }
    fn port((): &(), site: &PortSite<'_>) -> DropTail {
        DropTail::new(site.memory.bytes())
    }
}

/// Sends a few packets between all pairs of hosts, one pair after the other, and compares the links of each packet with those that its
/// sender expected. Returns whether paths were lent.
fn expected_links_are_crossed(network: &Network, routing: Routing, seed: u64) -> bool {
    let hosts = network.hosts() as u32;
    let ends = (0..hosts).flat_map(|src| (0..hosts).filter(move |dst| *dst != src).map(move |dst| (src, dst)));
    let flows: Vec<Flow> = (0..).zip(ends).map(|(id, (src, dst))| flow(id, src, dst, 3000, Time::ZERO)).collect();
    let setup = SimSetup { routing, seed, ..setup(network.clone()) };
    let (report, log) = watch::<Guided, Log<_>>(&(), setup, flows, Log::default());
    assert!(report.records.iter().all(|record| record.acknowledged < Time::MAX));
    let mut crossed: BTreeMap<_, BTreeMap<u64, Vec<LinkId>>> = BTreeMap::new();
    for (_, link, packet) in &log.sent {
        let ends = (packet.flow, packet.src, packet.dst);
        crossed.entry(ends).or_default().entry(packet.offset.get()).or_default().push(*link);
    }
    let mut lent = false;
    for (_, _, packet) in &log.injected {
        let Some((links, count)) = packet.header.extra else { continue };
        lent = true;
        // The answers of a flow all have offset 0, so their links come mixed.
        let way = &crossed[&(packet.flow, packet.src, packet.dst)][&packet.offset.get()];
        let expected = &links[..count];
        if packet.payload_bytes > 0 {
            assert_eq!(way, expected, "{routing:?}: {packet:?}");
            continue;
        }
        let answers = way.len() / count;
        let crossings = |link: &LinkId| way.iter().filter(|other| *other == link).count();
        assert_eq!(way.len(), answers * count, "{routing:?}: {packet:?}");
        assert!(expected.iter().all(|link| crossings(link) == answers), "{routing:?}: {way:?}, expected {expected:?}");
    }
    lent
}

#[test]
fn packets_take_the_path_that_endpoints_are_told() {
    for switching in [STORE, CUT] {
        for (name, network) in shapes(switching) {
            let one_path = !matches!(name, "leaf_spine" | "fat_tree");
            for routing in MODES {
                let lent = expected_links_are_crossed(&network, routing, 3);
                let sprays = matches!(routing, Routing::SprayRandom | Routing::SprayRoundRobin);
                assert_eq!(lent, one_path || !sprays, "{name}, {routing:?}");
            }
        }
    }
}

/// A connected network of switches in any shape, also with parallel links, and hosts at random switches.
fn any_network(dice: &mut Dice) -> Network {
    let (hosts, switches) = (2 + dice.below(4) as usize, 1 + dice.below(6) as u32);
    let mut network = Network::new(hosts, if dice.below(2) == 0 { STORE } else { CUT });
    let first = network.add_switch(1, "any", "s0");
    for index in 1..switches {
        let switch = network.add_switch(1, "any", format!("s{index}"));
        network.connect(switch, NodeId(first.0 + dice.below(u64::from(index)) as u32), gbps(10), HOP_DELAY);
    }
    let any = |dice: &mut Dice| NodeId(first.0 + dice.below(u64::from(switches)) as u32);
    for _ in 0..dice.below(8) {
        let (a, b) = (any(dice), any(dice));
        if a != b {
            network.connect(a, b, gbps(10), HOP_DELAY);
        }
    }
    for host in 0..hosts as u32 {
        let switch = any(dice);
        network.connect(NodeId(host), switch, gbps(10), HOP_DELAY);
    }
    network
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn packets_take_that_path_in_any_network(shape in any::<u64>(), seed in any::<u64>(), mode in 0..MODES.len()) {
        let network = any_network(&mut Dice::new(shape));
        network.check().expect("connected");
        expected_links_are_crossed(&network, MODES[mode], seed);
    }
}
