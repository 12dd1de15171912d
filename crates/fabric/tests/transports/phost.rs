//! pHost on networks: exact times of single flows, and known answers for competing flows.

use std::collections::BTreeMap;

use flowloom_core::{Bytes, Duration, Flow, FlowId, Memory, Network, NodeId, Packet, Time, WireProfile, topology};
use flowloom_fabric::{Fault, PortCounters, Report, SimSetup};
use flowloom_transports::phost::{Config, FreeTokenRule, Header, PHost, Policy};

use crate::common::networks::{
    CUT, HOP_DELAY, STORE, apart, flow, gbps, ns, pairs, poisson, run, setup, shapes, watch, watch_faulty,
};
use crate::common::tandem::{self, Tandem};
use crate::common::watch::Log;

const BUFFER: Bytes = Bytes::new(36_864);

/// The largest number of unanswered tokens of a flow.
const UNANSWERED_MAX: usize = 8;
/// This many slots after the last token, tokens for missing packets are issued again.
const REISSUE_SLOTS: u64 = 9;

/// Flows of more than eight packets wait for their first token, so that every slot follows from their requests.
fn by_request() -> Config {
    Config { free_token_rule: FreeTokenRule::ShortFlows, ..Config::default() }
}

/// Whether free tokens suffice for the whole flow.
fn is_free(flow: &Flow, wire: &WireProfile) -> bool {
    wire.packets(flow.size) <= 8
}

/// The completion time of a single flow. A flow of at most eight packets sends them back to back after its request. For a longer flow, the
/// destination sends one token per slot after the request has arrived, and each token releases a packet. With eight tokens unanswered, the
/// next token waits for the packet of the oldest one. If packets arrive before that limit is reached, the time is that of the request, that
/// of a token, and the closed form.
fn alone(network: &Network, flow: &Flow, wire: &WireProfile) -> Duration {
    let (path, back) = (network.path(flow.src, flow.dst), network.path(flow.dst, flow.src));
    let sizes = tandem::sizes_on_wire(flow.size, wire);
    if is_free(flow, wire) {
        let with_request: Vec<u64> = [wire.control.get()].into_iter().chain(sizes).collect();
        return tandem::back_to_back(network, &path, &with_request);
    }
    let (there, answer) = (network.packet_time(&path, wire.control), network.packet_time(&back, wire.control));
    let slot = network.nic_rate(flow.dst).transmit_time(wire.full);
    let mut tandem = Tandem::new(network, &path);
    let mut arrived: Vec<Duration> = Vec::new();
    let mut token = there;
    for size in sizes {
        if let Some(unanswered) = arrived.len().checked_sub(UNANSWERED_MAX) {
            token = token.max(arrived[unanswered]);
        }
        arrived.push(tandem.send(token + answer, size));
        token += slot;
    }
    let last = *arrived.last().expect("a packet");
    if !is_farther(network, flow, wire, UNANSWERED_MAX as u64) {
        assert_eq!(last, there + answer + network.flow_time(&path, flow.size, wire));
    }
    last
}

/// Whether the time from sending a token until the arrival of its packet exceeds this many slots.
fn is_farther(network: &Network, flow: &Flow, wire: &WireProfile, slots: u64) -> bool {
    let (path, back) = (network.path(flow.src, flow.dst), network.path(flow.dst, flow.src));
    let slot = network.nic_rate(flow.dst).transmit_time(wire.full);
    network.packet_time(&path, wire.full) + network.packet_time(&back, wire.control) > slot * slots
}

/// Whether the destination issues tokens again although no packet is lost: if not all packets of a short flow can arrive within two slots
/// per packet after the request, or those of a long flow within nine slots after the last token.
fn gets_tokens_again(network: &Network, flow: &Flow, wire: &WireProfile) -> bool {
    let slot = network.nic_rate(flow.dst).transmit_time(wire.full);
    let requested = network.packet_time(&network.path(flow.src, flow.dst), wire.control);
    match is_free(flow, wire) {
        true => alone(network, flow, wire) >= requested + slot * 2 * wire.packets(flow.size),
        false => is_farther(network, flow, wire, REISSUE_SLOTS),
    }
}

