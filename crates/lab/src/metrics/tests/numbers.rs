//! Rows, statistics and columns.

use flowloom_core::{Bytes, Duration, Flow, Network, NodeId, Rate, Switching, Time, topology};
use proptest::prelude::*;

use super::super::{Column, FctEnd, Optima, Stats, columns, mean, percentile, rows};
use super::{WIRE, flow, receiver_rows, report, us};
use crate::ideal::{Model, Order, report as ideal_report, run};
use crate::workload::numbered;

/// Racks of three hosts under two spines.
fn leaf_spine(racks: usize) -> Network {
    let (host, spine) = (Rate::from_gbps(10), Rate::from_gbps(40));
    topology::leaf_spine(racks, 3, 2, host, spine, Duration::from_ns(200), Switching::StoreAndForward)
}

#[test]
fn percentiles_are_by_nearest_rank() {
    let values = [15.0, 20.0, 35.0, 40.0, 50.0];
    // Ranks ⌈0.05·5⌉ = 1, ⌈0.3·5⌉ = 2, ⌈0.4·5⌉ = 2, ⌈0.5·5⌉ = 3, 5.
    let expected = [(5, 15.0), (30, 20.0), (40, 20.0), (50, 35.0), (100, 50.0)];
    assert!(expected.iter().all(|(percent, value)| percentile(&values, *percent) == Some(*value)));
    let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
    assert_eq!([50, 95, 99].map(|percent| percentile(&hundred, percent).unwrap()), [50.0, 95.0, 99.0]);
    assert_eq!(percentile(&hundred[..20], 95), Some(19.0));
    assert_eq!((percentile(&[3.0], 1), percentile(&[3.0], 99), percentile(&[], 50)), (Some(3.0), Some(3.0), None));
}

#[test]
fn means_keep_what_is_small() {
    assert_eq!(mean(&[1e16, 1.0, -1e16]), Some(1.0 / 3.0)); // a plain sum gives 0
    assert_eq!(mean(&[0.1; 10]), Some(0.1)); // a plain sum gives 0.09999999999999999
    assert_eq!(mean(&[]), None);
}

proptest! {
    #[test]
    fn statistics_do_not_depend_on_order(mut values in prop::collection::vec(1e-6f64..1e9, 1..200)) {
        let forward = Stats::of(values.clone());
        values.reverse();
        prop_assert_eq!(Stats::of(values.clone()), forward);
        let (low, high) = (values.iter().copied().fold(f64::MAX, f64::min), values.iter().copied().fold(0.0, f64::max));
        prop_assert!(forward.p50 <= forward.p95 && forward.p95 <= forward.p99);
        prop_assert!(forward.p99.unwrap() <= high);
        prop_assert!((low * 0.999..=high * 1.001).contains(&forward.mean.unwrap()));
    }

    /// The definition of the nearest rank, in words.
    #[test]
    fn a_percentile_is_the_least_value_that_enough_do_not_exceed(
        mut values in prop::collection::vec(0u8..50, 1..60), percent in 1usize..=100,
    ) {
        values.sort_unstable();
        let ascending: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
        let enough = |x: f64| 100 * ascending.iter().filter(|value| **value <= x).count() >= percent * ascending.len();
        let least = ascending.iter().copied().find(|x| enough(*x));
        prop_assert_eq!(percentile(&ascending, percent), least);
    }
}

#[test]
fn rows_by_hand() {
    let deadline = |at| Flow { deadline: Some(us(at)), tenant: 3, coflow: numbered(9), ..flow(0, 1, 14_600, 100) };
    let report = report(vec![(deadline(129), Some(130)), (flow(2, 3, 1460, 0), None), (deadline(130), Some(130))]);
    // Ten packets of 1.2 us, one of them stored once, 0.4 us of propagation.
    let optimum = Duration::from_ns(13_600);
    let rows = receiver_rows(&report);
    assert_eq!((rows[0].finish, rows[0].optimum), (Some(us(130)), optimum));
    assert_eq!((rows[0].fct(), rows[0].slowdown()), (Some(Duration::from_us(30)), Some(30.0 / 13.6)));
    assert_eq!([rows[0].on_time(), rows[1].on_time(), rows[2].on_time()], [Some(false), None, Some(true)]);
    assert_eq!((rows[1].finish, rows[1].slowdown()), (None, None));
    assert_eq!((rows[1].delivered, rows[1].retransmissions), (Bytes::new(730), 3));
}

#[test]
fn a_flow_that_ends_at_its_sender_waits_for_a_control_packet() {
    let report = report(vec![(flow(0, 1, 14_600, 100), Some(130))]);
    let row = rows(&report, &WIRE, FctEnd::Sender, Duration::ZERO, false, Optima::ClosedForm)[0];
    // 40 B take 32 ns on each of two links, and 0.4 us of propagation.
    assert_eq!((row.finish, row.optimum), (Some(us(131)), Duration::from_ns(13_600 + 464)));
    let solo = [Duration::from_us(20)];
    assert_eq!(
        rows(&report, &WIRE, FctEnd::Sender, Duration::ZERO, false, Optima::Solo(&solo))[0].slowdown(),
        Some(31.0 / 20.0)
    );
    // Behind a handshake, whose two control packets take 464 ns each.
    let row = rows(&report, &WIRE, FctEnd::Receiver, Duration::ZERO, false, Optima::Handshake)[0];
    assert_eq!(row.optimum, Duration::from_ns(13_600 + 2 * 464));
}

