//! PDQ on networks: exact times of single flows, short queues, and its gain in the set-up of its authors.

use flowloom_core::{Bytes, Duration, Flow, Memory, Network, NodeId, Rate, Time, WireProfile, topology};
use flowloom_fabric::{PortCounters, Report, Routing, SimSetup};
use flowloom_transports::disciplines::EcnConfig;
use flowloom_transports::pdq::{Config, EarlyStartRtt, Pdq};
use flowloom_transports::tcp::{self, Dctcp};

use crate::common::networks::{CUT, Dice, STORE, apart, flow, gbps, pairs, run, setup, shapes};
use crate::common::tandem::{Tandem, sizes_on_wire};

fn go(config: &Config, network: Network, flows: Vec<Flow>) -> Report {
    let memory = Memory::PerPort(Bytes::new(4_000_000));
    run::<Pdq>(config, SimSetup { memory, routing: Routing::EcmpSymmetric, ..setup(network) }, flows)
}

fn wire() -> WireProfile {
    Config::default().wire(&WireProfile::IP_1500)
}

fn fct(report: &Report, index: usize) -> Duration {
    report.records[index].received - report.flows[index].start
}

fn mean_us(report: &Report) -> f64 {
    (0..report.flows.len()).map(|index| fct(report, index).as_us_f64()).sum::<f64>() / report.flows.len() as f64
}

/// A SYN, its answer, a probe and its answer, and then the packets at the rate of the slowest link. On the slow dumbbell this is less than
/// a packet per round trip, and probes would delay the packets.
#[test]
fn alone_it_takes_two_round_trips_and_its_packets_at_the_rate_of_the_slowest_link() {
    for switching in [STORE, CUT] {
        for (name, network) in shapes(switching).into_iter().filter(|(name, _)| *name != "slow dumbbell") {
            let sizes = [1, 1443, 1444, 1445, 17_520, 100_000, 1_000_000];
            let report = go(&Config::default(), network.clone(), apart(&pairs(&network), &sizes, Duration::from_ms(20)));
            for (flow, record) in report.flows.iter().zip(&report.records) {
                let (path, back) = (network.path(flow.src, flow.dst), network.path(flow.dst, flow.src));
                let control = network.packet_time(&path, wire().control) + network.packet_time(&back, wire().control);
                let rate = path.iter().map(|link| network.link(*link).rate).min().expect("a path");
                let (mut tandem, mut leaves, mut arrives) = (Tandem::new(&network, &path), control * 2, Duration::ZERO);
                for size in sizes_on_wire(flow.size, &wire()) {
                    arrives = tandem.send(leaves, size);
                    leaves += rate.transmit_time(Bytes::new(size));
                }
                assert_eq!(record.received - flow.start, arrives, "{name}, {switching:?}, {flow:?}");
                assert_eq!(record.retransmissions, 0);
            }
        }
    }
}

/// The 12 hosts of the paper's single-rooted tree, with a round trip of about 150 us for a full packet between racks.
pub fn tree() -> Network {
    topology::leaf_spine(4, 3, 1, gbps(1), gbps(1), Duration::from_us(12), STORE)
}

/// The port of a host's switch that sends to it.
fn last_port(report: &Report, host: u32) -> &PortCounters {
    &report.ports[report.network.ports(NodeId(host))[0].reverse().index()]
}

/// Five flows of 1 MB, one after the other: queues build up only where one flow follows another. Each flow starts when the one before it has
/// its answer. If all start at once, one that asks before a more critical one sends beside it until it knows that it is paused.
#[test]
fn the_queue_is_short_but_for_the_changes_from_one_flow_to_the_next() {
    let network = topology::single_switch(6, gbps(1), Duration::from_us(35), STORE);
    let flows: Vec<Flow> =
        (0..5).map(|host| flow(host, host, 5, 1_000_000, Time::ZERO + Duration::from_us(300) * host.into())).collect();
    let report = go(&Config::default(), network, flows);
    let port = last_port(&report, 5);
    assert!(port.peak_bytes <= 36 * 1500, "{} B at most", port.peak_bytes);
    let mean = port.mean_queue_bytes(report.end - Time::ZERO);
    assert!(mean <= 2.0 * 1500.0, "{mean} B in the mean");
    assert_eq!(report.ports.iter().map(PortCounters::drops).sum::<u64>(), 0);
}