fn check(name: &str, network: &Network, wire: WireProfile, flows: Vec<Flow>) {
    let report =
        run::<PHost>(&by_request(), SimSetup { wire, memory: Memory::PerPort(BUFFER), ..setup(network.clone()) }, flows);
    for (flow, record) in report.flows.iter().zip(&report.records) {
        let what = format!("{name}, {}, {:?}, {flow:?}", wire.name, network.switching());
        assert_eq!(record.received - flow.start, alone(network, flow, &wire), "received: {what}");
        let answer = network.packet_time(&network.path(flow.dst, flow.src), wire.control);
        assert_eq!(record.acknowledged - record.received, answer, "acknowledged: {what}");
        assert_eq!(record.dropped_packets, 0, "{what}");
        assert!(record.retransmissions == 0 || gets_tokens_again(network, flow, &wire), "sent once: {what}");
    }
}

/// The topologies whose links between switches are not slower than the hosts' links; tokens do not account for slower ones.
fn shapes_for_tokens(switching: flowloom_core::Switching) -> impl Iterator<Item = (&'static str, Network)> {
    shapes(switching).into_iter().filter(|(name, _)| *name != "slow dumbbell")
}

#[test]
fn every_shape_size_and_wire_to_the_picosecond() {
    for switching in [STORE, CUT] {
        for (name, network) in shapes_for_tokens(switching) {
            for wire in WireProfile::ALL {
                let payload = wire.payload().get();
                let sizes = [1, payload - 1, payload, payload + 1, 8 * payload, 8 * payload + 1, 100_000, 1_000_000];
                check(name, &network, wire, apart(&pairs(&network), &sizes, Duration::from_ms(20)));
            }
        }
    }
}

#[test]
fn a_hundred_megabytes_to_the_picosecond() {
    for (switching, wire) in [(STORE, WireProfile::IP_1500), (CUT, WireProfile::ETHERNET_1538)] {
        for (name, network) in shapes_for_tokens(switching) {
            let farthest = *pairs(&network).last().expect("two hosts");
            check(name, &network, wire, apart(&[farthest], &[100_000_000], Duration::ZERO));
        }
    }
}

/// One switch, 104 packets, and round trips of token and data around eight slots: 2 × (32 + d) + 2 × (1200 + d) = 8 × 1200 for d = 1784 ns.
/// With longer round trips, only eight tokens are sent per round trip, token k at (k mod 8) slots after the start of round trip k / 8.
#[test]
fn the_limit_of_unanswered_tokens_slows_a_flow_if_a_round_trip_exceeds_eight_slots() {
    let last: u64 = 103;
    for delay_ns in [200, 1500, 1784, 1785, 2084, 2085, 4000] {
        let network = topology::single_switch(2, gbps(10), Duration::from_ns(delay_ns), STORE);
        let report = run::<PHost>(&by_request(), setup(network), vec![flow(0, 0, 1, 1460 * (last + 1), Time::ZERO)]);
        let round_trip = 2464 + 4 * delay_ns;
        let last_token = if round_trip <= 8 * 1200 { last * 1200 } else { last / 8 * round_trip + last % 8 * 1200 };
        let request = 2 * (32 + delay_ns);
        assert_eq!(report.records[0].received, ns(request + last_token + round_trip), "delay {delay_ns} ns");
        // The last tokens are issued again after nine slots, if their packets have not arrived by then.
        assert_eq!(report.records[0].retransmissions > 0, round_trip > 9 * 1200, "delay {delay_ns} ns");
    }
}

/// With a middle link of a tenth of the hosts' rate, eight packets are always in flight and keep it busy.
#[test]
fn a_slow_middle_is_kept_busy() {
    for switching in [STORE, CUT] {
        let (name, network) = shapes(switching).remove(2);
        assert_eq!(name, "slow dumbbell");
        let flows = apart(&[(NodeId(0), NodeId(2))], &[100_000, 1_000_000], Duration::from_ms(100));
        let report = run::<PHost>(&by_request(), SimSetup { memory: Memory::PerPort(BUFFER), ..setup(network.clone()) }, flows);
        for (flow, record) in report.flows.iter().zip(&report.records) {
            assert_eq!(record.received - flow.start, alone(&network, flow, &WireProfile::IP_1500), "{switching:?}, {flow:?}");
        }
    }
}

