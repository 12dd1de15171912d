//! HPCC on networks: exact times of single flows, queues and utilisation against their closed forms, and convergence to equal shares.

use std::collections::BTreeMap;

use flowloom_core::{Bytes, Duration, Flow, LinkId, Memory, Network, NodeId, NodeKind, Packet, Time, WireProfile, topology};
use flowloom_fabric::{Observer, PortCounters, Report, SimSetup};
use flowloom_transports::disciplines::{HopRecord, LinkRates};
use flowloom_transports::hpcc::{Config, Header, Hpcc};

use crate::common::depth::Depth;
use crate::common::networks::{CUT, STORE, apart, flow, gbps, pairs, poisson, run, setup, shapes, watch};
use crate::common::tandem;
use crate::common::watch::Log;

fn wire(config: &Config) -> WireProfile {
    config.wire(&WireProfile::IP_1500)
}

fn go(config: &Config, network: Network, flows: Vec<Flow>) -> Report {
    run::<Hpcc>(config, setup(network), flows)
}

fn check(name: &str, config: &Config, network: &Network, sizes: &[u64]) {
    let report = go(config, network.clone(), apart(&pairs(network), sizes, Duration::from_ms(60)));
    for (flow, record) in report.flows.iter().zip(&report.records) {
        let path = network.path(flow.src, flow.dst);
        let alone = tandem::back_to_back(network, &path, &tandem::sizes_on_wire(flow.size, &wire(config)));
        assert_eq!(record.received - flow.start, alone, "{name}, {:?}, {flow:?}", network.switching());
        assert_eq!((record.retransmissions, record.timeouts), (0, 0));
    }
}

/// Packets leave back to back until the second report comes, and at η = 1 for ever.
#[test]
fn alone_a_flow_takes_the_time_of_its_bytes_to_the_picosecond() {
    for switching in [STORE, CUT] {
        for (name, network) in shapes(switching).into_iter().filter(|(name, _)| *name != "slow dumbbell") {
            for records in [5, 3] {
                if records == 3 && ["three_tier", "fat_tree"].contains(&name) {
                    continue; // paths with five switches
                }
                let config = Config { records, ..Config::default() };
                let payload = wire(&config).payload().get();
                check(name, &config, &network, &[0, 1, payload - 1, payload, payload + 1, 2 * payload]);
                let config = Config { target: 1.0, w_ai: Bytes::new(2000), ..config };
                check(name, &config, &network, &[10_000, 100_000, 3_000_000]);
            }
        }
    }
}

/// Hosts at 10 Gb/s around one switch, with links of 5 us: a base round trip of 2 · (1.2 + 5) us for a full packet and 2 · (0.0656 + 5) us for
/// its acknowledgement of 82 B.
fn star(hosts: u32) -> Network {
    topology::single_switch(hosts as usize, gbps(10), Duration::from_us(5), STORE)
}
const RTT: Duration = Duration::from_ps(22_531_200);
/// What 10 Gb/s carry in this time, in bytes.
const BDP: u64 = 28_164;

fn after(span: Duration) -> Time {
    Time::ZERO + span
}

/// The port of a host's switch that sends to it.
fn last_link(network: &Network, host: u32) -> LinkId {
    network.ports(NodeId(host))[0].reverse()
}

fn drops(report: &Report) -> u64 {
    report.ports.iter().map(PortCounters::drops).sum()
}

/// The queue of a port from a time on and until the last change, in bytes.
struct Queue {
    peak: u64,
    mean: f64,
    /// What is not exceeded half of the time.
    median: u64,
}

