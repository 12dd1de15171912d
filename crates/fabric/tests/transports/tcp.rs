//! TCP, DCTCP and its variants on networks: exact times of single flows, and closed forms of queues and shares of long flows.
//!
//! Hosts are faster than the bottleneck unless a test says otherwise.

use flowloom_core::{Bytes, Duration, Flow, LinkId, Memory, Network, NodeId, Time, Transport, WireProfile, topology};
use flowloom_fabric::{Fault, PortCounters, Report, Routing, SimSetup};
use flowloom_transports::disciplines::{EcnConfig, Marking};
use flowloom_transports::las::Las;
use flowloom_transports::pias::Pias;
use flowloom_transports::tcp::{Config, D2tcp, Dctcp, EcnStar, FastRetransmit, Header, L2dct, Tcp};

use crate::common::depth::Depth;
use crate::common::networks::{CUT, STORE, apart, flow, gbps, in_order, pairs, run, setup, shapes, watch, watch_faulty};
use crate::common::watch::Log;

const WIRE: WireProfile = WireProfile::IP_1500;
const PACKET: f64 = 1500.0;
/// DCTCP's threshold for 10 Gb/s, in packets.
const K: u64 = 65;

fn ms(n: u64) -> Time {
    Time::ZERO + Duration::from_ms(n)
}

/// Senders with links of `gbps_in` and one receiver, the last host, with 10 Gb/s. The round-trip time is 100 us less one or two packet
/// times.
fn funnel(senders: u32, gbps_in: u64) -> Network {
    funnel_of(senders, gbps_in, Duration::from_ps(24_384_000))
}

/// As [`funnel`], with another delay of each link.
fn funnel_of(senders: u32, gbps_in: u64, delay: Duration) -> Network {
    let mut network = Network::new(senders as usize + 1, STORE);
    let switch = network.add_switch(1, "switch", "s0");
    for host in 0..senders {
        network.connect(NodeId(host), switch, gbps(gbps_in), delay);
    }
    network.connect(NodeId(senders), switch, gbps(10), delay);
    network
}

/// The link to the receiver of a [`funnel`].
fn bottleneck(network: &Network) -> LinkId {
    network.ports(NodeId(network.hosts() as u32 - 1))[0].reverse()
}

/// The bandwidth-delay product C·RTT between the first and the last host, in packets.
fn bandwidth_delay(network: &Network) -> f64 {
    network.rtt(NodeId(0), NodeId(network.hosts() as u32 - 1), &WIRE).as_us_f64() / 1.2
}

/// One flow from each sender, `gap_us` after the previous sender's, too long to finish.
fn long(senders: u32, gap_us: u64) -> Vec<Flow> {
    let start = |host: u32| Time::ZERO + Duration::from_us(gap_us * u64::from(host));
    (0..senders).map(|host| flow(host, host, senders, 4_000_000_000, start(host))).collect()
}

/// Ports mark above `threshold` packets, and only marks and losses limit windows.
fn config(threshold: u64) -> Config {
    let port = EcnConfig { mark_above: Some(Bytes::new(threshold * 1500)), ..EcnConfig::default() };
    let rto = Duration::from_ms(10);
    Config { port, max_window: 60_000, initial_window: 10, rto_min: rto, rto_initial: rto, ..Config::default() }
}

fn drops(report: &Report) -> u64 {
    report.ports.iter().map(PortCounters::drops).sum()
}
fn timeouts(report: &Report) -> u32 {
    report.records.iter().map(|record| record.timeouts).sum()
}
fn delivered(report: &Report) -> Vec<f64> {
    report.records.iter().map(|record| record.delivered_bytes as f64).collect()
}

/// The bytes that each flow delivered between two times, from two runs that are equal up to the first time.
fn delivered_between<T: Transport>(config: &T::Config, setup: &SimSetup, flows: &[Flow], from: Time, to: Time) -> Vec<f64> {
    let until = |time_limit| delivered(&run::<T>(config, SimSetup { time_limit, ..setup.clone() }, flows.to_vec()));
    until(to).iter().zip(until(from)).map(|(after, before)| after - before).collect()
}

