//! TCP, DCTCP and what descends from it on networks: exact times alone, and the closed forms of what long flows do to a queue and to each
//! other.
//!
//! Hosts are faster than the bottleneck, but where a test says otherwise.

use flowloom_core::{Bytes, Duration, Flow, LinkId, Memory, Network, NodeId, Time, Transport, WireProfile, topology};
use flowloom_fabric::{Fault, PortCounters, Report, SimSetup};
use flowloom_transports::disciplines::{EcnConfig, Marking};
use flowloom_transports::las::Las;
use flowloom_transports::pias::Pias;
use flowloom_transports::tcp::{Config, D2tcp, Dctcp, EcnStar, L2dct, Tcp};

use crate::common::depth::Depth;
use crate::common::networks::{CUT, STORE, apart, flow, gbps, in_order, pairs, run, setup, shapes, watch, watch_faulty};

const WIRE: WireProfile = WireProfile::IP_1500;
const PACKET: f64 = 1500.0;
/// DCTCP's threshold for 10 Gb/s, in packets.
const K: u64 = 65;

fn ms(n: u64) -> Time {
    Time::ZERO + Duration::from_ms(n)
}

/// One link of 10 Gb/s to the last host, from so many at `gbps_in`; a round trip of 100 us less a packet's time or two.
fn funnel(senders: u32, gbps_in: u64) -> Network {
    funnel_of(senders, gbps_in, Duration::from_ps(24_384_000))
}

/// The same with another delay of each link.
fn funnel_of(senders: u32, gbps_in: u64, delay: Duration) -> Network {
    let mut network = Network::new(senders as usize + 1, STORE);
    let switch = network.add_switch(1, "switch", "s0");
    for host in 0..senders {
        network.connect(NodeId(host), switch, gbps(gbps_in), delay);
    }
    network.connect(NodeId(senders), switch, gbps(10), delay);
    network
}

/// The funnel's narrow link.
fn neck(network: &Network) -> LinkId {
    network.ports(NodeId(network.hosts() as u32 - 1))[0].reverse()
}

/// Packets on their way between the first and the last host when nothing waits: C·RTT.
fn bandwidth_delay(network: &Network) -> f64 {
    network.rtt(NodeId(0), NodeId(network.hosts() as u32 - 1), &WIRE).as_us_f64() / 1.2
}

/// A flow from each sender that does not end, some time after the other.
fn long(senders: u32, gap_us: u64) -> Vec<Flow> {
    let start = |host: u32| Time::ZERO + Duration::from_us(gap_us * u64::from(host));
    (0..senders).map(|host| flow(host, host, senders, 4_000_000_000, start(host))).collect()
}

/// Marks above `threshold` packets, and windows that only marks and losses hold.
fn config(threshold: u64) -> Config {
    let port = EcnConfig { mark_above: Bytes::new(threshold * 1500), ..EcnConfig::default() };
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

/// What each flow delivered between two instants: a run is the same as far as it goes.
fn delivered_between<T: Transport>(config: &T::Config, setup: &SimSetup, flows: &[Flow], from: Time, to: Time) -> Vec<f64> {
    let until = |time_limit| delivered(&run::<T>(config, SimSetup { time_limit, ..setup.clone() }, flows.to_vec()));
    until(to).iter().zip(until(from)).map(|(after, before)| after - before).collect()
}

/// Jain's index of fairness: 1 where all are equal, 1/n where one has everything.
fn jain(shares: &[f64]) -> f64 {
    shares.iter().sum::<f64>().powi(2) / (shares.iter().map(|share| share * share).sum::<f64>() * shares.len() as f64)
}

/// Alone, a flow keeps its narrowest link busy from its first packet on: windows exceed the bandwidth-delay product, and what marks at
/// its own port take of them is less than what waits there.
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
                // In a slow middle, the last answer waits for the one before it.
                let answer = record.acknowledged - record.received;
                let least = network.packet_time(&back, WIRE.control);
                assert!(answer == least || (name == "slow dumbbell" && answer > least && answer < least * 2), "{what}");
                assert_eq!((record.retransmissions, record.timeouts), (0, 0), "{what}");
            }
        }
    }
}

