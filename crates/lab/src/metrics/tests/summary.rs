//! The summary.

use std::collections::BTreeMap;

use flowloom_core::{AbortReason, Bytes, DropReason, Duration, Flow, NodeId, Time};
use flowloom_fabric::{Abort, CLASSES, ControlCounters, PortCounters, SentCounters};
use proptest::prelude::*;

use super::super::{
    Column, FctEnd, Gaps, HopQueue, HopUtilisation, Optima, RunInfo, Stats, Summary, TierMessages, columns, rows,
};
use super::{RUN, WIRE, flow, receiver_rows, report, summary, us};
use crate::record::{Before, Counted, GapTotals};
use crate::workload::numbered;

/// Ten packets between hosts take 13.6 us alone, one takes 2.8 us.
fn two_finished_one_not() -> Vec<(Flow, Option<u64>)> {
    vec![(flow(0, 1, 14_600, 0), Some(34)), (flow(2, 3, 1460, 100), Some(107)), (flow(2, 3, 2920, 100), None)]
}

#[test]
fn times_by_hand() {
    let report = report(two_finished_one_not());
    let summary = summary(&report);
    assert_eq!((summary.transport.as_str(), summary.seed), ("by_hand", 7));
    assert_eq!((summary.flows, summary.finished, summary.retransmissions), (3, 2, 3));
    // Slowdowns 34 / 13.6 = 2.5 and 7 / 2.8 = 2.5; times 34 and 7 us; optima 13.6 and 2.8 us.
    let all = |x| Stats { mean: Some(x), p50: Some(x), p95: Some(x), p99: Some(x) };
    assert_eq!(summary.slowdown.all, all(2.5));
    assert_eq!(summary.fct_us.all, Stats { mean: Some(20.5), p50: Some(7.0), p95: Some(34.0), p99: Some(34.0) });
    assert_eq!(summary.nfct, Some(20.5 / 8.2));
    // 14600 + 1460 + 1460 B in 1 ms (one flow is unfinished when the run ends) and four hosts.
    let gbps = 17_520.0 * 8.0 / 1e9 / 1e-3 / 4.0;
    assert!((summary.goodput_gbps.unwrap() - gbps).abs() < 1e-12);
    assert!((summary.throughput.unwrap() - gbps / 10.0).abs() < 1e-12);
    assert_eq!((summary.sim_s, summary.wall_s, summary.peak_rss_mb), (1e-3, 1.5, 20.0));
}

/// Three flows of 6, 3 and 3 kB, of which the first ended after 60 us and the second after 20. The third has had half of its bytes when the
/// run ends, 1 ms after it started. The rates are as 100 to 150 to 1.5.
#[test]
fn fairness_by_hand() {
    let flows = vec![(flow(0, 1, 6000, 0), Some(60)), (flow(1, 2, 3000, 0), Some(20)), (flow(2, 3, 3000, 0), None)];
    let jain = |report| summary(&report).jain;
    let expected = 251.5_f64.powi(2) / (3.0 * (100.0_f64.powi(2) + 150.0_f64.powi(2) + 1.5_f64.powi(2)));
    assert!((jain(report(flows)).unwrap() - expected).abs() < 1e-12);
    let equal = (0..3).map(|host| (flow(host, host + 1, 3000, 7), Some(100))).collect();
    assert!((jain(report(equal)).unwrap() - 1.0).abs() < 1e-12);
    assert_eq!(jain(report(vec![])), None);
}

#[test]
fn the_active_interval_ends_with_the_last_flow() {
    let finished = two_finished_one_not()[..2].to_vec();
    // 16060 B in 107 us; the run's last event, at 1 ms, does not count.
    let gbps = summary(&report(finished)).goodput_gbps.unwrap();
    assert!((gbps - 16_060.0 * 8.0 / 1e9 / 107e-6 / 4.0).abs() < 1e-12);
}

