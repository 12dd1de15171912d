//! DCQCN on networks: exact times of single flows, equal shares, and queues against the fixed point of a fluid model.

use flowloom_core::{Bytes, Duration, Flow, LinkId, Memory, Network, NodeId, Packet, Time, topology};
use flowloom_fabric::SimSetup;
use flowloom_transports::dcqcn::{Config, Dcqcn, Header};

use crate::common::depth::Depth;
use crate::common::networks::{CUT, STORE, apart, flow, gbps, pairs, run, setup, shapes, watch};
use crate::common::tandem;
use crate::common::watch::Log;

/// A flow that is alone is never marked: the queue of a slower link, in which it is, is shorter than the threshold for as long as no more than this is sent.
#[test]
fn alone_a_flow_takes_the_time_of_its_bytes_to_the_picosecond() {
    for switching in [STORE, CUT] {
        for (name, network) in shapes(switching).into_iter().filter(|(name, _)| *name != "slow dumbbell") {
            for config in [Config::default(), Config { ack_every: 16, ..Config::default() }] {
                let sizes = [0, 1, 1459, 1460, 1461, 2920, 10_000, 100_000, 3_000_000];
                let flows = apart(&pairs(&network), &sizes, Duration::from_ms(60));
                let report = run::<Dcqcn>(&config, setup(network.clone()), flows);
                for (flow, record) in report.flows.iter().zip(&report.records) {
                    let wire = setup(network.clone()).wire;
                    let path = network.path(flow.src, flow.dst);
                    let alone = tandem::back_to_back(&network, &path, &tandem::sizes_on_wire(flow.size, &wire));
                    assert_eq!(record.received - flow.start, alone, "{name}, {:?}, {flow:?}", network.switching());
                    assert_eq!((record.retransmissions, record.timeouts), (0, 0));
                }
            }
        }
    }
}

/// The share of packets that are marked where rates of `flows` flows no longer change: the fixed point of the fluid model of DCQCN (Zhu, Ghobadi, Misra, Padhye, *ECN or Delay*,
/// CoNEXT 2016), found by bisection. `link` is the rate of the link in packets per second.
fn fixed_point(config: &Config, flows: f64, link: f64, packet: f64) -> f64 {
    let [tau, tau_alpha, timer] = [config.cnp_interval, config.alpha_timer, config.rate_timer].map(Duration::as_secs_f64);
    let (rate, counter) = (link / flows, config.byte_counter.get() as f64 / packet);
    let (additive, fast) = (config.additive_increase.as_bps() as f64 / 8.0 / packet, f64::from(config.fast_rises));
    let growth = |p: f64| {
        let none = |packets: f64| (packets * (-p).ln_1p()).exp(); // (1 - p)^packets
        let rises = |packets: f64| rate * p / (none(-packets) - 1.0);
        let alpha = 1.0 - none(tau_alpha * rate);
        let cuts = (1.0 - none(tau * rate)) / tau;
        let apart = rate * alpha / 2.0 * cuts / ((rises(counter) + rises(timer * rate)) / 2.0); // R_T - R_C
        let slow = none(fast * counter) * rises(counter) + none(fast * timer * rate) * rises(timer * rate);
        additive * slow - apart * cuts
    };
    let (mut low, mut high): (f64, f64) = (1e-9, 0.5);
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        if growth(middle) > 0.0 { low = middle } else { high = middle }
    }
    low
}

/// Hosts at 40 Gb/s around one switch, with links of 1 us, and flows of 500 MB to the last one.
fn incast(senders: u32) -> (Network, Vec<Flow>) {
    let network = topology::single_switch(senders as usize + 1, gbps(40), Duration::from_us(1), STORE);
    let flows = (0..senders).map(|host| flow(host, host, senders, 500_000_000, Time::ZERO)).collect();
    (network, flows)
}

fn after_ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_ms(ms)
}

/// The mean queue of a port from a time on and until the last change, in bytes.
fn mean(depth: &Depth, from: Time) -> f64 {
    let spans = depth.changes.windows(2).filter(|pair| pair[0].0 >= from);
    let (area, all) = spans.fold((0.0, 0.0), |(area, all), pair| {
        let span = (pair[1].0 - pair[0].0).as_us_f64();
        (area + span * pair[0].1 as f64, all + span)
    });
    area / all
}

/// With few flows, the queue is up to a quarter longer: packets are marked one at a time, and the first one of a queue counts as a whole.
#[test]
fn queues_settle_where_the_fluid_model_has_its_fixed_point() {
    for senders in [2, 4, 8] {
        let (network, flows) = incast(senders);
        let last: LinkId = network.ports(NodeId(senders))[0].reverse();
        let memory = Memory::PerPort(Bytes::new(20_000_000));
        let setup = SimSetup { memory, time_limit: after_ms(80), ..setup(network) };
        let config = Config::default();
        let (_, depth) = watch::<Dcqcn, Depth>(&config, setup, flows, Depth::new(last, Time::ZERO));
        let p = fixed_point(&config, f64::from(senders), 40e9 / 8.0 / 1500.0, 1500.0);
        let expected = 5_000.0 + p / 0.01 * 195_000.0;
        let found = mean(&depth, after_ms(30));
        println!("{senders} senders: {found:.0} B in the mean, {expected:.0} B by the model");
        assert!((found / expected - 1.0).abs() < 0.3, "{senders} senders: {found} B, expected {expected} B");
    }
}

/// What each flow gets of a link of 40 Gb/s in a span of time.
fn shares(config: &Config, flows: Vec<Flow>, network: Network, [from, to]: [u64; 2]) -> Vec<f64> {
    let memory = Memory::PerPort(Bytes::new(20_000_000));
    let setup = SimSetup { memory, time_limit: after_ms(to), ..setup(network) };
    let mut shares = vec![0.0; flows.len()];
    let (_, log) = watch::<Dcqcn, Log<Header>>(config, setup, flows, Log::default());
    let in_span = |(at, _, packet): &&(Time, NodeId, Packet<Header>)| *at >= after_ms(from) && packet.payload_bytes > 0;
    for (_, _, packet) in log.arrived.iter().filter(in_span) {
        shares[packet.flow.0 as usize] += gbps(40).transmit_time(packet.size()).as_secs_f64() / (to - from) as f64 * 1e3;
    }
    shares
}

/// A second flow comes after 10 ms, at the rate of its NIC. From 60 to 100 ms on, both have about half of the link: cuts and rises make the share of each swing by a tenth.
#[test]
fn a_second_flow_gets_its_half_of_the_link() {
    let (network, mut flows) = incast(2);
    flows[1].start = after_ms(10);
    let found = shares(&Config::default(), flows, network, [60, 100]);
    println!("{found:?}");
    assert!(found.iter().all(|share| (share - 0.5).abs() < 0.1), "{found:?}");
}