/// Flow 0 is more critical than flow 1, with which it shares a host's NIC, and flow 1 than flow 2, with which it shares the link to a host.
/// While flow 1 is paused at the NIC, the switch keeps nothing for it, and flow 2 takes the time that it takes alone.
#[test]
fn a_flow_that_waits_for_one_link_leaves_another_to_others() {
    let network = topology::single_switch(4, gbps(1), Duration::from_us(35), STORE);
    let flows: Vec<Flow> = [(0, 0, 1, 300_000), (1, 0, 2, 400_000), (2, 3, 2, 500_000)]
        .map(|(id, src, dst, size)| flow(id, src, dst, size, Time::ZERO))
        .to_vec();
    let alone = fct(&go(&Config::default(), network.clone(), vec![flow(0, 3, 2, 500_000, Time::ZERO)]), 0);
    let report = go(&Config::default(), network, flows);
    assert!(fct(&report, 2) <= alone + alone / 10, "{} instead of {alone}", fct(&report, 2));
    let wire_bytes: u64 = [400_000, 500_000].map(|size| wire().flow_wire_bytes(Bytes::new(size)).get()).iter().sum();
    let both = gbps(1).transmit_time(Bytes::new(wire_bytes));
    assert!(fct(&report, 1) <= both + both / 10, "{} instead of {both}", fct(&report, 1));
}

/// When each of the jobs, in picoseconds of work, leaves a server that they share equally from the start.
fn processor_sharing(work: &[u64]) -> Vec<f64> {
    let mut sorted = work.to_vec();
    sorted.sort_unstable();
    let ends = |job: u64| sorted.iter().map(|other| job.min(*other) as f64).sum();
    work.iter().map(|job| ends(*job)).collect()
}

/// Query aggregation in the paper's tree: 20 flows of 2 to 198 kB to one host. Ideal fair sharing would need no time to find the fair rates.
#[test]
fn twenty_flows_to_one_host_finish_on_average_a_quarter_earlier_than_under_ideal_fair_sharing() {
    let (mut ours, mut shared) = (0.0, 0.0);
    for seed in 1..=5 {
        let mut dice = Dice::new(seed);
        let flows: Vec<Flow> = (0..20).map(|id| flow(id, id % 11, 11, 2000 + dice.below(196_000), Time::ZERO)).collect();
        let work: Vec<u64> =
            flows.iter().map(|flow| gbps(1).transmit_time(WireProfile::IP_1500.flow_wire_bytes(flow.size)).as_ps()).collect();
        shared += processor_sharing(&work).iter().sum::<f64>() / 20.0 / 1e6;
        ours += mean_us(&go(&Config::default(), tree(), flows));
    }
    assert!((0.6..0.75).contains(&(ours / shared)), "{}", ours / shared);
}

/// A rack of 20 hosts with ports of 225 packets, and flows of 2 to 198 kB, all to all.
fn rack(load: f64, count: u32) -> (SimSetup, Vec<Flow>) {
    let network = topology::single_switch(20, gbps(1), Duration::from_us(25), STORE);
    let mut dice = Dice::new(1);
    let mut start = Time::ZERO;
    // A flow of 100 kB takes 0.8 ms of 20 links.
    let gap = Duration::from_us(40).scale(1.0 / load);
    let flows: Vec<Flow> = (0..count)
        .map(|id| {
            start += dice.exponential(gap);
            let (src, hop) = (dice.below(20) as u32, 1 + dice.below(19) as u32);
            flow(id, src, (src + hop) % 20, 2000 + dice.below(196_000), start)
        })
        .collect();
    (SimSetup { memory: Memory::PerPort(Bytes::new(337_500)), routing: Routing::EcmpSymmetric, ..setup(network) }, flows)
}

