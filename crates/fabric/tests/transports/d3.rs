//! D3 on networks: exact times of single flows, and queues that stay short while links stay busy.

use flowloom_core::{Bytes, Duration, Flow, Network, Time, WireProfile, topology};
use flowloom_fabric::{Report, SimSetup};
use flowloom_transports::d3::{Config, D3};

use crate::common::networks::{CUT, HOP_DELAY, STORE, apart, flow, gbps, ns, pairs, run, setup, shapes};
use crate::common::tandem::{Tandem, sizes_on_wire};

/// The completion time of a single flow: its request and the answer, then packets at the rate of the slowest link.
fn alone(network: &Network, flow: &Flow, wire: &WireProfile) -> Duration {
    let (path, back) = (network.path(flow.src, flow.dst), network.path(flow.dst, flow.src));
    let asking = network.packet_time(&path, wire.control) + network.packet_time(&back, wire.control);
    let rate = path.iter().map(|link| network.link(*link).rate).min().expect("a path");
    let mut tandem = Tandem::new(network, &path);
    let mut leaves = asking;
    let mut received = Duration::ZERO;
    for size in sizes_on_wire(flow.size, wire) {
        received = tandem.send(leaves, size);
        leaves += rate.transmit_time(Bytes::new(size));
    }
    received
}

#[test]
fn alone_it_takes_a_round_trip_and_its_packets_at_the_rate_of_the_slowest_link() {
    let wire = WireProfile::IP_1500;
    for switching in [STORE, CUT] {
        for (name, network) in shapes(switching) {
            let sizes = [1, 1459, 1460, 1461, 17_520, 100_000, 1_000_000];
            let flows = apart(&pairs(&network), &sizes, Duration::from_ms(20));
            let report = run::<D3>(&Config::default(), setup(network.clone()), flows);
            for (flow, record) in report.flows.iter().zip(&report.records) {
                assert_eq!(record.received - flow.start, alone(&network, flow, &wire), "{name}, {switching:?}, {flow:?}");
            }
        }
    }
}

/// The queue of the port to host 0 over a run, in bytes on average, and the share of the run in which it sent.
fn bottleneck(report: &Report) -> (f64, f64) {
    let network = &report.network;
    let port = network.links().iter().position(|link| link.to == flowloom_core::NodeId(0)).expect("a link to host 0");
    let span = report.end - Time::ZERO;
    let busy = report.ports[port].bytes() as f64 * 8.0 / network.links()[port].rate.as_bps() as f64 / span.as_secs_f64();
    (report.ports[port].mean_queue_bytes(span), busy)
}

/// Long flows from 2, 5 and 15 hosts to one, at 1 Gb/s and a round trip of about 250 us, in which 21 packets fit: the mean queue is a packet or two, and
/// some more with many flows whose packets come at one instant, the link is busy, and the flows end together.
#[test]
fn the_queue_is_short_in_steady_state_and_the_link_is_busy() {
    for senders in [2, 5, 15] {
        let network = topology::single_switch(senders as usize + 1, gbps(1), Duration::from_us(60), STORE);
        let size = 60_000_000 / u64::from(senders);
        let flows = (0..senders).map(|id| flow(id, id + 1, 0, size, ns(u64::from(id) * 7001))).collect();
        let report = run::<D3>(&Config::default(), setup(network), flows);
        let (queue, busy) = bottleneck(&report);
        println!("{senders} senders: {queue:.0} B queued on average, busy for {busy:.3} of the time");
        assert!(queue < 1500.0 * (1.0 + f64::from(senders) / 4.0), "{senders} senders: {queue} B queued on average");
        assert!(busy > 0.95, "{senders} senders: busy for {busy} of the time");
        let ends: Vec<f64> = report.records.iter().map(|record| record.received.as_secs_f64()).collect();
        let (first, last) = ends.iter().fold((f64::MAX, 0.0_f64), |(first, last), end| (first.min(*end), last.max(*end)));
        assert!(first > 0.97 * last, "{senders} senders: from {first} to {last} s");
    }
}

/// Two flows of host 1 go to hosts 0 and 2, and the link to host 2 is shared with five others. The port of host 1 allocates half of its rate to each
/// flow, but the second cannot use it. A capacity above the link's rate gives what is left to the first.
#[test]
fn a_capacity_above_the_links_rate_makes_up_for_flows_that_are_limited_elsewhere() {
    let share = |capacity_max: f64| {
        let network = topology::single_switch(8, gbps(1), Duration::from_us(60), STORE);
        let mut flows = vec![flow(0, 1, 0, 10_000_000, Time::ZERO), flow(1, 1, 2, 10_000_000, Time::ZERO)];
        flows.extend((2..7).map(|id| flow(id, id + 1, 2, 10_000_000, Time::ZERO)));
        let report = run::<D3>(&Config { capacity_max, ..Config::default() }, setup(network), flows);
        8.0 * 10_411_000.0 / report.records[0].received.as_secs_f64() / 1e9
    };
    let [limited, adapted] = [1.0, 2.0].map(share);
    assert!((0.45..0.55).contains(&limited), "{limited}");
    assert!(adapted > 0.7, "{adapted}");
}

/// Forty senders at once through a port of 30 kB: packets with requests lose their payload and not their request, and all flows complete.
#[test]
fn a_burst_that_overflows_a_port_keeps_its_requests() {
    let network = topology::single_switch(41, gbps(10), HOP_DELAY, STORE);
    let flows = (0..40).map(|id| flow(id, id + 1, 0, 40_000, Time::ZERO)).collect();
    let memory = flowloom_core::Memory::PerPort(Bytes::new(6000));
    let report = run::<D3>(&Config::default(), SimSetup { memory, ..setup(network) }, flows);
    assert!(report.records.iter().all(|record| record.acknowledged != Time::MAX));
    assert!(report.ports.iter().map(|port| port.trimmed_packets).sum::<u64>() > 0);
}
