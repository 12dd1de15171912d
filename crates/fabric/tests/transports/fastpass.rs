//! Fastpass on networks: exact times of single flows, and queues that stay short.

use flowloom_core::{Bytes, Duration, Flow, LinkId, Memory, Network, NodeId, Time, WireProfile, topology};
use flowloom_fabric::{Report, Routing, SimSetup};
use flowloom_transports::fastpass::{Config, Fastpass, ScheduleStart};

use crate::common::networks::{CUT, HOP_DELAY, STORE, apart, flow, gbps, pairs, poisson, run, setup, shapes};
use crate::common::tandem::{Tandem, sizes_on_wire};

const BUFFER: Bytes = Bytes::new(36_864);

const BOTH: [ScheduleStart; 2] = [ScheduleStart::Arrival, ScheduleStart::Epoch];

fn go(network: Network, routing: Routing, schedule_start: ScheduleStart, flows: Vec<Flow>) -> Report {
    let setup = SimSetup { memory: Memory::PerPort(BUFFER), routing, ..setup(network) };
    run::<Fastpass>(&Config { schedule_start, ..Config::default() }, setup, flows)
}

/// The completion time of a single flow. Its request reaches the arbiter, which computes a matching at the start of the next epoch (8.5
/// packet times). The flow's slots begin when the schedule arrives, or with the epoch after that. Packet k is sent in slot k mod 8 of epoch
/// k / 8; a slot is an eighth of an epoch.
fn alone(network: &Network, flow: &Flow, wire: &WireProfile, start: ScheduleStart) -> Duration {
    let arbiter = network.control_host().expect("an arbiter");
    let slot = network.nic_rate(flow.src).transmit_time(wire.full).as_ps();
    let epoch = slot * 17 / 2;
    let asked = (flow.start + network.packet_time(&network.path(flow.src, arbiter), wire.control)).as_ps();
    let matched = (asked / epoch + 1) * epoch;
    let first = matched
        + match start {
            ScheduleStart::Epoch => epoch,
            ScheduleStart::Arrival => network.packet_time(&network.path(arbiter, flow.src), wire.control).as_ps(),
        };
    let leaves = |number: u64| Duration::from_ps(first + number / 8 * epoch + number % 8 * epoch / 8 - flow.start.as_ps());
    let path = network.path(flow.src, flow.dst);
    let mut tandem = Tandem::new(network, &path);
    (0..).zip(sizes_on_wire(flow.size, wire)).fold(Duration::ZERO, |_, (number, size)| tandem.send(leaves(number), size))
}

#[test]
fn alone_it_takes_a_request_an_epoch_and_its_slots() {
    let wire = WireProfile::IP_1500;
    for switching in [STORE, CUT] {
        for (name, network) in shapes(switching).into_iter().filter(|(name, _)| *name != "slow dumbbell") {
            let sizes = [1, 1460, 1461, 11_680, 11_681, 100_000, 1_000_000];
            // An odd gap, so that flows start anywhere in an epoch.
            let flows = apart(&pairs(&network), &sizes, Duration::from_ps(20_003_333_001));
            for start in BOTH {
                let report = go(network.clone(), Routing::Ecmp, start, flows.clone());
                for (flow, record) in report.flows.iter().zip(&report.records) {
                    let expected = alone(&report.network, flow, &wire, start);
                    // A schedule that waits for an acknowledgement on a link is late by the acknowledgement's transmission time at most.
                    let late = (record.received - flow.start).as_ps().wrapping_sub(expected.as_ps());
                    let may_be_late = start == ScheduleStart::Arrival && wire.packets(flow.size) > 8;
                    let late_max = if may_be_late { network.nic_rate(flow.src).transmit_time(wire.control).as_ps() } else { 0 };
                    assert!(late <= late_max, "{late} ps late: {name}, {switching:?}, {start:?}, {flow:?}");
                    assert_eq!(record.retransmissions, 0, "{name}, {switching:?}, {start:?}, {flow:?}");
                }
            }
        }
    }
}

/// The largest queue of all ports of a hop, in bytes, and their drops.
fn worst(report: &Report, hop: &str) -> (u64, u64) {
    let ports = (0..).map(LinkId).zip(&report.ports).filter(|(link, _)| report.network.hop_name(*link) == hop);
    ports.fold((0, 0), |(peak, drops), (_, port)| (peak.max(port.peak_bytes), drops + port.drops()))
}

/// Each receiver has one packet per slot in flight. Paths within a rack are shorter than others by less than a slot, and packets that
/// wait in the core are late by less than another slot. So at 60 % load nothing is dropped at either edge, and the queue at the last hop
/// is at most three packets and the answers. If slots begin on arrival, schedules wait for one another on the arbiter's link, which
/// shifts the senders' slots against each other by 32 ns for each of 31 other hosts. This adds less than one packet to the queue.
#[test]
fn queues_at_the_edge_stay_short() {
    for (start, packets) in [(ScheduleStart::Epoch, 3), (ScheduleStart::Arrival, 4)] {
        let network = topology::leaf_spine(4, 8, 4, gbps(10), gbps(40), HOP_DELAY, STORE);
        let flows = poisson(&network, 0.6, 3000, 3);
        let report = go(network, Routing::SprayRoundRobin, start, flows);
        assert!(report.records.iter().all(|record| record.acknowledged != Time::MAX));
        let (first, last) = (worst(&report, "host-leaf"), worst(&report, "leaf-host"));
        assert_eq!((first.1, last.1), (0, 0), "no drop at either edge");
        assert!(last.0 <= packets * 1500 + 4 * 40, "{} B at the last hop, {start:?}", last.0);
    }
}

/// Eight hosts send to one. The arbiter assigns each slot to one of them, so at most one packet is queued at the last hop, and the link is
/// busy for 8 of every 8.5 packet times.
#[test]
fn an_incast_does_not_queue() {
    let network = topology::single_switch(9, gbps(10), HOP_DELAY, STORE);
    let flows = (0..8).map(|host| flow(host, host, 8, 146_000, Time::ZERO)).collect();
    let report = go(network, Routing::Ecmp, ScheduleStart::Epoch, flows);
    let port = &report.ports[report.network.ports(NodeId(8))[0].reverse().index()];
    assert!(port.peak_bytes <= 1500 + 40, "{}", port.peak_bytes);
    // 800 packets take 100 epochs, after two epochs for request and matching.
    let done = report.records.iter().map(|record| record.received).max().expect("flows");
    let epoch = 10_200_000;
    assert_eq!(done.as_ps(), 2 * epoch + 99 * epoch + 7 * epoch / 8 + 2_800_000);
}
