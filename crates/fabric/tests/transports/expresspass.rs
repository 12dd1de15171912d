//! ExpressPass on networks: exact times of single flows, the share that credits and data keep to, and what many flows get of one link.

use std::collections::BTreeMap;

use flowloom_core::{
    Bytes, DropReason, Duration, Event, Flow, FlowId, LinkId, Memory, Network, NodeId, Packet, Rate, Time, WireProfile,
    topology,
};
use flowloom_fabric::{Observer, PortCounters, Report, Routing, SimSetup};
use flowloom_transports::expresspass::{Config, ExpressPass, Feedback, Header};

use crate::common::networks::{CUT, STORE, apart, flow, gbps, pairs, poisson, setup, shapes, watch};
use crate::common::tandem::{Tandem, sizes_on_wire};
use crate::common::watch::Log;

const WIRE: WireProfile = WireProfile::ETHERNET_1538;
/// The share of a link that is left for data: 1538 of 1538 + 84 bytes.
const DATA_SHARE: f64 = 1538.0 / 1622.0;
/// The class of data.
const DATA: u8 = 2;

fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

fn wired(network: Network) -> SimSetup {
    let memory = Memory::PerPort(Bytes::new(1_000_000));
    SimSetup { wire: WIRE, routing: Routing::EcmpSymmetric, memory, ..setup(network) }
}

fn run<O: Observer<Header>>(config: &Config, setup: SimSetup, flows: Vec<Flow>, observer: O) -> (Report, O) {
    watch::<ExpressPass, O>(config, setup, flows, observer)
}

fn both_forms() -> [Config; 2] {
    [Feedback::Paper, Feedback::Released].map(|feedback| Config { feedback, ..Config::default() })
}

/// The time of a flow's wire bytes over a link that carries nothing but data and its credits.
fn transmission(rate: Rate, payload: u64) -> Duration {
    rate.transmit_time(WIRE.flow_wire_bytes(Bytes::new(payload))).scale(1.0 / DATA_SHARE)
}

fn data_drops(report: &Report) -> u64 {
    report.ports.iter().map(|port| port.dropped_data_packets).sum()
}

fn credit_drops(report: &Report) -> u64 {
    report.ports.iter().map(PortCounters::drops).sum::<u64>() - data_drops(report)
}

/// The link from the left to the right switch of a dumbbell.
fn middle(network: &Network) -> LinkId {
    let left = network.link(network.ports(NodeId(0))[0]).to;
    *network.ports(left).last().expect("a middle link")
}

/// The bytes delivered of each flow by interval, and the data queued at one port, whose largest amount it keeps.
struct Shares {
    interval: Duration,
    delivered: BTreeMap<(u64, FlowId), u64>,
    link: LinkId,
    queued: u64,
    peak: u64,
    peak_from: Time,
}

impl Shares {
    fn new(link: LinkId, interval: Duration) -> Shares {
        Shares { interval, delivered: BTreeMap::new(), link, queued: 0, peak: 0, peak_from: Time::ZERO }
    }
    /// The bytes delivered of a flow in an interval.
    fn of(&self, interval: u64, flow: u32) -> f64 {
        self.delivered.get(&(interval, FlowId(flow))).map_or(0.0, |bytes| *bytes as f64)
    }
    fn leave(&mut self, link: LinkId, packet: &Packet<Header>) {
        if link == self.link && packet.class == DATA {
            self.queued -= u64::from(packet.size_bytes);
        }
    }
}

impl Observer<Header> for Shares {
    fn packet_queued(&mut self, now: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<Header>, _: u64) {
        if link == self.link && packet.class == DATA {
            self.queued += u64::from(packet.size_bytes);
            if now >= self.peak_from {
                self.peak = self.peak.max(self.queued);
            }
        }
    }
    fn packet_sent(&mut self, _: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<Header>) {
        self.leave(link, packet);
    }
    fn packet_dropped(&mut self, _: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<Header>, _: DropReason) {
        self.leave(link, packet);
    }
    fn flow_event(&mut self, now: Time, _: NodeId, event: &Event) {
        if let Event::Delivered { flow, bytes, .. } = *event {
            let interval = now.as_ps() / self.interval.as_ps();
            *self.delivered.entry((interval, flow)).or_default() += bytes.get();
        }
    }
}