/// Jain's fairness index: 1 if all shares are equal, 1/n if one flow has everything.
fn jain(shares: &[f64]) -> f64 {
    shares.iter().sum::<f64>().powi(2) / (shares.iter().map(|share| share * share).sum::<f64>() * shares.len() as f64)
}

/// A single flow keeps its slowest link busy from its first packet on: its window exceeds the bandwidth-delay product, and marks at its own
/// port reduce the window by less than what is queued there.
fn alone<T: Transport>(config: &T::Config, sizes: &[u64], narrow_middle: bool)
where
    T::Config: Default,
{
    for switching in [STORE, CUT] {
        for (name, network) in shapes(switching).into_iter().filter(|(name, _)| narrow_middle || *name != "slow dumbbell") {
            let flows = apart(&pairs(&network), sizes, Duration::from_ms(100));
            let report = run::<T>(config, setup(network.clone()), flows);
            for (flow, record) in report.flows.iter().zip(&report.records) {
                let what = format!("{}: {name}, {switching:?}, {flow:?}", T::NAME);
                let (path, back) = (network.path(flow.src, flow.dst), network.path(flow.dst, flow.src));
                assert_eq!(record.received - flow.start, network.flow_time(&path, flow.size, &WIRE), "{what}");
                // On a slow middle link, the last acknowledgement waits for the one before it.
                let answer = record.acknowledged - record.received;
                let least = network.packet_time(&back, WIRE.control);
                assert!(answer == least || (name == "slow dumbbell" && answer > least && answer < least * 2), "{what}");
                assert_eq!((record.retransmissions, record.timeouts), (0, 0), "{what}");
            }
        }
    }
}

/// LAS has pFabric's fixed timeout, which is shorter than the queueing delay of a slow middle link.
#[test]
fn alone_it_takes_the_closed_form_on_every_shape() {
    let sizes = [1, 1459, 1460, 1461, 14_600, 102_200, 102_201, 1_000_000, 10_000_000];
    let tcp = Config::default();
    alone::<Tcp>(&tcp, &sizes, true);
    alone::<Dctcp>(&tcp, &sizes, true);
    alone::<D2tcp>(&tcp, &sizes, true);
    alone::<L2dct>(&tcp, &sizes, true);
    alone::<EcnStar>(&tcp, &sizes, true);
    alone::<Pias>(&Default::default(), &sizes, true);
    alone::<Las>(&Default::default(), &sizes, false);
}

#[test]
fn a_gigabyte_alone_to_the_picosecond() {
    fn check<T: Transport>()
    where
        T::Config: Default,
    {
        let (_, network) = shapes(STORE).remove(3);
        let farthest = *pairs(&network).last().expect("two hosts");
        let path = network.path(farthest.0, farthest.1);
        let size = 1_000_000_000;
        let report = run::<T>(&T::Config::default(), setup(network.clone()), apart(&[farthest], &[size], Duration::ZERO));
        assert_eq!(report.records[0].received - Time::ZERO, network.flow_time(&path, Bytes::new(size), &WIRE), "{}", T::NAME);
    }
    check::<Dctcp>();
    check::<Pias>();
    check::<Las>();
}

