//! Results that are known in advance.

use flowloom_core::{Bytes, Duration, Flow, Network, NodeId, Rate, Switching, Time, WireProfile, topology};

use super::super::{Model, Order, report, run};
use super::{CUT_THROUGH, flow, leaf_spine, single_switch};

const WIRE: WireProfile = WireProfile::IP_1500;
const BOTH: [Model; 2] = [Model::Bound, Model::Matching];

fn srpt(network: &Network, flows: &[Flow], model: Model) -> Vec<Time> {
    run(network, &WIRE, flows, model, Order::Srpt)
}

/// Hosts of unlike rates, and a middle that is slower than they are.
fn unlike() -> Network {
    let mut network = Network::new(3, Switching::StoreAndForward);
    let a = network.add_switch(1, "leaf", "a");
    let b = network.add_switch(1, "leaf", "b");
    network.connect(NodeId(0), a, Rate::from_gbps(10), Duration::from_ns(100));
    network.connect(NodeId(1), b, Rate::from_gbps(25), Duration::from_ns(300));
    network.connect(NodeId(2), b, Rate::from_gbps(3), Duration::from_ns(50));
    network.connect(a, b, Rate::from_gbps(7), Duration::from_us(2));
    network
}

/// The times are exactly equal: both round the service time up packet by packet, and the latency is the rest.
#[test]
fn a_lone_flow_takes_the_closed_form_time() {
    let networks = [
        single_switch(4),
        leaf_spine(Switching::StoreAndForward),
        leaf_spine(CUT_THROUGH),
        topology::dumbbell(2, Rate::from_gbps(10), Rate::from_gbps(1), Duration::from_us(1), CUT_THROUGH),
        topology::fat_tree(4, Rate::from_bps(9_999_999_967), Duration::from_ns(333), Switching::StoreAndForward),
        unlike(),
    ];
    let sizes = [1, 41, 1459, 1460, 1461, 2920, 10_000, 123_456, 14_600_000, 100_000_000];
    for network in &networks {
        for wire in WireProfile::ALL {
            for (bytes, dst) in sizes.into_iter().flat_map(|bytes| (1..network.hosts() as u32).map(move |dst| (bytes, dst))) {
                for (src, dst) in [(0, dst), (dst, 0)] {
                    let start = Time::from_ps(77_777);
                    let path = network.path(NodeId(src), NodeId(dst));
                    let closed_form = start + network.flow_time(&path, Bytes::new(bytes), &wire);
                    for model in BOTH {
                        let finish = run(network, &wire, &[flow(0, src, dst, bytes, start)], model, Order::Srpt);
                        assert_eq!(finish, [closed_form], "{model:?}: {bytes} B from {src} to {dst}, {}", wire.name);
                    }
                }
            }
        }
    }
}

/// On one switch with links of 10 Gb/s and 200 ns, a full packet takes 1.2 us per link. The latency of a flow of full packets is 1.2 us
/// (it is stored once) + 0.4 us.
const LATENCY: Duration = Duration::from_ns(1600);
const PACKET: Duration = Duration::from_ns(1200);

#[test]
fn a_short_flow_preempts_a_long_one() {
    let network = single_switch(3);
    // Host 0 sends ten packets to host 2. At 2 us, host 1 sends two packets to host 2. They are not delayed, and they delay the long flow
    // by two packets.
    let late = Time::ZERO + Duration::from_us(2);
    let flows = [flow(0, 0, 2, 14_600, Time::ZERO), flow(1, 1, 2, 2920, late)];
    for model in BOTH {
        let finish = srpt(&network, &flows, model);
        assert_eq!(finish, [Time::ZERO + LATENCY + PACKET * 12, late + LATENCY + PACKET * 2], "{model:?}");
    }
    // At 11 us the long flow has 1000 ns left. This is less than the new flow has, so the new flow does not preempt it.
    let later = Time::ZERO + Duration::from_us(11);
    let flows = [flows[0], flow(1, 1, 2, 2920, later)];
    for model in BOTH {
        let finish = srpt(&network, &flows, model);
        assert_eq!(finish, [Time::ZERO + LATENCY + PACKET * 10, Time::ZERO + LATENCY + PACKET * 12], "{model:?}");
    }
}

#[test]
fn equal_flows_are_served_one_after_the_other() {
    let network = single_switch(9);
    let incast: Vec<Flow> = (0..8).map(|id| flow(id, id, 8, 1460 * 5, Time::ZERO)).collect();
    let outcast: Vec<Flow> = (0..8).map(|id| flow(id, 8, id, 1460 * 5, Time::ZERO)).collect();
    let expected: Vec<Time> = (1..=8).map(|place| Time::ZERO + LATENCY + PACKET * 5 * place).collect();
    for model in BOTH {
        assert_eq!(srpt(&network, &incast, model), expected, "{model:?}");
        assert_eq!(srpt(&network, &outcast, model), expected, "{model:?}");
    }
}

