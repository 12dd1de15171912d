//! Collectives on idle networks take the times of their closed forms, and jobs that share no link do not touch each other. Flows of a trace wait for what it says.

mod blasting;

use flowloom_core::{Bytes, Duration, NodeId, Time};
use flowloom_fabric::Report;
use flowloom_lab::Plan;
use flowloom_lab::spec::Scenario;

use crate::blasting::blasted;

const RANKS: u64 = 8;
const SIZE: u64 = 80_000;
/// Longer than the transmission of an acknowledgement, so that this delays no data, and shorter than a link's and a packet's time, so that no data delays it.
const COMPUTE: Duration = Duration::from_us(1);

fn plan(workload: &str, topology: &str) -> Plan {
    let text = format!(
        "topology = {{ {topology} }}\n[fabric]\nswitching = \"store_and_forward\"\nbuffer = \"1GB\"\n\
         [transport]\nname = \"pfabric\"\n[workload]\n{workload}"
    );
    let plan = Scenario::load(&text, "job.toml", &[]).and_then(|scenario| Plan::new(&scenario.validate()?));
    plan.unwrap_or_else(|error| panic!("{error}"))
}

const STAR: &str = "kind = \"single_switch\", hosts = 8, host_rate = \"10Gb/s\", delay = \"500ns\"";

fn job(collective: &str, algorithm: &str, more: &str) -> String {
    format!(
        "kind = \"collective\"\ncollective = \"{collective}\"\nalgorithm = \"{algorithm}\"\nsize = \"{SIZE}B\"\ncompute = \"{COMPUTE}\"\n{more}\n"
    )
}

/// When the last flow was received.
fn duration(report: &Report) -> Duration {
    assert_eq!(report.not_started, 0);
    report.records.iter().map(|record| record.received).max().expect("a flow") - Time::ZERO
}

/// How long so many bytes take from one host to another over an idle network, and how long the acknowledgement takes back.
fn times(plan: &Plan, bytes: u64) -> (Duration, Duration) {
    let (network, wire) = (&plan.setup.network, &plan.setup.wire);
    let path = network.path(NodeId(0), NodeId(1));
    let there = network.flow_time(&path, Bytes::new(bytes), wire);
    // Two links of 10 Gb/s and 500 ns.
    let back = Duration::from_ns(1000) + network.link(path[0]).rate.transmit_time(wire.control) * 2;
    (there, back)
}

/// All ranks do the same at the same times: so many steps, each of which takes the time of a block and of the computation before it.
#[test]
fn steps_of_equal_blocks_take_their_closed_form() {
    let n = RANKS;
    let block = SIZE / n;
    let cases = [
        ("all_reduce", "ring", vec![block; 2 * (n as usize - 1)]),
        ("all_gather", "ring", vec![block; n as usize - 1]),
        ("reduce_scatter", "ring", vec![block; n as usize - 1]),
        ("all_reduce", "pairwise", vec![block; 2 * (n as usize - 1)]),
        ("all_to_all", "pairwise", vec![block; n as usize - 1]),
        ("all_gather", "pairwise", vec![block; n as usize - 1]),
        ("reduce_scatter", "pairwise", vec![block; n as usize - 1]),
        ("all_reduce", "recursive_doubling", vec![SIZE; 3]),
        ("all_gather", "recursive_doubling", vec![block, 2 * block, 4 * block]),
        ("reduce_scatter", "recursive_doubling", vec![4 * block, 2 * block, block]),
        ("broadcast", "ring", vec![SIZE; n as usize - 1]),
    ];
    for (collective, algorithm, blocks) in cases {
        let plan = plan(&job(collective, algorithm, ""), STAR);
        let expected: Duration = blocks.iter().fold(Duration::ZERO, |sum, bytes| sum + COMPUTE + times(&plan, *bytes).0);
        assert_eq!(duration(&blasted(&plan, 1)), expected, "{collective} {algorithm}");
        let pause = Duration::from_us(70);
        if collective != "broadcast" {
            let again = self::plan(&job(collective, algorithm, &format!("iterations = 3\npause = \"{pause}\"")), STAR);
            assert_eq!(duration(&blasted(&again, 1)), expected * 3 + pause * 2, "{collective} {algorithm}");
        }
    }
}

