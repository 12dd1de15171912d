//! Networks, simulation set-ups and flows.

use flowloom_core::{
    Bytes, Duration, Flow, FlowId, LinkId, Memory, Network, NodeId, Rate, Switching, Time, Transport, WireProfile, topology,
};
use flowloom_fabric::{AimedFault, End, Fault, Faulty, Next, Observer, Report, Routing, Sim, SimSetup, Task};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

pub const STORE: Switching = Switching::StoreAndForward;
pub const CUT: Switching = Switching::CutThrough { header: Bytes::new(40) };
pub const HOP_DELAY: Duration = Duration::from_ns(200);

pub fn gbps(n: u64) -> Rate {
    Rate::from_gbps(n)
}
pub fn ps(n: u64) -> Time {
    Time::from_ps(n)
}
pub fn ns(n: u64) -> Time {
    Time::from_ps(n * 1000)
}

/// A small network of each topology, mostly with 10 Gb/s hosts. Links between switches are as fast, faster or slower than the hosts'.
pub fn shapes(switching: Switching) -> Vec<(&'static str, Network)> {
    let d = HOP_DELAY;
    vec![
        ("single_switch", topology::single_switch(4, gbps(10), d, switching)),
        ("dumbbell", topology::dumbbell(2, gbps(10), gbps(40), d, switching)),
        ("slow dumbbell", topology::dumbbell(2, gbps(10), gbps(1), d, switching)),
        ("leaf_spine", topology::leaf_spine(3, 2, 2, gbps(10), gbps(40), d, switching)),
        ("three_tier", topology::three_tier(4, 2, 2, gbps(1), gbps(10), gbps(10), d, switching)),
        ("fat_tree", topology::fat_tree(4, gbps(10), d, switching)),
    ]
}

/// Two leaves with `hosts` hosts each, which send at `rate`. Three spines with links of 10 Gb/s join them, and one with links of 2.5 Gb/s. The second value is the slow link from the
/// first leaf.
pub fn beside_a_slow_path(hosts: usize, rate: Rate) -> (Network, LinkId) {
    let mut network = Network::new(2 * hosts, STORE);
    let leaves = ["l0", "l1"].map(|name| network.add_switch(1, "leaf", name));
    for host in 0..2 * hosts {
        network.connect(NodeId(host as u32), leaves[host / hosts], rate, HOP_DELAY);
    }
    for (spine, mbps) in [10_000, 10_000, 10_000, 2_500].into_iter().enumerate() {
        let spine = network.add_switch(2, "spine", format!("s{spine}"));
        for leaf in leaves {
            network.connect(leaf, spine, Rate::from_bps(mbps * 1_000_000), HOP_DELAY);
        }
    }
    let slow = network.ports(leaves[0])[hosts + 3];
    (network, slow)
}

/// One pair of hosts for each path length from host 0.
pub fn pairs(network: &Network) -> Vec<(NodeId, NodeId)> {
    let distance = network.distances(NodeId(0));
    let mut seen = std::collections::BTreeMap::new();
    for host in (1..network.hosts() as u32).rev() {
        seen.insert(distance[host as usize], (NodeId(0), NodeId(host)));
    }
    seen.into_values().collect()
}

/// A set-up with memory that never overflows, one path per flow, and no time limit.
pub fn setup(network: Network) -> SimSetup {
    SimSetup {
        network,
        wire: WireProfile::IP_1500,
        memory: Memory::PerPort(Bytes::new(1 << 30)),
        routing: Routing::Ecmp,
        seed: 1,
        time_limit: Time::MAX,
    }
}

pub fn flow(id: u32, src: u32, dst: u32, size: u64, start: Time) -> Flow {
    Flow {
        id: FlowId(id),
        src: NodeId(src),
        dst: NodeId(dst),
        size: Bytes::new(size),
        start,
        deadline: None,
        tenant: 0,
        coflow: None,
        background: false,
    }
}

/// Flows of each size between each pair, one every `gap`, so that each starts in an idle network if `gap` is long enough.
pub fn apart(ends: &[(NodeId, NodeId)], sizes: &[u64], gap: Duration) -> Vec<Flow> {
    let each = ends.iter().flat_map(|ends| sizes.iter().map(move |size| (*ends, *size)));
    (0..).zip(each).map(|(id, ((src, dst), size))| flow(id, src.0, dst.0, size, Time::ZERO + gap * u64::from(id))).collect()
}

/// Sorts flows by start and renumbers them.
pub fn in_order(mut flows: Vec<Flow>) -> Vec<Flow> {
    flows.sort_by_key(|flow| flow.start);
    for (id, flow) in (0..).zip(&mut flows) {
        flow.id = FlowId(id);
    }
    flows
}