fn drops(report: &Report) -> u64 {
    report.ports.iter().map(PortCounters::drops).sum()
}

/// The packets that endpoints sent with a given kind of header, in order.
fn injected(log: &Log<Header>, kind: fn(&Header) -> bool) -> impl Iterator<Item = &Packet<Header>> {
    log.injected.iter().map(|(_, _, packet)| packet).filter(move |packet| kind(&packet.header))
}

fn is_request(header: &Header) -> bool {
    matches!(header, Header::Rts { .. })
}
fn is_data(header: &Header) -> bool {
    matches!(header, Header::Data { .. })
}

/// Twenty sources send 100 packets each to one destination. Its link carries a packet per slot from the first token on, and the requests
/// that are repeated in the meantime, which take 32 ns each.
#[test]
fn an_incast_takes_the_transmission_time_of_its_bytes() {
    let network = topology::single_switch(21, gbps(10), HOP_DELAY, STORE);
    let flows = (0..20).map(|host| flow(host, host, 20, 146_000, Time::ZERO)).collect();
    let setup = SimSetup { memory: Memory::PerPort(BUFFER), ..setup(network) };
    let (report, log) = watch::<PHost, Log<_>>(&by_request(), setup, flows, Log::default());
    assert_eq!(drops(&report), 0);
    let handshake = 2 * (2 * 232);
    let done_min = handshake + 1400 + 2000 * 1200 + 200;
    let repeated = injected(&log, is_request).count() as u64 - 20;
    let done = report.records.iter().map(|record| record.received.as_ps() / 1000).max().expect("flows");
    assert!((done_min..=done_min + repeated * 32).contains(&done), "{done} ns, {done_min} ns without {repeated} requests");
    assert!(repeated * 32 < done_min / 100, "requests are a small part: {repeated}");
}

/// The start of a host's flow. Requests reach the destination in the order of hosts, 50 ns apart.
fn start(host: u32) -> Time {
    ns(50 * u64::from(host))
}

/// When each flow is received, in slots after the handshake and the latency of the first packet.
fn slots(report: &Report) -> Vec<f64> {
    let latency = 2 * (2 * 232) + 2800 - 1200;
    report.records.iter().map(|record| (record.received.as_ps() as f64 / 1000.0 - f64::from(latency)) / 1200.0).collect()
}

fn assert_near(found: &[f64], expected: &[f64], tolerance: f64) {
    let near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() <= tolerance);
    assert!(near && found.len() == expected.len(), "{found:?}, not {expected:?} ± {tolerance}");
}

/// Flows of 90, 60 and 30 packets from three sources: each ends when it and the shorter ones have been transmitted. The first request, that
/// of the longest flow, gets one token before the others arrive. Repeated requests take 32 ns each.
#[test]
fn the_destination_serves_the_shortest_remaining_first() {
    let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
    let flows = (0..3).map(|host| flow(host, host, 3, 1460 * u64::from(90 - 30 * host), start(host))).collect();
    let report = run::<PHost>(&by_request(), setup(network), flows);
    assert_near(&slots(&report), &[180.0, 91.0, 31.0], 0.5);
}

/// One source has 40 packets for one destination and 100 for another, and both send it tokens. The shorter flow takes the time that it
/// takes alone. The longer flow's tokens expire and its destination downgrades it, and the source's link idles for no longer than the
/// downgrade lasts.
#[test]
fn the_source_serves_the_shortest_remaining_first() {
    let network = topology::single_switch(3, gbps(10), HOP_DELAY, STORE);
    let flows = vec![flow(0, 0, 1, 146_000, Time::ZERO), flow(1, 0, 2, 58_400, Time::ZERO)];
    let report = run::<PHost>(&by_request(), setup(network), flows);
    let found = slots(&report);
    assert_near(&found[1..], &[40.0], 2.0);
    assert!((140.0..140.0 + 24.0 + 9.0).contains(&found[0]), "{found:?}");
}

