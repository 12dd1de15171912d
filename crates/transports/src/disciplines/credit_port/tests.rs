//! A port's rules under any arrivals, each against its definition.

use flowloom_core::Packet;
use proptest::prelude::*;

use super::*;
use crate::disciplines::rig::{Rig, packet};

const WIRE: WireProfile = WireProfile::ETHERNET_1538;
const RATE: Rate = Rate::from_gbps(10);
const LIFETIME: Duration = Duration::from_ns(9000);
const BURST: u64 = 168;

/// A class of signals, two of credits, two of data.
const SIGNAL: u8 = 0;
const CREDITS: [u8; 2] = [1, 2];
const DATA: [u8; 2] = [3, 4];

const DATA_LIMITS: [Limit; 2] = [Limit::NONE, Limit::packets(1)];

fn layout(lifetime: Option<Duration>) -> CreditLayout<'static> {
    CreditLayout {
        credit_queues: 2,
        credit_limit: Limit::packets(8),
        credit_drop: CreditDrop::Newest,
        seed: 1,
        lifetime,
        burst: Bytes::new(BURST),
        slot: WIRE.control + WIRE.full,
        data: &DATA_LIMITS,
        memory: Bytes::new(30_000),
    }
}

fn port(lifetime: Option<Duration>) -> CreditPort {
    CreditPort::new(&layout(lifetime), RATE, &WIRE)
}

/// The same with random drops.
fn lottery(lifetime: Option<Duration>) -> CreditPort {
    CreditPort::new(&CreditLayout { credit_drop: CreditDrop::Random, ..layout(lifetime) }, RATE, &WIRE)
}

fn is_credit(class: u8) -> bool {
    CREDITS.contains(&class)
}

/// A packet and its times.
#[derive(Clone, Copy, Debug)]
struct Course {
    packet: Packet<()>,
    came: Time,
    /// When it left, or was dropped.
    went: Time,
    /// The number of packets that had come when it left.
    seen: usize,
    dropped: Option<DropReason>,
}

/// A port in front of a link. Packets are numbered by their flow.
struct Play {
    rig: Rig<(), CreditPort>,
    /// When the port is to be asked.
    wake: Time,
    free: Time,
    courses: Vec<Course>,
    /// Times at which the port had nothing to send although packets were queued, and the number of packets that had come.
    waits: Vec<(Time, usize)>,
}

impl Play {
    fn new(port: CreditPort) -> Play {
        let rig = Rig::new(port);
        Play { rig, wake: Time::MAX, free: Time::ZERO, courses: Vec::new(), waits: Vec::new() }
    }

    fn note_drops(&mut self) {
        for (flow, why) in self.rig.dropped() {
            let course = &mut self.courses[flow as usize];
            (course.went, course.dropped) = (self.rig.now, Some(why));
        }
    }

    fn leave(&mut self, packet: &Packet<()>) {
        let (now, seen) = (self.rig.now, self.courses.len());
        let course = &mut self.courses[packet.flow.0 as usize];
        (course.went, course.seen) = (now, seen);
        self.free = now + RATE.transmit_time(packet.size());
    }

    fn run_until(&mut self, end: Time) {
        while self.wake < end {
            self.rig.now = self.wake;
            let served = self.rig.serve();
            self.note_drops();
            self.wake = match served {
                Ok(packet) => {
                    self.leave(&packet);
                    self.free
                }
                Err(at) => {
                    assert!(at > self.rig.now);
                    if self.rig.packets() > 0 {
                        self.waits.push((self.rig.now, self.courses.len()));
                    }
                    at
                }
            };
        }
    }

    fn arrive(&mut self, at: Time, class: u8, size: u32) {
        self.run_until(at);
        self.rig.now = at;
        let arrival = packet(self.courses.len() as u32, class, size);
        self.courses.push(Course { packet: arrival, came: at, went: Time::MAX, seen: 0, dropped: None });
        if self.free <= at && self.rig.packets() == 0 && self.rig.pass(arrival) {
            self.leave(&arrival);
            return;
        }
        self.rig.enqueue(arrival);
        self.note_drops();
        self.wake = self.free.max(at);
    }

    /// The packets that have left, in order.
    fn sent(&self) -> Vec<Course> {
        let mut sent: Vec<Course> =
            self.courses.iter().filter(|course| course.dropped.is_none() && course.went < Time::MAX).copied().collect();
        sent.sort_by_key(|course| course.went);
        sent
    }

