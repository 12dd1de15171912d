//! Background flows, faults that aim, and nodes that go down, from a scenario's text to its results.

use flowloom_core::{Bytes, Flow, LinkId, NodeId, Time};
use flowloom_fabric::{Aim, AimedFault, Fault, Outage, PacketKind};
use flowloom_lab::observe::{InMemory, Samples};
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Execution, Outcome, Plan, catalogue, run, run_plan};

const SCENARIO: &str = r#"
[topology]
kind = "leaf_spine"
racks = 2
hosts_per_rack = 4
[fabric]
buffer = "360kB"
[workload]
kind = "poisson"
sizes = { uniform = ["2kB", "198kB"] }
load = 0.4
flows = 60
[transport]
name = "phost"
"#;

/// Some transports need it.
const ONE_PATH: &str = "fabric.routing=ecmp_symmetric";

fn scenario(more: &str, overrides: &[&str]) -> Scenario {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Scenario::load(&format!("{SCENARIO}{more}"), "scenario.toml", &overrides).unwrap_or_else(|error| panic!("{error}"))
}
fn plan(more: &str, overrides: &[&str]) -> Result<Plan, String> {
    let scenario = scenario(more, overrides);
    scenario.validate().and_then(|spec| Plan::new(&spec)).map_err(|error| error.to_string())
}
fn go(more: &str, overrides: &[&str]) -> Outcome {
    run(&scenario(more, overrides), &mut |_, _, _| true).unwrap_or_else(|error| panic!("{overrides:?}: {error:?}"))
}
/// The first line of the error, without its place.
fn error(more: &str) -> String {
    let message = plan(more, &[]).map(drop).expect_err(more);
    message.lines().next().unwrap_or_default().split_once(": ").expect("a place").1.to_owned()
}

const ACROSS: &str = "[[workload.background]]\nsrc = 0\ndst = \"h5\"\n";

/// Everything but ids, which number all flows in order of start.
fn foreground(plan: &Plan) -> Vec<Flow> {
    let own = plan.flows.iter().filter(|flow| !flow.background);
    own.map(|flow| Flow { id: flowloom_core::FlowId(0), ..flow }).collect()
}

#[test]
fn background_flows_are_planned() {
    let plain = plan("", &[]).unwrap();
    let with = plan(
        &format!("{ACROSS}start = \"3ms\"\n[[workload.background]]\npairs = 40\nmatrix = \"left_right\"\nsize = \"1MB\""),
        &[],
    );
    let with = with.unwrap();
    assert_eq!(foreground(&plain), foreground(&with), "background flows change no other flow");
    assert!(with.flows.own.is_sorted_by_key(|flow| (flow.start, flow.id)));
    assert!((0..).zip(with.flows.iter()).all(|(id, flow)| flow.id.0 == id));
    let (one, pairs): (Vec<Flow>, Vec<Flow>) =
        with.flows.iter().filter(|flow| flow.background).partition(|flow| flow.start > Time::ZERO);
    let [one] = one[..] else { panic!("{one:?}") };
    assert_eq!((one.src, one.dst, one.start), (NodeId(0), NodeId(5), Time::from_ps(3_000_000_000)));
    // 2^31 - 1 packets of 1460 B, which take 43 minutes at 10 Gb/s.
    assert_eq!(one.size, Bytes::new(1460 * ((1 << 31) - 1)));
    assert_eq!(pairs.len(), 40);
    assert!(pairs.iter().all(|flow| flow.src.0 < 4 && flow.dst.0 >= 4 && flow.size == Bytes::new(1_000_000)));
    assert!((0..4).all(|src| pairs.iter().any(|flow| flow.src == NodeId(src))));
    assert_ne!(
        with.flows.own,
        plan("[[workload.background]]\npairs = 40\nmatrix = \"left_right\"", &["run.seed=2"]).unwrap().flows.own
    );
}

/// 6.25 TB are just below 2^32 packets of 1460 B, and above 2^32 packets of the 1444 B that PDQ's header leaves.
#[test]
fn a_flow_whose_packets_a_transport_cannot_count_is_refused() {
    let large = "[[workload.background]]\nsrc = 0\ndst = 5\nsize = \"6.25TB\"\n";
    assert!(plan(large, &["transport.name=d3", ONE_PATH]).is_ok());
    let error = plan(large, &["transport.name=pdq", ONE_PATH]).map(drop).unwrap_err();
    assert!(error.contains("transport.pdq.header: found 16B, which leaves 1.444kB of payload in a packet"), "{error}");
}

