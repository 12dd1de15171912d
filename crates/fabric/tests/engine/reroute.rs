//! Links that are cut, and switches that notice it.

use std::sync::Arc;

use flowloom_core::{DropReason, FlowId, LinkId, Network, NodeId, Paths, PortSite, Time, Transport, topology};
use flowloom_fabric::{Fault, Faulty, Report, Routing, Sim, SimSetup};

use crate::common::blast::{Blast, Header, Plain};
use crate::common::networks::{HOP_DELAY, STORE, flow, gbps, ns, setup};
use crate::common::watch::Log;

/// Two racks of two hosts, with two spines. All links have 10 Gb/s.
fn racks() -> SimSetup {
    setup(topology::leaf_spine(2, 2, 2, gbps(10), gbps(10), HOP_DELAY, STORE))
}

/// A run in which a link is cut in both directions from `from` to `to`. Switches notice it `after` each.
fn cut(
    setup: &SimSetup,
    flows: Vec<flowloom_core::Flow>,
    cut: LinkId,
    [from, to, after]: [u64; 3],
) -> (Report, Log<Header<()>>) {
    let paths = Paths::new(Arc::new(setup.network.clone()), setup.routing, setup.seed);
    let reroutes = [(ns(from + after), paths.without(&[cut]).expect("there is another path")), (ns(to + after), paths.clone())];
    let wrap = |port, site: &PortSite<'_>| {
        let is_cut = site.link == cut || site.link == cut.reverse();
        Faulty::new(port, site, if is_cut { vec![Fault::Cut(ns(from), ns(to))] } else { Vec::new() }, setup.seed)
    };
    type Port = Faulty<<Blast<Plain> as Transport>::Port>;
    let sim = Sim::<Blast<Plain>, Port, _>::with_ports(&(), setup.clone(), flows, Log::default(), wrap);
    let mut sim = sim.with_reroutes(&reroutes);
    while sim.step(1 << 20) {}
    sim.finish().expect("conservation")
}

/// The links from the leaf of host 0 to the spines: that of flow 0 from host 0 to host 2, and the other.
fn uplinks(setup: &SimSetup) -> [LinkId; 2] {
    let paths = Paths::new(Arc::new(setup.network.clone()), setup.routing, setup.seed);
    let own = paths.path(FlowId(0), NodeId(0), NodeId(2)).nth(1).expect("the second link goes to a spine");
    let other =
        setup.network.ports(NodeId(4)).iter().find(|link| setup.network.hop_name(**link) == "leaf-spine" && **link != own);
    [own, *other.expect("there are two spines")]
}

/// Packet k (from 1) reaches the leaf at 1.2 k + 0.2 µs, and has left the uplink 1.4 µs later. The link is cut from 100 to 300 µs, and switches notice it 50 µs later. Packet 83 is on the
/// link when it is cut and arrives damaged. Packets 84 to 124 find it cut, packets 125 to 291 take the other spine, and the rest the link again.
#[test]
fn packets_take_another_way_once_switches_have_noticed() {
    let setup = racks();
    let [own, other] = uplinks(&setup);
    let (report, log) = cut(&setup, vec![flow(0, 0, 2, 1460 * 1000, Time::ZERO)], own, [100_000, 300_000, 50_000]);
    let lost = |reason| -> Vec<u64> {
        let lost = log.dropped.iter().filter(|(.., why)| *why == reason);
        lost.map(|(_, _, packet, _)| packet.offset.get() / 1460 + 1).collect()
    };
    assert_eq!(lost(DropReason::Corrupted), [83]);
    assert_eq!(lost(DropReason::LinkDown), (84..=124).collect::<Vec<_>>());
    assert_eq!(log.dropped.len(), 42);
    let over = |link| -> Vec<u64> { log.on(link).map(|(_, packet)| packet.offset.get() / 1460 + 1).collect() };
    assert_eq!(over(own), (1..=83).chain(292..=1000).collect::<Vec<_>>());
    assert_eq!(over(other), (125..=291).collect::<Vec<_>>());
    assert_eq!(report.records[0].arrived_bytes, 1460 * 958);
}

