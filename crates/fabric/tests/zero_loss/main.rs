//! ExpressPass and TOP keep every queue of data below the bound that follows from the routes.

#[path = "../common/mod.rs"]
mod common;
mod observed;

use std::fmt::Debug;
use std::sync::Arc;

use flowloom_core::{Bytes, Duration, Flow, LinkId, Memory, Network, Paths, Time, Transport, WireProfile, topology};
use flowloom_fabric::{Routing, Sim, SimSetup};
use flowloom_transports::Checked;
use flowloom_transports::disciplines::{Beyond, DataQueue, WatchesData, data_queue_bounds};
use flowloom_transports::expresspass::{Config, ExpressPass, Feedback};
use flowloom_transports::top::{self, Priority, SwitchForm, Top};

use crate::common::networks::{CUT, Dice, STORE, flow, gbps, in_order, setup};
use crate::observed::DataQueues;

const WIRE: WireProfile = WireProfile::ETHERNET_1538;

/// More than this many standard deviations never happen.
const DEVIATIONS: f64 = 8.0;

struct Found {
    /// The longest queue of data at any port.
    peak: u64,
    /// By how much a queue was beyond what is allowed, if one was.
    beyond: Option<(String, Beyond)>,
}

/// Runs flows to their end. The queues of data that the ports have found, by link. They are those that an observer has found.
fn watched<T: Transport<Port: WatchesData>>(
    config: &T::Config,
    network: &Network,
    flows: Vec<Flow>,
    memory: u64,
    limits: &[u64],
    deviation: f64,
) -> Vec<DataQueue> {
    let memory = Memory::PerPort(Bytes::new(memory));
    let setup = SimSetup { wire: WIRE, routing: Routing::EcmpSymmetric, memory, ..setup(network.clone()) };
    let observer = DataQueues::new(limits.iter().copied(), deviation);
    let mut sim = Sim::<T, T::Port, DataQueues>::with_ports(config, setup, flows, observer, |mut port, site| {
        port.limit_data(limits[site.link.index()], deviation);
        port
    });
    while sim.step(1 << 20) {}
    let found: Vec<DataQueue> = sim.ports().map(|port| port.data_queue().clone()).collect();
    let (report, observed) = sim.finish().expect("conservation");
    assert!(report.records.iter().all(|record| record.acknowledged < Time::MAX));
    for (port, observed) in found.iter().zip(observed.queues) {
        assert_eq!((port.peak(), port.beyond()), (observed.peak, observed.beyond));
    }
    found
}

fn measure<T: Transport<Config: Checked + Debug, Port: WatchesData>>(
    config: &T::Config,
    deviations: f64,
    network: &Network,
    flows: Vec<Flow>,
) -> Found {
    let paths = Paths::new(Arc::new(network.clone()), Routing::EcmpSymmetric, 1);
    let schedule = config.credit_schedule(&WIRE).expect("the transport has credits");
    let bounds = data_queue_bounds(&paths, &WIRE, &schedule).expect("there is no cycle");
    let limits: Vec<u64> = bounds.iter().map(|bound| bound.get()).collect();
    let queues = watched::<T>(config, network, flows, 100_000_000, &limits, deviations * schedule.deviation(&WIRE));
    let beyond = queues.iter().zip(0..).filter_map(|(queue, link)| Some((network.link_name(LinkId(link)), queue.beyond()?)));
    Found {
        peak: queues.iter().map(DataQueue::peak).max().unwrap_or_default(),
        beyond: beyond.max_by_key(|(_, beyond)| beyond.bytes - beyond.allowed),
    }
}

fn configs() -> impl Iterator<Item = Config> {
    let spread = |feedback| [8, 0].map(|spread| Config { feedback, credit_spread: Bytes::new(spread), ..Config::default() });
    [Feedback::Released, Feedback::Paper].into_iter().flat_map(spread)
}

/// TOP with several queues of tokens, whose order changes as flows shrink, and with sorted tokens.
fn top_configs() -> impl Iterator<Item = top::Config> {
    let forms = [
        (SwitchForm::Hypothetical, Priority::Size),
        (SwitchForm::Hypothetical, Priority::Remaining),
        (SwitchForm::Ideal, Priority::Size),
    ];
    forms.into_iter().map(|(switch, priority)| top::Config {
        switch,
        priority,
        largest: Bytes::new(1_000_000),
        ..top::Config::default()
    })
}

