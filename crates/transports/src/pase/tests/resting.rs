//! Flows that wait in the lowest queue, and do not look at their share while nothing changes.

use flowloom_core::Flow;
use flowloom_fabric::pair::Faults;

use super::super::Rounding;
use super::*;

/// By hand: each of 200 flows of one source claims the whole link, so each of the first six queues has one flow, and the other 194 are in the seventh.
/// A period after their first packet, all of these rest. They take their turns nevertheless.
#[test]
fn flows_in_the_lowest_queue_rest() {
    let mut pair = Pair::<Pase>::new(&local(), rack(3));
    for flow in 0..200 {
        pair.open(0, 1 + flow % 2, 1_000_000);
    }
    pair.run(us(1_000));
    assert_eq!(pair.host(0).resting(), 194);
    pair.run_to_end(FOREVER);
    assert_eq!(pair.host(0).resting(), 0);
    // 960 B of each 1000 B are payload: 1,042 packets of 8 us for each flow.
    let last = (0..200).map(|flow| pair.flow(FlowId(flow)).fct()).max().expect("200 flows");
    assert!(last > Duration::from_us(200 * 1_042 * 8) && last < Duration::from_us(200 * 1_042 * 8 * 21 / 20), "{last}");
}

fn config() -> impl Strategy<Value = Config> {
    let criterion = prop::sample::select(vec![Criterion::Remaining, Criterion::Size, Criterion::Deadline, Criterion::Task]);
    let demand = prop::sample::select(vec![Demand::Remaining, Demand::Line, Demand::Granted]);
    let rounding = prop::sample::select(vec![Rounding::Floor, Rounding::Ceiling]);
    let arbitration = prop::sample::select(vec![Arbitration::Local, Arbitration::EndToEnd]);
    let times = (0.2..3.0, 200_u64..3_000);
    (configs(), criterion, demand, rounding, arbitration, 1_u8..5, times, any::<bool>()).prop_map(
        |(config, criterion, demand, rounding, arbitration, pruning_depth, (period_rtts, rto_us), late_last)| Config {
            criterion,
            demand,
            rounding,
            arbitration,
            pruning_depth,
            period_rtts,
            late_last,
            rto_lower: Duration::from_us(rto_us),
            ..config
        },
    )
}

/// Up to 60 flows from two hosts to three. Some start at one instant.
fn flows() -> impl Strategy<Value = Vec<Flow>> {
    let one = (0_u32..2, 2_u32..5, 0_u64..60_000, prop_oneof![Just(0_u64), 0_u64..4_000], prop::option::of(0_u64..8_000));
    prop::collection::vec(one, 10..60).prop_map(|drawn| {
        let made = |(id, (src, dst, size, start, within)): (u32, (u32, u32, u64, u64, Option<u64>))| {
            let deadline = within.map(|within| us(start + within));
            let coflow = Some(flowloom_core::Coflow { number: id % 7, size: Bytes::new(size), start: us(start) });
            Flow { coflow, ..flow(id, src, dst, size, us(start), deadline) }
        };
        (0..).zip(drawn).map(made).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Every packet is sent at the time at which it is sent if no flow ever rests.
    #[test]
    fn rest_changes_no_packet(config in config(), flows in flows(), seed in any::<u64>(), loss in prop_oneof![Just(0.0), 0.0..0.1]) {
        let sent = |never_rests| {
            let mut pair = Pair::<Pase>::new(&Config { never_rests, ..config.clone() }, rack(5));
            pair.on_packet(Faults { loss, duplicate: loss / 2.0, reorder: loss, late: Duration::from_us(100) }.hook(seed));
            for flow in &flows {
                pair.open_flow(*flow);
            }
            pair.run_to_end(FOREVER);
            let of = |sent: &SentPacket<Header>| (sent.at, format!("{:?}", sent.packet));
            pair.sent().iter().map(of).collect::<Vec<_>>()
        };
        let (rested, looked) = (sent(false), sent(true));
        for (one, other) in rested.iter().zip(&looked) {
            prop_assert_eq!(one, other);
        }
        prop_assert_eq!(rested.len(), looked.len());
    }
}