/// Without overlap, a rank also waits for the acknowledgement of what it has sent, which comes later than the next step could begin.
#[test]
fn a_rank_that_does_not_overlap_waits_for_acknowledgements() {
    let plan = plan(&job("all_reduce", "ring", "overlap = false"), STAR);
    let (there, back) = times(&plan, SIZE / RANKS);
    let between = COMPUTE.max(back + Duration::from_ps(1));
    assert!(between > COMPUTE);
    assert_eq!(duration(&blasted(&plan, 1)), COMPUTE + there * 14 + between * 13);
}

/// In a binomial tree of eight ranks, rank 0 sends to 4, 2 and 1, one after the other; each goes on when it has received. A rank that is sent to second waits for the
/// acknowledgement of the first.
#[test]
fn a_broadcast_in_a_tree_takes_its_closed_form() {
    let plan = plan(&job("broadcast", "tree", ""), STAR);
    let (there, back) = times(&plan, SIZE);
    let (send, next) = (COMPUTE + there, there + back + Duration::from_ps(1));
    let report = blasted(&plan, 1);
    let received = |rank: u32| {
        let flow = report.flows.iter().position(|flow| flow.dst == NodeId(rank)).expect("a flow to each");
        report.records[flow].received - Time::ZERO
    };
    // By hand: 4 comes first; 6 from 4, and 7 from 6; 5 after 6 from 4; and so on.
    assert_eq!(received(4), send);
    assert_eq!(received(6), send * 2);
    assert_eq!(received(7), send * 3);
    assert_eq!(received(5), send * 2 + next);
    assert_eq!(received(2), send + next);
    assert_eq!(received(3), send * 2 + next);
    assert_eq!(received(1), send + next * 2);
}

/// The reduction is the broadcast backwards, but that no rank waits for an acknowledgement: in each of three steps, a rank sends what it has and what it has received. Rank 0
/// receives from 1, 2 and 4, in this order, and each of these has been ready for a step.
#[test]
fn a_reduction_in_a_tree_takes_its_closed_form() {
    let plan = plan(&job("all_reduce", "tree", ""), STAR);
    let (there, back) = times(&plan, SIZE);
    let report = blasted(&plan, 1);
    let down = report.flows.iter().filter(|flow| flow.src < flow.dst).map(|flow| flow.start).min().expect("a way down");
    assert_eq!(down - Time::ZERO, (COMPUTE + there) * 3 + COMPUTE);
    let last = (COMPUTE + there) * 4 + (there + back + Duration::from_ps(1)) * 2;
    assert_eq!(duration(&report), last.max((COMPUTE + there) * 6));
}

/// With two parts, the second part of a block is sent when the first is acknowledged, and each goes round by itself. Two ranks and one step: the sum of both.
#[test]
fn parts_follow_one_another() {
    let plan = plan(&job("all_gather", "ring", "ranks = 2\nparts = 2"), STAR);
    let (there, back) = times(&plan, SIZE / 4);
    assert_eq!(duration(&blasted(&plan, 1)), COMPUTE + there + back + Duration::from_ps(1) + there);
    // A chain of four ranks passes ten parts on while the next ones come: as long as ten parts take at the first rank, and then two more hops.
    let chain = self::plan(&job("broadcast", "ring", "ranks = 4\nparts = 10"), STAR);
    let (there, back) = times(&chain, SIZE / 10);
    let expected = COMPUTE + (there + back + Duration::from_ps(1)) * 9 + there + (COMPUTE + there) * 2;
    let whole = duration(&blasted(&self::plan(&job("broadcast", "ring", "ranks = 4"), STAR), 1));
    assert_eq!(duration(&blasted(&chain, 1)), expected);
    assert!(expected < whole, "pipelining helps: {expected} and {whole}");
}

