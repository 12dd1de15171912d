//! No packet is lost for want of memory, whatever the hosts do.

use flowloom_core::{Bytes, Duration, Flow, LinkId, Memory, Network, NodeId, Rate, Time, Transport, topology};
use flowloom_fabric::{Report, Routing, SimSetup};
use flowloom_transports::pfc::{OverPfc, Pfc, Setting};
use flowloom_transports::tcp::{self, Dctcp};

use crate::common::networks::{CUT, Dice, HOP_DELAY, STORE, flow, gbps, in_order, poisson, run, setup, shapes};
use crate::{Greedy, GreedyQueued, bytes, drops, setting};

/// The memory that holds the headrooms and a packet for each port, and no more.
fn least(network: &Network) -> [Memory; 2] {
    let wire = setup(network.clone()).wire;
    let headroom = |link: &_| Pfc::default().headroom(link, &wire);
    let port = network.links().iter().map(headroom).max().expect("there are links") + wire.full;
    let of_switch = |node: NodeId| network.ports(node).iter().map(|link| headroom(network.link(*link)).get()).sum::<u64>();
    let switch = network.switches().map(of_switch).max().expect("there are switches") + wire.full.get();
    [Memory::PerPort(port), Memory::PerSwitch { bytes: Bytes::new(switch), alpha: 1.0 }]
}

fn assert_lossless(report: &Report, what: &str) {
    assert_eq!(drops(report), 0, "{what}");
    assert!(report.records.iter().all(|record| record.acknowledged < Time::MAX), "{what}: all flows end");
}

/// All hosts send to the last one at once, and random pairs of hosts exchange flows.
fn storm(network: &Network, dice: &mut Dice, bytes: u64) -> Vec<Flow> {
    let hosts = network.hosts() as u64;
    let incast = (0..hosts - 1).map(|host| flow(0, host as u32, hosts as u32 - 1, bytes, Time::ZERO));
    let mut flows: Vec<Flow> = incast.collect();
    for _ in 0..hosts {
        let src = dice.below(hosts);
        let dst = (src + 1 + dice.below(hosts - 1)) % hosts;
        let start = Time::ZERO + Duration::from_ns(dice.below(50_000));
        flows.push(flow(0, src as u32, dst as u32, 1 + dice.below(bytes), start));
    }
    in_order(flows)
}

/// Greedy hosts on every shape of network, with the least memory, both kinds of memory, both kinds of switches, and any routing.
#[test]
fn greedy_hosts_lose_nothing_with_the_least_memory() {
    let mut dice = Dice::new(1);
    for switching in [STORE, CUT] {
        for (name, network) in shapes(switching) {
            for memory in least(&network) {
                for routing in [Routing::Ecmp, Routing::SprayRandom] {
                    let flows = storm(&network, &mut dice, 40_000);
                    let setup = || SimSetup { memory, routing, ..setup(network.clone()) };
                    let what = format!("{name} {switching:?} {memory:?} {routing:?}");
                    assert_lossless(&run::<Greedy>(&setting(Pfc::default(), memory), setup(), flows.clone()), &what);
                    assert_lossless(&run::<GreedyQueued>(&setting(Pfc::default(), memory), setup(), flows), &what);
                }
            }
        }
    }
}

fn lossless<T: Transport>(config: &T::Config, network: Network, memory: Memory, flows: Vec<Flow>) -> Report {
    run::<T>(config, SimSetup { memory, ..setup(network) }, flows)
}

/// Without PFC the same memory loses packets, so the test can fail.
#[test]
fn dctcp_loses_nothing_over_pfc_and_much_without() {
    let network = topology::leaf_spine(3, 4, 2, gbps(10), gbps(40), HOP_DELAY, STORE);
    for memory in least(&network) {
        let flows = storm(&network, &mut Dice::new(2), 300_000);
        let transport = tcp::Config::default();
        let without = lossless::<Dctcp>(&transport, network.clone(), memory, flows.clone());
        assert!(drops(&without) > 100, "{memory:?}: {}", drops(&without));
        let setting = Setting { transport, memory, ..Setting::default() };
        let with = lossless::<OverPfc<Dctcp>>(&setting, network.clone(), memory, flows);
        assert_lossless(&with, &format!("{memory:?}"));
        assert!(with.records.iter().all(|record| record.timeouts == 0 || record.dropped_bytes == 0));
    }
}

/// The paper-sized fabric: 143 hosts to one.
#[test]
fn an_incast_of_143_hosts_loses_nothing() {
    let network = topology::leaf_spine(9, 16, 4, gbps(10), gbps(40), HOP_DELAY, CUT);
    let [memory, _] = least(&network);
    let flows = (0..143).map(|host| flow(host, host, 143, 30_000, Time::ZERO)).collect();
    let report = lossless::<Greedy>(&setting(Pfc::default(), memory), network, memory, flows);
    assert_lossless(&report, "144 hosts");
    // The link to the receiver, the only bottleneck, never idles once it has begun: 143 × 21 packets, the last of which has 800 B.
    let wire = 143 * (30_000 + 21 * 40);
    let done = report.records.iter().map(|record| record.received).max().expect("flows");
    let busy = Rate::from_gbps(10).transmit_time(Bytes::new(wire));
    assert!(done > Time::ZERO + busy && done < Time::ZERO + busy + Duration::from_us(20), "{done}, not {busy}");
}

/// Poisson flows between all pairs of 144 hosts. With the computed headroom, nothing is lost in the least memory. With half of it, no worst case
/// is needed: the packet that crosses XOFF fits, the next one does not, and it has begun before the frame takes effect. All links have 10 Gb/s,
/// so all have one headroom.
#[test]
fn at_any_load_144_hosts_lose_nothing_with_the_headroom_and_packets_with_half_of_it() {
    let network = topology::leaf_spine(9, 16, 16, gbps(10), gbps(10), HOP_DELAY, CUT);
    let [of_port, of_switch] = least(&network);
    let headroom = Pfc::default().headroom(network.link(LinkId(0)), &setup(network.clone()).wire).get();
    let half = Pfc { headroom: bytes(headroom / 2), xoff: bytes(1500), ..Pfc::default() };
    for load in [0.3, 0.6, 0.9] {
        let flows = poisson(&network, load, 2000, 7);
        let run = |pfc: &Pfc, memory| lossless::<Greedy>(&setting(pfc.clone(), memory), network.clone(), memory, flows.clone());
        for memory in [of_port, of_switch] {
            assert_lossless(&run(&Pfc::default(), memory), &format!("load {load}, {memory:?}"));
        }
        let lost = drops(&run(&half, of_port));
        assert!(lost > 1000, "load {load}: {lost} packets lost");
    }
}