/// Some flows that start at 0, tasks, and what each of these waits for: one to four of all before it, at random ends and with random delays. A fifth are joins.
pub fn dag(network: &Network, tasks: usize, seed: u64) -> (Vec<Flow>, Vec<Task>, Vec<(FlowId, Next)>) {
    let (mut dice, hosts) = (Dice::new(seed), network.hosts() as u64);
    let mut any_flow = |id: u32, start| {
        let src = dice.below(hosts);
        let dst = (src + 1 + dice.below(hosts - 1)) % hosts;
        (flow(id, src as u32, dst as u32, dice.below(30_000), start), dice.below(5), dice.below(u64::MAX))
    };
    let flows: Vec<Flow> = (0..5).map(|id| any_flow(id, Time::ZERO).0).collect();
    let (mut list, mut nexts) = (Vec::new(), Vec::new());
    for id in (flows.len() as u32..).take(tasks) {
        let (flow, kind, seed) = any_flow(id, Time::MAX);
        list.push(if kind == 0 { Task::Join(flow.src) } else { Task::Flow(flow) });
        let mut dice = Dice::new(seed);
        let mut needs: Vec<u32> = (0..1 + dice.below(4)).map(|_| dice.below(u64::from(id)) as u32).collect();
        needs.sort_unstable();
        needs.dedup();
        for need in needs {
            let end = [End::Begun, End::Received, End::Acknowledged][dice.below(3) as usize];
            nexts.push((FlowId(need), Next { task: FlowId(id), end, delay: Duration::from_ps(1 + dice.below(2_000_000)) }));
        }
    }
    (flows, list, nexts)
}

/// Runs the simulation to its end and checks conservation.
pub fn run<T: Transport>(config: &T::Config, setup: SimSetup, flows: Vec<Flow>) -> Report {
    watch::<T, ()>(config, setup, flows, ()).0
}

/// As [`run`], with an observer.
pub fn watch<T: Transport, O: Observer<T::Header>>(
    config: &T::Config,
    setup: SimSetup,
    flows: Vec<Flow>,
    observer: O,
) -> (Report, O) {
    let mut sim = Sim::<T, T::Port, O>::new(config, setup, flows, observer);
    while sim.step(1 << 20) {}
    sim.finish().expect("conservation")
}

/// As [`watch`], with `faults(index)` on each link.
pub fn watch_faulty<T: Transport, O: Observer<T::Header>>(
    config: &T::Config,
    setup: SimSetup,
    flows: Vec<Flow>,
    observer: O,
    faults: impl Fn(u32) -> Vec<Fault> + Sync,
) -> (Report, O) {
    let aimed = |link| faults(link).into_iter().map(AimedFault::from).collect();
    watch_aimed::<T, O>(config, setup, flows, observer, aimed)
}

/// As [`watch_faulty`], with faults that affect only some packets.
pub fn watch_aimed<T: Transport, O: Observer<T::Header>>(
    config: &T::Config,
    setup: SimSetup,
    flows: Vec<Flow>,
    observer: O,
    faults: impl Fn(u32) -> Vec<AimedFault> + Sync,
) -> (Report, O) {
    let seed = setup.seed;
    let mut sim = Sim::<T, Faulty<T::Port>, O>::with_ports(config, setup, flows, observer, |port, site| {
        Faulty::new(port, site, faults(site.link.0), seed)
    });
    while sim.step(1 << 20) {}
    sim.finish().expect("conservation")
}

/// A random number generator for tests.
pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }
    /// Uniform in `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }
    /// Uniform in (0, 1].
    pub fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
    /// Exponentially distributed.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        mean.scale(-self.unit().ln())
    }
}

/// Poisson flows between all hosts at `load` of the hosts' links. Of ten flows, 7 have up to 8 packets, 2 up to 60 and 1 up to 400.
pub fn poisson(network: &Network, load: f64, count: u32, seed: u64) -> Vec<Flow> {
    let mut dice = Dice::new(seed);
    let hosts = network.hosts() as u64;
    let sizes: Vec<u64> = (0..count)
        .map(|_| {
            let packets_max = [8, 8, 8, 8, 8, 8, 8, 60, 60, 400][dice.below(10) as usize];
            1 + dice.below(1460 * packets_max)
        })
        .collect();
    let wire = WireProfile::IP_1500;
    let bytes: u64 = sizes.iter().map(|size| wire.flow_wire_bytes(Bytes::new(*size)).get()).sum();
    let mean = gbps(10).transmit_time(Bytes::new(bytes)).scale(1.0 / (f64::from(count) * load * hosts as f64));
    let mut now = Time::ZERO;
    let flows = sizes.into_iter().map(|size| {
        now += dice.exponential(mean);
        let src = dice.below(hosts);
        let dst = (src + 1 + dice.below(hosts - 1)) % hosts;
        flow(0, src as u32, dst as u32, size, now)
    });
    in_order(flows.collect())
}