fn queue(depth: &Depth, from: Time) -> Queue {
    let mut spans: BTreeMap<u64, Duration> = BTreeMap::new();
    for pair in depth.changes.windows(2).filter(|pair| pair[0].0 >= from) {
        *spans.entry(pair[0].1).or_default() += pair[1].0 - pair[0].0;
    }
    let all = spans.values().fold(Duration::ZERO, |sum, span| sum + *span);
    let area: f64 = spans.iter().map(|(bytes, span)| *bytes as f64 * span.as_us_f64()).sum();
    let mut sum = Duration::ZERO;
    let reaches_half = |(_, span): &(&u64, &Duration)| {
        sum += **span;
        sum >= all / 2
    };
    let median = *spans.iter().find(reaches_half).expect("changes").0;
    Queue { peak: *spans.keys().last().expect("changes"), mean: area / all.as_us_f64(), median }
}

/// The bytes that a link carries between two times, as a share of what it could carry.
#[derive(Default)]
struct Use {
    link: u32,
    from: Time,
    to: Time,
    bytes: u64,
}

impl Use {
    fn new(link: LinkId, from: Duration, to: Duration) -> Use {
        Use { link: link.0, from: after(from), to: after(to), bytes: 0 }
    }
    fn share(&self) -> f64 {
        gbps(10).transmit_time(Bytes::new(self.bytes)).as_us_f64() / (self.to - self.from).as_us_f64()
    }
}

impl Observer<Header> for Use {
    fn packet_sent(&mut self, now: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<Header>) {
        if link.0 == self.link && (self.from..self.to).contains(&now) {
            self.bytes += packet.size().get();
        }
    }
}

/// `senders` flows of `bytes` to one host, all at once.
fn incast(senders: u32, bytes: u64) -> (Network, Vec<Flow>) {
    (star(senders + 1), (0..senders).map(|host| flow(host, host, senders, bytes, Time::ZERO)).collect())
}

/// The rates at which W = W/U · η + W_AI no longer changes sum up to η · B + N · W_AI/T, as long as that is below B.
fn settled(senders: u32, w_ai: u64) -> f64 {
    0.95 + (u64::from(senders) * w_ai) as f64 / BDP as f64
}

/// A flow alone has no queue of more than two packets from its first packet on, and uses η and its increase.
#[test]
fn a_single_flow_keeps_its_rate_and_makes_no_queue() {
    let (network, flows) = incast(1, 5_000_000);
    let last = last_link(&network, 1);
    let (report, depth) =
        watch::<Hpcc, Depth>(&Config::default(), setup(network.clone()), flows.clone(), Depth::new(last, Time::ZERO));
    let peak = queue(&depth, Time::ZERO).peak;
    assert!(peak <= 2 * 1500, "{peak} B");
    assert_eq!(drops(&report), 0);
    let using = Use::new(last, RTT * 20, RTT * 150);
    let (_, using) = watch::<Hpcc, Use>(&Config::default(), setup(network), flows, using);
    assert!((using.share() - settled(1, 80)).abs() < 0.003, "{}, expected {}", using.share(), settled(1, 80));
}

/// Each sender begins with a window, so at most N · BDP are queued. A round trip through that queue takes N base round trips. After two of them,
/// no more waits than a packet of each sender, and half of the time hardly anything does: nothing with two senders. Sixteen periodic streams that
/// together fill a link make √(16π/8) = 2.5 packets wait in the mean, if their phases are random. The fixed point is one of the utilisation, in which
/// the bytes count that wait all the time: each packet is 5 % of this link.
#[test]
fn incasts_queue_no_more_than_their_first_windows_and_drain_them_in_two_round_trips() {
    for (senders, max_stage, w_ai) in [(2, 5, 80), (2, 0, 80), (16, 5, 80), (16, 5, 16), (16, 0, 16), (16, 0, 80)] {
        let config = Config { max_stage, w_ai: Bytes::new(w_ai), ..Config::default() };
        let (network, flows) = incast(senders, 20_000_000 / u64::from(senders));
        let last = last_link(&network, senders);
        let what = format!("{senders} senders, maxStage {max_stage}, W_AI {w_ai} B");
        let start = Depth::new(last, Time::ZERO);
        let (report, depth) = watch::<Hpcc, Depth>(&config, setup(network.clone()), flows.clone(), start);
        let peak = queue(&depth, Time::ZERO).peak;
        assert!(peak <= u64::from(senders) * BDP && peak > u64::from(senders - 1) * BDP * 9 / 10, "{what}: {peak} B");
        assert_eq!(drops(&report), 0, "{what}");
        let later = queue(&depth, after(RTT * u64::from(2 * senders + 1)));
        assert!(later.peak <= u64::from(senders) * 1500, "{what}: {} B after two round trips", later.peak);
        assert!(later.median <= if senders == 2 { 0 } else { 3000 }, "{what}: {} B half of the time", later.median);
        let using = Use::new(last, RTT * 100, RTT * 600);
        let (_, using) = watch::<Hpcc, Use>(&config, setup(network), flows, using);
        let (share, most) = (using.share(), settled(senders, w_ai));
        let least = most - later.mean / BDP as f64;
        println!(
            "{what}: peak {peak} B, later {}, {}, {:.0} B, use {share:.4} of {most:.4}",
            later.peak, later.median, later.mean
        );
        assert!((least - 0.01..most + 0.01).contains(&share), "{what}: {share} of the link, expected {least} to {most}");
    }
}