#[test]
fn nothing_is_null_and_not_a_number() {
    let empty = summary(&report(vec![]));
    let none = Stats { mean: None, p50: None, p95: None, p99: None };
    assert_eq!((empty.slowdown.all, empty.fct_us.all), (none, none));
    assert_eq!((empty.nfct, empty.goodput_gbps, empty.throughput, empty.deadlines_met), (None, None, None, None));
    assert_eq!((empty.drops.rate, empty.queueing_us_mean, empty.requests), (None, None, None));
    let unfinished = summary(&report(vec![(flow(0, 1, 1460, 0), None)]));
    assert_eq!((unfinished.flows, unfinished.finished, unfinished.slowdown.all), (1, 0, none));
}

#[test]
fn a_size_on_an_edge_is_in_the_lower_bin() {
    let sizes = [0, 1, 10_000, 10_001, 100_000, 10_000_001];
    let flows = sizes.iter().map(|bytes| (flow(0, 1, *bytes, 0), (*bytes != 1).then_some(100))).collect();
    let bins = summary(&report(flows)).fct_us.by_size;
    let counts: Vec<_> = bins.iter().map(|bin| (bin.above_bytes, bin.up_to_bytes, bin.flows, bin.finished)).collect();
    let expected =
        [(0, Some(10_000), 3, 2), (10_000, Some(100_000), 2, 2), (100_000, Some(10_000_000), 0, 0), (10_000_000, None, 1, 1)];
    assert_eq!(counts, expected);
    assert_eq!((bins[0].stats.mean, bins[2].stats.mean), (Some(100.0), None));
}

proptest! {
    /// Every flow is in exactly one bin, whatever the edges, and the bins' means make up the whole mean.
    #[test]
    fn bins_partition_flows(
        list in prop::collection::vec((0u64..2000, prop::option::of(3u64..900)), 1..50),
        edges in prop::collection::btree_set(0u64..2000, 0..6),
    ) {
        let report = report(list.iter().map(|(bytes, received)| (flow(0, 1, *bytes, 0), *received)).collect());
        let edges: Vec<Bytes> = edges.into_iter().map(Bytes::new).collect();
        let summary = Summary::of(&report, &receiver_rows(&report), &edges, &RUN);
        for spread in [&summary.slowdown, &summary.fct_us] {
            prop_assert_eq!(spread.by_size.iter().map(|bin| bin.flows).sum::<usize>(), summary.flows);
            prop_assert_eq!(spread.by_size.iter().map(|bin| bin.finished).sum::<usize>(), summary.finished);
            for bin in &spread.by_size {
                let inside = |bytes: u64| {
                    (bytes > bin.above_bytes || bin.above_bytes == 0) && bin.up_to_bytes.is_none_or(|edge| bytes <= edge)
                };
                prop_assert_eq!(list.iter().filter(|(bytes, _)| inside(*bytes)).count(), bin.flows);
            }
            let parts: f64 = spread.by_size.iter().filter_map(|bin| Some(bin.stats.mean? * bin.finished as f64)).sum();
            let whole = spread.all.mean.unwrap_or(0.0) * summary.finished as f64;
            prop_assert!((parts - whole).abs() <= 1e-9 * whole);
        }
    }
}

#[test]
fn unfinished_flows_miss_their_deadlines() {
    let due = |at| Flow { deadline: Some(us(at)), ..flow(0, 1, 1460, 0) };
    let flows =
        vec![(due(50), Some(50)), (due(49), Some(50)), (due(2000), None), (flow(0, 1, 1460, 0), Some(5)), (due(60), Some(9))];
    assert_eq!(summary(&report(flows)).deadlines_met, Some(0.5));
}

#[test]
fn timeouts_are_counted_by_flow_tenant_and_run() {
    let of = |tenant| (Flow { tenant, ..flow(0, 1, 1460, 0) }, Some(10));
    let mut report = report(vec![of(0), of(1), of(1)]);
    for (record, (timeouts, second_timeouts)) in report.records.iter_mut().zip([(0, 0), (1, 0), (5, 2)]) {
        (record.timeouts, record.second_timeouts) = (timeouts, second_timeouts);
    }
    let timeouts: Vec<u32> = receiver_rows(&report).iter().map(|row| row.timeouts).collect();
    assert_eq!(timeouts, [0, 1, 5]);
    let summary = summary(&report);
    assert_eq!((summary.timeouts, summary.second_timeouts), (6, 2));
    let of_tenant = |number| (summary.tenants[&number].timeouts, summary.tenants[&number].second_timeouts);
    assert_eq!([of_tenant(0), of_tenant(1)], [(0, 0), (6, 2)]);
}