    /// The packets among the first `seen` that were still queued after `now`. Several packets may come at one instant, before and after the
    /// port is asked. So the time alone does not say which packets the port knew.
    fn queued_at(&self, now: Time, seen: usize) -> impl Iterator<Item = &Course> {
        self.courses[..seen].iter().filter(move |course| course.went > now)
    }
}

/// The bytes of credits that may leave in a window, times 1622.
fn allowed(window: Duration) -> u128 {
    u128::from(window.as_ps()) * 84 / 800 + u128::from(BURST) * 1622
}

fn credit_bytes(sent: &[Course]) -> u128 {
    sent.iter().filter(|course| is_credit(course.packet.class)).map(|course| u128::from(course.packet.size_bytes)).sum()
}

fn arrivals() -> impl Strategy<Value = Vec<(u64, u8, u32)>> {
    let credit = (prop::sample::select(CREDITS.to_vec()), 76_u32..=92).boxed();
    let data = (prop::sample::select(DATA.to_vec()), 84_u32..=1538).boxed();
    let any = prop_oneof![1 => Just((SIGNAL, 84)), 8 => credit, 3 => data];
    let one = (prop_oneof![Just(0_u64), 1_u64..400_000, 1_u64..4_000_000], any);
    prop::collection::vec(one.prop_map(|(gap, (class, size))| (gap, class, size)), 1..150)
}

fn play(arrivals: &[(u64, u8, u32)], port: CreditPort) -> Play {
    let mut play = Play::new(port);
    let mut now = Time::ZERO;
    for (gap, class, size) in arrivals {
        now += Duration::from_ps(*gap);
        play.arrive(now, *class, *size);
    }
    play.run_until(Time::MAX);
    play
}

fn any_port(expire: bool, random: bool) -> CreditPort {
    let lifetime = expire.then_some(LIFETIME);
    if random { lottery(lifetime) } else { port(lifetime) }
}

proptest! {
    #[test]
    fn credits_that_leave_in_any_window_keep_to_their_share(arrivals in arrivals(), [expire, random] in any::<[bool; 2]>()) {
        let sent = play(&arrivals, any_port(expire, random)).sent();
        for first in 0..sent.len() {
            for last in first..sent.len() {
                let window = sent[last].went - sent[first].went;
                prop_assert!(credit_bytes(&sent[first..=last]) * 1622 <= allowed(window), "{first} to {last}: {window}");
            }
        }
    }

    #[test]
    fn no_credit_leaves_after_its_lifetime_and_none_expires_before(arrivals in arrivals(), random in any::<bool>()) {
        for course in play(&arrivals, any_port(true, random)).courses {
            let waited = course.went - course.came;
            match course.dropped {
                Some(DropReason::Expired) => prop_assert!(is_credit(course.packet.class) && waited > LIFETIME),
                Some(DropReason::PushedOut) => prop_assert!(random && is_credit(course.packet.class) && waited <= LIFETIME),
                Some(_) => prop_assert_eq!(waited, Duration::ZERO),
                None => prop_assert!(!is_credit(course.packet.class) || waited <= LIFETIME),
            }
        }
    }

    #[test]
    fn every_packet_leaves_or_is_dropped_once(arrivals in arrivals(), [expire, random] in any::<[bool; 2]>()) {
        let play = play(&arrivals, any_port(expire, random));
        prop_assert!(play.courses.iter().all(|course| course.went < Time::MAX));
        prop_assert_eq!((play.rig.packets(), play.rig.port().used()), (0, Bytes::ZERO));
        prop_assert!(expire || play.courses.iter().all(|course| course.dropped != Some(DropReason::Expired)));
    }

    /// Whatever leaves is the oldest packet of the best class that may send. Credits may, if the bucket has as many bytes as the first of
    /// them has.
    #[test]
    fn the_best_class_that_may_send_does(arrivals in arrivals(), [expire, random] in any::<[bool; 2]>()) {
        let play = play(&arrivals, any_port(expire, random));
        let sent = play.sent();
        for (index, course) in sent.iter().enumerate() {
            let (now, class) = (course.went, course.packet.class);
            let queued = || play.queued_at(now, course.seen);
            let better = queued().filter(|other| other.packet.class < class);
            // A credit that is too old is no longer in the way. It counts as queued until the port notices.
            let stale = |other: &&Course| other.dropped == Some(DropReason::Expired) && now - other.came > LIFETIME;
            let better: Vec<&Course> = better.filter(|other| !stale(other)).collect();
            prop_assert!(better.iter().all(|other| is_credit(other.packet.class)), "{:?} before {:?}", course, better);
            if is_credit(class) {
                prop_assert!(better.is_empty(), "{:?} before {:?}", course, better);
            } else if let Some(first) = better.iter().min_by_key(|other| (other.packet.class, other.packet.flow)) {
                // It could not have left: with it, some window that ends now would have held too much.
                let with = |from: usize| credit_bytes(&sent[from..index]) + u128::from(first.packet.size_bytes);
                let over = |from: usize| with(from) * 1622 > allowed(now - sent[from].went);
                prop_assert!((0..index).any(over), "{:?} before {:?}", course, first);
            }
            let older = queued().filter(|other| other.packet.class == class && other.packet.flow < course.packet.flow);
            prop_assert!(older.filter(|other| !stale(other)).count() == 0);
        }
        // A port that waits has credits only.
        for (now, seen) in &play.waits {
            prop_assert!(play.queued_at(*now, *seen).all(|course| is_credit(course.packet.class)));
        }
    }
}

