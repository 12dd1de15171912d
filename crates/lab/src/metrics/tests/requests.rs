//! Requests (coflows).

use std::collections::BTreeMap;

use flowloom_core::{Duration, Flow, Rate, Switching, topology};
use proptest::prelude::*;

use super::super::{FctEnd, Optima, Requests, RunInfo, Stats, Summary, rows};
use super::{RUN, WIRE, flow, receiver_rows, report, summary};
use crate::ideal::{Model, Order, report as ideal_report, run};
use crate::workload::{CoflowWorkload, complete, numbered};

/// A flow of coflow `number`, and when it is received.
fn part(number: u32, (src, dst): (u32, u32), bytes: u64, start: u64, received: Option<u64>) -> (Flow, Option<u64>) {
    (Flow { coflow: numbered(number), ..flow(src, dst, bytes, start) }, received)
}

#[test]
fn requests_end_with_their_last_flow() {
    let part = |coflow, start, received| part(coflow, (0, 1), 1460, start, received);
    let flows = vec![
        part(1, 10, Some(40)),
        part(2, 0, Some(5)),
        part(1, 20, Some(30)),
        part(2, 0, None),
        part(3, 100, Some(110)),
        (flow(0, 1, 1460, 0), Some(500)),
    ];
    let requests = summary(&report(flows)).requests.unwrap();
    assert_eq!((requests.all.count, requests.all.finished), (3, 2));
    assert_eq!(requests.all.completion_us, Stats { mean: Some(20.0), p50: Some(10.0), p95: Some(30.0), p99: Some(30.0) });
}

#[test]
fn a_request_has_one_delay() {
    let part = |start, received| part(1, (0, 1), 1460, start, Some(received));
    let report = report(vec![part(10, 20), part(15, 40)]);
    let rows = rows(&report, &WIRE, FctEnd::Receiver, Duration::from_us(7), false, Optima::ClosedForm);
    let requests = Summary::of(&report, &rows, &[], &RUN).requests.unwrap();
    assert_eq!(requests.all.completion_us.mean, Some(37.0));
}

/// Three flows of ten packets to host 3 take its link 30 times 1.2 us, which is longer than the 13.6 us of each flow alone. Two flows of one packet to
/// host 1 take its link 2.4 us, which is shorter than the 2.8 us of each.
#[test]
fn slowdowns_are_over_the_busiest_link_or_the_longest_flow() {
    let many = [(0, 20), (1, 30), (2, 45)].map(|(src, received)| part(1, (src, 3), 14_600, 0, Some(received)));
    let two = [(0, 104), (2, 107)].map(|(src, received)| part(2, (src, 1), 1460, 100, Some(received)));
    let slowdowns = |flows: &[(Flow, Option<u64>)], delay| {
        let report = report(flows.to_vec());
        let rows = rows(&report, &WIRE, FctEnd::Receiver, Duration::from_us(delay), false, Optima::ClosedForm);
        Summary::of(&report, &rows, &[], &RUN).requests.unwrap().all.slowdown.mean.unwrap()
    };
    assert!((slowdowns(&many, 0) - 45.0 / 36.0).abs() < 1e-12);
    assert!((slowdowns(&two, 0) - 7.0 / 2.8).abs() < 1e-12);
    assert!((slowdowns(&many, 4) - 49.0 / 40.0).abs() < 1e-12);
    assert!((slowdowns(&two, 4) - 11.0 / 6.8).abs() < 1e-12);
    let [received, sent] = [[(0, 3), (1, 3)], [(3, 0), (3, 1)]].map(|ends| ends.map(|ends| part(1, ends, 14_600, 0, Some(48))));
    assert_eq!((slowdowns(&received, 0), slowdowns(&sent, 0)), (2.0, 2.0));
}

