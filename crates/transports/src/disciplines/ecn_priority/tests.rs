use flowloom_core::{
    Bytes, DropReason, Duration, Ecn, LinkId, Memory, Packet, PortSite, Rate, Switching, WireProfile, topology,
};
use proptest::prelude::*;

use super::*;
use crate::disciplines::rig::{Rig, packet};

fn port(config: EcnConfig, classes: u8, memory: Memory) -> EcnPriority {
    let network = topology::single_switch(1, Rate::from_gbps(10), Duration::ZERO, Switching::StoreAndForward);
    let site = PortSite { link: LinkId(0), network: &network, wire: WireProfile::IP_1500, memory, seed: 1 };
    EcnPriority::new(&config, classes, &site)
}

fn own(bytes: u64) -> Memory {
    Memory::PerPort(Bytes::new(bytes))
}

fn shared(bytes: u64, alpha: f64) -> Memory {
    Memory::PerSwitch { bytes: Bytes::new(bytes), alpha }
}

/// A full packet that may be marked.
fn capable(flow: u32, class: u8) -> Packet<()> {
    Packet { ecn: Ecn::Capable, ..packet(flow, class, 1500) }
}

/// One port of eight classes with the paper's memory of 240 packets. It marks above 65 packets.
fn alone(config: EcnConfig) -> Rig<(), EcnPriority> {
    Rig::new(port(config, 8, own(360_000)))
}

/// The flows that leave with a mark, in the order in which they leave.
fn marked(rig: &mut Rig<(), EcnPriority>) -> Vec<u32> {
    let all = std::iter::from_fn(|| rig.dequeue());
    all.filter(|packet| packet.ecn == Ecn::Marked).map(|packet| packet.flow.0).collect()
}

#[test]
fn the_66th_packet_of_65_is_marked_and_all_after_it() {
    let mut rig = alone(EcnConfig::default());
    for flow in 0..66 {
        rig.enqueue(capable(flow, 7));
    }
    assert_eq!(rig.marked(), 1);
    rig.enqueue(capable(66, 0));
    rig.enqueue(packet(67, 0, 1500)); // not capable
    assert_eq!(rig.dequeue().unwrap().flow.0, 66);
    // 67 packets are left, so the next arrival would be the 68th. After three have left it is the 66th, and after four the 65th.
    rig.dequeue();
    rig.dequeue();
    rig.enqueue(capable(68, 7)); // 66
    rig.dequeue();
    rig.dequeue();
    rig.enqueue(capable(69, 7)); // 65
    assert_eq!(rig.marked(), 3);
    assert_eq!(marked(&mut rig), [65, 68]);
    assert_eq!(rig.port().used(), Bytes::ZERO);
}

#[test]
fn a_port_counts_all_its_classes_and_a_queue_its_own() {
    let fill = |ecn| {
        let mut rig = alone(EcnConfig { ecn, ..EcnConfig::default() });
        (0..60).for_each(|flow| rig.enqueue(capable(flow, 3)));
        (60..130).for_each(|flow| rig.enqueue(capable(flow, 1)));
        marked(&mut rig)
    };
    assert_eq!(fill(Marking::Port), (65..130).collect::<Vec<_>>());
    assert_eq!(fill(Marking::Queue), (125..130).collect::<Vec<_>>());
    assert!(fill(Marking::Off).is_empty());
}

#[test]
fn at_dequeue_the_packets_that_leave_a_long_queue_are_marked() {
    let fill = |ecn| {
        let mut rig = alone(EcnConfig { ecn, mark_at: MarkAt::Dequeue, ..EcnConfig::default() });
        (0..60).for_each(|flow| rig.enqueue(capable(flow, 3)));
        (60..130).for_each(|flow| rig.enqueue(capable(flow, 1)));
        assert_eq!(rig.marked(), 0);
        marked(&mut rig)
    };
    // Class 1 leaves first: 130 packets down to 66 are more than 65, and so are the 70 down to 66 of class 1.
    assert_eq!(fill(Marking::Port), (60..125).collect::<Vec<_>>());
    assert_eq!(fill(Marking::Queue), (60..65).collect::<Vec<_>>());
    assert!(fill(Marking::Off).is_empty());
}

#[test]
fn a_packet_alone_sees_itself() {
    for mark_at in [MarkAt::Enqueue, MarkAt::Dequeue] {
        for (mark_above, expected) in [(1500, Ecn::Capable), (1499, Ecn::Marked)] {
            for ecn in [Marking::Port, Marking::Queue] {
                let config = EcnConfig { ecn, mark_at, mark_above: Some(Bytes::new(mark_above)), ..EcnConfig::default() };
                let mut rig = alone(config);
                assert_eq!(rig.pass(capable(0, 0)), expected == Ecn::Capable, "it passes if it is not to be marked");
                rig.enqueue(capable(1, 0));
                assert_eq!(rig.dequeue().unwrap().ecn, expected);
            }
        }
    }
}

