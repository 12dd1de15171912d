//! One link's flow list on hand-worked tables, and random packets.

use proptest::prelude::*;

use super::*;
use crate::pdq::Config;

const HERE: NodeId = NodeId(10);
const ELSEWHERE: NodeId = NodeId(11);
const GBPS: Rate = Rate::from_gbps(1);
const RTT: Duration = Duration::from_us(100);

fn us(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

/// One link, and the packets of flows that pass it.
struct Rig {
    link: Link,
    rules: LinkRules,
    waiting: Bytes,
    now: Time,
    kind: Kind,
}

impl Rig {
    fn new(config: &Config) -> Rig {
        let link = Link::new(HERE, GBPS, RTT);
        Rig { link, rules: config.link_rules(), waiting: Bytes::ZERO, now: Time::ZERO, kind: Kind::Probe }
    }
    fn at(&mut self, now_us: u64) -> &mut Rig {
        self.now = us(now_us);
        self
    }
    fn request(flow_us: u64) -> Request {
        Request {
            rate: GBPS,
            pauser: None,
            slowest: GBPS.into(),
            deadline: Time::MAX,
            transmission: Duration::from_us(flow_us),
            rtt: RTT.into(),
            early_start_rtt: RTT.into(),
            sent: Time::ZERO,
        }
    }
    fn pass(&mut self, flow: u32, mut request: Request) -> Request {
        self.link.forward(&self.rules, self.now, self.waiting, FlowId(flow), self.kind, &mut request);
        assert_eq!(request.pauser.is_some(), request.rate == Rate::default());
        request
    }
    /// The rate in Mb/s that a packet of a flow is promised; the flow needs `left_us` at the link's rate.
    fn ask(&mut self, flow: u32, left_us: u64) -> u64 {
        self.pass(flow, Rig::request(left_us)).rate.as_bps() / 1_000_000
    }
    fn answer(&mut self, flow: u32, mbps: u64, pauser: Option<NodeId>) -> Feedback {
        let pauser = pauser.map(Pauser::from);
        let rate = Rate::from_bps(mbps * 1_000_000);
        let mut feedback = Feedback { rate, pauser, probe_interval: Feedback::ROUND_TRIP, sent: Time::ZERO };
        self.link.reverse(&self.rules, self.now, FlowId(flow), &mut feedback);
        feedback
    }
    /// Asks, and lets the acknowledgement with the promised rate come back at once.
    fn settle(&mut self, flow: u32, left_us: u64) -> u64 {
        let mbps = self.ask(flow, left_us);
        self.answer(flow, mbps, (mbps == 0).then_some(HERE));
        mbps
    }
    fn flows(&self) -> Vec<u32> {
        self.link.list.iter().map(|entry| entry.flow.0).collect()
    }
}

fn undampened() -> Config {
    Config { dampening_rtts: 0.0, ..Config::default() }
}

#[test]
fn the_most_critical_flow_has_the_link_and_the_others_are_paused() {
    let mut rig = Rig::new(&undampened());
    assert_eq!(rig.settle(1, 5000), 1000);
    assert_eq!(rig.settle(2, 6000), 0);
    // A shorter one takes over. The longer learns it from its next packet.
    assert_eq!(rig.settle(3, 4000), 1000);
    assert_eq!(rig.settle(1, 4900), 0);
    assert_eq!(rig.flows(), [3, 1, 2]);
    rig.link.remove(FlowId(3));
    assert_eq!(rig.settle(2, 6000), 1000, "the next in the list is not known to be sending");
    assert_eq!(rig.settle(1, 4900), 1000);
    assert_eq!(rig.settle(2, 5900), 0);
}

#[test]
fn criticality_is_the_deadline_then_the_rest_of_the_flow_then_the_id() {
    let mut rig = Rig::new(&undampened());
    let with = |deadline, left_us| Request { deadline, ..Rig::request(left_us) };
    for (flow, deadline, left_us) in
        [(6, Time::MAX, 10), (5, Time::MAX, 20), (4, Time::MAX, 10), (3, us(900), 5), (2, us(800), 50), (1, us(900), 5)]
    {
        rig.pass(flow, with(deadline, left_us));
    }
    assert_eq!(rig.flows(), [2, 1, 3, 4, 6, 5]);
    // Flows move when they have sent.
    rig.pass(5, with(Time::MAX, 1));
    assert_eq!(rig.flows(), [2, 1, 3, 5, 4, 6]);
    rig.pass(2, with(Time::MAX, 100));
    assert_eq!(rig.flows(), [1, 3, 5, 4, 6, 2]);
}

#[test]
fn a_flow_that_is_paused_elsewhere_holds_no_rate_here() {
    let mut rig = Rig::new(&undampened());
    assert_eq!(rig.ask(1, 5000), 1000);
    // Its acknowledgement tells that a switch further on pauses it.
    let feedback = rig.answer(1, 1000, Some(ELSEWHERE));
    assert_eq!((feedback.rate, feedback.pauser), (Rate::default(), Some(ELSEWHERE.into())));
    assert!(rig.flows().is_empty());
    // Its probes pass without a change; the rate is for the pausing switch to decide.
    let paused = Request { pauser: Some(ELSEWHERE.into()), ..Rig::request(5000) };
    let mut passing = paused;
    rig.link.forward(&rig.rules, rig.now, rig.waiting, FlowId(1), Kind::Probe, &mut passing);
    assert_eq!(passing, paused);
    assert!(rig.flows().is_empty());
    // A probe also deletes it, if the acknowledgement was lost.
    assert_eq!(rig.settle(2, 5000), 1000);
    rig.link.forward(&rig.rules, rig.now, rig.waiting, FlowId(2), Kind::Probe, &mut passing);
    assert!(rig.flows().is_empty());
}

#[test]
fn a_promise_is_kept_until_the_acknowledgement_or_for_a_round_trip() {
    let mut rig = Rig::new(&undampened());
    assert_eq!(rig.ask(1, 5000), 1000);
    assert_eq!(rig.ask(2, 6000), 0);
    // The acknowledgement commits less, since another link has less.
    rig.answer(1, 300, None);
    assert_eq!(rig.at(99).ask(2, 6000), 0, "a later packet may have been promised more");
    assert_eq!(rig.at(100).ask(2, 6000), 700);
    assert_eq!(rig.link.committed, 300_000_000);
    // Without reservation, the second flow is promised what the first will use.
    let mut rig = Rig::new(&Config { reserve_promises: false, ..undampened() });
    assert_eq!([rig.ask(1, 5000), rig.ask(2, 6000)], [1000, 1000]);
    rig.answer(1, 1000, None);
    assert_eq!(rig.ask(2, 6000), 0);
}

/// By hand with K = 2 and a round trip of 100 us: flows with 150 and 40 us left use up 1.9 of the two round trips. The next, with 10 us
/// left, begins within the credit and is not counted either; one with 20 us is.
#[test]
fn nearly_finished_flows_do_not_count_up_to_two_round_trips() {
    let mut rig = Rig::new(&undampened());
    assert_eq!(rig.settle(1, 40), 1000);
    assert_eq!(rig.settle(2, 150), 1000, "after 0.4 round trips");
    assert_eq!(rig.settle(3, 10), 1000);
    assert_eq!(rig.flows(), [3, 1, 2]);
    assert_eq!(rig.settle(4, 160), 1000, "after 2.0 round trips of other flows, of which each began below 2");
    assert_eq!(rig.settle(5, 170), 0, "the credit is spent, so the flow with 160 us counts");
    // A flow that needs two round trips or more always counts.
    let mut rig = Rig::new(&undampened());
    assert_eq!([rig.settle(1, 200), rig.settle(2, 300)], [1000, 0]);
    assert_eq!([rig.settle(1, 199), rig.settle(2, 300)], [1000, 1000]);
    // Without early start every flow counts.
    let mut rig = Rig::new(&Config { early_start_rtts: 0.0, ..undampened() });
    assert_eq!([rig.settle(1, 1), rig.settle(2, 300)], [1000, 0]);
}

/// With K = 2, a flow with 350 us left ends within two round trips of 200 us, and not of 100 us.
#[test]
fn early_start_counts_in_the_round_trips_that_packets_carry_for_it() {
    let mut rig = Rig::new(&undampened());
    let [short, long] = [100, 200].map(|us| Duration::from_us(us).into());
    assert_eq!([rig.settle(1, 350), rig.settle(2, 400)], [1000, 0]);
    rig.pass(1, Request { rtt: long, early_start_rtt: short, ..Rig::request(350) });
    assert_eq!(rig.settle(2, 400), 0);
    rig.pass(1, Request { rtt: short, early_start_rtt: long, ..Rig::request(350) });
    assert_eq!(rig.settle(2, 400), 1000);
}

#[test]
fn after_a_flow_was_accepted_other_paused_ones_wait_for_the_dampening_time() {
    let mut rig = Rig::new(&Config { dampening_rtts: 0.5, ..Config::default() });
    assert_eq!(rig.settle(1, 5000), 1000);
    assert_eq!(rig.at(49).settle(2, 4000), 0, "although it is more critical");
    assert_eq!(rig.settle(1, 4990), 1000, "a sending flow is not dampened");
    assert_eq!(rig.at(50).settle(2, 4000), 1000);
    assert_eq!(rig.at(60).settle(3, 3000), 0);
    // It may try again in the meantime.
    assert_eq!(rig.settle(1, 4990), 0);
    assert_eq!(rig.at(100).settle(3, 3000), 1000);
}

/// Flow 2 sends, and a link further on pauses it for a moment. The acknowledgement takes its place here away, and its data on the way asks
/// for it again.
#[test]
fn data_on_the_way_is_not_dampened_and_does_not_dampen() {
    let mut rig = Rig::new(&Config { dampening_rtts: 0.5, ..Config::default() });
    assert_eq!(rig.settle(1, 9000), 1000);
    rig.link.remove(FlowId(1));
    rig.answer(2, 1000, Some(ELSEWHERE));
    for now_us in [20, 28, 36, 44] {
        rig.kind = Kind::Data;
        assert_eq!(rig.at(now_us).ask(2, 5000), 1000, "although flow 1 was accepted {now_us} us ago");
        rig.answer(2, 1000, Some(ELSEWHERE));
        rig.kind = Kind::Probe;
        assert_eq!(rig.ask(3, 6000), 0);
    }
    assert_eq!(rig.at(50).ask(3, 6000), 1000);
}

#[test]
fn a_little_rate_is_not_worth_starting_for() {
    let mut rig = Rig::new(&undampened());
    rig.ask(1, 5000);
    rig.answer(1, 905, None);
    assert_eq!(rig.at(1000).ask(2, 6000), 0);
    rig.answer(1, 895, None);
    assert_eq!(rig.ask(2, 6000), 105);
    rig.answer(2, 105, None);
    rig.answer(1, 950, None);
    assert_eq!(rig.at(2000).ask(2, 6000), 50, "a flow that sends may go on with less");
}

#[test]
fn a_full_list_evicts_the_least_critical_and_the_rest_share_what_is_left() {
    let mut rig = Rig::new(&Config { list_min: 2, ..undampened() });
    assert_eq!(rig.settle(1, 5000), 1000);
    assert_eq!(rig.settle(2, 6000), 0);
    // Not on the list, and nothing is left.
    assert_eq!(rig.settle(3, 7000), 0);
    assert_eq!(rig.flows(), [1, 2]);
    assert_eq!(rig.settle(4, 4000), 1000);
    assert_eq!(rig.flows(), [4, 1]);
    // Flow 4 is limited elsewhere, flow 1 is paused, and flow 3 gets the rest.
    assert_eq!(rig.settle(1, 5000), 0);
    rig.answer(4, 400, None);
    assert_eq!(rig.settle(3, 7000), 600);
    // Two flows that send make room for four.
    rig.at(1000);
    rig.settle(1, 5000);
    assert_eq!(rig.link.sending, 2);
    rig.settle(2, 6000);
    rig.settle(3, 7000);
    rig.settle(5, 8000);
    assert_eq!(rig.flows(), [4, 1, 2, 3]);
}

#[test]
fn the_probe_interval_grows_with_the_place_on_the_list() {
    let mut rig = Rig::new(&Config { list_min: 12, ..undampened() });
    for flow in 0..20 {
        rig.settle(flow, 1000 + u64::from(flow));
    }
    let interval = |rig: &mut Rig, flow| rig.answer(flow, 0, Some(HERE)).probe_interval;
    assert_eq!([1, 5, 6, 11].map(|flow| interval(&mut rig, flow)), [1000, 1000, 1200, 2200]);
    assert_eq!(interval(&mut rig, 19), 2400, "it is not on the list, and comes after all that are");
}

/// 5 kB are 40 kbit. Two round trips of 100 us take 200 Mb/s to drain them.
#[test]
fn the_rate_controller_drains_the_queue_in_two_round_trips() {
    let mut rig = Rig::new(&undampened());
    rig.waiting = Bytes::new(5000);
    assert_eq!(rig.settle(1, 5000), 800);
    rig.waiting = Bytes::ZERO;
    assert_eq!(rig.at(199).settle(1, 5000), 800);
    assert_eq!(rig.at(200).settle(1, 5000), 1000);
    rig.waiting = Bytes::new(100_000);
    assert_eq!(rig.at(400).settle(1, 5000), 0);
}

#[test]
fn a_silent_flow_is_forgotten_after_ten_of_its_probe_intervals() {
    let mut rig = Rig::new(&undampened());
    for flow in 0..21 {
        rig.settle(flow, 1000 + u64::from(flow));
    }
    // Flow 0 is heard again; then all are silent. Places 1 to 5 wait for 10 round trips, place 20 for 40.
    rig.at(500).settle(0, 1000);
    rig.at(1100).settle(0, 1000);
    assert_eq!(rig.flows(), [vec![0], (6..21).collect()].concat());
    rig.at(10_000).settle(99, 5000);
    assert_eq!(rig.flows(), [99]);
    assert_eq!((rig.link.sending, rig.link.committed), (1, 1_000_000_000));
}

/// RCP: alpha 0.1 of the spare capacity, beta 1 of the queue over a round trip.
#[test]
fn the_leftover_share_follows_spare_capacity_and_the_queue() {
    let rules = Config::default().link_rules();
    let mut leftover = Leftover { share: 5e8, arrived: 6250, since: Time::ZERO };
    // 6250 B in 100 us are 500 Mb/s: half is spare.
    leftover.update(&rules, us(100), GBPS, Bytes::ZERO, RTT);
    assert!((leftover.share - 5e8 * 1.05).abs() < 1.0, "{}", leftover.share);
    leftover.share = 5e8;
    leftover.arrived = 12_500;
    leftover.update(&rules, us(200), GBPS, Bytes::new(2500), RTT);
    assert!((leftover.share - 5e8 * 0.8).abs() < 1.0, "{}", leftover.share);
    leftover.update(&rules, us(300), GBPS, Bytes::new(1_000_000), RTT);
    assert!((leftover.share - 1e6).abs() < 1.0, "{}", leftover.share);
}

proptest! {
    /// Random packets of a dozen flows: the list is in order, its sums are right, and what is promised to a flow is at most what the more
    /// critical flows that count leave.
    #[test]
    fn the_list_is_sorted_and_its_sums_are_right(
        steps in prop::collection::vec((0_u8..8, 0_u32..12, 1_u64..1000, 0_u64..60), 1..300),
        list_min in 1_u32..8,
        reserve_promises in any::<bool>(),
    ) {
        let config = Config { list_min, reserve_promises, early_start_rtts: 0.0, ..Config::default() };
        let mut rig = Rig::new(&config);
        let mut now = 0;
        for (what, flow, left_us, pause_us) in steps {
            now += pause_us;
            rig.at(now);
            match what {
                0 => rig.link.remove(FlowId(flow)),
                1 => {
                    rig.answer(flow, left_us, None);
                }
                2 => {
                    rig.answer(flow, left_us, Some(if left_us % 2 == 0 { HERE } else { ELSEWHERE }));
                }
                _ => {
                    let promised = rig.ask(flow, left_us);
                    let at = rig.link.position(FlowId(flow));
                    let before = &rig.link.list[..at.unwrap_or(rig.link.list.len())];
                    let used: u64 = before.iter().map(|entry| entry.rate.as_bps()).sum();
                    prop_assert!(promised * 1_000_000 + used <= GBPS.as_bps() || promised == 0);
                }
            }
            prop_assert!(rig.link.list.windows(2).all(|pair| pair[0].key() < pair[1].key()));
            let sending = rig.link.list.iter().filter(|entry| entry.is_sending()).count();
            prop_assert_eq!(rig.link.sending as usize, sending);
            prop_assert_eq!(rig.link.committed, rig.link.list.iter().map(|entry| entry.rate.as_bps()).sum::<u64>());
            let mut flows = rig.flows();
            flows.sort_unstable();
            flows.dedup();
            prop_assert_eq!(flows.len(), rig.link.list.len());
        }
    }
}

/// A tenth of the link is 100 Mb/s, and a tenth of a slow NIC is 5 Mb/s. With 30 Mb/s left, a flow starts from the slow NIC, and not from a fast one.
#[test]
fn a_flow_from_a_slow_nic_is_accepted_with_a_share_of_its_nic() {
    let mut rig = Rig::new(&undampened());
    let mbps = |mbps: u64| Rate::from_bps(mbps * 1_000_000);
    let granted = |request: Request| request.rate.as_bps() / 1_000_000;
    let slow = |left_us| Request { rate: mbps(50), slowest: mbps(50).into(), ..Rig::request(left_us) };
    assert_eq!(granted(rig.pass(1, slow(5000))), 50);
    rig.answer(1, 50, None);
    assert_eq!(granted(rig.pass(2, Request { rate: mbps(920), ..Rig::request(6000) })), 920);
    rig.answer(2, 920, None);
    assert_eq!(granted(rig.pass(3, Rig::request(7000))), 0);
    assert_eq!(granted(rig.pass(4, slow(6500))), 30);
}