/// Credits of several classes and data that come at one instant. The best credit is too large for the bucket, and so the smaller one behind
/// it waits, too.
#[test]
fn a_small_credit_does_not_overtake_a_large_one_of_a_better_class() {
    let mut rig = Rig::new(port(None));
    for (flow, class, size) in [(0, 1, 92), (1, 2, 76), (2, 1, 92), (3, 3, 84)] {
        rig.enqueue(packet(flow, class, size));
    }
    assert_eq!((0..2).map(|_| rig.serve().unwrap().flow.0).collect::<Vec<_>>(), [0, 3]);
}

/// Two credits use up the bucket, and the third may leave when 84 B have flowed in: after 1297.6 ns.
#[test]
fn credits_wait_while_data_passes() {
    let mut rig = Rig::new(port(None));
    for flow in 0..3 {
        rig.enqueue(packet(flow, 1, 84));
    }
    rig.enqueue(packet(3, 3, 1538));
    assert_eq!((0..3).map(|_| rig.serve().unwrap().flow.0).collect::<Vec<_>>(), [0, 1, 3]);
    assert_eq!(rig.serve().unwrap_err(), Time::from_ps(1_297_600));
    assert!(!rig.pass(packet(4, 2, 84)));
    rig.now = Time::from_ps(1_297_600);
    assert_eq!(rig.serve().unwrap().flow.0, 2);
    assert_eq!(rig.serve().unwrap_err(), Time::MAX);
}

/// Four credits of the better class and eight of the other come at once. The k-th of all leaves k - 2 slots later, and in the 9 us of a lifetime
/// these are eight. The other four expire.
#[test]
fn credits_that_wait_too_long_are_dropped() {
    let mut play = Play::new(port(Some(LIFETIME)));
    for number in 0..12 {
        play.arrive(Time::ZERO, CREDITS[usize::from(number >= 4)], 84);
    }
    play.run_until(Time::MAX);
    let left: Vec<(u32, u64)> = play.sent().iter().map(|course| (course.packet.flow.0, course.went.as_ps())).collect();
    let slots = (1..7).map(|slot| (slot as u32 + 1, slot * 1_297_600));
    assert_eq!(left, [(0, 0), (1, 67_200)].into_iter().chain(slots).collect::<Vec<_>>());
    assert!(play.courses[8..].iter().all(|course| course.dropped == Some(DropReason::Expired)));
}

/// A queue has its limit in packets or in bytes, and a credit larger than the bucket can never leave.
#[test]
fn what_does_not_fit_is_dropped() {
    let mut rig = Rig::new(port(None));
    for flow in 0..9 {
        rig.enqueue(packet(flow, 2, 84));
    }
    rig.enqueue(packet(9, 1, 169));
    rig.enqueue(packet(10, 4, 100));
    rig.enqueue(packet(11, 7, 100)); // beyond the last class
    let why = DropReason::Overflow;
    assert_eq!(rig.dropped(), [(8, why), (9, why), (11, why)]);
    let in_bytes = CreditLayout { credit_limit: Limit::bytes(8 * 84), memory: Bytes::new(2000), ..layout(None) };
    let mut rig = Rig::new(CreditPort::new(&in_bytes, RATE, &WIRE));
    for flow in 0..9 {
        rig.enqueue(packet(flow, 1, 76));
    }
    rig.enqueue(packet(9, 3, 1400));
    assert_eq!(rig.dropped(), [(8, why), (9, why)], "eight of 76 B leave 64 B of 672 B, and 1392 B of the memory");
}