/// N flows of DCTCP (M. Alizadeh et al., SIGCOMM 2010, §3.3): the queue rises to K + N, because each flow's window grows by one more packet
/// before the first mark takes effect, and oscillates with amplitude A = ½ sqrt(2N(C·RTT + K)). The theory assumes synchronised flows;
/// unsynchronised ones make the amplitude larger. With 40 flows a window is below four packets, at the limit of the theory, which still
/// holds within the same bounds.
#[test]
fn dctcps_queue_peaks_at_k_plus_n_and_oscillates_as_the_theory_says() {
    for senders in [2, 10, 40] {
        let network = funnel(senders, 40);
        let (link, n) = (bottleneck(&network), f64::from(senders));
        let window_sum = bandwidth_delay(&network) + K as f64;
        let window = window_sum / n;
        // The period of the sawtooth: a number of round trips with a full queue.
        let period = Duration::from_ns(1200).scale(window_sum).scale((window + 1.0) * (2.0 / window).sqrt() / 2.0);
        // A small initial window, so that the flows' first packets fit into the port's memory.
        let config = Config { initial_window: 2, ..config(K) };
        let setup = SimSetup { memory: Memory::PerPort(Bytes::new(360_000)), time_limit: ms(200), ..setup(network) };
        let (report, depth) = watch::<Dctcp, Depth>(&config, setup, long(senders, 37), Depth::new(link, ms(50)));
        assert_eq!((drops(&report), timeouts(&report)), (0, 0));
        let extremes = depth.extremes(period * 2);
        let peak = extremes.iter().map(|(_, max)| *max).max().expect("spans") as f64 / PACKET;
        assert!((peak - K as f64 - n).abs() <= 2.0, "{senders} flows: the peak is {peak}");
        let amplitude = extremes.iter().map(|(min, max)| (max - min) as f64 / PACKET).sum::<f64>() / extremes.len() as f64;
        let theory = 0.5 * (2.0 * n * window_sum).sqrt();
        assert!(
            (0.7..1.3).contains(&(amplitude / theory)),
            "{senders} flows: the amplitude is {amplitude:.1}, {theory:.1} in theory"
        );
    }
}

/// Two flows at 10 Gb/s and a round-trip time of 100 us: DCTCP keeps the queue below K and the link busy, and TCP fills all memory. Hosts
/// are as fast as the bottleneck or faster.
#[test]
fn dctcp_keeps_the_link_busy_with_a_short_queue_and_tcp_fills_the_memory() {
    for gbps_in in [10, 40] {
        let network = funnel(2, gbps_in);
        let link = bottleneck(&network);
        let buffer = Bytes::new(3_600_000);
        let setup = SimSetup { memory: Memory::PerPort(buffer), time_limit: ms(150), ..setup(network) };
        let (report, depth) = watch::<Dctcp, Depth>(&config(K), setup.clone(), long(2, 37), Depth::new(link, ms(20)));
        let mean = depth.mean() / PACKET;
        assert!((K as f64 / 2.0..=K as f64 + 2.0).contains(&mean), "{mean} packets");
        assert_eq!(drops(&report), 0);
        // The utilisation of the whole run, including 0.1 ms before the first packet arrives.
        let used = report.ports[link.index()].bytes() as f64 * 8.0 / 10e9 / 0.15;
        assert!(used > 0.99, "{used}");

        let line = bandwidth_delay(&setup.network);
        let (report, depth) = watch::<Tcp, Depth>(&config(K), setup, long(2, 37), Depth::new(link, ms(60)));
        assert!(drops(&report) > 0);
        assert!(report.ports[link.index()].peak_bytes > buffer.get() - 1500);
        // Both flows lost packets when slow start filled the memory. Then the queue is at least what halved windows leave.
        let (min, _) = depth.extremes(Duration::from_ms(80))[0];
        let left = (buffer.get() as f64 / PACKET - line) / 2.0;
        assert!((left..1.2 * left).contains(&(min as f64 / PACKET)), "{min} B, {left} packets in theory");
    }
}