proptest! {
    /// The oracle's schedule obeys both ends of every flow, so it finishes no coflow before its lower bound where access links are the slowest.
    #[test]
    fn no_schedule_beats_the_lower_bound(
        list in prop::collection::vec((0u32..6, 1u32..6, 1u64..200_000, 0u64..300), 1..40), delay in 0u64..50,
    ) {
        let (host, spine) = (Rate::from_gbps(10), Rate::from_gbps(40));
        let network = topology::leaf_spine(2, 3, 2, host, spine, Duration::from_ns(200), Switching::StoreAndForward);
        let flows = list.into_iter().map(|(src, step, bytes, at)| flow(src, (src + step) % 6, bytes, at));
        let mut flows: Vec<Flow> = flows.map(|flow| Flow { coflow: numbered(1), ..flow }).collect();
        complete(&mut flows);
        let received = run(&network, &WIRE, &flows, Model::Matching, Order::Srpt);
        let report = ideal_report(&network, &WIRE, &flows, &received);
        let rows = rows(&report, &WIRE, FctEnd::Receiver, Duration::from_us(delay), false, Optima::ClosedForm);
        let requests = Summary::of(&report, &rows, &[], &RUN).requests.unwrap();
        prop_assert!(requests.all.slowdown.mean.unwrap() >= 1.0 - 1e-9, "{:?}", requests.all);
    }
}

fn counts(requests: &Requests) -> BTreeMap<&str, (usize, usize)> {
    requests.by_class.iter().map(|(name, class)| (*name, (class.count, class.finished))).collect()
}

/// 50 flows are narrow and 51 are wide; 5 MB are long, and a byte less is short.
#[test]
fn classes_follow_from_the_longest_flow_and_the_number_of_flows() {
    let coflow = |number, flows: usize, bytes, received| vec![part(number, (0, 1), bytes, 0, received); flows];
    let flows = [
        coflow(1, 50, 10, Some(100)),
        coflow(2, 51, 10, Some(300)),
        coflow(3, 1, 4_999_999, None),
        coflow(4, 1, 5_000_000, Some(900)),
        [coflow(5, 50, 10, Some(20)), coflow(5, 1, 6_000_000, None)].concat(),
    ];
    let requests = summary(&report(flows.concat())).requests.unwrap();
    let expected = [("short_narrow", (2, 1)), ("long_narrow", (1, 1)), ("short_wide", (1, 1)), ("long_wide", (1, 0))];
    assert_eq!(counts(&requests), expected.into());
    let of = |class: &str| requests.by_class[class].completion_us.mean;
    assert_eq!(
        ["short_narrow", "long_narrow", "short_wide", "long_wide"].map(of),
        [Some(100.0), Some(900.0), Some(300.0), None]
    );
    assert_eq!((requests.all.count, requests.all.finished, requests.all.completion_us.p50), (5, 3, Some(300.0)));
}

/// Coflows whose sizes were divided by 1000 are classified by their original sizes, in the tenant that they belong to.
#[test]
fn divided_sizes_do_not_change_classes() {
    let of = |tenant, bytes, number| (Flow { tenant, coflow: numbered(number), ..flow(0, 1, bytes, 0) }, Some(50));
    let report = report(vec![of(0, 5_000, 0), of(0, 4_999, 1), of(1, 5_000, 2)]);
    let divided = CoflowWorkload {
        tenant: 0,
        coflows: 2,
        hosts: 4,
        size_divisor: 1000.0,
        time_divisor: None,
        load: None,
        local_flows: 0,
        local_bytes: 0,
        local_coflows: 0,
    };
    let info = RunInfo { coflow_workloads: &[divided], ..RUN };
    let requests = Summary::of(&report, &receiver_rows(&report), &[], &info).requests.unwrap();
    assert_eq!(counts(&requests)["long_narrow"], (1, 1));
    assert_eq!(counts(&requests)["short_narrow"], (2, 2));
}

/// A flow of the coflow has not started when the run ends, so it has no row.
#[test]
fn a_coflow_with_a_flow_that_did_not_start_is_not_finished() {
    let mut report = report(vec![part(1, (0, 1), 1460, 0, Some(10)), part(1, (0, 1), 1460, 500, Some(510))]);
    assert_eq!(summary(&report).requests.unwrap().all.finished, 1);
    report.flows.truncate(1);
    report.records.truncate(1);
    report.not_started = 1;
    let summary = summary(&report);
    let requests = summary.requests.unwrap();
    assert_eq!((requests.all.count, requests.all.finished), (1, 0));
    assert_eq!(summary.tenants[&0].requests.as_ref().unwrap().all.finished, 0);
}