#[test]
fn the_bound_keeps_one_side_and_the_matching_both() {
    let network = single_switch(6);
    // Three flows: 0 -> 2 of one packet, 0 -> 3 of two, 1 -> 3 of three. In the matching, the second waits for host 0 and the third for
    // host 3.
    let sizes = [1460, 2920, 4380];
    let flows = [flow(0, 0, 2, sizes[0], Time::ZERO), flow(1, 0, 3, sizes[1], Time::ZERO), flow(2, 1, 3, sizes[2], Time::ZERO)];
    let after = |packets: u64| Time::ZERO + LATENCY + PACKET * packets;
    // At first 0 -> 2 occupies host 0, so 1 -> 3 begins. After one packet, 0 -> 3 displaces 1 -> 3. Both then have two packets left, and
    // the lower flow number breaks the tie.
    assert_eq!(srpt(&network, &flows, Model::Matching), [after(1), after(3), after(5)]);
    // With the receivers' links alone, flows end after 1 packet and, at host 3, after 2 and 2 + 3 packets: 8 in sum. With the senders'
    // links alone, they end after 1, 1 + 2 and 3 packets: 7 in sum.
    assert_eq!(srpt(&network, &flows, Model::Bound), [after(1), after(2), after(5)]);
    // With a second flow from host 1, the senders' links have the larger sum: 1, 3, 3, 6 against 1, 2, 5, 3.
    let flows = [flows[0], flows[1], flows[2], flow(3, 1, 4, 4380, Time::ZERO)];
    assert_eq!(srpt(&network, &flows, Model::Bound), [after(1), after(3), after(3), after(6)]);
}

#[test]
fn a_near_flow_is_served_while_a_far_one_travels() {
    // Host 1 is in the rack of host 0, and host 2 is in the other rack. Each sends one packet to host 0 at the same time.
    let network = leaf_spine(Switching::StoreAndForward);
    let flows = [flow(0, 2, 0, 1460, Time::ZERO), flow(1, 1, 0, 1460, Time::ZERO)];
    // The near packet is stored once: 1.2 + 0.4 + 1.2 us. The far packet crosses 10, 40, 40 and 10 Gb/s: 1.2 + 0.3 + 0.3 + 0.8 + 1.2 us.
    // The near packet leaves the last link at 2.8 us, and the far packet is ready for that link at 2.6 us. So the far packet waits in any
    // schedule that sends the near one first.
    let far_first = [Duration::from_ns(3800), Duration::from_ns(4000 + 1000)];
    let near_first = [Duration::from_ns(4000), Duration::from_ns(2800)];
    let finish = srpt(&network, &flows, Model::Bound);
    assert_eq!(finish, near_first.map(|span| Time::ZERO + span));
    // The other order is feasible and worse.
    assert!(near_first[0] + near_first[1] < far_first[0] + far_first[1]);
    // If the latency were added after service, the flow of lower number would be served first, and the sum would be larger.
    let naive = [Duration::from_ns(1200 + 2600), Duration::from_ns(2400 + 1600)];
    assert!(near_first[0] + near_first[1] < naive[0] + naive[1]);
}

#[test]
fn earliest_deadline_first_by_hand() {
    let network = single_switch(3);
    let due = |flow: Flow, packets: u64| Flow { deadline: Some(Time::ZERO + LATENCY + PACKET * packets), ..flow };
    // The flow of ten packets is due after ten packet times, and that of five after fifteen; that of one has no deadline. EDF serves them
    // in this order, and SRPT in the reverse order.
    let urgent = due(flow(0, 0, 2, 14_600, Time::ZERO), 10);
    let flows = [flow(1, 1, 2, 1460, Time::ZERO), due(flow(2, 1, 2, 7300, Time::ZERO), 15), urgent];
    let after = |packets: u64| Time::ZERO + LATENCY + PACKET * packets;
    for model in BOTH {
        assert_eq!(run(&network, &WIRE, &flows, model, Order::Edf), [after(16), after(15), after(10)], "{model:?}");
        assert_eq!(run(&network, &WIRE, &flows, model, Order::Srpt), [after(1), after(6), after(16)], "{model:?}");
    }
}

#[test]
fn the_report_is_of_a_perfect_run() {
    let network = single_switch(2);
    let flows = [flow(0, 0, 1, 14_600, Time::ZERO)];
    let received = srpt(&network, &flows, Model::Bound);
    let report = report(&network, &WIRE, &flows, &received);
    assert_eq!(report.records[0].received, received[0]);
    // 40 B take 32 ns on each of two links of 200 ns.
    assert_eq!(report.records[0].acknowledged, received[0] + Duration::from_ns(464));
    assert_eq!(report.end, report.records[0].acknowledged);
    assert_eq!((report.records[0].delivered_bytes, report.data_packets), (14_600, 10));
}