/// By default, pairs are those of the workload's matrix, and of all hosts where it has none.
#[test]
fn background_pairs_follow_the_workloads_matrix() {
    let pairs = "[[workload.background]]\npairs = 100\n";
    let up = plan(pairs, &["workload.matrix=upward"]).unwrap();
    assert!(up.flows.iter().all(|flow| flow.src < flow.dst));
    let incast = "workload={ kind = \"incast\", senders = 1, requests = 1, period = \"1s\", bytes = \"3kB\", background = [{ pairs = 100 }] }";
    let any = plan("", &[incast]).unwrap();
    assert!(any.flows.iter().any(|flow| flow.src < flow.dst) && any.flows.iter().any(|flow| flow.src > flow.dst));
    let mix = "workload={ kind = \"mix\", part = [{ name = \"a\", kind = \"permutation\", sizes = \"imc10\" }], background = [{ pairs = 9 }] }";
    assert_eq!(plan("", &[mix]).unwrap().flows.iter().filter(|flow| flow.background).count(), 9);
}

#[test]
fn a_run_ends_without_its_background_flows() {
    for name in catalogue::transport_names() {
        let transport = format!("transport.name={name}");
        let summary = go(ACROSS, &[&transport, ONE_PATH]).summary;
        assert_eq!((summary.flows, summary.finished), (60, 60), "{name}");
        if name == catalogue::IDEAL {
            assert_eq!(summary.background, None, "the oracle knows how the others would fare without them");
            continue;
        }
        let background = summary.background.expect("a background flow");
        assert_eq!((background.flows, background.finished), (1, 0), "{name}");
        assert!(background.goodput_gbps.unwrap() > 0.5, "{name}: {background:?}");
        let all = go(ACROSS, &[&transport, ONE_PATH, "metrics.background=true"]);
        assert_eq!((all.summary.flows, all.summary.finished, all.rows.len()), (61, 60, 61), "{name}");
    }
    let solo = go(ACROSS, &["metrics.optimum=solo", "metrics.background=true"]);
    assert_eq!(solo.summary.finished, 60, "a background flow is not measured alone, since it may never end");
}

/// A background flow fills a link of 10 Gb/s from 0 to the end. The flows of the results begin after 4 ms, and a sampler counts at the same link from then on what the means are made of.
#[test]
fn means_over_time_leave_out_what_background_flows_did_before() {
    let flows: String = (0..30).map(|n| format!("{}e-6,{},6,100000\n", 4000 + 30 * n, 1 + n % 3)).collect();
    let folder = env!("CARGO_TARGET_TMPDIR");
    std::fs::write(format!("{folder}/late.csv"), format!("start_s,src,dst,bytes\n{flows}")).unwrap();
    let text = "topology = { kind = \"leaf_spine\", racks = 2, hosts_per_rack = 4, spines = 1, host_rate = \"10Gb/s\", spine_rate = \"10Gb/s\" }\n\
         fabric.routing = \"ecmp\"\ntransport.name = \"dctcp\"\n\
         workload = { kind = \"trace\", file = \"late.csv\", background = [{ src = 0, dst = 5 }] }\n\
         observe = { links = [\"l0-s0\"], queues = [\"l0-s0\"], period = \"1ms\", from = \"3999999999ps\" }\n";
    let attempt = |overrides: &[&str], threads: usize| {
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let scenario =
            Scenario::load(text, &format!("{folder}/scenario.toml"), &overrides).unwrap_or_else(|error| panic!("{error}"));
        let plan = Plan::new(&scenario.validate().unwrap()).unwrap();
        let mut tables = InMemory::default();
        let outcome = run_plan(plan, Execution { threads, progress: &mut |_, _, _| true, sink: &mut tables });
        (outcome.unwrap_or_else(|error| panic!("{error}")), tables)
    };
    let (Outcome { summary, rows, .. }, tables) = attempt(&[], 1);
    let column = |table: &str, name: &str| -> Vec<f64> {
        let table = tables.tables.iter().find(|found| found.name == table).expect("it was sampled");
        match &table.columns.iter().find(|(column, _)| *column == name).expect("it has it").1 {
            Samples::Counts(counts) => counts.iter().map(|count| *count as f64).collect(),
            Samples::Numbers(numbers) => numbers.clone(),
            other => panic!("{other:?}"),
        }
    };
    let span_s = summary.sim_s - 4e-3;
    let bytes: f64 = column("links", "bytes").iter().sum();
    let used = summary.utilisation["leaf-spine"];
    let [mean, max] = [used.mean, used.max].map(Option::unwrap);
    let sampled = 8.0 * bytes / 10e9 / span_s;
    assert!((max - sampled).abs() < 1e-6, "{max} and {sampled}");
    assert!((0.5..=1.0).contains(&max), "{used:?}");
    let back = 2.0 * mean - max;
    assert!((0.0..0.1).contains(&back), "only acknowledgements come back: {used:?}");
    let queued: f64 = column("queues", "mean_bytes").iter().zip(column("queues", "span")).map(|(mean, span)| mean * span).sum();
    let queue = summary.queue["leaf-spine"];
    assert!((2.0 * queue.mean_bytes.unwrap() / (queued / span_s) - 1.0).abs() < 0.01, "{queue:?} {}", queued / span_s);
    // Nothing happens at another time for it, however many threads there are. Nothing is noted where background flows are results, too.
    let all = attempt(&["metrics.background=true"], 1).0;
    let others: Vec<_> = all.rows.iter().filter(|row| !row.flow.background).map(|row| (row.flow.id, row.finish)).collect();
    assert_eq!(rows.iter().map(|row| (row.flow.id, row.finish)).collect::<Vec<_>>(), others);
    let threaded = attempt(&[], 2).0;
    assert_eq!(
        (&threaded.rows, &threaded.summary.utilisation, &threaded.summary.queue),
        (&rows, &summary.utilisation, &summary.queue)
    );
}