/// LAS has pFabric's fixed timeout, which a slow middle's queue exceeds.
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

/// N flows of DCTCP (M. Alizadeh et al., SIGCOMM 2010, §3.3): the queue rises to K + N, since each flow's window grows by one more packet
/// before it learns of the first mark, and swings by A = ½ sqrt(2N(C·RTT + K)). Flows out of step make the swing of
/// their sum larger than that of the theory, where they are in step. With 40 flows a window is below four packets, at the
/// edge of where the theory means anything; it still holds within the same bounds.
#[test]
fn dctcps_queue_peaks_at_k_plus_n_and_swings_as_the_theory_says() {
    for senders in [2, 10, 40] {
        let network = funnel(senders, 40);
        let (link, n) = (neck(&network), f64::from(senders));
        let most = bandwidth_delay(&network) + K as f64;
        let window = most / n;
        // A sawtooth's length, in round trips of a full queue.
        let period = Duration::from_ns(1200).scale(most).scale((window + 1.0) * (2.0 / window).sqrt() / 2.0);
        // A small initial window, so that all start within the port's memory.
        let config = Config { initial_window: 2, ..config(K) };
        let setup = SimSetup { memory: Memory::PerPort(Bytes::new(360_000)), time_limit: ms(200), ..setup(network) };
        let (report, depth) = watch::<Dctcp, Depth>(&config, setup, long(senders, 37), Depth::new(link, ms(50)));
        assert_eq!((drops(&report), timeouts(&report)), (0, 0));
        let extremes = depth.extremes(period * 2);
        let peak = extremes.iter().map(|(_, most)| *most).max().expect("spans") as f64 / PACKET;
        assert!((peak - K as f64 - n).abs() <= 2.0, "{senders} flows: the peak is {peak}");
        let swings = extremes.iter().map(|(least, most)| (most - least) as f64 / PACKET).sum::<f64>() / extremes.len() as f64;
        let theory = 0.5 * (2.0 * n * most).sqrt();
        assert!((0.7..1.3).contains(&(swings / theory)), "{senders} flows: swings by {swings:.1}, {theory:.1} in theory");
    }
}

/// Two flows, 10 Gb/s, 100 us: DCTCP holds the queue below K and the link busy; TCP fills whatever memory there is. Hosts as
/// fast as the bottleneck or faster.
#[test]
fn dctcp_keeps_the_link_busy_with_a_short_queue_and_tcp_fills_the_memory() {
    for gbps_in in [10, 40] {
        let network = funnel(2, gbps_in);
        let link = neck(&network);
        let buffer = Bytes::new(3_600_000);
        let setup = SimSetup { memory: Memory::PerPort(buffer), time_limit: ms(150), ..setup(network) };
        let (report, depth) = watch::<Dctcp, Depth>(&config(K), setup.clone(), long(2, 37), Depth::new(link, ms(20)));
        let mean = depth.mean() / PACKET;
        assert!((K as f64 / 2.0..=K as f64 + 2.0).contains(&mean), "{mean} packets");
        assert_eq!(drops(&report), 0);
        // From the first packet on, with a tenth of a millisecond until it is there.
        let used = report.ports[link.index()].bytes() as f64 * 8.0 / 10e9 / 0.15;
        assert!(used > 0.99, "{used}");

        let line = bandwidth_delay(&setup.network);
        let (report, depth) = watch::<Tcp, Depth>(&config(K), setup, long(2, 37), Depth::new(link, ms(60)));
        assert!(drops(&report) > 0);
        assert!(report.ports[link.index()].peak_bytes > buffer.get() - 1500);
        // Both lost packets when slow start filled the memory. What halved windows leave of it stays.
        let (least, _) = depth.extremes(Duration::from_ms(80))[0];
        let left = (buffer.get() as f64 / PACKET - line) / 2.0;
        assert!((left..1.2 * left).contains(&(least as f64 / PACKET)), "{least} B, {left} packets in theory");
    }
}

