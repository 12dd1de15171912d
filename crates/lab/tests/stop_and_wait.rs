//! The worked example of `docs/add-a-transport.md`: the files of `examples/stop_and_wait` as they are, with their own tests, and
//! the scheme on a leaf-spine.

use flowloom_core::{Bytes, Duration, Flow, FlowId, Memory, NodeId, Rate, Switching, Time, WireProfile, topology};
use flowloom_fabric::{Faulty, Report, Routing, Sim, SimSetup};
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Plan, metrics};
// What the example finds as `crate::…` in the crate of transports.
use flowloom_transports::{Checked, Conditions, disciplines, quantity, toolkit};

#[allow(dead_code, reason = "the example needs a part of it")]
#[path = "../../transports/src/trial.rs"]
mod trial;

#[path = "../../../examples/stop_and_wait/mod.rs"]
mod stop_and_wait;

use stop_and_wait::{Config, StopAndWait};

fn run(config: &Config, plan: &Plan) -> Report {
    let mut sim = Sim::<StopAndWait, Faulty<_>>::over(config, plan.setup.routed(), plan.flows.own.clone(), (), |port, site| {
        Faulty::new(port, site, plan.setup.faults[site.link.index()].clone(), plan.setup.seed)
    });
    while sim.step(1 << 20) {}
    sim.finish().expect("conservation").0
}

/// Flows and faults of a scenario. They do not depend on the transport, so the scenario may name any.
fn plan(fault: &str, load: f64) -> Plan {
    let text = format!(
        r#"
        [topology]
        kind = "leaf_spine"
        racks = 2
        hosts_per_rack = 4
        spines = 2
        {fault}
        [workload]
        kind = "poisson"
        sizes = {{ uniform = ["1B", "100kB"] }}
        load = {load}
        flows = 300
        [transport]
        name = "ideal"
        "#
    );
    let scenario = Scenario::load(&text, "stop_and_wait.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
    scenario.validate().and_then(|spec| Plan::new(&spec)).unwrap_or_else(|error| panic!("{error}"))
}

/// How long a packet of `size` bytes needs between hosts of one rack and of two, by hand: 10 Gb/s are 800 ps a byte, 40 Gb/s
/// 200 ps; each of 2 or 4 links has 200 ns of delay. Cutting through costs 40 B at a switch, but a link that leads to a faster
/// one is waited for.
fn alone(size: u64, switching: Switching, same_rack: bool) -> Duration {
    Duration::from_ps(match (switching, same_rack) {
        (Switching::StoreAndForward, true) => 2 * 800 * size + 2 * 200_000,
        (Switching::StoreAndForward, false) => 2 * 800 * size + 2 * 200 * size + 4 * 200_000,
        (Switching::CutThrough { .. }, true) => 800 * 40 + 800 * size + 2 * 200_000,
        (Switching::CutThrough { .. }, false) => 2 * 800 * size + 2 * 200 * 40 + 4 * 200_000,
    })
}

#[test]
fn an_unloaded_flow_takes_a_round_trip_per_packet_whatever_its_path() {
    for switching in [Switching::StoreAndForward, Switching::CutThrough { header: Bytes::new(40) }] {
        for (dst, same_rack) in [(1, true), (2, false)] {
            for size in [1, 1459, 1460, 1461, 100_000, 10_000_000] {
                let (host, spine) = (Rate::from_gbps(10), Rate::from_gbps(40));
                let network = topology::leaf_spine(2, 2, 2, host, spine, Duration::from_ns(200), switching);
                let setup = SimSetup {
                    network,
                    wire: WireProfile::IP_1500,
                    memory: Memory::PerPort(Bytes::new(36_864)),
                    routing: Routing::SprayRoundRobin,
                    seed: 1,
                    time_limit: Time::MAX,
                };
                let flow = Flow {
                    id: FlowId(0),
                    src: NodeId(0),
                    dst: NodeId(dst),
                    size: Bytes::new(size),
                    start: Time::ZERO,
                    deadline: None,
                    tenant: 0,
                    coflow: None,
                    background: false,
                };
                let mut sim = Sim::<StopAndWait>::new(&Config::default(), setup, vec![flow], ());
                while sim.step(1 << 20) {}
                let record = sim.finish().expect("conservation").0.records[0];
                let packets = size.div_ceil(1460);
                let last = size - 1460 * (packets - 1) + 40;
                let back = alone(40, switching, same_rack);
                let received = (alone(1500, switching, same_rack) + back) * (packets - 1) + alone(last, switching, same_rack);
                assert_eq!(record.received - Time::ZERO, received, "{size} B to host {dst}, {switching:?}");
                assert_eq!(record.acknowledged - Time::ZERO, received + back, "{size} B to host {dst}, {switching:?}");
            }
        }
    }
}

#[test]
fn flows_survive_every_fault_at_once() {
    let random = |kind| format!("[[fault]]\nkind = \"{kind}\"\nwhere = \"all\"\nprobability = 0.01\n");
    let faults = ["loss", "corrupt", "duplicate"].map(random).concat()
        + "[[fault]]\nkind = \"reorder\"\nwhere = \"all\"\nprobability = 0.05\ndelay = \"100us\"\n"
        + "[[fault]]\nkind = \"link_down\"\nwhere = \"l0-s0\"\nfrom = \"100us\"\nto = \"3ms\"\n";
    let plan = plan(&faults, 0.5);
    for window in [1, 8] {
        let report = run(&Config { window, ..Config::default() }, &plan);
        for (flow, record) in report.flows.iter().zip(&report.records) {
            assert_eq!(record.delivered_bytes, flow.size.get());
            assert_ne!(record.acknowledged, Time::MAX);
        }
        // The faults were real: packets were lost in each of the three ways, and sent again.
        let lost = |reason: usize| report.ports.iter().map(|port| port.dropped_packets[reason]).sum::<u64>();
        for why in ["lost", "corrupted", "link_down"] {
            let index = flowloom_core::DropReason::ALL.iter().position(|reason| reason.name() == why).unwrap();
            assert!(lost(index) > 0, "nothing was {why}");
        }
        assert!(report.records.iter().map(|record| record.retransmissions).sum::<u32>() > 0);
    }
}

/// A change of behaviour is a readable difference here. A window of one pays a round trip per packet; one of four hides most of it;
/// sixteen packets each overflow ports of 24, and timeouts cost more than all round trips.
#[test]
fn the_table_of_slowdowns_is_as_it_was() {
    let mut table = String::from("load  window  slowdown  resent\n");
    for load in [0.2, 0.5, 0.8] {
        let plan = plan("", load);
        for window in [1, 4, 16] {
            let report = run(&Config { window, ..Config::default() }, &plan);
            let rows = metrics::rows(
                &report,
                &plan.setup.wire,
                metrics::FctEnd::Receiver,
                Duration::ZERO,
                false,
                metrics::Optima::ClosedForm,
            );
            let slowdowns: Vec<f64> = rows.iter().filter_map(metrics::Row::slowdown).collect();
            let mean = slowdowns.iter().sum::<f64>() / 300.0;
            let resent: u32 = rows.iter().map(|row| row.retransmissions).sum();
            table += &format!("{load:>4}  {window:>6}  {mean:>8.3}  {resent:>6}\n");
        }
    }
    insta::assert_snapshot!(table, @r"
    load  window  slowdown  resent
     0.2       1     2.809       0
     0.2       4     1.434       0
     0.2      16     5.983     292
     0.5       1     4.057       0
     0.5       4     2.830       3
     0.5      16    14.789     907
     0.8       1     6.976       0
     0.8       4     7.409      48
     0.8      16    24.407    1677
    ");
}