/// What each of four flows gets of a link in spans of 20 ms, from 20 ms on. Three of them share the link until then, and the fourth starts at line
/// rate. The base round trip is 2 · (1.2 + 50 + 0.0656 + 50) us, in which the link carries 253 kB.
fn shares(w_ai: u64, max_stage: u32) -> Vec<[f64; 4]> {
    let (start, span) = (Duration::from_ms(20), Duration::from_ms(20));
    let network = topology::single_switch(5, gbps(10), Duration::from_us(50), STORE);
    let flows = (0..4_u32).map(|host| flow(host, host, 4, 50_000_000, after(if host < 3 { Duration::ZERO } else { start })));
    let config = Config { w_ai: Bytes::new(w_ai), max_stage, ..Config::default() };
    let (_, log) = watch::<Hpcc, Log<Header>>(&config, setup(network), flows.collect(), Log::default());
    let mut shares = vec![[0.0; 4]; 4];
    for (at, _, packet) in log.arrived.iter().filter(|(at, _, packet)| packet.payload_bytes > 0 && *at >= after(start)) {
        let index = (at.saturating_since(after(start)).as_ps() / span.as_ps()) as usize;
        if let Some(shares) = shares.get_mut(index) {
            shares[packet.flow.0 as usize] += gbps(10).transmit_time(packet.size()).as_secs_f64() / span.as_secs_f64();
        }
    }
    shares
}

fn jain(shares: &[f64; 4]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / (4.0 * squares)
}

/// The fourth flow starts with a window three times those of the others, and all are cut by the same factor. Without an increase, it keeps at
/// least half of the link: Jain's index of 3 : 1 : 1 : 1 is 36/(4 · 12) = 0.75. With 800 B, all shares sum up to 0.95 + 3200/253,164, and each
/// update moves a window by 1 - 0.95/0.9626 = 1.3 % of the way to the mean. The difference falls to 27 % in the 98.7 round trips of 20 ms.
#[test]
fn the_increase_makes_flows_equal_at_its_speed() {
    for max_stage in [0, 5] {
        let equal = shares(800, max_stage);
        let difference = |[a, b, c, d]: [f64; 4]| d - (a + b + c) / 3.0;
        let falls = difference(equal[1]) / difference(equal[0]);
        println!("maxStage {max_stage}: Jain {:.5}, difference falls to {falls:.3}", jain(&equal[3]));
        assert!((falls - 0.27).abs() < 0.09, "the difference falls to {falls}: {equal:?}");
        assert!(jain(&equal[3]) > 0.999, "{equal:?}");
        let sum = equal[3].iter().sum::<f64>();
        assert!((sum - (0.95 + 3200.0 / 253_164.0)).abs() < 0.003, "{sum} of the link");
        let unequal = shares(0, max_stage);
        assert!((0.6..0.85).contains(&jain(&unequal[1])), "maxStage {max_stage}: {unequal:?}");
    }
}