/// One flow of ECN*: the window saws between W/2 and W = P + K + 1, where P fills the line. It grows by one packet per round trip of
/// W/C, so W² is linear in time: if K >= P, the mean queue is 7/9 W - P; else the line idles for a part of each tooth.
#[test]
fn ecn_star_saws_between_half_a_window_and_a_full_one() {
    for threshold in [20, 40, 65, 100, 130, 200] {
        let network = funnel(1, 40);
        let (link, line) = (neck(&network), bandwidth_delay(&network));
        let setup = SimSetup { time_limit: ms(300), ..setup(network) };
        let from = ms(50);
        let (report, depth) = watch::<EcnStar, Depth>(&config(threshold), setup, long(1, 0), Depth::new(link, from));
        let (least, most) = depth.extremes(Duration::from_ms(240))[0];
        assert_eq!(most, (threshold + 1) * 1500, "K = {threshold}");
        let top = line + threshold as f64 + 1.0;
        let used = report.ports[link.index()].bytes() as f64 * 8.0 / 10e9 / 0.3;
        if top / 2.0 >= line {
            let (mean, bottom) = (7.0 / 9.0 * top - line, top / 2.0 - line);
            assert!((depth.mean() / PACKET - mean).abs() < 1.5, "K = {threshold}: {:.1}, not {mean:.1}", depth.mean() / PACKET);
            assert!((least as f64 / PACKET - bottom).abs() < 1.5, "K = {threshold}: {least} B, not {bottom:.1} packets");
            assert!(used > 0.999, "K = {threshold}: {used}");
        } else {
            // Per tooth: 3/8 W² packets; a round trip for each packet of window below P, W/P of one above.
            let trips = line - top / 2.0 + (top * top - line * line) / (2.0 * line);
            let expected = 0.375 * top * top / line / trips;
            assert!((used - expected).abs() < 0.015, "K = {threshold}: {used:.4}, not {expected:.4}");
        }
    }
}

/// Forty senders of 32 kB at once. What a port holds at most is what all windows hold at first, less what leaves while it comes: marks let
/// nothing grow. Up to the port's memory nothing is lost; beyond, exactly the rest is.
#[test]
fn an_incast_loses_what_the_initial_windows_have_too_much() {
    for senders in [10, 20, 25, 27, 30, 40] {
        let network = funnel(senders, 10);
        let flows = (0..senders).map(|host| flow(host, host, senders, 32_000, Time::ZERO)).collect();
        let report = run::<Dctcp>(
            &config(K),
            SimSetup { memory: Memory::PerPort(Bytes::new(360_000)), ..setup(network.clone()) },
            flows,
        );
        // Ten slots, in which each sender puts ten packets into the port and the port sends as many.
        let most = u64::from(senders) * 10 - 10;
        assert_eq!(report.ports[neck(&network).index()].peak_bytes, most.min(240) * 1500, "{senders} senders");
        assert_eq!(drops(&report), most.saturating_sub(240), "{senders} senders");
        if most <= 240 {
            assert_eq!(timeouts(&report), 0);
        }
    }
}

