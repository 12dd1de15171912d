//! HPCC on networks: exact times of single flows, queues and utilisation against their closed forms, and convergence to equal shares.

use flowloom_core::{Bytes, Duration, Flow, LinkId, Network, NodeId, Time, WireProfile, topology};
use flowloom_fabric::{Observer, PortCounters, Report};
use flowloom_transports::hpcc::{Config, Header, Hpcc};

use crate::common::depth::Depth;
use crate::common::networks::{CUT, STORE, apart, flow, gbps, pairs, run, setup, shapes, watch};
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

/// The largest queue, in bytes, and the share of time for which nothing is queued, from a time on and until the last change.
fn queue(depth: &Depth, from: Time) -> (u64, f64) {
    let spans = depth.changes.windows(2).filter(|pair| pair[0].0 >= from);
    let (mut most, mut idle, mut all) = (0, 0.0, 0.0);
    for pair in spans {
        let span = (pair[1].0 - pair[0].0).as_us_f64();
        most = most.max(pair[0].1);
        all += span;
        idle += if pair[0].1 == 0 { span } else { 0.0 };
    }
    (most, idle / all)
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
    fn packet_sent(&mut self, now: Time, link: LinkId, packet: &flowloom_core::Packet<Header>) {
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
fn settled(senders: u32) -> f64 {
    0.95 + 80.0 * f64::from(senders) / BDP as f64
}

/// A flow alone has no queue of more than two packets from its first packet on, and uses η and its increase.
#[test]
fn a_single_flow_keeps_its_rate_and_makes_no_queue() {
    let (network, flows) = incast(1, 5_000_000);
    let last = last_link(&network, 1);
    let (report, depth) = watch::<Hpcc, Depth>(&Config::default(), setup(network.clone()), flows.clone(), Depth::new(last, Time::ZERO));
    let (most, _) = queue(&depth, Time::ZERO);
    assert!(most <= 2 * 1500, "{most} B");
    assert_eq!(drops(&report), 0);
    let using = Use::new(last, RTT * 20, RTT * 150);
    let (_, using) = watch::<Hpcc, Use>(&Config::default(), setup(network), flows, using);
    assert!((using.share() - settled(1)).abs() < 0.003, "{}, expected {}", using.share(), settled(1));
}

/// Each sender begins with a window, so at most N · BDP are queued. The link needs N round trips to carry these windows. Two round trips later
/// the queue is short, and most of the time it is empty.
#[test]
fn incasts_queue_no_more_than_their_first_windows_and_drain_them() {
    for (senders, max_stage) in [(2_u32, 5), (2, 0), (16, 5), (16, 0)] {
        let config = Config { max_stage, ..Config::default() };
        let (network, flows) = incast(senders, 20_000_000 / u64::from(senders));
        let last = last_link(&network, senders);
        let what = format!("{senders} senders, maxStage {max_stage}");
        let start = Depth::new(last, Time::ZERO);
        let (report, depth) = watch::<Hpcc, Depth>(&config, setup(network.clone()), flows.clone(), start);
        let (peak, _) = queue(&depth, Time::ZERO);
        assert!(peak <= u64::from(senders) * BDP && peak > u64::from(senders - 1) * BDP / 2, "{what}: {peak} B");
        assert_eq!(drops(&report), 0, "{what}");
        let drained = after(RTT * u64::from(senders + 3));
        let (later, idle) = queue(&depth, drained);
        println!("{what}: peak {:.2} N BDP, later {later} B, idle {idle:.3}", peak as f64 / (f64::from(senders) * BDP as f64));
        assert!(later <= BDP / 2, "{what}: {later} B after they drained");
        assert!(idle > 0.5, "{what}: nothing is queued {idle} of the time");
        let using = Use::new(last, RTT * 100, RTT * 600);
        let (_, using) = watch::<Hpcc, Use>(&config, setup(network), flows, using);
        println!("{what}: use {:.4}, settled {:.4}", using.share(), settled(senders));
        assert!((using.share() - settled(senders)).abs() < 0.01, "{what}: {} of the link", using.share());
    }
}

/// Jain's index of what each of the flows received between two times.
fn fairness(config: &Config, network: Network, flows: Vec<Flow>, from: Duration, to: Duration) -> f64 {
    let count = flows.len();
    let (_, log) = watch::<Hpcc, Log<Header>>(config, setup(network), flows, Log::default());
    let mut bytes = vec![0_f64; count];
    let window = after(from)..after(to);
    for (_, _, packet) in log.arrived.iter().filter(|(at, _, _)| window.contains(at)) {
        bytes[packet.flow.0 as usize] += f64::from(packet.payload_bytes);
    }
    let (sum, squares) = bytes.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    sum * sum / (count as f64 * squares)
}

/// Three flows share a link when a fourth starts at line rate. Its window is three times theirs, and all are cut by the same factor, so without
/// an increase it keeps half of the link: Jain's index of 3 : 1 : 1 : 1 is 36/(4 · 12) = 0.75. With it, the difference falls by
/// 4 · W_AI / (η · BDP) = 1.2 % per round trip, and after 400 round trips nothing is left of it.
#[test]
fn the_increase_makes_flows_equal() {
    let start = Duration::from_ms(2);
    let at = |round_trips| start + RTT * round_trips;
    for (w_ai, max_stage, least, most) in [(80, 5, 0.99, 1.0), (80, 0, 0.99, 1.0), (0, 0, 0.65, 0.85)] {
        let flows = (0..4_u32).map(|host| flow(host, host, 4, 10_000_000, after(if host < 3 { Duration::ZERO } else { start })));
        let config = Config { w_ai: Bytes::new(w_ai), max_stage, ..Config::default() };
        let found = fairness(&config, star(5), flows.collect(), at(400), at(600));
        println!("W_AI {w_ai}, maxStage {max_stage}: {found:.4}");
        assert!((least..=most + 1e-9).contains(&found), "W_AI = {w_ai}, maxStage {max_stage}: {found}");
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