/// The flows of the shortest-first test, with deadlines in the opposite order; the last flow has none.
#[test]
fn the_earliest_deadline_goes_first() {
    let network = topology::single_switch(4, gbps(10), HOP_DELAY, STORE);
    let deadline = |host| if host < 2 { Some(ns(500_000 + 1000 * u64::from(host))) } else { None };
    let flow = |host| Flow { deadline: deadline(host), ..flow(host, host, 3, 1460 * u64::from(90 - 30 * host), start(host)) };
    let config = Config { policy: Policy::Edf, ..by_request() };
    let report = run::<PHost>(&config, setup(network), (0..3).map(flow).collect());
    assert_near(&slots(&report), &[90.0, 150.0, 180.0], 0.5);
}

/// Two tenants share a source, one with many short flows and one with a long flow, to different destinations that always have tokens for
/// them. The tenant that has sent less sends next, so neither is ever more than a packet ahead.
#[test]
fn tenants_share_a_source_within_a_packet() {
    let network = topology::single_switch(3, gbps(10), HOP_DELAY, STORE);
    let config = Config { policy: Policy::TenantFair, free_tokens: 0, data_priorities: false, ..by_request() };
    let mut flows: Vec<Flow> = (0..10).map(|id| flow(id, 0, 1, 29_200, Time::ZERO)).collect();
    flows.push(Flow { tenant: 1, ..flow(10, 0, 2, 292_000, Time::ZERO) });
    let (_, log) = watch::<PHost, Log<_>>(&config, setup(network), flows, Log::default());
    let mut ahead = 0_i32;
    for packet in injected(&log, is_data).take(200) {
        ahead += if packet.flow == FlowId(10) { -1 } else { 1 };
        assert!(ahead.abs() <= 1, "{ahead}");
    }
}

/// Poisson flows on a leaf–spine at a load of 50 %: no flow is faster than alone, few packets are lost, and each token is used once. So
/// data packets sent are packets of flows and retransmissions, and retransmissions are few.
#[test]
fn a_loaded_fabric_loses_little_and_no_flow_is_faster_than_alone() {
    let wire = WireProfile::IP_1500;
    let (mut data_packets, mut retransmissions, mut lost) = (0, 0, 0);
    for seed in 1..9 {
        let network = topology::leaf_spine(4, 8, 2, gbps(10), gbps(40), HOP_DELAY, CUT);
        let flows = poisson(&network, 0.5, 3000, seed);
        let (report, log) = watch::<PHost, Log<_>>(
            &by_request(),
            SimSetup { memory: Memory::PerPort(BUFFER), ..setup(network) },
            flows,
            Log::default(),
        );
        let mut by_flow: BTreeMap<FlowId, u64> = BTreeMap::new();
        for packet in injected(&log, is_data) {
            *by_flow.entry(packet.flow).or_default() += 1;
        }
        for (flow, record) in report.flows.iter().zip(&report.records) {
            let path = report.network.path(flow.src, flow.dst);
            assert!(record.received - flow.start >= report.network.flow_time(&path, flow.size, &wire), "{flow:?}");
            assert_eq!(by_flow[&flow.id], wire.packets(flow.size) + u64::from(record.retransmissions), "{flow:?}");
            retransmissions += u64::from(record.retransmissions);
        }
        data_packets += report.data_packets;
        lost += drops(&report);
    }
    assert!(retransmissions * 100 < data_packets, "{retransmissions} of {data_packets}");
    assert!(lost * 1000 < data_packets, "{lost} of {data_packets}");
}

/// The NIC learns from the request that its link is down, and takes nothing more from the endpoint, whose free tokens expire. It goes on at the instant at which the link is up.
#[test]
fn a_link_that_is_down_at_the_start_loses_the_request_only() {
    let network = topology::single_switch(2, gbps(10), HOP_DELAY, STORE);
    let nic = network.ports(NodeId(0))[0];
    let faults =
        |link| if link == nic.0 || link == nic.reverse().0 { vec![Fault::Down(Time::ZERO, ns(50_000))] } else { Vec::new() };
    let flows = vec![flow(0, 0, 1, 8 * 1460, ns(1000))];
    let (report, log) = watch_faulty::<PHost, Log<Header>>(&Config::default(), setup(network), flows, Log::default(), faults);
    assert_eq!(report.ports[nic.index()].drops(), 1);
    assert_eq!(log.on(nic).next().map(|(at, _)| at), Some(ns(50_000)));
    assert!(report.records[0].acknowledged < Time::MAX);
}