/// Ten thousand times, a ninth credit comes to a full queue. Each of the nine, the arrival included, is dropped in a ninth of the cases: 1111, with a
/// standard deviation of 31. The others leave in their order. A credit of a class that is not full is never dropped.
#[test]
fn a_full_queue_drops_each_of_its_credits_or_the_arrival_equally_often() {
    for lifetime in [None, Some(Duration::from_us(1_000_000))] {
        let random = CreditLayout { credit_drop: CreditDrop::Random, ..layout(lifetime) };
        let mut rig = Rig::new(CreditPort::new(&random, RATE, &WIRE));
        let mut dropped = [0_u32; 9];
        for _ in 0..10_000 {
            rig.enqueue(packet(20, CREDITS[0], 84));
            for flow in 0..9 {
                rig.enqueue(packet(flow, CREDITS[1], 84));
            }
            let [(victim, why)] = rig.dropped()[..] else { panic!("one is dropped") };
            assert_eq!(why, if victim == 8 { DropReason::Overflow } else { DropReason::PushedOut });
            dropped[victim as usize] += 1;
            let mut left = Vec::new();
            while rig.packets() > 0 {
                match rig.serve() {
                    Ok(packet) => left.push(packet.flow.0),
                    Err(at) => rig.now = at,
                }
            }
            let expected: Vec<u32> = [20].into_iter().chain((0..9).filter(|flow| *flow != victim)).collect();
            assert_eq!(left, expected);
        }
        assert!(dropped.iter().all(|count| count.abs_diff(1111) < 160), "{dropped:?}");
    }
}

/// The credit that is pushed out may be the one whose time to leave the port has computed: of 92 B and then 76 B, the first is dropped, and
/// the port knows that the other one may leave earlier.
#[test]
fn a_port_that_pushes_out_its_first_credit_computes_its_time_anew() {
    let ready_at = |seed| {
        let one = CreditLayout { credit_drop: CreditDrop::Random, credit_limit: Limit::packets(1), seed, ..layout(None) };
        let mut rig = Rig::new(CreditPort::new(&one, RATE, &WIRE));
        assert!(rig.pass(packet(0, CREDITS[0], 84)) && rig.pass(packet(1, CREDITS[0], 84)));
        rig.enqueue(packet(2, CREDITS[0], 92));
        rig.enqueue(packet(3, CREDITS[0], 76));
        let victim = rig.dropped()[0].0;
        (victim, Discipline::<()>::ready_at(rig.port(), rig.now).as_ps())
    };
    let found: Vec<(u32, u64)> = (0..20).map(ready_at).collect();
    // A byte flows in in 1622 × 0.8 ns / 84.
    let expected = [(2, 76_u64), (3, 92)].map(|(victim, bytes)| (victim, (bytes * 1_297_600).div_ceil(84)));
    assert!(found.iter().all(|found| expected.contains(found)), "{found:?}");
    assert!(expected.iter().all(|one| found.contains(one)), "{found:?}");
}

/// The share follows the sizes of the wire: 40 B beside 1500 B.
#[test]
fn the_share_is_that_of_the_wire_profile() {
    let layout = CreditLayout { burst: Bytes::new(40), slot: Bytes::new(1540), ..layout(None) };
    let mut rig = Rig::new(CreditPort::new(&layout, RATE, &WireProfile::IP_1500));
    rig.enqueue(packet(0, 1, 40));
    rig.enqueue(packet(1, 1, 40));
    assert!(rig.serve().is_ok());
    // 1540 B at 10 Gb/s.
    assert_eq!(rig.serve().unwrap_err(), Time::from_ps(1_232_000));
}

/// The bucket holds two credits of 84 B, and fills with one per 1622 B of the link: 1297.6 ns. The port need not be asked in vain to know that.
#[test]
fn a_queued_credit_leaves_at_a_known_time() {
    let mut rig: Rig<(), CreditPort> = Rig::new(port(None));
    let ready_at = |rig: &Rig<(), CreditPort>| Discipline::<()>::ready_at(rig.port(), rig.now);
    assert!(rig.pass(packet(0, CREDITS[1], 84)) && rig.pass(packet(1, CREDITS[1], 84)));
    assert!(!rig.pass(packet(2, CREDITS[1], 84)));
    rig.enqueue(packet(2, CREDITS[1], 84));
    let at = Time::from_ps(1_297_600);
    assert_eq!(ready_at(&rig), at);
    // A smaller one of a better class may leave earlier: 42 of 84 B.
    rig.enqueue(packet(3, CREDITS[0], 42));
    assert_eq!(ready_at(&rig), Time::from_ps(648_800));
    rig.now = Time::from_ps(648_800);
    assert_eq!(rig.serve().map(|credit| credit.flow.0), Ok(3));
    // The bucket is empty again.
    assert_eq!(ready_at(&rig), Time::from_ps(648_800 + 1_297_600));
}