/// Each host sends one packet to each other one, to the next host first: in each slot, all receive from different hosts.
#[test]
fn a_direct_all_to_all_of_single_packets_takes_its_closed_form() {
    let workload = "kind = \"collective\"\ncollective = \"all_to_all\"\nalgorithm = \"direct\"\nsize = \"11680B\"\n";
    let plan = plan(workload, STAR);
    let wire = &plan.setup.wire;
    let packet = plan.setup.network.link(flowloom_core::LinkId(0)).rate.transmit_time(wire.flow_wire_bytes(Bytes::new(1460)));
    let report = blasted(&plan, 1);
    let (there, _) = times(&plan, 1460);
    assert_eq!(report.flows.len(), 56);
    let last = report.records.iter().map(|record| record.received).max().unwrap() - Time::ZERO;
    let slots = packet * 6;
    // The first acknowledgements come while the last packets are sent: each host sends at most as many of them as there are slots left.
    let least = Duration::from_ps(1) + there + slots;
    assert!(last >= least && last <= least + packet, "{last} and {least}");
}

/// Two jobs on hosts of their own behind one switch, and the same jobs alone: the same times.
#[test]
fn jobs_on_disjoint_hosts_do_not_touch_each_other() {
    let part = |name: &str, algorithm: &str, first: u32| {
        format!(
            "[[workload.part]]\nname = \"{name}\"\n{}",
            job("all_reduce", algorithm, &format!("ranks = 4\nfirst_host = {first}\niterations = 3"))
        )
    };
    let (one, other) = (part("one", "ring", 0), part("other", "recursive_doubling", 4));
    let spans = |parts: &str, tenant: u16| {
        let plan = plan(&format!("kind = \"mix\"\n{parts}"), STAR);
        let report = blasted(&plan, 1);
        let both = report.flows.iter().zip(&report.records).filter(|(flow, _)| flow.tenant == tenant);
        both.map(|(flow, record)| (flow.src, flow.dst, flow.size, flow.start, record.received)).collect::<Vec<_>>()
    };
    let together = format!("{one}{other}");
    assert_eq!(spans(&together, 0), spans(&one, 0));
    assert_eq!(spans(&together, 1), spans(&other, 0));
}

/// Faster links, cut-through and several paths change times, but not in how many regions the run is.
#[test]
fn regions_do_not_change_a_job() {
    let fabric = "kind = \"leaf_spine\", racks = 4, hosts_per_rack = 4, spines = 2";
    for (collective, algorithm) in
        [("all_reduce", "ring"), ("all_reduce", "tree"), ("all_to_all", "direct"), ("all_gather", "recursive_doubling")]
    {
        let plan = plan(&job(collective, algorithm, "placement = \"random\"\niterations = 2"), fabric);
        let outcome = |regions| {
            let report = blasted(&plan, regions);
            format!("{:?} {:?} {:?} {:?}", report.flows, report.records, report.end, report.events)
        };
        let one = outcome(1);
        for regions in [2, 3, 4] {
            assert!(one == outcome(regions), "{collective} {algorithm} in {regions} regions");
        }
    }
}