/// The mean completion times under PDQ and DCTCP in the rack. DCTCP's connections are open.
fn pdq_and_dctcp_in_a_rack(load: f64, count: u32, config: &Config) -> [f64; 2] {
    let (setup, flows) = rack(load, count);
    let port = EcnConfig { mark_above: Some(Bytes::new(30_000)), ..EcnConfig::default() };
    let dctcp = tcp::Config { port, nic: port, initial_window: 10, rto_min: Duration::from_ms(10), ..tcp::Config::default() };
    [mean_us(&run::<Pdq>(config, setup.clone(), flows.clone())), mean_us(&run::<Dctcp>(&dctcp, setup, flows))]
}

/// In measured round trips, early start lets more flows go the longer the queue is that it makes.
#[test]
fn early_start_loses_packets_at_high_load_only_if_it_counts_in_measured_round_trips() {
    let drops = |early_start_rtt| {
        let (setup, flows) = rack(0.9, 2000);
        let report = run::<Pdq>(&Config { early_start_rtt, ..Config::default() }, setup, flows);
        report.ports.iter().map(PortCounters::drops).sum::<u64>()
    };
    let [least, measured] = [EarlyStartRtt::Least, EarlyStartRtt::Measured].map(drops);
    assert!(least == 0 && measured > 0, "{least} and {measured} lost");
}

#[test]
fn at_low_load_flows_finish_earlier_than_under_dctcp() {
    let [pdq, dctcp] = pdq_and_dctcp_in_a_rack(0.2, 400, &Config { handshake: false, ..Config::default() });
    assert!(pdq < dctcp * 0.97, "{pdq} us to {dctcp} us");
}

/// The PASE paper (figure 2) has PDQ slower than DCTCP at high load. So it is where each change from one flow to the next takes a round trip or
/// two. With early start it is not, in this scenario; `papers/pase/claims.json` has the paper's.
#[test]
fn at_high_load_flows_finish_later_than_under_dctcp_without_early_start() {
    let late = Config { early_start_rtts: 0.0, ..Config::default() };
    let [slow, default] = [late, Config::default()].map(|config| {
        let [pdq, dctcp] = pdq_and_dctcp_in_a_rack(0.8, 2000, &config);
        pdq / dctcp
    });
    println!("{slow} and {default} times DCTCP's");
    assert!(slow > 1.2 && default < 0.97, "{slow} and {default} times DCTCP's");
}

/// A link at 40 Gb/s between hosts at 10 Gb/s gives two flows their full rate at once.
#[test]
fn a_faster_link_serves_several_flows() {
    let network = topology::dumbbell(4, gbps(10), gbps(40), Duration::from_us(5), STORE);
    let flows: Vec<Flow> = (0..4).map(|host| flow(host, host, 4 + host, 1_000_000, Time::ZERO)).collect();
    let report = go(&Config { dampening_rtts: 0.0, ..Config::default() }, network, flows);
    let alone = Rate::from_gbps(10).transmit_time(wire().flow_wire_bytes(Bytes::new(1_000_000))) + Duration::from_us(80);
    assert!((0..4).all(|index| fct(&report, index) <= alone), "{:?}", report.records);
}

/// Each network has a link that is more than ten times as fast as what a flow can use: behind slow NICs, or behind a slow link. A flow alone takes its time at the
/// slowest link, and some round trips of at most 65 us each.
#[test]
fn a_link_more_than_ten_times_as_fast_as_a_flow_does_not_hold_it_back() {
    let size = Bytes::new(1_000_000);
    for (host, middle) in
        [(gbps(1), Rate::from_bps(10_100_000_000)), (gbps(10), gbps(400)), (gbps(10), Rate::from_bps(900_000_000))]
    {
        let network = topology::dumbbell(1, host, middle, Duration::from_us(5), STORE);
        let report = go(&Config::default(), network, vec![flow(0, 0, 1, 1_000_000, Time::ZERO)]);
        let alone = host.min(middle).transmit_time(wire().flow_wire_bytes(size)) + Duration::from_us(5 * 65);
        assert!(fct(&report, 0) <= alone, "{host} and {middle}: {:?}", report.records);
    }
}