/// One flow of ECN*: the window is a sawtooth between W/2 and W = P + K + 1, where P is the bandwidth-delay product. It grows by one
/// packet per round trip of W/C, so W² is linear in time. If K >= P, the mean queue is 7/9 W - P; otherwise the link idles for a part of
/// each tooth.
#[test]
fn the_window_of_ecn_star_is_a_sawtooth_between_half_and_full() {
    for threshold in [20, 40, 65, 100, 130, 200] {
        let network = funnel(1, 40);
        let (link, line) = (bottleneck(&network), bandwidth_delay(&network));
        let setup = SimSetup { time_limit: ms(300), ..setup(network) };
        let from = ms(50);
        let (report, depth) = watch::<EcnStar, Depth>(&config(threshold), setup, long(1, 0), Depth::new(link, from));
        let (min, max) = depth.extremes(Duration::from_ms(240))[0];
        assert_eq!(max, (threshold + 1) * 1500, "K = {threshold}");
        let top = line + threshold as f64 + 1.0;
        let used = report.ports[link.index()].bytes() as f64 * 8.0 / 10e9 / 0.3;
        if top / 2.0 >= line {
            let (mean, bottom) = (7.0 / 9.0 * top - line, top / 2.0 - line);
            assert!((depth.mean() / PACKET - mean).abs() < 1.5, "K = {threshold}: {:.1}, not {mean:.1}", depth.mean() / PACKET);
            assert!((min as f64 / PACKET - bottom).abs() < 1.5, "K = {threshold}: {min} B, not {bottom:.1} packets");
            assert!(used > 0.999, "K = {threshold}: {used}");
        } else {
            // A tooth has 3/8 W² packets. For each packet of window it lasts one round trip below P, and W/P round trips above.
            let trips = line - top / 2.0 + (top * top - line * line) / (2.0 * line);
            let expected = 0.375 * top * top / line / trips;
            assert!((used - expected).abs() < 0.015, "K = {threshold}: {used:.4}, not {expected:.4}");
        }
    }
}

/// Up to forty senders send 32 kB each at once. Marks keep the windows from growing, so the longest queue is the sum of the initial
/// windows, less the packets that are sent while these arrive. If it fits into the port's memory nothing is lost, otherwise exactly the
/// excess.
#[test]
fn an_incast_loses_the_excess_of_the_initial_windows() {
    for senders in [10, 20, 25, 27, 30, 40] {
        let network = funnel(senders, 10);
        let flows = (0..senders).map(|host| flow(host, host, senders, 32_000, Time::ZERO)).collect();
        let report = run::<Dctcp>(
            &config(K),
            SimSetup { memory: Memory::PerPort(Bytes::new(360_000)), ..setup(network.clone()) },
            flows,
        );
        // During ten packet times, ten packets arrive from each sender and the port sends ten.
        let peak = u64::from(senders) * 10 - 10;
        assert_eq!(report.ports[bottleneck(&network).index()].peak_bytes, peak.min(240) * 1500, "{senders} senders");
        assert_eq!(drops(&report), peak.saturating_sub(240), "{senders} senders");
        if peak <= 240 {
            assert_eq!(timeouts(&report), 0);
        }
    }
}

/// TCP's windows grow, so it loses packets where DCTCP does not. With Linux's minimum timeout the last flow waits for that.
#[test]
fn an_incast_without_loss_under_dctcp_costs_tcp_a_timeout() {
    let network = funnel(23, 10);
    let flows: Vec<Flow> = (0..23).map(|host| flow(host, host, 23, 32_000, Time::ZERO)).collect();
    let rto = Duration::from_ms(200);
    let config = Config { rto_min: rto, rto_initial: rto, ..config(K) };
    let setup = SimSetup { memory: Memory::PerPort(Bytes::new(360_000)), ..setup(network) };
    let end = |report: &Report| report.records.iter().map(|record| record.received).max().expect("flows");
    let (dctcp, tcp) = (run::<Dctcp>(&config, setup.clone(), flows.clone()), run::<Tcp>(&config, setup, flows));
    assert!(end(&dctcp) < ms(1) && drops(&dctcp) == 0, "{}", end(&dctcp));
    assert!(end(&tcp) > ms(200) && timeouts(&tcp) > 0, "{}", end(&tcp));
}

/// Jain's index of five flows of DCTCP and of ECN*. It includes hosts as fast as the bottleneck, where packets of several flows reach it at
/// the same time again and again.
#[test]
fn equal_flows_share_equally_where_ports_mark() {
    fn check<T: Transport<Config = Config>>(jain_min: f64) {
        for (gbps_in, gap_us) in [10, 40].into_iter().flat_map(|gbps_in| [0, 37, 333].map(|gap_us| (gbps_in, gap_us))) {
            let setup =
                SimSetup { memory: Memory::PerPort(Bytes::new(3_600_000)), time_limit: ms(1000), ..setup(funnel(5, gbps_in)) };
            let shares = delivered(&run::<T>(&config(K), setup, long(5, gap_us)));
            assert!(jain(&shares) > jain_min, "{}, {gbps_in} Gb/s, {gap_us} us: {shares:?}", T::NAME);
        }
    }
    check::<Dctcp>(0.99);
    check::<EcnStar>(0.999);
}