#[test]
fn faults_are_aimed() {
    let text = "[[fault]]\nkind = \"loss\"\nwhere = \"l0-s0\"\nprobability = 0.5\npackets = \"control\"\nflow = 7\n";
    let plan = plan(text, &[]).unwrap();
    let aim = Aim { packets: PacketKind::Control, flow: Some(flowloom_core::FlowId(7)) };
    let struck: Vec<LinkId> =
        (0..plan.setup.faults.len() as u32).map(LinkId).filter(|link| !plan.setup.faults[link.index()].is_empty()).collect();
    assert_eq!(plan.setup.faults[struck[0].index()], [AimedFault { fault: Fault::Loss(0.5), aim }]);
    assert_eq!(struck.len(), 1);
    assert_eq!(
        error("[[fault]]\nkind = \"reorder\"\nwhere = \"all\"\nprobability = 0.5\ndelay = \"1us\"\nflow = 60"),
        "fault.0.flow: found 60; there are 60 flows, which are numbered from 0 in order of start"
    );
}

/// A tenth of the data packets of one flow is lost on each link, and no others. So this flow has sent at least as many packets again.
#[test]
fn only_the_flow_that_is_aimed_at_loses_packets() {
    let text = "[[fault]]\nkind = \"loss\"\nwhere = \"all\"\nprobability = 0.1\npackets = \"data\"\nflow = 7\n";
    let outcome = go(text, &[]);
    let lost = outcome.summary.drops.by_reason["lost"];
    assert!(lost > 5 && u64::from(outcome.rows[7].retransmissions) >= lost, "{lost} lost, {:?}", outcome.rows[7]);
}

/// Every message of PASE's arbitrators is lost, or damaged. Data and acknowledgements are not, so no timer expires and every flow is acknowledged.
#[test]
fn messages_of_arbitrators_are_aimed_at() {
    let sender = "metrics.fct_end=sender";
    let all = ["transport.name=pase", ONE_PATH, sender];
    let undisturbed = go("", &all).summary;
    assert_eq!((undisturbed.finished, undisturbed.drops.total), (60, 0));
    assert!(undisturbed.control_messages.unwrap().all.received > 60);
    for (kind, reason) in [("loss", "lost"), ("corrupt", "corrupted")] {
        let text = format!("[[fault]]\nkind = \"{kind}\"\nwhere = \"all\"\nprobability = 1\npackets = \"messages\"\n");
        let summary = go(&text, &all).summary;
        let messages = summary.control_messages.unwrap().all;
        assert_eq!((summary.finished, messages.received, messages.sent), (60, 0, 0), "{kind}");
        // Each of the 60 flows asks at least once.
        assert!(summary.drops.by_reason[reason] >= 60 && summary.drops.total == summary.drops.by_reason[reason], "{kind}");
        assert_eq!((summary.drops.data, summary.timeouts), (0, 0), "{kind}");
    }
}

#[test]
fn only_transports_with_control_endpoints_have_messages() {
    let text = "[[fault]]\nkind = \"reorder\"\nwhere = \"all\"\nprobability = 0.5\ndelay = \"1us\"\npackets = \"messages\"\n";
    assert_eq!(
        error(text),
        "fault.0.packets: found \"messages\", but phost, as configured, has no control endpoints; give another kind: \"all\", \"data\" \
         or \"control\""
    );
    let local = ["transport.name=pase", "transport.pase.arbitration=local", ONE_PATH];
    let message = plan(text, &local).map(drop).unwrap_err();
    assert!(message.contains("fault.0.packets: found \"messages\", but pase, as configured"), "{message}");
    for name in ["pase", "fastpass"] {
        assert!(plan(text, &[&format!("transport.name={name}"), ONE_PATH]).is_ok(), "{name}");
    }
}