/// The longest queue of data, which is within the bounds.
fn within<T: Transport<Config: Checked + Debug, Port: WatchesData>>(
    config: &T::Config,
    network: &Network,
    flows: &[Flow],
) -> u64 {
    let found = measure::<T>(config, DEVIATIONS, network, flows.to_vec());
    assert!(found.beyond.is_none(), "{config:?}: {:?}", found.beyond);
    found.peak
}

/// All queues are within the bounds: in both forms of ExpressPass's feedback, with credits of random and of equal sizes, and under TOP. Returns
/// the longest queue.
fn all_within(network: &Network, flows: &[Flow]) -> u64 {
    let expresspass = configs().map(|config| within::<ExpressPass>(&config, network, flows));
    let top = top_configs().map(|config| within::<Top>(&config, network, flows));
    expresspass.chain(top).max().unwrap_or_default()
}

fn us(n: u64) -> Duration {
    Duration::from_us(n)
}

/// 8 and 128 hosts send 300 packets each to one host.
#[test]
fn an_incast() {
    for (senders, switching) in [(8, STORE), (8, CUT), (128, STORE), (128, CUT)] {
        let network = topology::single_switch(senders as usize + 1, gbps(10), us(1), switching);
        let flows: Vec<Flow> = (0..senders).map(|id| flow(id, id, senders, 300 * 1460, Time::ZERO)).collect();
        let peak = all_within(&network, &flows);
        assert!(peak < 10 * 1538, "{senders}: {peak}");
    }
}

/// 50 pairs of hosts on both sides of a link, and flows that start every 300 ns.
fn across(count: u32, bytes: u64, both_ways: bool) -> (Network, Vec<Flow>) {
    let network = topology::dumbbell(50, gbps(10), gbps(10), us(1), CUT);
    let across = |id: u32| {
        let (left, right) = (id % 50, 50 + id * 7 % 50);
        let (src, dst) = if both_ways && id % 2 == 1 { (right, left) } else { (left, right) };
        flow(id, src, dst, bytes, Time::ZERO + Duration::from_ns(u64::from(id) * 300))
    };
    (network, (0..count).map(across).collect())
}

/// Only signals make data wait: a thousand requests leave before data, so memory as large as the bound would overflow here.
#[test]
fn a_thousand_flows_over_one_link() {
    let (network, flows) = across(1000, 10 * 1460, false);
    let peak = all_within(&network, &flows);
    assert!(peak > 100_000, "{peak}");
}

/// Where a link is full in both directions, nothing compensates for credits below the mean size: the queue is a random walk, and exceeds
/// the bound for equal credits. With credits of equal sizes it does not.
#[test]
fn random_sizes_of_credits_break_the_bound_of_equal_ones() {
    let (network, flows) = across(200, 1000 * 1460, true);
    let beyond = |spread, deviations| {
        let config = Config { feedback: Feedback::Paper, credit_spread: Bytes::new(spread), ..Config::default() };
        measure::<ExpressPass>(&config, deviations, &network, flows.clone()).beyond
    };
    let (link, beyond_equal) = beyond(8, 0.0).expect("random sizes break the bound of equal ones");
    assert!(beyond_equal.bytes > beyond_equal.allowed + 1538, "{link}: {beyond_equal:?}");
    assert_eq!([beyond(0, 0.0), beyond(8, DEVIATIONS)], [None, None]);
}

/// Flows of up to 700 kB between 32 hosts at load 0.6.
#[test]
fn a_leaf_spine() {
    for switching in [STORE, CUT] {
        let network = topology::leaf_spine(4, 8, 4, gbps(10), gbps(40), us(1), switching);
        let mut dice = Dice::new(7);
        let mut at = Time::ZERO;
        let flows = (0..800).map(|_| {
            let most = if dice.below(10) < 7 { 30_000 } else { 700_000 };
            let size = 1 + dice.below(most);
            at += dice.exponential(Duration::from_ns(4_800));
            let src = dice.below(32);
            flow(0, src as u32, ((src + 1 + dice.below(31)) % 32) as u32, size, at)
        });
        all_within(&network, &in_order(flows.collect()));
    }
}

/// The watch itself: no queue is as short as 1537 B.
#[test]
fn a_bound_that_is_too_low_is_noticed() {
    let network = topology::single_switch(9, gbps(10), us(1), STORE);
    let flows: Vec<Flow> = (0..8).map(|id| flow(id, id, 8, 300 * 1460, Time::ZERO)).collect();
    let limits = vec![1537; network.links().len()];
    let queues = watched::<ExpressPass>(&Config::default(), &network, flows, 1_000_000, &limits, 0.0);
    assert!(queues.iter().filter_map(DataQueue::beyond).any(|beyond| beyond.allowed == 1537 && beyond.bytes >= 1538));
}