/// Ten microseconds before every flow: 40 instead of 30 us of 23.6 instead of 13.6; the instants are the network's.
#[test]
fn the_request_s_delay_is_in_times_and_optima() {
    let late = Flow { deadline: Some(us(130)), ..flow(0, 1, 14_600, 100) };
    let report = report(vec![(late, Some(130)), (flow(0, 1, 14_600, 100), None)]);
    let delay = Duration::from_us(10);
    let delayed = rows(&report, &WIRE, FctEnd::Receiver, delay, false, Optima::ClosedForm);
    assert_eq!((delayed[0].fct(), delayed[0].optimum), (Some(Duration::from_us(40)), Duration::from_ns(23_600)));
    assert_eq!((delayed[0].finish, delayed[0].on_time()), (Some(us(130)), Some(true)));
    assert_eq!((delayed[0].slowdown(), delayed[1].slowdown()), (Some(40.0 / 23.6), None));
    let solo = [Duration::from_us(20); 2];
    assert_eq!(rows(&report, &WIRE, FctEnd::Receiver, delay, false, Optima::Solo(&solo))[0].slowdown(), Some(40.0 / 30.0));
}

#[test]
fn optima_of_a_class_are_those_of_each_pair() {
    let network = leaf_spine(3);
    let pairs = (0..9).flat_map(|src| (0..9).filter(move |dst| *dst != src).map(move |dst| (src, dst)));
    let flows: Vec<Flow> = pairs.map(|(src, dst)| flow(src, dst, 5000, 0)).collect();
    let report = ideal_report(&network, &WIRE, &flows, &vec![us(1); flows.len()]);
    for row in rows(&report, &WIRE, FctEnd::Sender, Duration::ZERO, false, Optima::ClosedForm) {
        let (src, dst) = (row.flow.src, row.flow.dst);
        let there = network.flow_time(&network.path(src, dst), row.flow.size, &WIRE);
        let back = network.packet_time(&network.path(dst, src), WIRE.control);
        assert_eq!(row.optimum, there + back, "{src:?} to {dst:?}");
    }
}

#[test]
fn columns_are_the_contract() {
    let full = Flow { deadline: Some(us(400)), tenant: 2, coflow: numbered(5), ..flow(0, 1, 14_600, 100) };
    let report = report(vec![(full, Some(130)), (flow(2, 3, 1, 7), None)]);
    let columns = columns(&receiver_rows(&report), &report.network);
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let contract = "id src dst bytes start finish optimum slowdown deadline tenant coflow retransmissions timeouts aborted";
    assert_eq!(names.join(" "), contract);
    let column = |name: &str| columns.iter().find(|(each, _)| *each == name).unwrap().1.clone();
    assert_eq!(column("id"), Column::U32(vec![0, 1]));
    assert_eq!(column("bytes"), Column::U64(vec![14_600, 1]));
    assert_eq!(column("start"), Column::F64(vec![1e-4, 7e-6]));
    assert_eq!(column("tenant"), Column::U16(vec![2, 0]));
    assert_eq!(column("coflow"), Column::I64(vec![5, -1]));
    assert_eq!(column("retransmissions"), Column::U32(vec![0, 3]));
    assert_eq!(column("aborted"), Column::Word(vec!["", ""]));
    for (name, first) in [("finish", 1.3e-4), ("slowdown", 30.0 / 13.6), ("deadline", 4e-4)] {
        let Column::F64(values) = column(name) else { panic!("{name} is not a number") };
        assert_eq!(values[0], first, "{name}");
        assert!(values[1].is_nan(), "{name} of a flow without one");
    }
}

proptest! {
    /// The oracle is judged like any run: no flow beats its optimum where access links are the slowest, and everything
    /// finishes.
    #[test]
    fn the_oracle_has_slowdowns_from_one_up(
        list in prop::collection::vec((0u32..6, 1u32..6, 0u64..200_000, 0u64..300), 1..40), matching: bool, sender: bool,
    ) {
        let network = leaf_spine(2);
        let flows: Vec<Flow> = list.into_iter().map(|(src, step, bytes, at)| flow(src, (src + step) % 6, bytes, at)).collect();
        let model = if matching { Model::Matching } else { Model::Bound };
        let received = run(&network, &WIRE, &flows, model, Order::Srpt);
        let report = ideal_report(&network, &WIRE, &flows, &received);
        let end = if sender { FctEnd::Sender } else { FctEnd::Receiver };
        for row in rows(&report, &WIRE, end, Duration::ZERO, false, Optima::ClosedForm) {
            prop_assert!(row.slowdown().unwrap() >= 1.0, "{:?}", row);
            prop_assert!(row.flow.src != row.flow.dst && row.flow.src < NodeId(6));
            prop_assert!(row.finish.unwrap() <= report.end && row.finish > Some(Time::ZERO));
        }
    }
}