/// A host goes down twice in the middle of the run. No run hangs, and what was aborted went from or to the host.
#[test]
fn runs_survive_a_host_that_goes_down() {
    let down = |from, to| format!("[[fault]]\nkind = \"node_down\"\nnode = \"h2\"\nfrom = \"{from}\"\nto = \"{to}\"\n");
    let faults = [down("100us", "300us"), down("500us", "1ms")].concat();
    for name in catalogue::transport_names().filter(|name| *name != catalogue::IDEAL) {
        let outcome = go(&faults, &[&format!("transport.name={name}"), ONE_PATH]);
        let summary = &outcome.summary;
        assert_eq!((summary.flows, summary.finished + summary.aborted), (60, 60), "{name}");
        assert!(summary.aborted > 0, "{name}");
        assert!(summary.drops.by_reason["node_down"] > 0, "{name}");
        for row in outcome.rows.iter().filter(|row| row.aborted.is_some()) {
            assert!([row.flow.src, row.flow.dst].contains(&NodeId(2)) && row.finish.is_none(), "{name}: {row:?}");
        }
    }
}

#[test]
fn nodes_that_go_down_are_named() {
    let down = |node: &str| format!("[[fault]]\nkind = \"node_down\"\nnode = \"{node}\"\nfrom = \"1ms\"\nto = \"2ms\"\n");
    let ms = |n: u64| Time::from_ps(n * 1_000_000_000);
    let outages = |name: &str, overrides: &[&str]| plan(&down(name), overrides).map(|plan| plan.setup.outages);
    assert_eq!(outages("h3", &[]).unwrap(), [Outage { node: NodeId(3), from: ms(1), to: ms(2) }]);
    // Eight hosts, two leaves, four spines: the control host comes next.
    assert_eq!(outages("arbiter", &["transport.name=fastpass"]).unwrap()[0].node, NodeId(14));
    assert_eq!(error(&down("arbiter")), "fault.0.node: no node is called \"arbiter\"; the first host is called \"h0\"");
    assert_eq!(
        error(&down("l0")),
        "fault.0.node: found the switch \"l0\", but phost has no control endpoints on switches; give a host"
    );
    assert_eq!(
        error(&[down("h1"), down("h0"), down("h1")].concat()),
        "fault.2.from: found 1ms; h1 is down until 2ms already, give one fault for both or a later time"
    );
    let backwards = down("h1").replace("2ms", "1ms");
    assert_eq!(error(&backwards), "fault.0.to: found 1ms; the node comes up after it went down at 1ms");
}

/// The arbiter of Fastpass loses its state and comes back. Its hosts ask again.
#[test]
fn fastpass_survives_an_arbiter_that_goes_down() {
    let down = "[[fault]]\nkind = \"node_down\"\nnode = \"arbiter\"\nfrom = \"200us\"\nto = \"400us\"\n";
    let summary = go(down, &["transport.name=fastpass"]).summary;
    assert_eq!((summary.finished, summary.aborted), (60, 0));
    let messages = summary.control_messages.expect("an arbiter");
    assert_eq!((messages.all.endpoints, messages.by_tier.len()), (1, 1));
    assert!(messages.all.received > 60 && messages.all.sent > 60, "{messages:?}");
    assert_eq!(messages.by_tier["control"], messages.all);
    assert!((1..=60).contains(&messages.all.known_flows_peak), "{messages:?}");
    assert_eq!(go("", &[]).summary.control_messages, None);
}