/// Two flows over drop-tail with memory for a round trip. Hosts are faster than the bottleneck, so each time the memory overflows both
/// flows lose a packet, and their windows are synchronised. Their shares are within 1 % of each other over 0.7 s.
#[test]
fn two_equal_flows_share_drop_tail_equally() {
    for gap_us in [0, 37, 333] {
        let setup = SimSetup { memory: Memory::PerPort(Bytes::new(150_000)), ..setup(funnel(2, 40)) };
        let shares = delivered_between::<Tcp>(&config(K), &setup, &long(2, gap_us), ms(50), ms(750));
        assert!((0.99..1.01).contains(&(shares[0] / shares[1])), "{gap_us} us: {shares:?}");
    }
}

/// If hosts are as fast as the bottleneck, ties between their packets decide which flow loses one, and a packet that is lost twice waits
/// for the timer. So the shares of one run are random. Over runs with different start times, the logarithm of their ratio varies by some
/// percent. Its mean is zero within three standard errors, which are small enough to detect a difference of 5 %.
#[test]
fn two_equal_flows_share_drop_tail_equally_on_average_where_ties_decide() {
    let rto = Duration::from_ms(2);
    let config = Config { rto_min: rto, rto_initial: rto, ..config(K) };
    let ratios: Vec<f64> = (0..24)
        .map(|run_number| {
            let network = funnel_of(2, 10, Duration::from_us(4));
            let setup = SimSetup { memory: Memory::PerPort(Bytes::new(24 * 1500)), time_limit: ms(500), ..setup(network) };
            let shares = delivered(&run::<Tcp>(&config, setup, long(2, 100 + 737 * run_number)));
            (shares[0] / shares[1]).ln()
        })
        .collect();
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let error = (ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (n - 1.0) / n).sqrt();
    assert!(error < 0.017 && mean.abs() < 3.0 * error, "{mean} ± {error}: {ratios:?}");
}

/// With random losses, a flow's rate is proportional to 1/RTT.
#[test]
fn rates_are_inversely_proportional_to_the_round_trip_time() {
    for times in [1_u64, 2, 4] {
        let mut network = Network::new(3, STORE);
        let switch = network.add_switch(1, "switch", "s0");
        network.connect(NodeId(0), switch, gbps(40), Duration::from_us(100));
        network.connect(NodeId(1), switch, gbps(40), Duration::from_us(100 + (times - 1) * 200));
        let lossy = network.connect(NodeId(2), switch, gbps(40), Duration::from_us(100)).reverse();
        let setup = SimSetup { time_limit: ms(8000), ..setup(network) };
        let loss = |link| if link == lossy.0 { vec![Fault::Loss(2e-3)] } else { vec![] };
        let (report, ()) = watch_faulty::<Tcp, ()>(&config(K), setup, long(2, 0), (), loss);
        let shares = delivered(&report);
        let ratio = shares[0] / shares[1] / times as f64;
        assert!((0.9..1.1).contains(&ratio), "{times} times the round trip: {shares:?}");
    }
}

/// The ratio of the rates of a flow of urgency e and one of urgency d, if the sum of both windows peaks at C·RTT + K. In a period of T
/// round trips, of which the last is marked, a window grows by T - 1 and is cut once: W·p/2 = T - 1, where p is α^d. Its mean is W(1 -
/// p/4), so the share of its packets that are marked is α = 1/(T(1 - p/4)).
fn d2tcp_ratio(window_sum: f64, d: f64, e: f64) -> f64 {
    // The peak window and the mean window of a flow.
    let windows = |period: f64, urgency: f64| {
        let alpha = (0..100).fold(0.5_f64, |alpha, _| (1.0 / (period * (1.0 - alpha.powf(urgency) / 4.0))).min(1.0));
        let penalty = alpha.powf(urgency);
        let window = 2.0 * (period - 1.0) / penalty;
        (window, window * (1.0 - penalty / 4.0))
    };
    let (mut low, mut high) = (1.5, 1000.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if windows(middle, d).0 + windows(middle, e).0 < window_sum { low = middle } else { high = middle }
    }
    windows(low, e).1 / windows(low, d).1
}

