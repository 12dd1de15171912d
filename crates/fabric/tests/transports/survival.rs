//! With every kind of fault, every flow completes and no byte is delivered twice.

use flowloom_core::{Bytes, Duration, Flow, Memory, Time, Transport, WireProfile, topology};
use flowloom_fabric::{Fault, Routing, SimSetup};
use flowloom_transports::d3::{self, D3};
use flowloom_transports::dcqcn::{self, Dcqcn, Windowed};
use flowloom_transports::disciplines::EcnConfig;
use flowloom_transports::expresspass::{self, ExpressPass, Feedback};
use flowloom_transports::fastpass::Fastpass;
use flowloom_transports::homa::{self, Assignment, Homa};
use flowloom_transports::hpcc::{self, Hpcc};
use flowloom_transports::las::Las;
use flowloom_transports::ndp::{self, Ndp, PullOrder};
use flowloom_transports::pase::{self, Pase};
use flowloom_transports::pdq::Pdq;
use flowloom_transports::pfabric::{self, PFabric};
use flowloom_transports::phost::PHost;
use flowloom_transports::pias::{self, Pias};
use flowloom_transports::roce::Recovery;
use flowloom_transports::tcp::controllers::Kind;
use flowloom_transports::tcp::{self, D2tcp, Dctcp, EcnStar, L2dct, Tcp};
use flowloom_transports::top::{self, Priority, SwitchForm, Top};
use proptest::prelude::*;

use crate::common::networks::{CUT, HOP_DELAY, STORE, gbps, ns, poisson, setup, watch_faulty};
use crate::common::watch::Coverage;

/// Runs flows with faults on every link and checks that every byte is delivered once.
fn survives<T: Transport>(
    config: &T::Config,
    setup: SimSetup,
    flows: Vec<Flow>,
    faults: &[Fault],
) -> Result<(), TestCaseError> {
    let (report, coverage) = watch_faulty::<T, Coverage>(config, setup, flows, Coverage::default(), |_| faults.to_vec());
    prop_assert_eq!(coverage.twice, [], "{}", T::NAME);
    for (flow, record) in report.flows.iter().zip(&report.records) {
        prop_assert!(record.acknowledged != Time::MAX, "{}: {flow:?} {record:?} at {}", T::NAME, report.end);
        let delivered: u64 = coverage.ranges.get(&flow.id).map_or(0, |ranges| ranges.iter().map(|(from, to)| to - from).sum());
        prop_assert_eq!(delivered, flow.size.get(), "{}", T::NAME);
    }
    Ok(())
}

/// TCP over ports that mark before they overflow. Its longest retransmission timeout fits into [`TIME_LIMIT`].
fn tcp_config() -> tcp::Config {
    let port = EcnConfig { mark_above: Some(Bytes::new(6000)), ..EcnConfig::default() };
    tcp::Config { port, nic: port, initial_window: 20, rto_max: Duration::from_ms(200), ..tcp::Config::default() }
}

/// Flows are demoted early, and promoted again if they starve.
fn pias_config(controller: Kind) -> pias::Config {
    let thresholds = [3_000, 20_000, 100_000].map(Bytes::new).to_vec().into();
    pias::Config { thresholds, controller, aging: 2, tcp: tcp_config(), ..pias::Config::default() }
}

/// Homa with two cutoffs, and a timeout that is short enough for thousands of lost packets.
fn homa_config() -> homa::Config {
    let cutoffs = [1460, 8 * 1460].map(Bytes::new).to_vec();
    homa::Config { cutoffs, resend_timeout: Duration::from_us(500), ..homa::Config::default() }
}

/// PASE with timeouts that fit into [`TIME_LIMIT`].
fn pase_config(queues: u8, delegation: bool) -> pase::Config {
    pase::Config {
        queues,
        delegation,
        mark_above: Bytes::new(6000),
        rto_top: Duration::from_ms(2),
        rto_lower: Duration::from_ms(5),
        rto_max: Duration::from_ms(200),
        ..pase::Config::default()
    }
}