/// Bins and requests of one tenant are what they would be were it the only one.
#[test]
fn a_tenant_is_summed_up_as_if_it_were_alone() {
    let sizes = [1460, 20_000, 200_000];
    let of = |tenant: u16, coflow: Option<u32>| {
        sizes.map(|bytes| {
            let start = u64::from(tenant) * 100;
            (Flow { tenant, coflow: coflow.and_then(numbered), ..flow(0, 1, bytes, start) }, Some(start + bytes / 100))
        })
    };
    let both = summary(&report([of(0, None), of(1, Some(4))].concat()));
    for (number, flows) in [(0, of(0, None)), (1, of(1, Some(4)))] {
        let alone = summary(&report(flows.to_vec()));
        let tenant = &both.tenants[&number];
        assert_eq!((&tenant.slowdown, &tenant.fct_us), (&alone.slowdown, &alone.fct_us));
        assert_eq!((&tenant.requests, tenant.goodput_gbps), (&alone.requests, alone.goodput_gbps));
    }
    assert_eq!(both.tenants[&1].requests.as_ref().unwrap().all.completion_us.mean, Some(2000.0));
    assert_eq!(both.tenants[&0].fct_us.by_size[2].stats.mean, Some(2000.0));
}

#[test]
fn tenants_have_their_own_interval() {
    let of = |tenant, bytes, start| Flow { tenant, ..flow(0, 1, bytes, start) };
    let flows = vec![(of(1, 14_600, 0), Some(136)), (of(2, 10_000, 100), Some(200)), (of(2, 20_000, 150), None)];
    let tenants = summary(&report(flows)).tenants;
    assert_eq!(tenants.keys().copied().collect::<Vec<_>>(), [1, 2]);
    assert_eq!((tenants[&1].flows, tenants[&1].finished, tenants[&1].bytes), (1, 1, 14_600));
    assert_eq!((tenants[&2].flows, tenants[&2].finished, tenants[&2].bytes), (2, 1, 20_000));
    assert_eq!(tenants[&1].slowdown.all.mean, Some(10.0));
    // 14600 B in 136 us; 20000 B from 100 us to the end at 1 ms.
    let gbps = [14_600.0 * 8e-9 / 136e-6 / 4.0, 20_000.0 * 8e-9 / 900e-6 / 4.0];
    assert!((tenants[&1].goodput_gbps.unwrap() - gbps[0]).abs() < 1e-12);
    assert!((tenants[&2].goodput_gbps.unwrap() - gbps[1]).abs() < 1e-12);
}

/// From (class, packets, bytes).
fn sent(classes: &[(usize, u64, u64)]) -> [SentCounters; CLASSES] {
    let mut sent = [SentCounters::default(); CLASSES];
    for (class, packets, bytes) in classes {
        sent[*class] = SentCounters { packets: *packets, bytes: *bytes };
    }
    sent
}

