//! Arbitrators at switches, by hand: messages between control endpoints, without hosts and without a network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flowloom_core::{
    Bytes, Duration, Endpoint, FlowId, LinkId, NodeId, Packet, Paths, Rate, Routing, Switching, Time, WireProfile, topology,
};
use proptest::prelude::*;

use crate::pase::config::Spans;
use crate::pase::messages::Messages;
use crate::pase::{Asking, Config, Control, Course, Half, Header, Kbps, Request, Share, Stamp};
use crate::toolkit::Framing;

const WIRE: WireProfile = WireProfile::NS2_1000;
/// Every message takes this long.
const HOP: Duration = Duration::from_us(30);

fn us(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

/// The fate of a message: the delays after which it arrives, none if it is lost.
type Fates = Box<dyn FnMut() -> Vec<Duration>>;

/// The switches of the paper's tree with two hosts in each rack. Hosts 0 to 7, top-of-rack switches 8 to 11, aggregation switches 12 and
/// 13, core 14. The test plays the hosts.
struct Fleet {
    config: Config,
    paths: Paths,
    spans: Spans,
    now: Time,
    switches: BTreeMap<NodeId, Control>,
    wire: BTreeMap<(Time, u32), Packet<Header>>,
    sent: u32,
    fates: Fates,
    /// Messages between switches and to hosts, as they were sent.
    log: Vec<(Time, Packet<Header>)>,
    /// The last share that each half of each flow got, and when.
    answers: BTreeMap<Course, (Time, Share)>,
}

impl Fleet {
    fn new(config: Config) -> Fleet {
        let gbps = Rate::from_gbps;
        let delay = Duration::from_us(25);
        let network = topology::three_tier(4, 2, 2, gbps(1), gbps(10), gbps(10), delay, Switching::StoreAndForward);
        let mut spans = Spans::new(&config, network.base_rtt(&WIRE), &WIRE).unwrap();
        spans.delegation = Duration::from_ms(1); // a round number for tables by hand
        let mut fleet = Fleet {
            config,
            paths: Paths::new(Arc::new(network), Routing::Ecmp, 1),
            spans,
            now: Time::ZERO,
            switches: BTreeMap::new(),
            wire: BTreeMap::new(),
            sent: 0,
            fates: Box::new(|| vec![HOP]),
            log: Vec::new(),
            answers: BTreeMap::new(),
        };
        (8..15).for_each(|switch| fleet.restart(NodeId(switch)));
        fleet
    }

    /// A switch comes back empty.
    fn restart(&mut self, node: NodeId) {
        let messages = self.messages(node);
        let control = Control::new(&self.config, node, &self.spans, self.paths.clone(), messages);
        self.switches.insert(node, control);
    }

    fn messages(&self, node: NodeId) -> Messages {
        Messages::new(Framing::new(node, &WIRE), Bytes::new(64), &WIRE)
    }

    fn stamp(&self) -> Stamp {
        Stamp::new(self.now, self.spans.period)
    }

    fn send(&mut self, packet: Packet<Header>) {
        self.log.push((self.now, packet));
        for delay in (self.fates)() {
            self.sent += 1;
            self.wire.insert((self.now + delay, self.sent), packet);
        }
    }

    /// A host asks for half of a flow's path. Nothing is asked if this half ends at its own link.
    fn ask(&mut self, course: Course, key: u32, gbps: u64) {
        if let Some(parent) = course.parent(&self.paths, course.host()) {
            let asking = Asking::from(Request { key, demand: Rate::from_gbps(gbps) });
            self.send(self.messages(course.host()).ask(course, parent, self.stamp(), asking, Share::FREE));
        }
    }

    fn leave(&mut self, course: Course) {
        if let Some(parent) = course.parent(&self.paths, course.host()) {
            self.send(self.messages(course.host()).leave(course, parent, self.stamp()));
        }
    }

    fn run(&mut self, until: Time) {
        loop {
            let arrival = self.wire.first_key_value().map(|((at, _), _)| *at);
            let timer = self.switches.iter().filter_map(|(node, control)| Some((control.poll_timeout()?, *node))).min();
            let next = arrival.into_iter().chain(timer.map(|(at, _)| at)).min();
            let Some(next) = next.filter(|at| *at <= until) else { break };
            assert!(next >= self.now);
            self.now = next;
            let node = if arrival == Some(next) {
                let (_, packet) = self.wire.pop_first().unwrap();
                if let Header::Share { half, src, dst, queue, rate, .. } = packet.header
                    && packet.dst.index() < 8
                {
                    let course = Course { flow: packet.flow, src, dst, half };
                    self.answers.insert(course, (next, Share { queue, rate: rate.into() }));
                    continue;
                }
                let Some(control) = self.switches.get_mut(&packet.dst) else { panic!("{packet:?}") };
                control.handle_packet(next, &packet);
                packet.dst
            } else {
                let (_, node) = timer.unwrap();
                self.switches.get_mut(&node).unwrap().handle_timeout(next);
                node
            };
            while let Some(packet) = self.switches.get_mut(&node).unwrap().poll_transmit(next) {
                self.send(packet);
            }
        }
        self.now = until;
    }

    /// The flows that the arbitrator of a link knows, and their shares.
    fn list(&mut self, switch: NodeId, link: LinkId, flows: &[Course]) -> BTreeMap<FlowId, Share> {
        let Some(arbiter) = self.switches[&switch].arbiter(link) else { return BTreeMap::new() };
        flows.iter().filter_map(|course| Some((course.flow, arbiter.share(course.flow)?))).collect()
    }
}

fn up(flow: u32, src: u32, dst: u32) -> Course {
    Course { flow: FlowId(flow), src: NodeId(src), dst: NodeId(dst), half: Half::Source }
}
fn down(flow: u32, src: u32, dst: u32) -> Course {
    Course { half: Half::Destination, ..up(flow, src, dst) }
}

fn undelegated() -> Config {
    Config { delegation: false, pruning_depth: 8, ..Config::default() }
}

/// What was sent: when in microseconds, from and to which node, and the kind of message.
fn told(fleet: &Fleet) -> Vec<(u64, u32, u32, &'static str)> {
    let kind = |header: &Header| match header {
        Header::Ask { .. } => "ask",
        Header::Share { .. } => "share",
        Header::Leave { .. } => "leave",
        Header::Report { .. } => "report",
        Header::Capacity { .. } => "capacity",
        _ => "data",
    };
    let line =
        |(at, packet): &(Time, Packet<Header>)| (at.as_ps() / 1_000_000, packet.src.0, packet.dst.0, kind(&packet.header));
    fleet.log.iter().map(line).collect()
}

fn share(queue: u8, gbps: u64) -> Share {
    Share { queue, rate: Rate::from_gbps(gbps) }
}

/// Requests go up to the arbitrator of the topmost link, and the answer comes down the same way (figure 5).
#[test]
fn requests_climb_both_halves_and_answers_descend() {
    let mut fleet = Fleet::new(undelegated());
    fleet.ask(up(1, 0, 7), 5, 1);
    fleet.run(us(500));
    assert_eq!(told(&fleet), [(0, 0, 8, "ask"), (30, 8, 12, "ask"), (60, 12, 8, "share"), (90, 8, 0, "share")]);
    assert_eq!(fleet.answers[&up(1, 0, 7)].1, share(0, 10));
    fleet.log.clear();
    fleet.ask(down(1, 0, 7), 5, 1);
    fleet.run(us(1000));
    assert_eq!(told(&fleet), [(500, 7, 11, "ask"), (530, 11, 13, "ask"), (560, 13, 11, "share"), (590, 11, 7, "share")]);
    // Under one aggregation switch, the top-of-rack switch is the topmost arbitrator. Within a rack, there is none above the host.
    fleet.log.clear();
    fleet.ask(up(2, 0, 2), 5, 1);
    fleet.ask(up(3, 0, 1), 5, 1);
    fleet.run(us(2000));
    assert_eq!(told(&fleet), [(1000, 0, 8, "ask"), (1030, 8, 0, "share")]);
}

/// The answer is the least rest and the lowest queue of all links. The link of the first rack has 10 Gb/s; four flows of the second rack have
/// taken 8 Gb/s of the link to the core.
#[test]
fn the_answer_combines_all_links() {
    let mut fleet = Fleet::new(undelegated());
    for flow in 0..2 {
        fleet.ask(up(flow, 2, 6), 1, 4);
    }
    fleet.ask(up(5, 0, 7), 9, 3);
    fleet.ask(up(6, 1, 7), 10, 3);
    fleet.run(us(500));
    assert_eq!(fleet.answers[&up(5, 0, 7)].1, share(0, 2));
    let last = fleet.answers[&up(6, 1, 7)].1;
    assert_eq!((last.queue, last.rate), (1, Rate::from(Kbps::from(fleet.spans.base_rate))));
}

#[test]
fn a_processing_delay_is_waited_for_at_each_arbitrator() {
    let mut fleet = Fleet::new(Config { processing_delay: Duration::from_us(100), ..undelegated() });
    fleet.ask(up(1, 0, 7), 5, 1);
    fleet.run(us(1000));
    assert_eq!(told(&fleet), [(0, 0, 8, "ask"), (130, 8, 12, "ask"), (260, 12, 8, "share"), (290, 8, 0, "share")]);
}

/// A flow in the third queue of its top-of-rack switch is pruned: it gets this switch's answer. Once it has been passed on, the arbitrator
/// above is told to forget it.
#[test]
fn flows_below_the_depth_are_pruned_and_leave_the_arbitrators_above() {
    let mut fleet = Fleet::new(Config { delegation: false, ..Config::default() });
    let last = up(9, 0, 7);
    fleet.ask(last, 9, 10);
    fleet.run(us(200));
    let core_link = last.climb::<1>(&fleet.paths, NodeId(12))[0].unwrap().link;
    assert!(fleet.switches[&NodeId(12)].arbiter(core_link).is_some_and(|it| it.len() == 1));
    fleet.log.clear();
    for flow in 1..3 {
        fleet.ask(up(flow, 1, 7), flow, 10);
    }
    fleet.ask(last, 9, 10);
    fleet.run(us(400));
    let asks = told(&fleet).into_iter().filter(|(_, from, _, kind)| (*from, *kind) == (8, "ask")).count();
    assert_eq!(asks, 2, "the flows in the first two queues");
    assert!(told(&fleet).contains(&(230, 8, 12, "leave")));
    assert_eq!(fleet.answers[&last].1.queue, 2);
    assert_eq!(fleet.answers[&last].0, us(260) + Duration::from_ps(1));
    let known = fleet.list(NodeId(12), core_link, &[last, up(1, 1, 7), up(2, 1, 7)]);
    assert_eq!(known.into_keys().collect::<Vec<_>>(), [FlowId(1), FlowId(2)]);
    // Nothing more is said about a flow that stays pruned.
    fleet.log.clear();
    fleet.ask(last, 9, 10);
    fleet.run(us(600));
    assert_eq!(told(&fleet), [(400, 0, 8, "ask"), (430, 8, 0, "share")]);
}

/// With delegation, the top-of-rack switch answers for the link to the core, of which it has half at first.
#[test]
fn a_delegated_link_is_answered_for_at_once() {
    let mut fleet = Fleet::new(Config::default());
    for flow in 0..4 {
        fleet.ask(up(flow, flow % 2, 7), flow, 2);
    }
    fleet.run(us(100));
    assert!(told(&fleet).iter().all(|(_, from, to, _)| *from.max(to) <= 8), "{:?}", told(&fleet));
    let shares: Vec<Share> = (0..4).map(|flow| fleet.answers[&up(flow, flow % 2, 7)].1).collect();
    // Of 5 Gb/s, each flow claims 2.
    assert_eq!(shares[..3], [share(0, 5), share(0, 3), share(0, 1)]);
    assert_eq!(shares[3].queue, 1);
    // A flow that stays below the aggregation switch does not use that link.
    fleet.ask(up(9, 0, 2), 99, 2);
    fleet.run(us(200));
    assert_eq!(fleet.answers[&up(9, 0, 2)].1, share(0, 2));
}

/// By hand. After a period the switches report 8 and 2 Gb/s, so they get 8 and 2 of the 10 Gb/s. When all have left, they say so once.
#[test]
fn shares_of_a_delegated_link_follow_the_demands() {
    let mut fleet = Fleet::new(Config::default());
    let flows: Vec<Course> = (0..4).map(|flow| up(flow, 0, 7)).chain([up(9, 2, 7)]).collect();
    let link = flows[0].climb::<1>(&fleet.paths, NodeId(12))[0].unwrap().link;
    for turn in 0..5 {
        for course in &flows {
            fleet.ask(*course, course.flow.0, 2);
        }
        fleet.run(us(300 * (turn + 1)));
    }
    let delegated: Vec<_> = told(&fleet).into_iter().filter(|(.., kind)| matches!(*kind, "report" | "capacity")).collect();
    assert_eq!(
        delegated,
        [(1000, 8, 12, "report"), (1000, 9, 12, "report"), (1030, 12, 8, "capacity"), (1030, 12, 9, "capacity")]
    );
    let rates = fleet.log.iter().filter_map(|(_, packet)| match packet.header {
        Header::Capacity { link: of, rate, .. } => Some((packet.dst.0, of == link, rate)),
        _ => None,
    });
    assert_eq!(rates.collect::<Vec<_>>(), [(8, true, Kbps(8_000_000)), (9, true, Kbps(2_000_000))]);
    let shares: Vec<Share> = flows.iter().map(|course| fleet.answers[course].1).collect();
    assert_eq!(shares, [8, 6, 4, 2, 2].map(|rest| share(0, rest)));
    flows.iter().for_each(|course| fleet.leave(*course));
    fleet.log.clear();
    fleet.run(us(9000));
    let reports = fleet.log.iter().filter(|(_, packet)| matches!(packet.header, Header::Report { .. })).count();
    assert_eq!(reports, 2);
    assert!(fleet.switches.values().all(|control| control.known_flows() == 0 && control.poll_timeout().is_none()));
}

#[test]
fn a_switch_that_has_restarted_knows_its_flows_again_after_a_period() {
    for config in [undelegated(), Config::default()] {
        let mut fleet = Fleet::new(config);
        let flows: Vec<Course> = (0..3).map(|flow| up(flow, 0, 7)).collect();
        let mut before = Vec::new();
        for turn in 0..20 {
            if turn == 10 {
                before = flows.iter().map(|course| fleet.answers[course].1).collect();
                fleet.restart(NodeId(8));
                fleet.restart(NodeId(12));
            }
            for course in &flows {
                fleet.ask(*course, course.flow.0, 2);
            }
            fleet.run(us(300 * (turn + 1)));
        }
        let after: Vec<Share> = flows.iter().map(|course| fleet.answers[course].1).collect();
        assert_eq!(before, after);
    }
}

/// The last request of a flow takes 5 ms, and its leave overtakes it: the flow is not known again. A flow that comes back later is.
#[test]
fn a_flow_that_has_left_is_not_brought_back_by_a_late_request() {
    let mut fleet = Fleet::new(undelegated());
    let flow = up(1, 0, 7);
    let mut delays = [HOP, Duration::from_ms(5)].into_iter();
    fleet.fates = Box::new(move || vec![delays.next().unwrap_or(HOP)]);
    let known = |fleet: &Fleet| [8, 12].map(|switch| fleet.switches[&NodeId(switch)].known_flows());
    fleet.ask(flow, 5, 1);
    fleet.ask(flow, 4, 1);
    fleet.run(us(400));
    assert_eq!(known(&fleet), [1, 1]);
    fleet.leave(flow);
    fleet.run(us(5500));
    assert_eq!(known(&fleet), [0, 0]);
    fleet.ask(flow, 3, 1);
    fleet.run(us(6000));
    assert_eq!(known(&fleet), [1, 1]);
}

/// A request that a more recent one has overtaken changes nothing: a flow with 9 left, and then 2, ranks before one with 5.
#[test]
fn a_late_request_does_not_replace_a_more_recent_one() {
    let mut fleet = Fleet::new(undelegated());
    let mut delays = [Duration::from_ms(1), HOP].into_iter();
    fleet.fates = Box::new(move || vec![delays.next().unwrap_or(HOP)]);
    fleet.ask(up(1, 0, 7), 9, 10);
    fleet.run(us(700));
    fleet.ask(up(1, 0, 7), 2, 10);
    fleet.run(us(1200));
    fleet.ask(up(2, 1, 7), 5, 10);
    fleet.run(us(1400));
    assert_eq!(fleet.answers[&up(2, 1, 7)].1.queue, 1);
}

#[test]
fn messages_that_make_no_sense_are_ignored() {
    let mut fleet = Fleet::new(Config::default());
    let from = fleet.messages(NodeId(3));
    let nonsense = Course { flow: FlowId(7), src: NodeId(999), dst: NodeId(7), half: Half::Source };
    let asking = Asking::from(Request { key: 1, demand: Rate::from_gbps(1) });
    for to in [8, 12, 14].map(NodeId) {
        for course in [nonsense, up(7, 2, 3), up(7, 5, 5), down(7, 8, 14), up(7, 6, 4)] {
            fleet.send(from.ask(course, to, Stamp(200), asking, Share::FREE));
            fleet.send(from.share(course, to, Stamp(200), Share { queue: 200, rate: Rate::default() }));
            fleet.send(from.leave(course, to, Stamp(200)));
        }
        for link in [0, 3, 20, 12_345, u32::MAX].map(LinkId) {
            fleet.send(from.report(to, link, Stamp(200), Rate::from_gbps(1)));
            fleet.send(from.capacity(to, link, Stamp(200), Rate::from_gbps(1)));
        }
    }
    fleet.run(us(1000));
    assert!(fleet.switches.values().all(|control| control.known_flows() == 0));
    assert!(told(&fleet).iter().all(|(at, ..)| *at == 0), "nobody answers: {:?}", told(&fleet));
}

#[derive(Clone, Copy, Debug)]
struct Wanted {
    course: Course,
    key: u32,
    gbps: u64,
}

/// Flows between different racks.
fn flows(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Wanted>> {
    prop::collection::vec((0_u32..8, 2_u32..7, 0_u32..6, 1_u64..11, any::<bool>()), count).prop_map(|list| {
        (0..)
            .zip(list)
            .map(|(flow, (src, hop, key, gbps, half))| {
                let course = up(flow, src, (src / 2 * 2 + hop) % 8);
                Wanted { course: if half { Course { half: Half::Destination, ..course } } else { course }, key, gbps }
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// All that asks at one instant gets the same answers, in whatever order it asks.
    #[test]
    fn answers_do_not_depend_on_the_order_of_simultaneous_requests(
        flows in flows(1..20),
        order in prop::collection::vec(any::<u32>(), 20),
        depth in 1_u8..4,
        delegation in any::<bool>(),
    ) {
        let answers = |order: &[u32]| {
            let mut fleet = Fleet::new(Config { pruning_depth: depth, delegation, ..Config::default() });
            let mut turn: Vec<usize> = (0..flows.len()).collect();
            turn.sort_by_key(|index| order.get(*index).copied().unwrap_or(0));
            for index in turn {
                fleet.ask(flows[index].course, flows[index].key, flows[index].gbps);
            }
            fleet.run(us(600));
            let tail: Vec<_> = fleet.log[flows.len()..].iter().map(|(at, packet)| (*at, *packet)).collect();
            (fleet.answers, tail.len())
        };
        prop_assert_eq!(answers(&[]), answers(&order));
    }

    /// On the link where it is pruned, a flow is less critical than every flow that is passed on, and its queue is below theirs.
    #[test]
    fn pruned_flows_never_outrank_others(
        list in prop::collection::vec((0_u32..6, 1_u64..11), 1..30),
        depth in 1_u8..5,
    ) {
        let mut fleet = Fleet::new(Config { pruning_depth: depth, delegation: false, ..Config::default() });
        let flows: Vec<Course> = (0..list.len() as u32).map(|flow| up(flow, flow % 2, 7)).collect();
        for (course, (key, gbps)) in flows.iter().zip(&list) {
            fleet.ask(*course, *key, *gbps);
        }
        fleet.run(us(600));
        let passed: BTreeSet<FlowId> = fleet
            .log
            .iter()
            .filter(|(_, packet)| packet.src == NodeId(8) && matches!(packet.header, Header::Ask { .. }))
            .map(|(_, packet)| packet.flow)
            .collect();
        let rank = |flow: &FlowId| (list[flow.0 as usize].0, *flow);
        let (up, pruned): (Vec<FlowId>, Vec<FlowId>) = flows.iter().map(|course| course.flow).partition(|flow| passed.contains(flow));
        let worst = up.iter().map(rank).max();
        prop_assert!(pruned.iter().all(|flow| Some(rank(flow)) > worst));
        let queue = |flow: &FlowId| fleet.answers[&flows[flow.0 as usize]].1.queue;
        prop_assert!(pruned.iter().all(|flow| queue(flow) >= depth));
    }

    /// Whatever is lost, repeated, late or restarted: once this ends, the arbitrators know the flows that exist and no others, and their
    /// shares are those of a fleet to which nothing happened.
    #[test]
    fn lists_converge_to_the_flows_that_exist(
        list in flows(1..16),
        lives in prop::collection::vec((0_u64..10, 1_u64..14), 16),
        seed in any::<u64>(),
        loss in 0.0..0.6,
        restarts in prop::collection::vec((0_u64..10, 8_u32..15), 0..6),
        depth in prop::sample::select(vec![1_u8, 2, 8]),
        delegation in any::<bool>(),
    ) {
        let config = Config { pruning_depth: depth, delegation, ..Config::default() };
        let mut fleet = Fleet::new(config.clone());
        let mut state = seed;
        fleet.fates = Box::new(move || {
            let mut dice = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as f64 / f64::from(1_u32 << 31)
            };
            let late = |dice: &mut dyn FnMut() -> f64| HOP + Duration::from_us(400).scale(dice());
            match dice() {
                die if die < loss => vec![],
                die if die < loss + 0.2 => vec![late(&mut dice), late(&mut dice)],
                _ => vec![late(&mut dice)],
            }
        });
        // Faults end after 14 periods. The flows that live on refresh their entries for 12 more.
        let alive = |index: usize, turn: u64| turn >= lives[index].0 && (turn < lives[index].1 || lives[index].1 >= 12);
        let period = fleet.spans.period;
        let drive = |fleet: &mut Fleet, from: u64, to: u64| {
            for turn in from..to {
                for (index, Wanted { course, key, gbps }) in list.iter().enumerate() {
                    if alive(index, turn) {
                        fleet.ask(*course, *key, *gbps);
                    } else if turn > 0 && alive(index, turn - 1) {
                        fleet.leave(*course);
                    }
                }
                fleet.run(Time::ZERO + period * (turn + 1));
                for (_, node) in restarts.iter().filter(|(at, _)| *at == turn) {
                    fleet.restart(NodeId(*node));
                }
            }
        };
        drive(&mut fleet, 0, 14);
        fleet.fates = Box::new(|| vec![HOP]);
        drive(&mut fleet, 14, 26);
        let mut calm = Fleet::new(config);
        drive(&mut calm, 14, 26);
        for (index, Wanted { course, .. }) in list.iter().enumerate() {
            if alive(index, 25) && course.parent(&fleet.paths, course.host()).is_some() {
                let (at, share) = fleet.answers[course];
                prop_assert!(at > Time::ZERO + period * 24);
                prop_assert_eq!(share, calm.answers[course].1, "{:?}", course);
            }
        }
        let courses: Vec<Course> = list.iter().map(|wanted| wanted.course).collect();
        for link in (0..fleet.paths.network().links().len() as u32).map(LinkId) {
            for switch in (8..15).map(NodeId) {
                let found = fleet.list(switch, link, &courses);
                let expected = calm.list(switch, link, &courses);
                // A flow that is gone is forgotten when the next one asks. What nobody asks about, nobody reads.
                if !expected.is_empty() {
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }
}