/// A link of 1 Gb/s between hosts of 10 Gb/s settles at η and the increase of 80 B per round trip.
#[test]
fn a_slower_link_on_the_way_settles_at_the_target() {
    let network = topology::dumbbell(1, gbps(10), gbps(1), Duration::from_us(5), STORE);
    let rtt = network.base_rtt(&wire(&Config::default()));
    let middle = network.links().iter().position(|link| link.rate == gbps(1)).expect("the link in the middle");
    let using = Use::new(LinkId(middle as u32), Duration::from_ms(5), Duration::from_ms(25));
    let flows = vec![flow(0, 0, 1, 5_000_000, Time::ZERO)];
    let (report, using) = watch::<Hpcc, Use>(&Config::default(), setup(network), flows, using);
    let rate = using.share() * 10.0;
    let expected = 0.95 + 80.0 * 8.0 / (rtt.as_us_f64() * 1000.0);
    assert!((rate - expected).abs() < 0.005, "{rate} of the link, expected {expected}");
    assert_eq!(drops(&report), 0);
}

/// Counts the bytes that each link has sent and that wait for it, independently of the ports, and compares each record with its counts.
struct Counts {
    sent: Vec<u64>,
    waiting: Vec<u64>,
    network: Network,
    rates: LinkRates,
    compared: u64,
    /// The largest number of records that a source got back.
    most: usize,
}

impl Observer<Header> for Counts {
    fn packet_queued(&mut self, _: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<Header>, _: u64) {
        self.waiting[link.index()] += packet.size().get();
    }
    fn packet_sent(&mut self, now: Time, link: LinkId, _: flowloom_core::PacketId, packet: &Packet<Header>) {
        let before = self.sent[link.index()];
        self.sent[link.index()] += packet.size().get();
        self.waiting[link.index()] -= packet.size().get();
        let ends = self.network.link(link);
        if packet.payload_bytes > 0 && self.network.node(ends.from).kind == NodeKind::Switch {
            let waiting = Bytes::new(self.waiting[link.index()]);
            let expected = HopRecord::new(self.rates.number(ends.rate), now, before, waiting);
            assert_eq!(packet.header.telemetry.hops().last(), Some(&expected));
            self.compared += 1;
        }
    }
    fn packet_dropped(
        &mut self,
        _: Time,
        link: LinkId,
        _: flowloom_core::PacketId,
        packet: &Packet<Header>,
        _: flowloom_core::DropReason,
    ) {
        self.waiting[link.index()] -= packet.size().get();
    }
    fn packet_arrived(&mut self, _: Time, _: NodeId, _: flowloom_core::PacketId, packet: &Packet<Header>) {
        self.most = self.most.max(packet.header.telemetry.hops().len());
    }
}

/// On a fat tree with queues, and with ports so small that they drop packets, each record of each hop is what an observer counts.
#[test]
fn records_agree_with_an_observer_at_every_hop() {
    for (switching, buffer) in [(STORE, 1 << 30), (CUT, 1 << 30), (STORE, 20_000)] {
        let network = topology::fat_tree(4, gbps(10), Duration::from_us(1), switching);
        let flows = poisson(&network, 0.8, 200, 5);
        let links = network.links().len();
        let rates = LinkRates::new(&network).expect("one rate");
        let counts =
            Counts { sent: vec![0; links], waiting: vec![0; links], network: network.clone(), rates, compared: 0, most: 0 };
        let setup = SimSetup { memory: Memory::PerPort(Bytes::new(buffer)), ..setup(network) };
        let (report, counts) = watch::<Hpcc, Counts>(&Config::default(), setup, flows, counts);
        assert_eq!(counts.most, 5);
        // Most flows cross five switches.
        assert!(counts.compared > 4 * report.data_packets, "{} records of {} packets", counts.compared, report.data_packets);
        assert_eq!(drops(&report) > 0, buffer == 20_000);
    }
}