/// Credits at a constant rate and at equal gaps, until the last packet.
fn constant() -> Config {
    let (jitter, credit_spread) = (0.0, Bytes::ZERO);
    Config {
        feedback: Feedback::Released,
        alpha: 1.0,
        ramp_packets: 1,
        jitter,
        credit_spread,
        early_stop: false,
        ..Config::default()
    }
}

/// A request, then a credit in each slot, of which each releases a packet.
#[test]
fn alone_it_takes_a_round_trip_and_a_slot_for_each_packet() {
    for switching in [STORE, CUT] {
        for (name, network) in shapes(switching).into_iter().filter(|(name, _)| *name != "slow dumbbell") {
            let sizes = [1, 1460, 1461, 14_600, 100_000, 1_000_000];
            let flows = apart(&pairs(&network), &sizes, Duration::from_ms(20));
            let (report, ()) = run(&constant(), wired(network.clone()), flows, ());
            for (flow, record) in report.flows.iter().zip(&report.records) {
                let (path, back) = (network.path(flow.src, flow.dst), network.path(flow.dst, flow.src));
                let request = network.packet_time(&path, WIRE.control);
                let credit = network.packet_time(&back, WIRE.control);
                let slot = network.nic_rate(flow.dst).transmit_time(WIRE.full + WIRE.control);
                let (mut tandem, mut sent, mut arrives) = (Tandem::new(&network, &path), request, Duration::ZERO);
                for size in sizes_on_wire(flow.size, &WIRE) {
                    arrives = tandem.send(sent + credit, size);
                    sent += slot;
                }
                // Where the last packet waits, the stop overtakes it.
                // Where the last packet is short, it waits for the one before it, and the stop overtakes it.
                let waits = flow.size.get() > 1460 && !flow.size.get().is_multiple_of(1460);
                let stop = if waits { gbps(1).transmit_time(WIRE.control) } else { Duration::ZERO };
                let found = record.received - flow.start;
                assert!((arrives..=arrives + stop).contains(&found), "{name}, {switching:?}, {flow:?}: {found}, {arrives}");
                assert_eq!(record.retransmissions, 0);
            }
        }
    }
}

/// The rate of payload on a link that carries nothing but full packets and the credits for those of the other direction: 9.001 of 10 Gb/s.
fn goodput() -> f64 {
    10e9 * DATA_SHARE * 1460.0 / 1538.0
}

#[test]
fn one_flow_gets_what_credits_leave() {
    for delay in [Duration::from_ns(200), us(5)] {
        for config in both_forms() {
            let network = topology::single_switch(2, gbps(10), delay, STORE);
            let (report, ()) = run(&config, wired(network), vec![flow(0, 0, 1, 20_000_000, Time::ZERO)], ());
            let found = 20e6 * 8.0 / (report.records[0].received - Time::ZERO).as_secs_f64() / goodput();
            assert!((0.99..1.0).contains(&found), "{delay}, {config:?}: {found}");
        }
    }
}

/// The largest excess of the bytes sent in any window over what a share of a 10 Gb/s link allows, in bytes.
fn excess(sent: &[(Time, u32)], share: f64) -> f64 {
    // The excess of a window is a difference of the excesses since the start, so its maximum is the largest rise.
    let (mut total, mut least, mut most) = (0.0, f64::MAX, 0.0_f64);
    for (time, size) in sent {
        let allowed = share * time.as_ps() as f64 / 800.0;
        least = least.min(total - allowed);
        total += f64::from(*size);
        most = most.max(total - allowed - least);
    }
    most
}