#[test]
fn background_flows_that_make_no_sense_are_refused() {
    let background = |text: &str| error(&format!("[[workload.background]]\n{text}\n"));
    let lines = [
        background(""),
        background("src = 0"),
        background("dst = 0"),
        background("src = 0\ndst = 8"),
        background("src = 0\ndst = \"h0\""),
        background("src = 0\ndst = 1\npairs = 2"),
        background("src = 0\ndst = 1\nmatrix = \"across\""),
        background("src = 0\ndst = 1\nsize = \"1000TB\""),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

/// A burst from all hosts to one, whose ports hold a packet or a lot. Each design that excludes losses says so when it loses; a design that accepts losses is told when
/// it loses more than a tenth.
#[test]
fn lost_data_is_told() {
    let burst = "workload={ kind = \"incast\", senders = 7, bytes = \"2MB\", requests = 1, period = \"1s\", receiver = 0 }";
    let flags = |name: &str, buffer: &str, more: &[&str]| -> (u64, Vec<String>) {
        let (name, buffer) = (format!("transport.name={name}"), format!("fabric.buffer={buffer}"));
        let outcome = go("", &[&[burst, ONE_PATH, &name, &buffer], more].concat());
        let texts = outcome.summary.findings.iter().filter(|found| found.flag == "data lost").map(|found| found.text.clone());
        (outcome.summary.drops.data, texts.collect())
    };
    for name in ["hpcc", "dcqcn", "pdq", "expresspass", "top"] {
        assert_eq!(flags(name, "10MB", &[]), (0, vec![]), "{name}");
        let (lost, texts) = flags(name, "1500B", &[]);
        let start = format!("{lost} data packets were lost, although {name} ");
        assert!(lost > 0 && texts.len() == 1 && texts[0].starts_with(&start), "{name}: {texts:?}");
    }
    // Faults disturb a design, and their losses are what the scenario asks for.
    let fault = "fault=[{ kind = \"loss\", where = \"all\", probability = 0.3, packets = \"data\" }]";
    let (lost, texts) = flags("top", "10MB", &[fault]);
    assert!(lost > 0 && texts.is_empty(), "{texts:?}");
    let (lost, texts) = flags("pfabric", "10MB", &[]);
    assert!(texts.is_empty(), "{lost}");
    let (lost, texts) = flags("pfabric", "15kB", &[]);
    assert!(texts.len() == 1 && texts[0].starts_with(&format!("full ports lost {lost} of ")), "{lost}: {texts:?}");
}

/// Flows whose packets cross a dead link end after it has come up. Others do not wait for it.
#[test]
fn flows_that_wait_behind_a_dead_link_are_told() {
    let fault = |place: &str, from: &str, to: &str| {
        format!("fault=[{{ kind = \"link_down\", where = \"{place}\", from = \"{from}\", to = \"{to}\" }}]")
    };
    let told = |outcome: &Outcome| -> Vec<String> {
        outcome.summary.findings.iter().filter(|found| found.flag == "dead link").map(|found| found.text.clone()).collect()
    };
    for place in ["l0-s1", "s1-l0", "h2-l0", "leaf-spine"] {
        let dead = fault(place, "0s", "200ms");
        let outcome = go("", &[ONE_PATH, &dead]);
        let up = Time::from_ps(200_000_000_000);
        let late = outcome.rows.iter().filter(|row| row.finish.is_some_and(|finish| finish > up)).count();
        assert!(late > 0 && late < 60, "{place}: {late}");
        let [foreseen] = &plan("", &[ONE_PATH, &dead]).unwrap().setup.misfits[..] else { panic!("{place}") };
        let [observed] = &told(&outcome)[..] else { panic!("{place}") };
        let name = if place == "leaf-spine" { "l0-s0, l0-s1, l0-s2 and 5 more are" } else { &format!("{place} is") };
        for text in [foreseen, observed] {
            let start =
                format!("fault.0.to: the link{} {name} down from 0ps to 200ms, ", if place == "leaf-spine" { "s" } else { "" });
            assert!(text.starts_with(&start), "{text}");
            assert!(text.contains(&format!(" and {late} of 60 flows ")), "{late}: {text}");
        }
        // Where packets are sprayed, those that take the dead link are lost, and the other paths carry them in the end.
        assert_eq!(plan("", &[&dead]).unwrap().setup.misfits.len(), 1, "{place}");
    }
    let short = fault("l0-s1", "10us", "20us");
    assert_eq!(plan("", &[ONE_PATH, &short]).unwrap().setup.misfits, [""; 0]);
    assert!(told(&go("", &[ONE_PATH, &short])).is_empty());
    // Nobody sends to or from the last host.
    let unused = "workload={ kind = \"incast\", senders = 2, bytes = \"20kB\", requests = 1, period = \"1s\", receiver = 0 }";
    let unheard = go("", &[ONE_PATH, unused]);
    let busy: Vec<u32> = unheard.rows.iter().map(|row| row.flow.src.0).collect();
    let idle = (1..8).find(|host| !busy.contains(host)).expect("two of seven send");
    let dead = fault(&format!("h{idle}-l{}", idle / 4), "0s", "200ms");
    assert_eq!(plan("", &[ONE_PATH, unused, &dead]).unwrap().setup.misfits, [""; 0]);
    assert!(told(&go("", &[ONE_PATH, unused, &dead])).is_empty());
}
