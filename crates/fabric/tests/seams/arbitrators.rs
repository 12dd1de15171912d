//! Arbitrators at switches: a source asks every switch on its flow's path for a class and starts when all have answered.

use std::collections::{BTreeSet, HashMap};

use flowloom_core::{
    Bytes, Endpoint, Event, Flow, FlowId, Network, Nic, NodeId, NodeKind, Packet, Placement, PortSite, Site, Time, Transport,
    topology,
};
use flowloom_transports::disciplines::{Buffer, StrictPriority};

use crate::common::blast::{Blaster, Header, Kind};
use crate::common::networks::{HOP_DELAY, STORE, flow, gbps, ns, setup, shapes, watch};
use crate::common::watch::Log;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Ask {
    #[default]
    Nothing,
    Class(Bytes),
    Answer(u8),
}

/// A host: flows wait for their switches' answers, and go in the worst class of these.
struct Host {
    /// The switches on the way to each host.
    ways: Vec<Vec<NodeId>>,
    waiting: HashMap<FlowId, (Flow, usize, u8)>,
    blaster: Blaster<Ask>,
}

fn switches_between(network: &Network, from: NodeId, to: NodeId) -> Vec<NodeId> {
    let path = network.path(from, to);
    path.iter().map(|link| network.link(*link).to).filter(|node| network.node(*node).kind == NodeKind::Switch).collect()
}