fn every_fault(p: f64) -> [Fault; 5] {
    [
        Fault::Loss(p),
        Fault::Corrupt(p),
        Fault::Duplicate(p),
        Fault::Reorder(p, Duration::from_us(20)),
        Fault::Down(ns(100_000), ns(300_000)),
    ]
}

/// Long enough for every back-off.
const TIME_LIMIT: Time = Time::from_ps(10_000_000_000_000);

#[test]
fn a_leaf_spine_at_half_load_with_every_fault() {
    let network = topology::leaf_spine(3, 8, 2, gbps(10), gbps(40), HOP_DELAY, CUT);
    let flows = poisson(&network, 0.5, 1000, 4);
    let setup = SimSetup {
        memory: Memory::PerPort(Bytes::new(36_864)),
        routing: Routing::SprayRandom,
        time_limit: TIME_LIMIT,
        ..setup(network)
    };
    let faults = every_fault(0.01);
    survives::<PHost>(&Default::default(), setup.clone(), flows.clone(), &faults).expect("phost");
    survives::<PFabric>(&Default::default(), setup.clone(), flows.clone(), &faults).expect("pfabric");
    survives::<Fastpass>(&Default::default(), setup.clone(), flows.clone(), &faults).expect("fastpass");
    survives::<Las>(&Default::default(), setup.clone(), flows.clone(), &faults).expect("las");
    survives::<Homa>(&homa_config(), setup.clone(), flows.clone(), &faults).expect("homa");
    let labelled = SimSetup { routing: Routing::SprayLabelled, ..setup.clone() };
    survives::<Ndp>(&Default::default(), labelled, flows.clone(), &faults).expect("ndp");
    let symmetric = SimSetup { routing: Routing::EcmpSymmetric, ..setup.clone() };
    survives::<Pdq>(&Default::default(), symmetric.clone(), flows.clone(), &faults).expect("pdq");
    survives::<ExpressPass>(&Default::default(), symmetric.clone(), flows.clone(), &faults).expect("expresspass");
    for setup in [&setup, &symmetric] {
        survives::<Top>(&Default::default(), setup.clone(), flows.clone(), &faults).expect("top");
    }
    let one_path = SimSetup { routing: Routing::Ecmp, ..setup.clone() };
    survives::<D3>(&Default::default(), one_path.clone(), flows.clone(), &faults).expect("d3");
    survives::<Hpcc>(&Default::default(), one_path.clone(), flows.clone(), &faults).expect("hpcc");
    survives::<Dcqcn>(&Default::default(), one_path.clone(), flows.clone(), &faults).expect("dcqcn");
    survives::<Pase>(&pase_config(8, true), one_path, flows.clone(), &faults).expect("pase");
    for routing in [Routing::SprayRandom, Routing::Ecmp] {
        let setup = SimSetup { routing, ..setup.clone() };
        survives::<Tcp>(&tcp_config(), setup.clone(), flows.clone(), &faults).expect("tcp");
        survives::<Dctcp>(&tcp_config(), setup.clone(), flows.clone(), &faults).expect("dctcp");
        survives::<D2tcp>(&tcp_config(), setup.clone(), flows.clone(), &faults).expect("d2tcp");
        survives::<L2dct>(&tcp_config(), setup.clone(), flows.clone(), &faults).expect("l2dct");
        survives::<EcnStar>(&tcp_config(), setup.clone(), flows.clone(), &faults).expect("ecn_star");
        survives::<Pias>(&pias_config(Kind::Dctcp), setup, flows.clone(), &faults).expect("pias");
    }
}

/// A random topology with small or medium buffers, 40 flows at 60 % load, and all faults with the same probability.
fn small_network() -> impl Strategy<Value = (SimSetup, Vec<Flow>, [Fault; 5])> {
    let shape = |kind, switching| match kind {
        0 => topology::single_switch(4, gbps(10), HOP_DELAY, switching),
        1 => topology::dumbbell(3, gbps(10), gbps(10), HOP_DELAY, switching),
        2 => topology::leaf_spine(2, 3, 2, gbps(10), gbps(10), HOP_DELAY, switching),
        _ => topology::fat_tree(4, gbps(10), HOP_DELAY, switching),
    };
    let routing =
        prop::sample::select(vec![Routing::SprayRandom, Routing::SprayRoundRobin, Routing::Ecmp, Routing::EcmpSymmetric]);
    let switching = prop::sample::select(vec![STORE, CUT]);
    (any::<u64>(), 0..4, switching, routing, 0.0..PROBABILITY_MAX, 6000_u64..40_000).prop_map(
        move |(seed, kind, switching, routing, p, buffer)| {
            let network = shape(kind, switching);
            let flows = poisson(&network, 0.6, 40, seed);
            let setup = SimSetup {
                memory: Memory::PerPort(Bytes::new(buffer)),
                routing,
                seed,
                time_limit: TIME_LIMIT,
                ..setup(network)
            };
            (setup, flows, every_fault(p))
        },
    )
}

