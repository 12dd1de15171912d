//! Fastpass on networks: exact times of a flow alone, and queues that stay empty.

use flowloom_core::{Bytes, Duration, Flow, LinkId, Memory, Network, NodeId, Time, WireProfile, topology};
use flowloom_fabric::{Report, Routing, SimSetup};
use flowloom_transports::fastpass::{Config, Fastpass};

use crate::common::networks::{CUT, HOP_DELAY, STORE, apart, flow, gbps, pairs, run, setup, shapes};
use crate::common::tandem::{Tandem, sizes_on_wire};

const BUFFER: Bytes = Bytes::new(36_864);

fn go(network: Network, routing: Routing, flows: Vec<Flow>) -> Report {
    let setup = SimSetup { memory: Memory::PerPort(BUFFER), routing, ..setup(network) };
    run::<Fastpass>(&Config::default(), setup, flows)
}

/// A flow alone: its request reaches the arbiter, which matches at the next beginning of an epoch (8.5 slots each) for the
/// epoch after that; packet k leaves in slot k mod 8 of the epoch k / 8, slots being an eighth of an epoch.
fn alone(network: &Network, flow: &Flow, wire: &WireProfile) -> Duration {
    let arbiter = network.control_host().expect("an arbiter");
    let slot = network.host_rate(flow.src).transmit_time(wire.full).as_ps();
    let epoch = slot * 17 / 2;
    let asked = (flow.start + network.packet_time(&network.path(flow.src, arbiter), wire.control)).as_ps();
    let first = (asked / epoch + 2) * epoch;
    let leaves = |number: u64| Duration::from_ps(first + number / 8 * epoch + number % 8 * epoch / 8 - flow.start.as_ps());
    let path = network.path(flow.src, flow.dst);
    let mut tandem = Tandem::new(network, &path);
    (0..).zip(sizes_on_wire(flow.size, wire)).fold(Duration::ZERO, |_, (number, size)| tandem.send(leaves(number), size))
}

#[test]
fn alone_it_takes_a_request_an_epoch_and_its_slots() {
    for switching in [STORE, CUT] {
        for (name, network) in shapes(switching).into_iter().filter(|(name, _)| *name != "slow dumbbell") {
            let sizes = [1, 1460, 1461, 11_680, 11_681, 100_000, 1_000_000];
            // Odd, so that flows begin anywhere in an epoch.
            let flows = apart(&pairs(&network), &sizes, Duration::from_ps(20_003_333_001));
            let report = go(network, Routing::Ecmp, flows);
            for (flow, record) in report.flows.iter().zip(&report.records) {
                let expected = alone(&report.network, flow, &WireProfile::IP_1500);
                assert_eq!(record.received - flow.start, expected, "{name}, {switching:?}, {flow:?}");
                assert_eq!(record.retransmissions, 0, "{name}, {switching:?}, {flow:?}");
            }
        }
    }
}

/// The most bytes ever queued at ports of a hop, and their drops.
fn worst(report: &Report, hop: &str) -> (u64, u64) {
    let ports = (0..).map(LinkId).zip(&report.ports).filter(|(link, _)| report.network.hop_name(*link) == hop);
    ports.fold((0, 0), |(peak, drops), (_, port)| (peak.max(port.peak_bytes), drops + port.drops()))
}

/// Each destination has one packet per slot on its way. Ways within a rack are less than a slot shorter than others, and
/// packets that meet in the core are late by less than another: at 60 % load nothing is dropped at either edge, and what waits
/// at the last hop is three packets at most and the answers.
#[test]
fn queues_at_the_edge_stay_empty() {
    let network = topology::leaf_spine(4, 8, 4, gbps(10), gbps(40), HOP_DELAY, STORE);
    let flows = crate::survival::poisson(&network, 0.6, 3000, 3);
    let report = go(network, Routing::SprayRoundRobin, flows);
    assert!(report.records.iter().all(|record| record.acknowledged != Time::MAX));
    let (first, last) = (worst(&report, "host-leaf"), worst(&report, "leaf-host"));
    assert_eq!((first.1, last.1), (0, 0), "no drop at either edge");
    assert!(last.0 <= 3 * 1500 + 4 * 40, "{} B at the last hop", last.0);
}

/// Eight senders to one host: the arbiter gives each slot to one of them, so the last hop holds a packet at most, and the link
/// is used for 8 slots of each 8.5.
#[test]
fn an_incast_does_not_queue() {
    let network = topology::single_switch(9, gbps(10), HOP_DELAY, STORE);
    let flows = (0..8).map(|host| flow(host, host, 8, 146_000, Time::ZERO)).collect();
    let report = go(network, Routing::Ecmp, flows);
    let port = &report.ports[report.network.ports(NodeId(8))[0].reverse().index()];
    assert!(port.peak_bytes <= 1500 + 40, "{}", port.peak_bytes);
    // 800 packets are 100 epochs, the first two of which pass with asking and matching.
    let done = report.records.iter().map(|record| record.received).max().expect("flows");
    let epoch = 10_200_000;
    assert_eq!(done.as_ps(), 2 * epoch + 99 * epoch + 7 * epoch / 8 + 2_800_000);
}