impl Endpoint for Host {
    type Header = Header<Ask>;
    fn open(&mut self, _: Time, flow: &Flow) {
        let way = &self.ways[flow.dst.index()];
        self.waiting.insert(flow.id, (*flow, way.len(), 0));
        for switch in way {
            self.blaster.control(flow.id, *switch, Kind::Other, Ask::Class(flow.size));
        }
    }
    fn handle_packet(&mut self, now: Time, packet: &Packet<Header<Ask>>) {
        let Ask::Answer(class) = packet.header.extra else { return self.blaster.handle_packet(now, packet) };
        let (flow, missing, worst) = self.waiting.get_mut(&packet.flow).expect("only what was asked is answered");
        (*missing, *worst) = (*missing - 1, class.max(*worst));
        if *missing == 0 {
            self.blaster.open_in(flow, *worst);
        }
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header<Ask>>> {
        self.blaster.poll_transmit(now)
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.blaster.poll_event()
    }
}

/// A switch's arbitrator: a flow's class is its rank by size among all that asked.
struct Arbitrator {
    flows: BTreeSet<(Bytes, FlowId)>,
    mouth: Blaster<Ask>,
}

impl Endpoint for Arbitrator {
    type Header = Header<Ask>;
    fn open(&mut self, _: Time, _: &Flow) {
        unreachable!("no flow starts at a switch")
    }
    fn handle_packet(&mut self, _: Time, packet: &Packet<Header<Ask>>) {
        let Ask::Class(size) = packet.header.extra else { panic!("only requests are addressed to switches") };
        self.flows.insert((size, packet.flow));
        let rank = self.flows.range(..(size, packet.flow)).count();
        self.mouth.control(packet.flow, packet.src, Kind::Other, Ask::Answer(rank.min(7) as u8));
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header<Ask>>> {
        self.mouth.poll_transmit(now)
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
}

enum Pase {}

impl Transport for Pase {
    const NAME: &'static str = "toy_pase";
    const ABOUT: &'static str = "a toy of arbitrators at switches";
    const NIC: Nic = Nic::Pulled;
    type Config = ();
    type Header = Header<Ask>;
    type Host = Host;
    type Port = StrictPriority;
    type Control = Arbitrator;

    fn placement((): &()) -> Placement {
        Placement::Switches
    }
    fn host((): &(), site: &Site<'_>) -> Host {
        let to = |host| if host == site.node { Vec::new() } else { switches_between(site.network, site.node, host) };
        Host {
            ways: (0..site.network.hosts() as u32).map(|host| to(NodeId(host))).collect(),
            waiting: HashMap::new(),
            blaster: Blaster::new(site, false),
        }
    }
    fn port((): &(), site: &PortSite<'_>) -> StrictPriority {
        StrictPriority::new(8, Buffer::Shared(site.memory.bytes()))
    }
    fn control((): &(), site: &Site<'_>) -> Arbitrator {
        Arbitrator { flows: BTreeSet::new(), mouth: Blaster::new(site, false) }
    }
}

/// Two leaves. The second request leaves 32 ns after the first, takes 32 + 200 ns to each of two switches, and the answer as
/// long back: data leaves at 32 + 4 × 232 ns.
#[test]
fn data_starts_when_the_farthest_arbitrator_has_answered() {
    let network = topology::dumbbell(1, gbps(10), gbps(10), HOP_DELAY, STORE);
    let (report, log) = watch::<Pase, Log<_>>(&(), setup(network), vec![flow(0, 0, 1, 1460, Time::ZERO)], Log::default());
    let data = log.sent.iter().find(|(_, _, packet)| packet.payload_bytes > 0).expect("data");
    assert_eq!(data.0, ns(32 + 4 * 232));
    // Then three links of 1200 + 200 ns.
    assert_eq!(report.records[0].received, ns(960 + 3 * 1400));
}

/// On every shape each switch on the way is asked once and answers once, and the last of n requests leaves after n - 1 others.
#[test]
fn every_switch_on_the_way_is_found_asked_and_answers() {
    for (name, network) in shapes(STORE) {
        let (src, dst) = (NodeId(0), NodeId(network.hosts() as u32 - 1));
        let way = switches_between(&network, src, dst);
        let setup = setup(network);
        let wire = setup.wire;
        let (report, log) = watch::<Pase, Log<_>>(&(), setup, vec![flow(0, src.0, dst.0, 100_000, Time::ZERO)], Log::default());
        let asked: Vec<NodeId> =
            log.arrived.iter().filter(|(_, node, _)| way.contains(node)).map(|(_, node, _)| *node).collect();
        assert_eq!(asked, way, "{name}");
        let answers = log.arrived.iter().filter(|(_, node, packet)| *node == src && way.contains(&packet.src)).count();
        assert_eq!(answers, way.len(), "{name}");
        let network = &report.network;
        let last = *way.last().expect("a switch");
        let slot = network.host_rate(src).transmit_time(wire.control);
        let trip = network.packet_time(&network.path(src, last), wire.control);
        let back = network.packet_time(&network.path(last, src), wire.control);
        let start = slot * (way.len() as u64 - 1) + trip + back;
        let alone = network.flow_time(&network.path(src, dst), Bytes::new(100_000), &wire);
        assert_eq!(report.records[0].received, Time::ZERO + start + alone, "{name}");
    }
}

/// Four flows of different sizes meet in the middle link only; the switches rank them, and they finish in that order.
#[test]
fn flows_that_share_a_switch_are_ranked_by_it() {
    let network = topology::dumbbell(4, gbps(10), gbps(10), HOP_DELAY, STORE);
    let sizes = [400_000, 100_000, 300_000, 200_000];
    // Far enough apart for each to be known before the next larger one asks, smallest first.
    let start = |size: u64| ns(size / 100);
    let mut flows: Vec<Flow> = (0..).zip(sizes).map(|(host, size)| flow(0, host, host + 4, size, start(size))).collect();
    flows = crate::common::networks::in_order(flows);
    let (report, log) = watch::<Pase, Log<_>>(&(), setup(network), flows, Log::default());
    for (rank, flow) in report.flows.iter().enumerate() {
        assert_eq!(flow.size.get(), 100_000 * (rank as u64 + 1));
        let classes: BTreeSet<u8> =
            log.sent.iter().filter(|(_, _, p)| p.flow == flow.id && p.payload_bytes > 0).map(|(_, _, p)| p.class).collect();
        assert_eq!(classes, BTreeSet::from([rank as u8]));
    }
    assert!(report.records.is_sorted_by_key(|record| record.received));
}
