//! LAS between hosts.

use flowloom_core::{Bytes, Duration, FlowId, Memory, Time};
use flowloom_fabric::pair::{Pair, PairSetup};
use proptest::prelude::*;

use super::{Config, Las};
use crate::trial::trials;

const SECOND: Time = Time::from_ps(1_000_000_000_000);
/// 1500 B at 10 Gb/s.
const PACKET: Duration = Duration::from_ns(1200);

/// Equal flows that start together share the line as in processor sharing: each has 1/n of it at all times, and all end together,
/// within one packet of each.
#[test]
fn equal_flows_share_the_line_as_a_processor() {
    for (flows, packets) in [(2_u32, 500_u64), (5, 200), (12, 100)] {
        let setup =
            PairSetup { hosts: flows as usize + 1, memory: Memory::PerPort(Bytes::new(1 << 30)), ..PairSetup::default() };
        let config = Config { initial_window: 139, port_most: Bytes::new(1 << 30), ..Config::default() };
        let mut pair = Pair::<Las>::new(&config, setup);
        let ids: Vec<FlowId> = (1..=flows).map(|sender| pair.open(sender, 0, packets * 1460)).collect();
        pair.run_to_end(SECOND);
        assert!(pair.dropped().is_empty());
        let sharing = PACKET * (u64::from(flows) * packets) + Duration::from_us(1);
        let round = PACKET * u64::from(flows);
        for id in ids {
            let fct = pair.flow(id).fct();
            assert!(fct <= sharing && fct + round >= sharing, "{flows} flows: {fct}, sharing {sharing}");
        }
    }
}

/// The flow that has sent less goes first until it has sent as much. A flow of s packets that arrives when the other has sent more has
/// the line to itself.
#[test]
fn a_young_flow_has_the_line_to_itself() {
    let setup = PairSetup { hosts: 3, memory: Memory::PerPort(Bytes::new(1 << 30)), ..PairSetup::default() };
    let mut pair = Pair::<Las>::new(&Config::default(), setup);
    pair.open(1, 0, 3_000_000);
    pair.run(Time::ZERO + Duration::from_us(300));
    let young = pair.open(2, 0, 50 * 1460);
    pair.run_to_end(SECOND);
    let alone = PACKET * 50 + Duration::from_us(1);
    let fct = pair.flow(young).fct();
    assert!(fct >= alone && fct <= alone + PACKET, "{fct}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_flow_survives_whatever_the_network_does(trial in trials()) {
        trial.survive::<Las>(&Config::default());
    }
}
