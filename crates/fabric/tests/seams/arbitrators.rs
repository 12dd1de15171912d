//! Arbitrators at switches: a source requests a class from every switch on its flow's path, and starts when all have answered.

use std::collections::{BTreeSet, HashMap};

use flowloom_core::{
    Bytes, DropReason, Endpoint, Event, Flow, FlowId, Network, Nic, NodeId, NodeKind, Packet, Placement, PortSite, Site, Time,
    Transport, topology,
};
use flowloom_fabric::pair::{Fate, Pair, PairSetup};
use flowloom_fabric::{ControlCounters, Outage, Sim};
use flowloom_transports::disciplines::{Buffer, StrictPriority};

use crate::common::blast::{Blaster, Header, Kind};
use crate::common::networks::{CUT, HOP_DELAY, STORE, flow, gbps, ns, setup, shapes, watch};
use crate::common::watch::Log;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Arbitration {
    #[default]
    Nothing,
    Request(Bytes),
    Answer(u8),
}

/// A host. A flow waits for the answers of the switches on its path, and is sent in the worst of their classes.
struct Host {
    /// The switches on the path to each host.
    switches_to: Vec<Vec<NodeId>>,
    waiting: HashMap<FlowId, (Flow, usize, u8)>,
    blaster: Blaster<Arbitration>,
}

fn switches_between(network: &Network, from: NodeId, to: NodeId) -> Vec<NodeId> {
    let path = network.path(from, to);
    path.iter().map(|link| network.link(*link).to).filter(|node| network.node(*node).kind == NodeKind::Switch).collect()
}

impl Endpoint for Host {
    type Header = Header<Arbitration>;
    fn open(&mut self, _: Time, flow: &Flow) {
        let path = &self.switches_to[flow.dst.index()];
        self.waiting.insert(flow.id, (*flow, path.len(), 0));
        for switch in path {
            self.blaster.control(flow.id, *switch, Kind::Other, Arbitration::Request(flow.size));
        }
    }
    fn handle_packet(&mut self, now: Time, packet: &Packet<Header<Arbitration>>) {
        let Arbitration::Answer(class) = packet.header.extra else { return self.blaster.handle_packet(now, packet) };
        let (flow, missing, worst) = self.waiting.get_mut(&packet.flow).expect("switches answer only requests");
        (*missing, *worst) = (*missing - 1, class.max(*worst));
        if *missing == 0 {
            self.blaster.open_in(flow, *worst);
        }
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header<Arbitration>>> {
        self.blaster.poll_transmit(now)
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        self.blaster.poll_event()
    }
}

/// A switch's arbitrator. A flow's class is its rank by size among all flows that sent a request.
struct Arbitrator {
    flows: BTreeSet<(Bytes, FlowId)>,
    sender: Blaster<Arbitration>,
}

impl Endpoint for Arbitrator {
    type Header = Header<Arbitration>;
    fn open(&mut self, _: Time, _: &Flow) {
        unreachable!("no flow starts at a switch")
    }
    fn handle_packet(&mut self, _: Time, packet: &Packet<Header<Arbitration>>) {
        let Arbitration::Request(size) = packet.header.extra else { panic!("only requests are addressed to switches") };
        self.flows.insert((size, packet.flow));
        let rank = self.flows.range(..(size, packet.flow)).count();
        self.sender.control(packet.flow, packet.src, Kind::Other, Arbitration::Answer(rank.min(7) as u8));
    }
    fn handle_timeout(&mut self, _: Time) {}
    fn poll_transmit(&mut self, now: Time) -> Option<Packet<Header<Arbitration>>> {
        self.sender.poll_transmit(now)
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
    fn known_flows(&self) -> usize {
        self.flows.len()
    }
}

enum Pase {}

impl Transport for Pase {
    const NAME: &'static str = "toy_pase";
    const ABOUT: &'static str = "a toy of arbitrators at switches";
    const NIC: Nic = Nic::Pulled;
    type Config = ();
    type Header = Header<Arbitration>;
    type Host = Host;
    type Port = StrictPriority;
    type Control = Arbitrator;