#[test]
fn a_full_port_drops_whatever_comes_and_pushes_nothing_out() {
    let overflow = |flows: &[u32]| flows.iter().map(|flow| (*flow, DropReason::Overflow)).collect::<Vec<_>>();
    let arrivals = [(0, 1), (1, 1), (2, 0), (3, 0), (4, 7)];
    let mut rig = Rig::new(port(EcnConfig::default(), 2, own(3000)));
    arrivals.iter().for_each(|(flow, class)| rig.enqueue(capable(*flow, *class)));
    assert_eq!(rig.dropped(), overflow(&[2, 3, 4]));
    assert_eq!(rig.drain(), [0, 1]);
    // Each class its own: the last is of class 1, too.
    let config = EcnConfig { split: Split::PerClass, ..EcnConfig::default() };
    let mut rig = Rig::new(port(config, 2, own(1500)));
    arrivals.iter().for_each(|(flow, class)| rig.enqueue(capable(*flow, *class)));
    assert_eq!(rig.dropped(), overflow(&[1, 3, 4]));
    assert_eq!(rig.drain(), [2, 0]);
}

const MEMORY: u64 = 1_000_000;
const SMALL: u32 = 100;

/// Ports that share [`MEMORY`].
fn node(ports: usize, alpha: f64) -> Rig<(), EcnPriority> {
    Rig::node(vec![port(EcnConfig::default(), 8, shared(MEMORY, alpha)); ports])
}

/// Offers every queue (port, class) packets in turn until none takes any.
fn saturate(rig: &mut Rig<(), EcnPriority>, queues: &[(usize, u8)]) {
    loop {
        for (port, class) in queues {
            rig.at(*port).enqueue(packet(0, *class, SMALL));
        }
        if rig.dropped().len() == queues.len() {
            return;
        }
    }
}

#[test]
fn hot_queues_share_the_memory_as_the_closed_form_says() {
    let queues = [(0, 0), (1, 5), (2, 7), (0, 3), (3, 3)];
    for alpha in [1.0 / 64.0, 0.1, 0.5, 1.0, 8.0] {
        for hot in 1..=queues.len() {
            let mut rig = node(4, alpha);
            saturate(&mut rig, &queues[..hot]);
            let expected = alpha * MEMORY as f64 / (1.0 + hot as f64 * alpha);
            for (port, class) in &queues[..hot] {
                let found = f64::from(rig.at(*port).port().classes.used()[usize::from(*class)]);
                // A queue stops with the packet that takes it to the threshold.
                assert!((found - expected).abs() <= f64::from(SMALL), "alpha {alpha}, {hot} queues: {found}, not {expected}");
            }
        }
    }
}

#[test]
fn a_queue_above_a_falling_threshold_takes_nothing_and_loses_nothing() {
    let mut rig = node(2, 1.0);
    let length = |rig: &mut Rig<(), EcnPriority>, port: usize| rig.at(port).port().used().get();
    saturate(&mut rig, &[(0, 0)]);
    assert_eq!(length(&mut rig, 0), MEMORY / 2);
    // The other queue finds half of the memory free, and so ends at a quarter. The first one keeps what it has.
    saturate(&mut rig, &[(1, 0)]);
    assert_eq!((length(&mut rig, 0), length(&mut rig, 1)), (MEMORY / 2, MEMORY / 4));
    // Both are offered more than leaves, and only the long one is served. It drains without taking anything in, and the other one
    // grows, until each has a third.
    while length(&mut rig, 0) > MEMORY / 3 {
        let before = length(&mut rig, 0);
        rig.at(1).enqueue(packet(1, 0, SMALL));
        rig.at(0).enqueue(packet(2, 0, SMALL));
        assert!(rig.dropped().contains(&(2, DropReason::Overflow)));
        assert_eq!(rig.dequeue().map(|packet| packet.flow.0), Some(0));
        assert_eq!(length(&mut rig, 0), before - u64::from(SMALL));
    }
    for port in 0..2 {
        assert!(length(&mut rig, port).abs_diff(MEMORY / 3) <= u64::from(SMALL));
    }
    assert_eq!(rig.shared.used().get(), length(&mut rig, 0) + length(&mut rig, 1));
    rig.at(0).drain();
    rig.at(1).drain();
    assert_eq!(rig.shared, SharedMemory::default());
}