/// One deadline is so late that the flow has the minimum urgency, the other so early that it has the maximum. The theory allows fractions
/// of packets, which matters for the less urgent flow, whose window is about twelve packets.
#[test]
fn urgent_flows_have_the_larger_share() {
    let network = funnel(2, 40);
    let window_sum = bandwidth_delay(&network) + K as f64;
    let mut before = 0.9;
    for (urgency_min, urgency_max) in [(1.0, 1.0), (0.8, 1.25), (0.5, 1.0), (1.0, 2.0), (0.5, 2.0)] {
        let mut flows = long(2, 37);
        flows[0].deadline = Some(ms(1_000_000));
        flows[1].deadline = Some(ms(700));
        let config = Config { urgency_min, urgency_max, ..config(K) };
        let shares = delivered_between::<D2tcp>(&config, &setup(network.clone()), &flows, ms(100), ms(500));
        let (ratio, expected) = (shares[1] / shares[0], d2tcp_ratio(window_sum, urgency_min, urgency_max));
        println!("{urgency_min} {urgency_max} {ratio} {expected}");
        assert!(ratio > before, "{urgency_min} and {urgency_max}: {ratio}, not above {before}");
        assert!(
            (0.85..1.2).contains(&(ratio / expected)),
            "{urgency_min} and {urgency_max}: {ratio:.2}, {expected:.2} in theory"
        );
        before = ratio;
    }
}

/// An old flow of L2DCT yields to a young one: with weights of 2.5 and 1/8, its window in equilibrium is less than a packet. DCTCP treats
/// both alike and takes long to converge. Age is measured in sent bytes; the thresholds are tens of megabytes here, so that the flow
/// stays young for long enough.
#[test]
fn a_young_flow_has_nearly_all_until_it_is_old() {
    let flows = [flow(0, 0, 2, 4_000_000_000, Time::ZERO), flow(1, 1, 2, 4_000_000_000, ms(200))];
    let config = Config { young: Bytes::new(50_000_000), old: Bytes::new(100_000_000), ..config(K) };
    let setup = setup(funnel(2, 40));
    // 40 ms at 10 Gb/s are 50 MB. The flow has less because of slow start and of the growth in the first millisecond.
    let l2dct = delivered_between::<L2dct>(&config, &setup, &flows, ms(201), ms(240));
    assert!(l2dct[1] < 50e6 && l2dct[1] > 4.0 * l2dct[0], "{l2dct:?}");
    let late = delivered_between::<L2dct>(&config, &setup, &flows, ms(220), ms(240));
    assert!(late[1] > 20.0 * late[0], "{late:?}");
    let dctcp = delivered_between::<Dctcp>(&config, &setup, &flows, ms(201), ms(240));
    assert!(dctcp[1] < dctcp[0], "{dctcp:?}");
}

/// With the paper's age thresholds, a flow of 200 KiB beside an old one finishes earlier than under DCTCP, at the old one's cost.
#[test]
fn a_short_flow_beside_an_old_one_finishes_earlier_under_l2dct() {
    let flows = [flow(0, 0, 2, 4_000_000_000, Time::ZERO), flow(1, 1, 2, 204_800, ms(20))];
    let setup = SimSetup { time_limit: ms(30), ..setup(funnel(2, 40)) };
    let fct = |report: Report| report.records[1].received - ms(20);
    let dctcp = fct(run::<Dctcp>(&config(K), setup.clone(), flows.to_vec()));
    let l2dct = fct(run::<L2dct>(&config(K), setup, flows.to_vec()));
    assert!(l2dct.as_us_f64() < 0.85 * dctcp.as_us_f64(), "{l2dct}, DCTCP {dctcp}");
}