/// Data waits for a signal of 84 B, which does not count: 1538 + 500 B are 1954 B then, and 100 B more are too many for a limit of 2000 B.
#[test]
fn a_queue_of_data_by_hand() {
    let mut limited = port(None);
    limited.limit_data(2000, 0.0);
    let mut rig: Rig<(), CreditPort> = Rig::new(limited);
    assert!(rig.pass(packet(0, DATA[0], 1538)));
    assert_eq!((rig.port().data_queue().peak(), rig.port().data_queue().beyond()), (1538, None));
    rig.now = Time::from_ps(5);
    rig.enqueue(packet(1, DATA[0], 1538));
    rig.enqueue(packet(2, SIGNAL, 84));
    assert_eq!(rig.serve().map(|signal| signal.flow.0), Ok(2));
    rig.enqueue(packet(3, DATA[0], 500));
    assert_eq!(rig.port().data_queue().beyond(), None);
    rig.enqueue(packet(4, DATA[1], 100));
    let beyond = Some(Beyond { at: rig.now, bytes: 2054, allowed: 2000 });
    assert_eq!((rig.port().data_queue().peak(), rig.port().data_queue().beyond()), (2138, beyond));
    assert_eq!(rig.drain(), [1, 3, 4]);
    // The signal is forgotten with the data that waited for it. The largest excess is told, not the last.
    rig.now = Time::from_ps(9);
    rig.enqueue(packet(5, DATA[0], 1538));
    rig.enqueue(packet(6, DATA[0], 463));
    assert_eq!(rig.port().data_queue().beyond(), beyond);
    rig.enqueue(packet(7, DATA[0], 54));
    let beyond = Some(Beyond { at: rig.now, bytes: 2055, allowed: 2000 });
    assert_eq!(rig.port().data_queue().beyond(), beyond);
}

/// The limit grows by 10 B times the square root of the number of packets: 2020 B at the fourth packet. A packet that passes counts, too, and
/// one that is dropped does not stay.
#[test]
fn a_limit_grows_with_the_packets() {
    let mut limited = port(None);
    limited.limit_data(2000, 10.0);
    let mut rig: Rig<(), CreditPort> = Rig::new(limited);
    for flow in 0..2 {
        rig.enqueue(packet(flow, DATA[1], 960)); // the second one finds a full queue
    }
    assert_eq!(rig.dropped(), [(1, DropReason::Overflow)]);
    assert!(rig.pass(packet(2, DATA[0], 960)), "it is better than what waits");
    rig.enqueue(packet(3, DATA[0], 1060)); // 2020 B
    assert_eq!((rig.port().data_queue().peak(), rig.port().data_queue().beyond()), (2020, None));
    assert!(rig.port().used() == Bytes::new(2020));
    rig.drain();
    for flow in [4, 5] {
        rig.enqueue(packet(flow, DATA[0], 1010)); // 2020 B in two packets
    }
    assert_eq!(rig.port().data_queue().beyond(), Some(Beyond { at: rig.now, bytes: 2020, allowed: 2014 }));
}

/// Also credits that may not leave yet are lost, and the queue of data is empty. The bucket of 168 B is empty after two credits, and full again after two slots.
#[test]
fn a_cut_loses_everything() {
    let mut limited = port(Some(LIFETIME));
    limited.limit_data(2000, 0.0);
    let mut rig: Rig<(), CreditPort> = Rig::new(limited);
    assert!(rig.pass(packet(0, CREDITS[0], 84)) && rig.pass(packet(1, CREDITS[0], 84)));
    for (flow, class) in [(2, SIGNAL), (3, CREDITS[0]), (4, CREDITS[1]), (5, DATA[0]), (6, DATA[1]), (7, CREDITS[0])] {
        rig.enqueue(packet(flow, class, 84));
    }
    rig.lose_all();
    let why = DropReason::LinkDown;
    assert_eq!(rig.dropped(), [(2, why), (3, why), (7, why), (4, why), (5, why), (6, why)]);
    assert_eq!((rig.packets(), rig.port().used()), (0, Bytes::ZERO));
    rig.now = Time::from_ps(2 * 1_297_600);
    rig.enqueue(packet(8, DATA[0], 1538));
    rig.enqueue(packet(9, CREDITS[1], 84));
    assert_eq!((rig.drain(), rig.port().data_queue().beyond()), (vec![9, 8], None));
    // Nothing remembers when the lost credits came.
    rig.now = Time::from_ps(100_000_000);
    rig.enqueue(packet(10, CREDITS[0], 84));
    assert_eq!((rig.drain(), rig.dropped()), (vec![10], vec![]));
}