/// Flows in both directions between switches, and several to one host. On each link, credits keep to their share and two more in any window.
/// So does data, up to the packets by which the paths of credits differ, and both together leave no packet waiting for long.
#[test]
fn credits_and_the_data_that_they_ask_for_keep_to_their_shares_in_any_window() {
    for config in both_forms() {
        let config = Config { credit_spread: Bytes::ZERO, ..config };
        let network = topology::dumbbell(4, gbps(10), gbps(10), us(2), STORE);
        let ends = [(0, 4), (1, 4), (2, 5), (3, 6), (4, 0), (5, 1), (5, 2), (7, 3)];
        let flows = (0..).zip(ends).map(|(id, (src, dst))| flow(id, src, dst, 1 << 30, Time::ZERO)).collect();
        let limit = Time::ZERO + Duration::from_ms(10);
        let (_, log) = run(&config, SimSetup { time_limit: limit, ..wired(network.clone()) }, flows, Log::default());
        let to_middle = middle(&network);
        let nic = network.ports(NodeId(4))[0];
        for link in [to_middle, to_middle.reverse(), nic, nic.reverse()] {
            let of = |class: u8| -> Vec<(Time, u32)> {
                log.on(link)
                    .filter(|(_, packet)| packet.class == class)
                    .map(|(time, packet)| (time, packet.size_bytes))
                    .collect()
            };
            let (credits, data) = (of(1), of(DATA));
            assert!(credits.len() > 1000 && data.len() > 1000, "{} and {}", credits.len(), data.len());
            let over = excess(&credits, 1.0 - DATA_SHARE);
            assert!(over <= 168.0 + 0.01, "{over} B of credits");
            let over = excess(&data, DATA_SHARE);
            assert!(over <= 6.0 * 1538.0, "{over} B of data");
        }
        assert!(log.dropped.iter().all(|(_, _, packet, _)| packet.class == 1), "credits only");
        assert!(log.dropped.len() > 1000, "credits do compete");
    }
}

/// From two flows to a thousand that share a link between switches, after a start in which requests come in waves: the link is full, no data is
/// dropped, few packets wait, and the flows get equal shares. A share of a few dozen packets varies by their square root. With `paper`, chance
/// gives one of two flows more than the other for tens of round trips.
#[test]
fn many_flows_fill_a_link_evenly_over_a_short_queue() {
    for (config, hosts, ms) in both_forms().iter().flat_map(|config| [(config, 2, 10), (config, 16, 20), (config, 128, 20)]) {
        share_a_link(config, hosts, ms);
    }
    share_a_link(&Config::default(), 1000, 40);
}

fn share_a_link(config: &Config, hosts: u32, ms: u64) {
    let network = topology::dumbbell(hosts as usize, gbps(10), gbps(10), us(2), STORE);
    let start = |id: u32| Time::ZERO + Duration::from_ns(300) * u64::from(id);
    let flows = (0..hosts).map(|id| flow(id, id, id + hosts, 1 << 30, start(id))).collect();
    let interval = Duration::from_ms(ms);
    let (from, to) = (Time::ZERO + interval, Time::ZERO + interval * 2);
    let shares = Shares { peak_from: from, ..Shares::new(middle(&network), interval) };
    let (report, shares) = run(config, SimSetup { time_limit: to, ..wired(network) }, flows, shares);
    let got: Vec<f64> = (0..hosts).map(|id| shares.of(1, id)).collect();
    let (total, squares) = (got.iter().sum::<f64>(), got.iter().map(|bytes| bytes * bytes).sum::<f64>());
    let what = format!("{hosts} flows, {:?}", config.feedback);
    let used = total * 8.0 / interval.as_secs_f64() / goodput();
    assert!((0.99..1.005).contains(&used), "{what}: {used}");
    let jain = total * total / (f64::from(hosts) * squares);
    let least = if config.feedback == Feedback::Paper && hosts == 2 { 0.75 } else { 0.95 };
    assert!(jain > least, "{what}: {jain}");
    assert!(shares.peak <= 8 * 1538, "{what}: {} B", shares.peak);
    assert_eq!(data_drops(&report), 0, "{what}");
    assert!(credit_drops(&report) > 0, "{what}");
}