#[test]
fn ports_by_hand() {
    let mut report = report(vec![(flow(0, 1, 14_600, 0), Some(100))]);
    let ms = u128::from(Duration::from_us(1).as_ps());
    // Host 0's NIC sent 40 data and 10 control packets; the switch's port to host 1 sent 25 and lost the rest.
    let nic = PortCounters {
        sent: sent(&[(0, 40, 62_100), (7, 10, 400)]),
        peak_bytes: 3000,
        byte_time: 40_000 * ms,
        packet_time: 20 * ms,
        ..PortCounters::default()
    };
    let mut to_host = PortCounters {
        sent: sent(&[(0, 25, 31_250)]),
        dropped_data_packets: 20,
        marked_packets: 4,
        trimmed_packets: 2,
        peak_bytes: 36_000,
        byte_time: 1_200_000 * ms,
        packet_time: 100 * ms,
        ..PortCounters::default()
    };
    to_host.dropped_packets[DropReason::Overflow as usize] = 21;
    to_host.dropped_packets[DropReason::PushedOut as usize] = 4;
    report.ports[0] = nic;
    report.ports[3] = to_host;
    (report.data_packets, report.packet_hops) = (40, 75);

    let summary = summary(&report);
    assert_eq!((summary.drops.total, summary.drops.data, summary.drops.rate), (25, 20, Some(0.5)));
    assert_eq!(summary.drops.by_hop, BTreeMap::from([("host-switch".to_owned(), 0), ("switch-host".to_owned(), 25)]));
    assert_eq!(summary.drops.by_reason.values().sum::<u64>(), 25);
    assert_eq!((summary.drops.by_reason["overflow"], summary.drops.by_reason["pushed_out"]), (21, 4));
    assert_eq!((summary.marks, summary.trims, summary.packet_hops), (4, 2, 75));
    assert_eq!(summary.data_packets, 40);
    assert_eq!(summary.sent_by_class, [65, 0, 0, 0, 0, 0, 0, 10]);
    // 120 us of waiting for 50 packets that left a host.
    assert_eq!(summary.queueing_us_mean, Some(2.4));
    assert_eq!(summary.queue_peak_bytes, 36_000);
    // Over 100 us and four ports: 40000 / 400 and 1200000 / 400 B. Waits 20 / 50 and 100 / 25 us.
    let queue =
        |mean_bytes, peak_bytes, wait_us| HopQueue { mean_bytes: Some(mean_bytes), peak_bytes, wait_us_mean: Some(wait_us) };
    assert_eq!(summary.queue["host-switch"], queue(100.0, 3000, 0.4));
    assert_eq!(summary.queue["switch-host"], queue(3000.0, 36_000, 4.0));
    // A link could send 125000 B in 100 us: 62500 and 31250 B are 0.5 and 0.25 of one of four.
    let used = |mean, max| HopUtilisation { mean: Some(mean), max: Some(max) };
    assert_eq!(summary.utilisation["host-switch"], used(0.125, 0.5));
    assert_eq!(summary.utilisation["switch-host"], used(0.0625, 0.25));

    // The same over the last 100 us of the run, if background flows had been there before: half of the NIC's bytes left then.
    let mut ports = vec![Counted::default(); report.ports.len()];
    ports[0] = Counted { bytes: 31_250, byte_time: 20_000 * ms };
    let info = RunInfo { before: Some(Before { at: us(900), ports }), ..RUN };
    let summary = Summary::of(&report, &receiver_rows(&report), &[], &info);
    assert_eq!(summary.queue["host-switch"], queue(50.0, 3000, 0.4));
    assert_eq!(summary.queue["switch-host"], queue(3000.0, 36_000, 4.0));
    assert_eq!(summary.utilisation["host-switch"], used(0.0625, 0.25));
    assert_eq!(summary.utilisation["switch-host"], used(0.0625, 0.25));
}

/// Three flows with deadlines: one in time, one aborted at 80 µs before its receiver had all of it, and one aborted at 90 µs although its
/// receiver had all of it in time.
#[test]
fn aborted_flows_are_over_and_not_finished() {
    let due = Flow { deadline: Some(us(70)), ..flow(0, 1, 1460, 10) };
    let mut report = report(vec![(due, Some(30)), (due, None), (due, Some(40))]);
    for (index, at, reason) in [(1, 80, AbortReason::Deadline), (2, 90, AbortReason::NodeDown)] {
        report.records[index].aborted = Some(Abort { at: us(at), reason });
        report.records[index].acknowledged = Time::MAX;
    }
    let summary = summary(&report);
    assert_eq!((summary.flows, summary.finished, summary.aborted), (3, 1, 2));
    assert_eq!(summary.deadlines_met, Some(1.0 / 3.0));
    assert_eq!(summary.fct_us.all.mean, Some(20.0));
    // All that was delivered counts, over the time until the last flow was over: from 10 to 90 µs.
    let bytes = f64::from(2 * 1460 + 730);
    assert_eq!(summary.goodput_gbps, Some(8.0 * bytes / 1e9 / 80e-6 / 4.0));
    let words = columns(&receiver_rows(&report), &report.network).pop().unwrap();
    assert_eq!(words, ("aborted", Column::Word(vec!["", "deadline", "node_down"])));
}