/// Flow 0 goes from host 0 to host 1, and flow 1 from 2 to 1. What waits for them is seen at host 1, at host 0 or by others, at once or later.
#[test]
fn flows_of_a_trace_wait_for_what_it_says() {
    let folder = std::env::temp_dir().join(format!("flowloom-after-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let trace = "id,start_s,src,dst,bytes,after\n\
         0,0,0,1,20000,\n\
         1,0.00001,2,1,90000,\n\
         2,,1,3,1000,0 1\n\
         3,,0,3,1000,0\n\
         4,,4,5,1000,0\n\
         5,,4,6,1000,0@acknowledged+0.000003\n\
         6,,7,6,1000,1@begun+0.00002 0\n\
         7,0.001,3,1,1000,2\n\
         8,,1,0,1000,7+0.5\n";
    std::fs::write(folder.join("after.csv"), trace).expect("a file");
    let text = format!(
        "topology = {{ {STAR} }}\n[fabric]\nbuffer = \"1GB\"\n[transport]\nname = \"pfabric\"\n\
         [workload]\nkind = \"trace\"\nfile = \"after.csv\"\n"
    );
    let path = folder.join("job.toml").display().to_string();
    let plan = Scenario::load(&text, &path, &[]).and_then(|scenario| Plan::new(&scenario.validate()?));
    let report = blasted(&plan.unwrap_or_else(|error| panic!("{error}")), 1);
    std::fs::remove_dir_all(&folder).expect("it is there");
    let (mut start, mut received, mut acknowledged) = ([Time::ZERO; 9], [Time::ZERO; 9], [Time::ZERO; 9]);
    for (flow, record) in report.flows.iter().zip(&report.records) {
        let id = flow.id.0 as usize;
        (start[id], received[id], acknowledged[id]) = (flow.start, record.received, record.acknowledged);
    }
    let (ps, us) = (Duration::from_ps(1), Duration::from_us);
    assert!(received[1] > received[0] && acknowledged[0] > received[0]);
    assert_eq!(start[2], received[1] + ps);
    assert_eq!(start[3], acknowledged[0] + ps);
    assert_eq!(start[4], received[0] + ps);
    assert_eq!(start[5], acknowledged[0] + us(3));
    assert_eq!(start[6], (start[1] + us(20)).max(received[0] + ps));
    assert_eq!(start[7], Time::ZERO + us(1000));
    assert_eq!(start[8], received[7] + us(500_000));
}

#[test]
fn ranks_are_placed_by_a_rule() {
    let hosts = |more: &str| {
        let plan = plan(&job("all_gather", "ring", more), STAR);
        let mut sources: Vec<u32> = plan.flows.iter().take(4).map(|flow| flow.src.0).collect();
        sources.truncate(4);
        sources
    };
    assert_eq!(hosts("ranks = 4"), [0, 1, 2, 3]);
    assert_eq!(hosts("ranks = 4\nfirst_host = 3"), [3, 4, 5, 6]);
    assert_eq!(hosts("ranks = 4\nplacement = \"spread\""), [0, 2, 4, 6]);
    assert_eq!(hosts("hosts = [7, \"h1\", 3, 0]"), [7, 1, 3, 0]);
    let mut random = hosts("ranks = 4\nplacement = \"random\"");
    random.sort_unstable();
    random.dedup();
    assert_eq!(random.len(), 4);
}

#[test]
fn jobs_that_make_no_sense_are_refused() {
    let refusal = |workload: &str| {
        let text = format!("topology = {{ {STAR} }}\n[transport]\nname = \"pfabric\"\n[workload]\n{workload}");
        let plan = Scenario::load(&text, "job.toml", &[]).and_then(|scenario| Plan::new(&scenario.validate()?).map(drop));
        plan.expect_err("it makes no sense").to_string()
    };
    for (collective, algorithm, more, expected) in [
        ("broadcast", "pairwise", "", "found pairwise for broadcast; choose ring, tree"),
        ("all_to_all", "direct", "parts = 2", "is not cut into parts"),
        ("all_to_all", "direct", "overlap = false", "pairwise sends one after the other"),
        ("all_reduce", "recursive_doubling", "ranks = 6", "needs a power of two; found 6 ranks"),
        ("all_reduce", "ring", "ranks = 9", "found 9 ranks; the network has 8 hosts"),
        ("all_reduce", "ring", "ranks = 8\nfirst_host = 1", "the network has 7 hosts from number 1 on"),
        ("all_reduce", "ring", "hosts = [1, 1]", "workload.hosts.1: h1 is there already"),
        ("all_reduce", "ring", "hosts = [1]", "at least two ranks"),
        ("all_reduce", "ring", "hosts = [1, 2]\nranks = 2", "leave one of the two out"),
        ("all_reduce", "ring", "placement = \"random\"\nfirst_host = 1", "only placement"),
        ("all_reduce", "ring", "iterations = 1000000", "the limit is 16777216"),
    ] {
        let message = refusal(&job(collective, algorithm, more));
        assert!(message.contains(expected) && message.contains("job.toml"), "{message}");
    }
}