/// Hosts 0 and 1 send over one uplink, so half of the packets queue. Those that wait when the link is cut are lost.
#[test]
fn what_a_port_holds_is_lost_when_its_link_is_cut() {
    let setup = racks();
    let [own, _] = uplinks(&setup);
    let paths = Paths::new(Arc::new(setup.network.clone()), setup.routing, setup.seed);
    let same = (1..100)
        .find(|id| paths.path(FlowId(*id), NodeId(1), NodeId(3)).any(|link| link == own))
        .expect("a hash that leads there");
    let mut flows: Vec<_> = (0..=same).map(|id| flow(id, 0, 1, 1, ns(1))).collect();
    flows[0] = flow(0, 0, 2, 146_000, Time::ZERO);
    flows[same as usize] = flow(same, 1, 3, 146_000, ns(1));
    let (report, log) = cut(&setup, flows, own, [60_000, 1_000_000, 500_000]);
    // As in `queued_packets_wait_for_the_link`, one packet is sent every 1.2 µs, and as many wait. None is sent after the cut.
    assert!(log.on(own).all(|(time, _)| time < ns(60_000)));
    let waited = log.on(own).count();
    let lost = report.ports[own.index()].drops();
    assert!((48..=50).contains(&waited) && lost + waited as u64 == 200, "{waited} were sent, {lost} lost");
}

/// Packet k (from 1) reaches the switch at 1.2 k + 0.2 µs. The link in the middle has a tenth of its rate from 4.5 to 30 µs. Packet 3 is on it then, and has left it at 5 µs. Packets 4, 5 and 6 take 12 µs each, until
/// 41 µs; the last of them keeps the rate with which it began. The others follow at the link's own rate.
#[test]
fn a_packet_keeps_the_rate_with_which_it_began() {
    let setup = setup(topology::dumbbell(1, gbps(10), gbps(10), HOP_DELAY, STORE));
    let middle = setup.network.path(NodeId(0), NodeId(1))[1];
    let paths = Paths::new(Arc::new(setup.network.clone()), setup.routing, setup.seed);
    let mut slow = setup.network.clone();
    slow.set_rate(middle, gbps(1));
    let slower = paths.over(Arc::new(slow), &[]).expect("nothing is dead");
    let changes = [(ns(4_500), slower), (ns(30_000), paths)];
    let flows = vec![flow(0, 0, 1, 14_600, Time::ZERO)];
    let mut sim = Sim::<Blast<Plain>, _, _>::new(&(), setup, flows, Log::default()).with_reroutes(&changes);
    while sim.step(1 << 20) {}
    let (report, log) = sim.finish().expect("conservation");
    let began: Vec<u64> = log.on(middle).map(|(at, _)| at.as_ps() / 1000).collect();
    assert_eq!(began, [1_400, 2_600, 3_800, 5_000, 17_000, 29_000, 41_000, 42_200, 43_400, 44_600]);
    assert_eq!(report.records[0].received, ns(45_800 + 1_600));
}

/// Where a host has one way only, there are no paths without it.
#[test]
fn a_host_that_is_cut_off_has_no_paths() {
    let network = topology::leaf_spine(2, 2, 2, gbps(10), gbps(10), HOP_DELAY, STORE);
    let paths = Paths::new(Arc::new(network.clone()), Routing::Ecmp, 1);
    let [nic, uplink, other] = [network.ports(NodeId(0))[0], network.ports(NodeId(4))[2], network.ports(NodeId(4))[3]];
    assert!(paths.without(&[nic]).is_none() && paths.without(&[uplink, other]).is_none());
    assert!(paths.without(&[uplink]).is_some());
}

/// Without a link, next hops are those of a network that never had it.
#[test]
fn paths_without_a_link_are_those_of_a_network_that_lacks_it() {
    let whole = topology::fat_tree(4, gbps(10), HOP_DELAY, STORE);
    let between = |link: &LinkId| whole.node(whole.link(*link).from).level > 0 && whole.node(whole.link(*link).to).level > 0;
    let dead = (0..whole.links().len() as u32).map(LinkId).filter(between).nth(6).expect("a link between switches");
    let mut lacking = Network::new(whole.hosts(), STORE);
    for switch in whole.switches() {
        let node = whole.node(switch);
        lacking.add_switch(node.level, &node.tier, node.name.clone());
    }
    // Links are made in pairs, one for each direction.
    for pair in
        whole.links().chunks(2).zip(0..).filter(|(_, number)| LinkId(2 * number) != dead && LinkId(2 * number + 1) != dead)
    {
        let link = pair.0[0];
        lacking.connect(link.from, link.to, link.rate, link.delay);
    }
    let paths = Paths::new(Arc::new(whole.clone()), Routing::Ecmp, 1).without(&[dead]).expect("a fat tree has other paths");
    let other = Paths::new(Arc::new(lacking.clone()), Routing::Ecmp, 1);
    let ends =
        |network: &Network, links: &[LinkId]| -> Vec<NodeId> { links.iter().map(|link| network.link(*link).to).collect() };
    for at in whole.switches() {
        for to in (0..16).map(NodeId) {
            assert_eq!(ends(&whole, paths.way(at, to).links()), ends(&lacking, other.way(at, to).links()), "{at:?} to {to:?}");
        }
    }
}