/// Marks occur exactly if ports mark and senders are ECN-capable: NewReno's packets are never marked, and `off` marks none.
#[test]
fn packets_are_marked_only_by_marking_ports_and_for_capable_senders() {
    fn marks<T: Transport<Config = Config>>(ecn: Marking) -> u64 {
        let port = EcnConfig { ecn, ..config(K).port };
        let setup = SimSetup { time_limit: ms(20), ..setup(funnel(2, 40)) };
        let report = run::<T>(&Config { port, ..config(K) }, setup, in_order(long(2, 0)));
        report.ports.iter().map(|port| port.marked_packets).sum()
    }
    assert_eq!(marks::<Tcp>(Marking::Port), 0);
    assert_eq!(marks::<Dctcp>(Marking::Off), 0);
    assert!(marks::<Dctcp>(Marking::Port) > 0);
    // With one class, the bytes of its queue are those of the port.
    assert_eq!(marks::<Dctcp>(Marking::Port), marks::<Dctcp>(Marking::Queue));
}

/// On an oversubscribed dumbbell, the port between the switches marks.
#[test]
fn a_port_between_switches_marks_like_a_port_to_a_host() {
    let network = topology::dumbbell(2, gbps(40), gbps(10), Duration::from_us(16), STORE);
    let link = network.path(NodeId(0), NodeId(2))[1];
    let flows = vec![flow(0, 0, 2, 4_000_000_000, Time::ZERO), flow(1, 1, 3, 4_000_000_000, Time::ZERO)];
    let setup = SimSetup { time_limit: ms(100), ..setup(network) };
    let (_, depth) = watch::<Dctcp, Depth>(&config(K), setup, flows, Depth::new(link, ms(20)));
    let peak = depth.extremes(Duration::from_ms(70))[0].1;
    assert!((K + 1..=K + 4).contains(&(peak / 1500)), "{peak} B");
}

/// DCTCP's windows of 10, 20, 40 and 67 packets leave pauses between bursts: a round trip takes 400 µs, and the last burst 80 µs. Flowlets are told apart by 250 µs, in which a port sends 208
/// packets, more than wait here. So no packet is overtaken, although flows use several paths. Where each packet takes another path, many are.
#[test]
fn flowlets_use_several_paths_in_order() {
    let network = topology::leaf_spine(2, 4, 4, gbps(10), gbps(10), Duration::from_us(50), STORE);
    let flows: Vec<Flow> = (0..4).map(|id| flow(id, id, id + 4, 200_000, Time::ZERO)).collect();
    let overtaken_and_paths = |routing: Routing| -> (usize, usize) {
        let setup = SimSetup { routing, ..setup(network.clone()) };
        let config = Config { fast_retransmit: FastRetransmit::Off, ..config(K) };
        let (report, log) = watch::<Dctcp, Log<Header>>(&config, setup, flows.clone(), Log::default());
        assert!(report.records.iter().all(|record| record.acknowledged != Time::MAX), "{routing:?}");
        let mut furthest = [0; 4];
        let mut overtaken = 0;
        for (_, _, packet) in log.arrived.iter().filter(|(_, _, packet)| packet.payload_bytes > 0) {
            let most = &mut furthest[packet.flow.0 as usize];
            overtaken += usize::from(packet.offset.get() < *most);
            *most = packet.offset.get().max(*most);
        }
        let uplinks =
            log.sent.iter().filter(|(_, link, packet)| packet.payload_bytes > 0 && network.hop_name(*link) == "leaf-spine");
        let used: std::collections::BTreeSet<(u32, u32)> = uplinks.map(|(_, link, packet)| (packet.flow.0, link.0)).collect();
        (overtaken, used.len())
    };
    let (overtaken, paths) = overtaken_and_paths(Routing::Flowlet(Duration::from_us(250)));
    assert!(overtaken == 0 && paths > 6, "{overtaken} packets were overtaken; four flows used {paths} uplinks");
    assert_eq!(overtaken_and_paths(Routing::Ecmp), (0, 4));
    assert!(overtaken_and_paths(Routing::SprayRandom).0 > 10);
}