#[test]
fn no_threshold_lets_more_in_than_is_free() {
    let mut rig = Rig::node(vec![port(EcnConfig::default(), 8, shared(1600, 8.0)); 2]);
    rig.at(0).enqueue(packet(0, 0, 1500));
    // The other queue may hold 800 bytes, and 100 are there.
    assert!(!rig.at(1).pass(packet(1, 0, 101)));
    assert!(rig.pass(packet(2, 0, 100)));
    rig.enqueue(packet(3, 0, 101));
    rig.enqueue(packet(4, 0, 100));
    assert_eq!(rig.dropped(), [(3, DropReason::Overflow)]);
    assert_eq!(rig.shared.used(), Bytes::new(1600));
    assert!(!rig.at(0).pass(packet(5, 0, 40)));
}

/// A reference model: the rules on a plain list of all packets of a node in order of arrival.
#[derive(Clone, Debug)]
struct Model {
    config: EcnConfig,
    memory: Memory,
    marked: u64,
    list: Vec<(usize, Packet<()>)>,
}

impl Model {
    fn bytes(&self, keep: impl Fn(usize, u8) -> bool) -> u64 {
        let kept = self.list.iter().filter(|(port, packet)| keep(*port, packet.class));
        kept.map(|(_, packet)| u64::from(packet.size_bytes)).sum()
    }
    fn mark(&mut self, index: usize) {
        let (at, class) = (self.list[index].0, self.list[index].1.class);
        let watched = match self.config.ecn {
            Marking::Off => 0,
            Marking::Port => self.bytes(|port, _| port == at),
            Marking::Queue => self.bytes(|port, other| port == at && other == class),
        };
        let packet = &mut self.list[index].1;
        if watched > self.config.threshold().get() && packet.ecn == Ecn::Capable {
            packet.ecn = Ecn::Marked;
            self.marked += 1;
        }
    }
    fn enqueue(&mut self, at: usize, packet: Packet<()>) -> bool {
        let queue = self.bytes(|port, class| port == at && class == packet.class);
        let size = u64::from(packet.size_bytes);
        let limit = self.memory.bytes().get();
        let admits = match self.memory {
            Memory::PerSwitch { alpha, .. } => {
                let free = limit - self.bytes(|_, _| true);
                (queue as f64) < alpha * free as f64 && size <= free
            }
            Memory::PerPort(_) if self.config.split == Split::PerClass => queue + size <= limit,
            Memory::PerPort(_) => self.bytes(|port, _| port == at) + size <= limit,
        };
        if admits {
            self.list.push((at, packet));
            if self.config.mark_at == MarkAt::Enqueue {
                self.mark(self.list.len() - 1);
            }
        }
        admits
    }
    fn dequeue(&mut self, at: usize) -> Option<Packet<()>> {
        let own = self.list.iter().enumerate().filter(|(_, (port, _))| *port == at);
        let (index, _) = own.min_by_key(|(index, (_, packet))| (packet.class, *index))?;
        if self.config.mark_at == MarkAt::Dequeue {
            self.mark(index);
        }
        Some(self.list.remove(index).1)
    }
    /// The flows of the packets that a port loses when its link is cut.
    fn cut(&mut self, at: usize) -> Vec<u32> {
        let mut lost: Vec<Packet<()>> = self.list.extract_if(.., |(port, _)| *port == at).map(|(_, packet)| packet).collect();
        lost.sort_by_key(|packet| packet.class);
        lost.into_iter().map(|packet| packet.flow.0).collect()
    }
    /// Whether a packet would arrive and leave at once, and would stay unmarked if it were capable.
    fn pass(&self, at: usize, packet: Packet<()>) -> bool {
        let mut alone = self.clone();
        let empty = self.bytes(|port, _| port == at) == 0;
        empty && alone.enqueue(at, Packet { ecn: Ecn::Capable, ..packet }) && alone.dequeue(at).unwrap().ecn == Ecn::Capable
    }
}

const PORTS: usize = 3;

fn config() -> impl Strategy<Value = EcnConfig> {
    use prop::sample::select;
    let ecn = select(vec![Marking::Port, Marking::Queue, Marking::Off]);
    let mark_at = select(vec![MarkAt::Enqueue, MarkAt::Dequeue]);
    let split = select(vec![Split::Shared, Split::PerClass]);
    let mark_above = (100_u64..5000).prop_map(|bytes| Some(Bytes::new(bytes)));
    (ecn, mark_above, mark_at, split).prop_map(|(ecn, mark_above, mark_at, split)| EcnConfig {
        ecn,
        mark_above,
        mark_at,
        split,
        ..EcnConfig::default()
    })
}