/// Of two background flows, one is done at 500 µs and the other one has half its bytes at the end of the run, at 1000 µs.
#[test]
fn background_flows_are_left_out_unless_asked_for() {
    let behind = |start| Flow { background: true, ..flow(2, 3, 100_000, start) };
    let report = report(vec![(flow(0, 1, 1460, 300), Some(310)), (behind(200), Some(500)), (behind(400), None)]);
    let without = summary(&report);
    assert_eq!((without.flows, without.finished, without.fct_us.all.mean), (1, 1, Some(10.0)));
    assert_eq!(without.retransmissions, 0, "the unfinished flow has three");
    let background = without.background.unwrap();
    assert_eq!((background.flows, background.finished, background.bytes), (2, 1, 150_000));
    assert_eq!(background.goodput_gbps, Some(8.0 * 150_000.0 / 1e9 / 800e-6));
    let rows = rows(&report, &WIRE, FctEnd::Receiver, Duration::ZERO, true, Optima::ClosedForm);
    let with = Summary::of(&report, &rows, &[], &RUN);
    assert_eq!((with.flows, with.finished, with.retransmissions, with.background), (3, 2, 3, Some(background)));
    assert_eq!(summary(&super::report(vec![(flow(0, 1, 1460, 0), Some(10))])).background, None);
}

/// Five gaps of 60 µs together, three of them switch gaps, in 240 µs of open time.
#[test]
fn gaps_are_rates_over_open_time() {
    let report = report(vec![]);
    let of = |gaps, switches, idle_us: u128, open_us: u128| {
        let totals = GapTotals { gaps, switches, idle_ps: idle_us * 1_000_000, open_ps: open_us * 1_000_000 };
        Summary::of(&report, &[], &[], &RunInfo { gaps: Some(totals), ..RUN }).gaps.unwrap()
    };
    let some =
        Gaps { per_s: Some(5.0 / 240e-6), switch_per_s: Some(3.0 / 240e-6), idle_share: Some(0.25), mean_us: Some(12.0) };
    let found = of(5, 3, 60, 240);
    assert_eq!((found.idle_share, found.mean_us), (some.idle_share, some.mean_us));
    let near = |a: Option<f64>, b: Option<f64>| (a.unwrap() - b.unwrap()).abs() < 1e-9;
    assert!(near(found.per_s, some.per_s) && near(found.switch_per_s, some.switch_per_s), "{found:?}");
    assert_eq!(of(0, 0, 0, 240), Gaps { per_s: Some(0.0), switch_per_s: Some(0.0), idle_share: Some(0.0), mean_us: None });
    assert_eq!(of(0, 0, 0, 0), Gaps { per_s: None, switch_per_s: None, idle_share: None, mean_us: None });
    assert_eq!(summary(&report).gaps, None);
}

/// Nodes 0 to 3 are hosts, node 4 is a switch. The run takes 1000 µs.
#[test]
fn control_messages_are_counted_by_tier() {
    let mut report = report(vec![]);
    let counters =
        |node, received, sent, known_flows_peak| ControlCounters { node: NodeId(node), received, sent, known_flows_peak };
    assert_eq!(summary(&report).control_messages, None);
    report.controls = vec![counters(0, 10, 1, 5), counters(1, 30, 2, 9), counters(4, 60, 3, 7)];
    let messages = summary(&report).control_messages.unwrap();
    let tier = |endpoints, received, sent, most: f64, known_flows_peak| TierMessages {
        endpoints,
        received,
        sent,
        received_per_s: Some(received as f64 / 1e-3),
        received_per_s_max: Some(most / 1e-3),
        known_flows_peak,
    };
    assert_eq!(messages.all, tier(3, 100, 6, 60.0, 9));
    let tiers = [("host", tier(2, 40, 3, 30.0, 9)), ("switch", tier(1, 60, 3, 60.0, 7))];
    assert_eq!(messages.by_tier, tiers.map(|(name, tier)| (name.to_owned(), tier)).into());
}
