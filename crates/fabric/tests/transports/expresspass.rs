//! ExpressPass on networks: exact times of single flows, the share that credits and data keep to, and what many flows get of one link.

use std::collections::BTreeMap;

use flowloom_core::{
    Bytes, DropReason, Duration, Event, Flow, FlowId, LinkId, Memory, Network, NodeId, Packet, Rate, Time, WireProfile, topology,
};
use flowloom_fabric::{Observer, PortCounters, Report, Routing, SimSetup};
use flowloom_transports::expresspass::{Config, ExpressPass, Feedback, Header};

use crate::common::networks::{CUT, STORE, apart, flow, gbps, in_order, pairs, setup, shapes, watch};
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
fn at(n: u64) -> Time {
    Time::ZERO + us(n)
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
    fn packet_queued(&mut self, now: Time, link: LinkId, packet: &Packet<Header>, _: u64) {
        if link == self.link && packet.class == DATA {
            self.queued += u64::from(packet.size_bytes);
            if now >= self.peak_from {
                self.peak = self.peak.max(self.queued);
            }
        }
    }
    fn packet_sent(&mut self, _: Time, link: LinkId, packet: &Packet<Header>) {
        self.leave(link, packet);
    }
    fn packet_dropped(&mut self, _: Time, link: LinkId, packet: &Packet<Header>, _: DropReason) {
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
    Config { feedback: Feedback::Released, alpha: 1.0, ramp_packets: 1, jitter, credit_spread, early_stop: false, ..Config::default() }
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
                let slot = network.host_rate(flow.dst).transmit_time(WIRE.full + WIRE.control);
                let (mut tandem, mut sent, mut arrives) = (Tandem::new(&network, &path), request, Duration::ZERO);
                for size in sizes_on_wire(flow.size, &WIRE) {
                    arrives = tandem.send(sent + credit, size);
                    sent += slot;
                }
                // Where the last packet waits, the stop overtakes it.
                let stop = if flow.size.get().is_multiple_of(1460) || flow.size.get() < 1460 { Duration::ZERO } else { gbps(1).transmit_time(WIRE.control) };
                let found = record.received - flow.start;
                assert!((arrives..=arrives + stop).contains(&found), "{name}, {switching:?}, {flow:?}: {found}, {arrives}");
                assert_eq!(record.retransmissions, 0);
            }
        }
    }
}

#[test]
fn one_flow_gets_what_credits_leave() {
    for delay in [Duration::from_ns(200), us(5)] {
        for config in both_forms() {
            let network = topology::single_switch(2, gbps(10), delay, STORE);
            let (report, ()) = run(&config, wired(network), vec![flow(0, 0, 1, 20_000_000, Time::ZERO)], ());
            let goodput = 20e6 * 8.0 / (report.records[0].received - Time::ZERO).as_secs_f64() / 1e9;
            eprintln!("T2 {delay} {:?} goodput {goodput} of {}", config.feedback, DATA_SHARE * 14.6 * 1000.0 / 1538.0);
        }
    }
}

#[test]
fn many() {
    for config in both_forms() {
        for (hosts, ms) in [(2, 10), (16, 20), (128, 30), (1000, 60)] {
            let network = topology::dumbbell(hosts, gbps(10), gbps(10), us(2), STORE);
            let flows = (0..hosts as u32).map(|id| flow(id, id, id + hosts as u32, 1 << 30, Time::ZERO + Duration::from_ns(u64::from(id) * 300))).collect();
            let interval = Duration::from_ms(ms);
            let limit = Time::ZERO + interval * 2;
            let shares = Shares { peak_from: Time::ZERO + interval, ..Shares::new(middle(&network), interval) };
            let (report, shares) = run(&config, SimSetup { time_limit: limit, ..wired(network) }, flows, shares);
            let got: Vec<f64> = (0..hosts as u32).map(|id| shares.of(1, id)).collect();
            let total: f64 = got.iter().sum();
            let jain = total * total / (hosts as f64 * got.iter().map(|x| x * x).sum::<f64>());
            let goodput = total * 8.0 / interval.as_secs_f64() / 1e9;
            eprintln!("T3 {:?} N={hosts} goodput {goodput:.3} of 9.000; jain {jain:.4} peak {} packets; data drops {} credit drops {}", config.feedback, shares.peak as f64 / 1538.0, data_drops(&report), credit_drops(&report));
        }
    }
}

#[test]
fn convergence() {
    for config in both_forms() {
        for w in [0.5, 1.0 / 16.0] {
            let network = topology::dumbbell(2, gbps(10), gbps(10), us(16), STORE);
            let rtt = network.rtt(NodeId(0), NodeId(2), &WIRE);
            let flows = vec![flow(0, 0, 2, 1 << 30, Time::ZERO), flow(1, 1, 3, 1 << 30, Time::ZERO + rtt * 200)];
            let shares = Shares::new(middle(&network), rtt);
            let (_, shares) = run(&Config { alpha: w, w_init: w, ..config.clone() }, SimSetup { time_limit: Time::ZERO + rtt * 260, ..wired(network) }, flows, shares);
            let line: Vec<String> = (199..230).map(|i| format!("{:.2}/{:.2}", shares.of(i, 0) / (rtt.as_secs_f64() * 9e9 / 8.0), shares.of(i, 1) / (rtt.as_secs_f64() * 9e9 / 8.0))).collect();
            eprintln!("T4 {:?} {w} rtt {rtt}: {}", config.feedback, line.join(" "));
        }
    }
}

#[test]
fn incast() {
    for config in both_forms() {
        for (senders, packets) in [(8, 50), (32, 50), (128, 50), (1000, 1), (1000, 3)] {
            let network = topology::single_switch(senders as usize + 1, gbps(10), us(2), STORE);
            let flows: Vec<Flow> = (0..senders).map(|id| flow(id, id, senders, packets * 1460, Time::ZERO)).collect();
            let port = network.ports(NodeId(senders))[0].reverse();
            let shares = Shares::new(port, us(1000));
            let (report, shares) = run(&config, wired(network), flows, shares);
            let end = report.records.iter().map(|record| record.received).max().unwrap();
            let least = transmission(gbps(10), packets * 1460 * u64::from(senders));
            eprintln!("T5 {:?} {senders}x{packets} {:.3} of {:.3} us; drops {} {}; peak {}", config.feedback, end.as_ps() as f64 / 1e6, least.as_us_f64(), data_drops(&report), credit_drops(&report), shares.peak as f64/1538.0);
        }
    }
}