    fn placement((): &()) -> Placement {
        Placement::Switches
    }
    fn host((): &(), site: &Site<'_>) -> Host {
        let to = |host| if host == site.node { Vec::new() } else { switches_between(site.network, site.node, host) };
        Host {
            switches_to: (0..site.network.hosts() as u32).map(|host| to(NodeId(host))).collect(),
            waiting: HashMap::new(),
            blaster: Blaster::new(site, false),
        }
    }
    fn port((): &(), site: &PortSite<'_>) -> StrictPriority {
        StrictPriority::new(8, Buffer::Shared(site.memory.bytes()))
    }
    fn control((): &(), site: &Site<'_>) -> Arbitrator {
        Arbitrator { flows: BTreeSet::new(), sender: Blaster::new(site, false) }
    }
}

/// Two leaves. The second request is sent 32 ns after the first. It takes 32 + 200 ns to each of two switches, and the answer takes as
/// long, so data is sent at 32 + 4 × 232 ns.
#[test]
fn data_starts_when_the_farthest_arbitrator_has_answered() {
    let network = topology::dumbbell(1, gbps(10), gbps(10), HOP_DELAY, STORE);
    let (report, log) = watch::<Pase, Log<_>>(&(), setup(network), vec![flow(0, 0, 1, 1460, Time::ZERO)], Log::default());
    let data = log.sent.iter().find(|(_, _, packet)| packet.payload_bytes > 0).expect("data");
    assert_eq!(data.0, ns(32 + 4 * 232));
    // Then three links of 1200 + 200 ns.
    assert_eq!(report.records[0].received, ns(960 + 3 * 1400));
}

/// In every topology, each switch on the path gets one request and sends one answer, and the last of n requests is sent after n - 1 others.
#[test]
fn every_switch_on_the_path_gets_a_request_and_answers() {
    for (name, network) in [STORE, CUT].into_iter().flat_map(shapes) {
        let (src, dst) = (NodeId(0), NodeId(network.hosts() as u32 - 1));
        let path = switches_between(&network, src, dst);
        let setup = setup(network);
        let wire = setup.wire;
        let (report, log) = watch::<Pase, Log<_>>(&(), setup, vec![flow(0, src.0, dst.0, 100_000, Time::ZERO)], Log::default());
        let requested: Vec<NodeId> =
            log.arrived.iter().filter(|(_, node, _)| path.contains(node)).map(|(_, node, _)| *node).collect();
        assert_eq!(requested, path, "{name}");
        let answers = log.arrived.iter().filter(|(_, node, packet)| *node == src && path.contains(&packet.src)).count();
        assert_eq!(answers, path.len(), "{name}");
        for ControlCounters { node, received, sent, known_flows_peak } in report.controls.iter().copied() {
            let messages = u64::from(path.contains(&node));
            assert_eq!((received, sent), (messages, messages), "{name}");
            assert_eq!(known_flows_peak as u64, messages, "{name}");
        }
        assert_eq!(report.controls.len(), report.network.switches().count(), "{name}");
        let network = &report.network;
        let last = *path.last().expect("a switch");
        let slot = network.nic_rate(src).transmit_time(wire.control);
        let trip = network.packet_time(&network.path(src, last), wire.control);
        let back = network.packet_time(&network.path(last, src), wire.control);
        let start = slot * (path.len() as u64 - 1) + trip + back;
        let alone = network.flow_time(&network.path(src, dst), Bytes::new(100_000), &wire);
        assert_eq!(report.records[0].received, Time::ZERO + start + alone, "{name}");
    }
}

/// Four flows of different sizes share only the middle link. The switches rank them, and they finish in that order.
#[test]
fn flows_that_share_a_switch_are_ranked_by_it() {
    let network = topology::dumbbell(4, gbps(10), gbps(10), HOP_DELAY, STORE);
    let sizes = [400_000, 100_000, 300_000, 200_000];
    // Smallest first, and so far apart that each is known before the next larger one sends its request.
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
    assert!(report.controls.iter().all(|counters| counters.known_flows_peak == 4), "{:?}", report.controls);
}

/// One host under each of two leaves, which are nodes 2 and 3.
fn two_leaves() -> Pair<Pase> {
    let network = topology::dumbbell(1, gbps(10), gbps(10), HOP_DELAY, STORE);
    Pair::new(&(), PairSetup { network: Some(network), ..PairSetup::default() })
}

/// The flows that the arbitrator of each leaf knows.
fn known(pair: &Pair<Pase>) -> [usize; 2] {
    [2, 3].map(|leaf| pair.control(NodeId(leaf)).flows.len())
}

/// As in `data_starts_when_the_farthest_arbitrator_has_answered`, with the test kit.
#[test]
fn a_pair_drives_arbitrators_at_switches() {
    let mut pair = two_leaves();
    let flow = pair.open(0, 1, 1460);
    pair.run_to_end(ns(1_000_000));
    assert_eq!(pair.flow(flow).received, Some(ns(960 + 3 * 1400)));
    assert_eq!(known(&pair), [1, 1]);
}

/// A request to the first leaf goes from the host's NIC straight to the leaf's endpoint; it is lost like any other packet. So are answers
/// that leave a switch.
#[test]
fn the_hook_sees_packets_to_and_from_arbitrators() {
    for (lost_src, lost_dst, flows) in [(0, 2, [0, 1]), (0, 3, [1, 0]), (2, 0, [1, 1]), (3, 0, [1, 1])] {
        let mut pair = two_leaves();
        pair.on_packet(move |sent| {
            let lost = (sent.packet.src, sent.packet.dst) == (NodeId(lost_src), NodeId(lost_dst));
            if lost { Fate::Drop } else { Fate::Pass }
        });
        let flow = pair.open(0, 1, 1460);
        pair.run(ns(1_000_000));
        assert_eq!(known(&pair), flows, "from {lost_src} to {lost_dst}");
        assert!(pair.flow(flow).received.is_none(), "the flow waits for an answer");
        assert_eq!(pair.sent().iter().filter(|sent| sent.fate == Fate::Drop).count(), 1);
    }
}

/// One switch. Its arbitrator is down from 10 to 20 µs: it forwards packets, but does not answer the second flow's request. It comes
/// up without knowing the first flow, so the third flow, which is larger than the first, has the top class.
#[test]
fn an_arbitrator_comes_back_without_its_flows() {
    let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
    let switch = NodeId(4);
    let start = |at_us: u64| ns(at_us * 1000);
    let flows = vec![flow(0, 0, 1, 14_600, Time::ZERO), flow(1, 2, 3, 1460, start(12)), flow(2, 0, 1, 29_200, start(30))];
    let outage = Outage { node: switch, from: start(10), to: start(20) };
    let mut sim = Sim::<Pase, StrictPriority, Log<_>>::new(&(), setup(network), flows, Log::default()).with_outages(&[outage]);
    while sim.step(1 << 10) {}
    let (report, log) = sim.finish().expect("conservation");
    // It knows one flow before it goes down, and one after.
    assert_eq!(report.controls, [ControlCounters { node: switch, received: 2, sent: 2, known_flows_peak: 1 }]);
    let [first, unanswered, third] = [report.records[0], report.records[1], report.records[2]];
    assert!(first.received > start(10) && first.received < start(20) && third.received < Time::MAX);
    assert_eq!((unanswered.sent_bytes, unanswered.is_over()), (0, false), "the toy does not repeat requests");
    assert_eq!(
        log.dropped.iter().map(|(_, _, packet, why)| (packet.flow.0, *why)).collect::<Vec<_>>(),
        [(1, DropReason::NodeDown)]
    );
    let classes: BTreeSet<u8> =
        log.sent.iter().filter(|(_, _, p)| p.flow.0 == 2 && p.payload_bytes > 0).map(|(_, _, p)| p.class).collect();
    assert_eq!(classes, BTreeSet::from([0]));
}

/// The far leaf's arbitrator is down when the first request comes. It comes back, and answers the second flow's.
#[test]
fn an_arbitrator_of_a_pair_goes_down_and_comes_back() {
    let network = topology::dumbbell(1, gbps(10), gbps(10), HOP_DELAY, STORE);
    let outages = vec![Outage { node: NodeId(3), from: ns(100), to: ns(10_000) }];
    let mut pair = Pair::<Pase>::new(&(), PairSetup { network: Some(network), outages, ..PairSetup::default() });
    let first = pair.open(0, 1, 1460);
    pair.run(ns(20_000));
    assert!(pair.flow(first).received.is_none());
    assert_eq!(pair.dropped().iter().map(|(_, flow, why)| (*flow, *why)).collect::<Vec<_>>(), [(first, DropReason::NodeDown)]);
    pair.open_flow(flow(1, 0, 1, 1460, ns(20_000)));
    let second = FlowId(1);
    pair.run(ns(40_000));
    assert_eq!(pair.flow(second).received, Some(ns(20_000 + 960 + 3 * 1400)));
    assert_eq!(known(&pair), [2, 1], "it does not know the first flow");
}