/// TCP lets windows grow and so loses packets where DCTCP does not; and with Linux's least timeout the end waits for that.
#[test]
fn an_incast_that_dctcp_stands_costs_tcp_a_timeout() {
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

/// Jain's index of five flows over DCTCP and ECN*. Hosts as fast as the bottleneck too: packets of several flows then reach it at the same
/// instants again and again.
#[test]
fn equal_flows_share_equally_where_ports_mark() {
    fn check<T: Transport<Config = Config>>(least: f64) {
        for (gbps_in, gap_us) in [10, 40].into_iter().flat_map(|gbps_in| [0, 37, 333].map(|gap_us| (gbps_in, gap_us))) {
            let setup =
                SimSetup { memory: Memory::PerPort(Bytes::new(3_600_000)), time_limit: ms(1000), ..setup(funnel(5, gbps_in)) };
            let shares = delivered(&run::<T>(&config(K), setup, long(5, gap_us)));
            assert!(jain(&shares) > least, "{}, {gbps_in} Gb/s, {gap_us} us: {shares:?}", T::NAME);
        }
    }
    check::<Dctcp>(0.99);
    check::<EcnStar>(0.999);
}

/// Two flows over drop-tail, with memory for a round trip. Hosts that are faster than the bottleneck both lose a packet each time that the memory
/// overflows, so that their windows saw together: within 1 % of each other in a second.
#[test]
fn two_equal_flows_share_drop_tail_equally() {
    for gap_us in [0, 37, 333] {
        let setup = SimSetup { memory: Memory::PerPort(Bytes::new(150_000)), ..setup(funnel(2, 40)) };
        let shares = delivered_between::<Tcp>(&config(K), &setup, &long(2, gap_us), ms(50), ms(750));
        assert!((0.99..1.01).contains(&(shares[0] / shares[1])), "{gap_us} us: {shares:?}");
    }
}

/// Where hosts are as fast as the bottleneck, ties between their packets decide who loses one, and a packet that is lost twice waits for the timer.
/// So one run's shares are a sample: over runs from different starts, the logarithm of their ratio spreads by some percent, and its mean is
/// zero within three standard errors, which are small enough to see a difference of 5 %.
#[test]
fn two_equal_flows_share_drop_tail_equally_on_average_where_ties_decide() {
    let rto = Duration::from_ms(2);
    let config = Config { rto_min: rto, rto_initial: rto, ..config(K) };
    let ratios: Vec<f64> = (0..12)
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

/// Where losses are random, a flow's rate goes with 1/RTT.
#[test]
fn rates_go_with_the_inverse_of_the_round_trip() {
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

/// How many times as much a flow of urgency e sends as one of urgency d, if both windows reach C·RTT + K together. In a period of T round
/// trips, of which the last is marked, a window grows by T - 1 and is cut once: W·p/2 = T - 1, where p is α^d. Its mean is W(1 - p/4), so
/// that the share of its packets that are marked is α = 1/(T(1 - p/4)).
fn d2tcp_ratio(most: f64, d: f64, e: f64) -> f64 {
    // Window and mean window of a flow.
    let windows = |period: f64, urgency: f64| {
        let alpha = (0..100).fold(0.5_f64, |alpha, _| (1.0 / (period * (1.0 - alpha.powf(urgency) / 4.0))).min(1.0));
        let penalty = alpha.powf(urgency);
        let window = 2.0 * (period - 1.0) / penalty;
        (window, window * (1.0 - penalty / 4.0))
    };
    let (mut low, mut high) = (1.5, 1000.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if windows(middle, d).0 + windows(middle, e).0 < most { low = middle } else { high = middle }
    }
    windows(low, e).1 / windows(low, d).1
}

/// One deadline is so far away that the least urgency holds, the other so near that the most does. The theory counts parts of packets,
/// which matters to the polite flow, whose window is a dozen.
#[test]
fn urgent_flows_have_the_larger_share() {
    let network = funnel(2, 40);
    let most = bandwidth_delay(&network) + K as f64;
    let mut before = 0.9;
    for (least, highest) in [(1.0, 1.0), (0.8, 1.25), (0.5, 1.0), (1.0, 2.0), (0.5, 2.0)] {
        let mut flows = long(2, 37);
        flows[0].deadline = Some(ms(1_000_000));
        flows[1].deadline = Some(ms(700));
        let config = Config { urgency_min: least, urgency_max: highest, ..config(K) };
        let shares = delivered_between::<D2tcp>(&config, &setup(network.clone()), &flows, ms(100), ms(500));
        let (ratio, expected) = (shares[1] / shares[0], d2tcp_ratio(most, least, highest));
        println!("{least} {highest} {ratio} {expected}");
        assert!(ratio > before, "{least} and {highest}: {ratio}, not above {before}");
        assert!((0.85..1.2).contains(&(ratio / expected)), "{least} and {highest}: {ratio:.2}, {expected:.2} in theory");
        before = ratio;
    }
}

/// An old flow of L2DCT makes way for a young one: with weights of 2.5 and 1/8, equilibrium leaves it less than a packet of window. DCTCP
/// does not tell them apart, and takes long to share. Ages are in megabytes here, so that youth lasts.
#[test]
fn a_young_flow_has_nearly_all_until_it_is_old() {
    let flows = [flow(0, 0, 2, 4_000_000_000, Time::ZERO), flow(1, 1, 2, 4_000_000_000, ms(200))];
    let config = Config { young: Bytes::new(50_000_000), old: Bytes::new(100_000_000), ..config(K) };
    let setup = setup(funnel(2, 40));
    // At 10 Gb/s, 40 ms are 50 MB; slow start and the first millisecond's growth take some time.
    let l2dct = delivered_between::<L2dct>(&config, &setup, &flows, ms(201), ms(240));
    assert!(l2dct[1] < 50e6 && l2dct[1] > 4.0 * l2dct[0], "{l2dct:?}");
    let late = delivered_between::<L2dct>(&config, &setup, &flows, ms(220), ms(240));
    assert!(late[1] > 20.0 * late[0], "{late:?}");
    let dctcp = delivered_between::<Dctcp>(&config, &setup, &flows, ms(201), ms(240));
    assert!(dctcp[1] < dctcp[0], "{dctcp:?}");
}

/// With the paper's ages: a flow of 200 KiB that meets an old one ends sooner than under DCTCP, at the old one's cost.
#[test]
fn a_short_flow_ends_sooner_beside_an_old_one_under_l2dct() {
    let flows = [flow(0, 0, 2, 4_000_000_000, Time::ZERO), flow(1, 1, 2, 204_800, ms(20))];
    let setup = SimSetup { time_limit: ms(30), ..setup(funnel(2, 40)) };
    let fct = |report: Report| report.records[1].received - ms(20);
    let dctcp = fct(run::<Dctcp>(&config(K), setup.clone(), flows.to_vec()));
    let l2dct = fct(run::<L2dct>(&config(K), setup, flows.to_vec()));
    assert!(l2dct.as_us_f64() < 0.85 * dctcp.as_us_f64(), "{l2dct}, DCTCP {dctcp}");
}

/// Every mechanism that is configured is used, or known not to be: NewReno's packets pass a threshold unmarked, and `off` marks none.
#[test]
fn marks_are_made_where_ports_make_them_and_senders_understand_them() {
    fn marks<T: Transport<Config = Config>>(ecn: Marking) -> u64 {
        let port = EcnConfig { ecn, ..config(K).port };
        let setup = SimSetup { time_limit: ms(20), ..setup(funnel(2, 40)) };
        let report = run::<T>(&Config { port, ..config(K) }, setup, in_order(long(2, 0)));
        report.ports.iter().map(|port| port.marked_packets).sum()
    }
    assert_eq!(marks::<Tcp>(Marking::Port), 0);
    assert_eq!(marks::<Dctcp>(Marking::Off), 0);
    assert!(marks::<Dctcp>(Marking::Port) > 0);
    // One class: its bytes are the port's.
    assert_eq!(marks::<Dctcp>(Marking::Port), marks::<Dctcp>(Marking::Queue));
}

/// The same on an oversubscribed dumbbell, where what marks is a switch between switches.
#[test]
fn a_link_between_switches_marks_as_one_to_a_host_does() {
    let network = topology::dumbbell(2, gbps(40), gbps(10), Duration::from_us(16), STORE);
    let link = network.path(NodeId(0), NodeId(2))[1];
    let flows = vec![flow(0, 0, 2, 4_000_000_000, Time::ZERO), flow(1, 1, 3, 4_000_000_000, Time::ZERO)];
    let setup = SimSetup { time_limit: ms(100), ..setup(network) };
    let (_, depth) = watch::<Dctcp, Depth>(&config(K), setup, flows, Depth::new(link, ms(20)));
    let peak = depth.extremes(Duration::from_ms(70))[0].1;
    assert!((K + 1..=K + 4).contains(&(peak / 1500)), "{peak} B");
}