/// The largest probability of a fault on each link. With more loss, a source that backs off could be silent for longer than receivers keep
/// the state of finished flows.
const PROBABILITY_MAX: f64 = 0.02;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn phost_on_small_networks_with_every_fault((setup, flows, faults) in small_network()) {
        survives::<PHost>(&Default::default(), setup, flows, &faults)?;
    }

    #[test]
    fn pfabric_on_small_networks_with_every_fault((setup, flows, faults) in small_network(), avoid_paths in any::<bool>()) {
        let routing = if avoid_paths { Routing::SprayLabelled } else { setup.routing };
        let config = pfabric::Config { avoid_paths, ..pfabric::Config::default() };
        survives::<PFabric>(&config, SimSetup { routing, ..setup }, flows, &faults)?;
    }

    #[test]
    fn fastpass_on_small_networks_with_every_fault((setup, flows, faults) in small_network()) {
        survives::<Fastpass>(&Default::default(), setup, flows, &faults)?;
    }

    /// Flows without a deadline never give up.
    #[test]
    fn d3_on_small_networks_with_every_fault((setup, flows, faults) in small_network(), capacity_max in 1.0..4.0) {
        let setup = SimSetup { routing: Routing::EcmpSymmetric, ..setup };
        survives::<D3>(&d3::Config { capacity_max, ..d3::Config::default() }, setup, flows, &faults)?;
    }

    #[test]
    fn expresspass_on_small_networks_with_every_fault(
        (setup, flows, faults) in small_network(),
        feedback in prop::sample::select(vec![Feedback::Paper, Feedback::Released]),
        early_stop in any::<bool>(),
    ) {
        let setup = SimSetup { routing: Routing::EcmpSymmetric, ..setup };
        let config = expresspass::Config { feedback, early_stop, ..expresspass::Config::default() };
        survives::<ExpressPass>(&config, setup, flows, &faults)?;
    }

    #[test]
    fn top_on_small_networks_with_every_fault(
        (setup, flows, faults) in small_network(),
        switch in prop::sample::select(vec![SwitchForm::Hypothetical, SwitchForm::Ideal, SwitchForm::Remedy]),
        priority in prop::sample::select(vec![Priority::Size, Priority::Remaining, Priority::Attained]),
        unscheduled in 0_u32..9,
    ) {
        let unscheduled = if priority == Priority::Attained { 0 } else { unscheduled };
        survives::<Top>(&top::Config { switch, priority, unscheduled, ..top::Config::default() }, setup, flows, &faults)?;
    }

    #[test]
    fn hpcc_on_small_networks_with_every_fault(
        (setup, flows, faults) in small_network(),
        max_stage in 0_u32..6,
        fast_reaction in any::<bool>(),
        ack_first in any::<bool>(),
        shared in any::<bool>(),
        ack_every in 1_u32..20,
        recovery in prop::sample::select(vec![Recovery::GoBackN, Recovery::Selective]),
    ) {
        let config = hpcc::Config { max_stage, fast_reaction, ack_first, ack_every, recovery, ..hpcc::Config::default() };
        let bytes = setup.memory.bytes();
        let memory = if shared { Memory::PerSwitch { bytes, alpha: 1.0 } } else { Memory::PerPort(bytes) };
        survives::<Hpcc>(&config, SimSetup { memory, routing: Routing::Ecmp, ..setup }, flows, &faults)?;
    }

    #[test]
    fn dcqcn_on_small_networks_with_every_fault(
        (setup, flows, faults) in small_network(),
        window in prop::sample::select(vec![Windowed::Off, Windowed::Fixed, Windowed::ByRate]),
        ack_every in 1_u32..20,
        recovery in prop::sample::select(vec![Recovery::GoBackN, Recovery::Selective]),
        shared in any::<bool>(),
    ) {
        let config = dcqcn::Config { window, ack_every, recovery, ..dcqcn::Config::default() };
        let bytes = setup.memory.bytes();
        let memory = if shared { Memory::PerSwitch { bytes, alpha: 1.0 } } else { Memory::PerPort(bytes) };
        survives::<Dcqcn>(&config, SimSetup { memory, routing: Routing::Ecmp, ..setup }, flows, &faults)?;
    }

    #[test]
    fn las_on_small_networks_with_every_fault((setup, flows, faults) in small_network()) {
        survives::<Las>(&Default::default(), setup, flows, &faults)?;
    }

    #[test]
    fn homa_on_small_networks_with_every_fault(
        (setup, flows, faults) in small_network(),
        overcommitment in 0_u8..4,
        remaining in any::<bool>(),
        limit_total in any::<bool>(),
        push_out in any::<bool>(),
    ) {
        let assignment = if remaining { Assignment::Remaining } else { Assignment::Size };
        let config = homa::Config { overcommitment, assignment, limit_total, push_out, ..homa_config() };
        survives::<Homa>(&config, setup, flows, &faults)?;
    }

    /// With small queues, so that headers return too, and with long and short packets.
    #[test]
    fn ndp_on_small_networks_with_every_fault(
        (setup, flows, faults) in small_network(),
        data_queue in 1_u32..9,
        header_memory in 0.1..1.0,
        return_to_sender in any::<bool>(),
        labelled in any::<bool>(),
        jumbo in any::<bool>(),
    ) {
        let config = ndp::Config {
            data_queue,
            header_memory,
            return_to_sender,
            pull_order: if labelled { PullOrder::Srpt } else { PullOrder::Fair },
            avoid_paths: labelled,
            ..ndp::Config::default()
        };
        let routing = if labelled { Routing::SprayLabelled } else { setup.routing };
        let wire = if jumbo { WireProfile::JUMBO_9000 } else { setup.wire };
        survives::<Ndp>(&config, SimSetup { routing, wire, ..setup }, flows, &faults)?;
    }

    #[test]
    fn pdq_on_small_networks_with_every_fault((setup, flows, faults) in small_network()) {
        let setup = SimSetup { routing: Routing::EcmpSymmetric, ..setup };
        survives::<Pdq>(&Default::default(), setup, flows, &faults)?;
    }

    #[test]
    fn tcp_on_small_networks_with_every_fault((setup, flows, faults) in small_network(), sack in any::<bool>()) {
        let config = tcp::Config { sack, ..tcp_config() };
        survives::<Tcp>(&config, setup.clone(), flows.clone(), &faults)?;
        survives::<Dctcp>(&config, setup, flows, &faults)?;
    }

    #[test]
    fn pase_on_small_networks_with_every_fault(
        (setup, flows, faults) in small_network(),
        queues in 2_u8..9,
        delegation in any::<bool>(),
        symmetric in any::<bool>(),
    ) {
        let routing = if symmetric { Routing::EcmpSymmetric } else { Routing::Ecmp };
        survives::<Pase>(&pase_config(queues, delegation), SimSetup { routing, ..setup }, flows, &faults)?;
    }

    #[test]
    fn pias_on_small_networks_with_every_fault(
        (setup, flows, faults) in small_network(),
        controller in prop::sample::select(vec![Kind::NewReno, Kind::Dctcp, Kind::D2tcp, Kind::L2dct, Kind::EcnStar]),
        shared in any::<bool>(),
    ) {
        let bytes = setup.memory.bytes();
        let memory = if shared { Memory::PerSwitch { bytes, alpha: 1.0 } } else { Memory::PerPort(bytes) };
        let setup = SimSetup { memory, ..setup };
        survives::<Pias>(&pias_config(controller), setup, flows, &faults)?;
    }
}