/// The round trips until a second flow gets 80 % of its fair share, of one; at most 100.
fn round_trips_to_a_fair_share(config: &Config, seed: u64) -> u64 {
    let network = topology::dumbbell(2, gbps(10), gbps(10), us(16), STORE);
    let rtt = network.rtt(NodeId(0), NodeId(2), &WIRE);
    let start = 200;
    let flows = vec![flow(0, 0, 2, 1 << 30, Time::ZERO), flow(1, 1, 3, 1 << 30, Time::ZERO + rtt * start)];
    let setup = SimSetup { time_limit: Time::ZERO + rtt * (start + 100), seed, ..wired(network.clone()) };
    let (report, shares) = run(config, setup, flows, Shares::new(middle(&network), rtt));
    assert_eq!(data_drops(&report), 0);
    let fair = goodput() / 8.0 * rtt.as_secs_f64() / 2.0;
    // The first interval is that of the request and of the first credit.
    let reached = (1..100).find(|round| shares.of(start + round, 1) >= 0.8 * fair);
    reached.unwrap_or(100)
}

/// With a weight and an initial rate of 1/2, the median of 45 runs is the paper's 2 to 5 round trips in the released form, and twice that in the
/// paper's; with 1/16, they are more. In single runs, chance decides.
#[test]
fn a_new_flow_gets_its_share_in_a_few_round_trips() {
    for (feedback, expected) in [(Feedback::Released, [2..=5, 15..=25]), (Feedback::Paper, [6..=15, 25..=60])] {
        for (w, expected) in [0.5, 1.0 / 16.0].into_iter().zip(expected) {
            let config = Config { feedback, alpha: w, w_init: w, ..Config::default() };
            let mut found: Vec<u64> = (1..=45).map(|seed| round_trips_to_a_fair_share(&config, seed)).collect();
            found.sort_unstable();
            assert!(expected.contains(&found[22]), "{feedback:?}, {w}: {found:?}");
        }
    }
}

/// Flows of 50 packets to one host, and a thousand of one and of three. No data is dropped, and the link to the host is busy all the time but for a
/// round trip at the start and some at the end, when the flows that are left share it anew.
#[test]
fn an_incast_takes_the_time_of_its_packets() {
    for config in both_forms() {
        for (senders, packets, rounds) in [(8, 50, 15), (32, 50, 30), (128, 50, 30), (1000, 1, 30), (1000, 3, 40)] {
            let network = topology::single_switch(senders as usize + 1, gbps(10), us(2), STORE);
            let rtt = network.base_rtt(&WIRE);
            let flows: Vec<Flow> = (0..senders).map(|id| flow(id, id, senders, packets * 1460, Time::ZERO)).collect();
            let (report, ()) = run(&config, wired(network), flows, ());
            let what = format!("{senders} x {packets}, {:?}", config.feedback);
            assert_eq!(data_drops(&report), 0, "{what}");
            let end = report.records.iter().map(|record| record.received).max().expect("flows") - Time::ZERO;
            let least = transmission(gbps(10), packets * 1460 * u64::from(senders));
            assert!(end > least && end < least + rtt * rounds, "{what}: {end}, {least}");
        }
    }
}

/// Poisson flows on a fat tree at a load of 60 %, over ports of 50 packets: no data is lost, so none is sent again, and no flow is faster than alone.
#[test]
fn a_loaded_fabric_loses_no_data() {
    for (config, seed) in both_forms().iter().zip(1..) {
        let network = topology::fat_tree(4, gbps(10), Duration::from_ns(500), CUT);
        let flows = poisson(&network, 0.6, 3000, seed);
        let memory = Memory::PerPort(Bytes::new(50 * 1538));
        let (report, ()) = run(config, SimSetup { memory, ..wired(network) }, flows, ());
        assert_eq!(data_drops(&report), 0);
        assert!(credit_drops(&report) > 1000);
        for (flow, record) in report.flows.iter().zip(&report.records) {
            let path = report.network.path(flow.src, flow.dst);
            assert!(record.received - flow.start >= report.network.flow_time(&path, flow.size, &WIRE), "{flow:?}");
            assert_eq!(record.retransmissions, 0, "{flow:?}");
        }
        // Unlike the link of many flows, a port here joins paths of several lengths.
        let peak = report.ports.iter().map(|port| port.peak_bytes).max().expect("ports");
        assert!(peak <= 25 * 1538, "{peak} B");
    }
}