/// The share of 20,000 packets that are marked in a queue that has this many after each arrival.
fn marked_share(config: EcnConfig, packets: u32) -> f64 {
    let mut rig = alone(config);
    (1..packets).for_each(|flow| rig.enqueue(packet(flow, 7, 1500)));
    let mut pass = |times: u32| {
        let before = rig.marked();
        for flow in 0..times {
            rig.enqueue(capable(flow, 7));
            rig.dequeue();
        }
        (rig.marked() - before) as f64 / f64::from(times)
    };
    pass(packets); // the first packets to leave are not capable
    pass(20_000)
}

/// Between 10 and 110 packets, the share grows by a thousandth for each packet, to a tenth. Five standard deviations of 20,000 draws are 0.011 at 0.1, and 0.008 at 0.05.
#[test]
fn random_marks_grow_with_the_queue_and_all_packets_are_marked_beyond() {
    let [low, high] = [10, 110].map(|packets| Some(Bytes::new(1500 * packets)));
    let config = EcnConfig { mark_above: low, mark_all_above: high, mark_share: 0.1, ..EcnConfig::default() };
    assert_eq!(marked_share(config, 10), 0.0);
    assert!((marked_share(config, 60) - 0.05).abs() < 0.008);
    assert!((marked_share(config, 110) - 0.1).abs() < 0.011);
    assert_eq!(marked_share(config, 111), 1.0);
    let at_dequeue = EcnConfig { mark_at: MarkAt::Dequeue, ..config };
    assert_eq!(marked_share(at_dequeue, 111), 1.0);
    assert_eq!(marked_share(EcnConfig { mark_all_above: None, ..config }, 11), 1.0);
}

/// Factors that are exact in binary, so that the model computes the same values.
fn memory() -> impl Strategy<Value = Memory> {
    let alpha = prop::sample::select(vec![0.125, 0.5, 1.0, 2.0, 8.0]).prop_map(|alpha| shared(6000, alpha));
    prop_oneof![Just(own(6000)), alpha]
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Enqueue(usize, u8, u32, bool),
    Dequeue(usize),
    Cut(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        30 => (0..PORTS, 0_u8..4, 40_u32..1500, any::<bool>()).prop_map(|(at, class, size, ecn)| Step::Enqueue(at, class, size, ecn)),
        20 => (0..PORTS).prop_map(Step::Dequeue),
        1 => (0..PORTS).prop_map(Step::Cut),
    ]
}

proptest! {
    #[test]
    fn agrees_with_a_plain_list(config in config(), memory in memory(), steps in prop::collection::vec(step(), 0..200)) {
        let mut rig = Rig::node(vec![port(config, 4, memory); PORTS]);
        let mut model = Model { config, memory, marked: 0, list: Vec::new() };
        let mut inside = 0;
        for (flow, step) in (0..).zip(steps) {
            match step {
                Step::Enqueue(at, class, size, capable) => {
                    let ecn = if capable { Ecn::Capable } else { Ecn::NotCapable };
                    let arrival = Packet { ecn, ..packet(flow, class, size) };
                    prop_assert_eq!(rig.at(at).pass(arrival), model.pass(at, arrival));
                    rig.enqueue(arrival);
                    let dropped = rig.dropped();
                    if model.enqueue(at, arrival) {
                        prop_assert_eq!(dropped, []);
                        inside += u64::from(size);
                    } else {
                        prop_assert_eq!(dropped, [(flow, DropReason::Overflow)]);
                    }
                }
                Step::Dequeue(at) => {
                    let leaves = rig.at(at).dequeue();
                    prop_assert_eq!(leaves, model.dequeue(at));
                    inside -= leaves.map_or(0, |packet| u64::from(packet.size_bytes));
                }
                Step::Cut(at) => {
                    rig.at(at).lose_all();
                    let lost: Vec<_> = model.cut(at).into_iter().map(|flow| (flow, DropReason::LinkDown)).collect();
                    prop_assert_eq!(rig.dropped(), lost);
                    inside = model.bytes(|_, _| true);
                }
            }
            prop_assert_eq!(rig.packets(), model.list.len());
            prop_assert_eq!(rig.marked(), model.marked);
            prop_assert_eq!((0..PORTS).map(|at| rig.at(at).port().used().get()).sum::<u64>(), inside);
            prop_assert_eq!(rig.shared.used().get(), if memory == own(6000) { 0 } else { inside });
        }
        for at in 0..PORTS {
            while let Some(packet) = rig.at(at).dequeue() {
                prop_assert_eq!(Some(packet), model.dequeue(at));
            }
            prop_assert_eq!(rig.port().used(), Bytes::ZERO);
        }
        prop_assert_eq!(model.list.len(), 0);
        prop_assert_eq!(rig.shared, SharedMemory::default());
    }
}
