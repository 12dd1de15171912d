//! Equal senders are treated alike: when hosts send equal flows to one host at the same time, neither when a flow finishes nor how many packets
//! are sent again depends on the number of the sender's host.

use flowloom_lab::metrics::Row;
use flowloom_lab::spec::Scenario;
use flowloom_lab::{catalogue, run};

/// Requests far apart, which all other hosts answer to host 0. Their flows are numbered in random order. Under TCP, all packets of a flow are
/// sent at once.
const INCAST: &str = r#"
[topology]
kind = "single_switch"
[fabric]
routing = "ecmp_symmetric"
buffer = "100kB"
[workload]
kind = "incast"
receiver = 0
period = "200ms"
[transport]
name = "phost"
[transport.tcp]
persistent = false
initial_window = 1000
max_window = 1000
"#;

/// How the ports of some transports can differ.
const VARIANTS: [&[&str]; 6] = [
    &["transport.name=tcp", "fabric.sharing=switch"],
    &["transport.name=tcp", "fabric.buffer=300kB", "fabric.pfc={}"],
    &["transport.name=dctcp", "transport.dctcp.persistent=false", "transport.dctcp.port.mark_above=15kB"],
    &["transport.name=pias", "transport.pias.thresholds=[\"10kB\", \"30kB\"]"],
    &["transport.name=phost", "transport.phost.free_tokens=200"],
    &["transport.name=homa", "transport.homa.rtt_bytes=70kB"],
];

/// The flows of each request, in the order of their senders' numbers.
fn requests(senders: usize, count: usize, overrides: &[&str]) -> Vec<Vec<Row>> {
    let mut all: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    all.push(format!("topology.hosts={}", senders + 1));
    all.push(format!("workload.senders={senders}"));
    all.push(format!("workload.bytes={}kB", 200 * senders));
    all.push(format!("workload.requests={count}"));
    let scenario = Scenario::load(INCAST, "incast.toml", &all).unwrap_or_else(|error| panic!("{all:?}: {error}"));
    let rows = run(&scenario, &mut |_, _, _| true).unwrap_or_else(|error| panic!("{all:?}: {error:?}")).rows;
    let mut requests: Vec<Vec<Row>> = rows.chunks(senders).map(<[Row]>::to_vec).collect();
    requests.iter_mut().for_each(|flows| flows.sort_by_key(|row| row.flow.src));
    requests
}

/// Friedman's statistic of blocks with equally many values; `None` if the values of each block are equal. Equal values share their ranks. If the
/// values of a block have no order, its distribution is chi-square with one degree of freedom less than there are values.
fn friedman(blocks: &[Vec<u64>]) -> Option<f64> {
    let values = blocks[0].len();
    let (mut sums, mut squares) = (vec![0.0; values], 0.0);
    for block in blocks {
        for (place, value) in block.iter().enumerate() {
            let below = block.iter().filter(|other| *other < value).count() as f64;
            let above = block.iter().filter(|other| *other > value).count() as f64;
            let rank = (below - above) / 2.0; // around zero
            sums[place] += rank;
            squares += rank * rank;
        }
    }
    (squares > 0.0).then(|| (values as f64 - 1.0) * sums.iter().map(|sum| sum * sum).sum::<f64>() / squares)
}

/// A chi-square distribution exceeds this with a probability of 3e-7, that of five standard deviations of a normal distribution (approximation of
/// Wilson and Hilferty).
fn limit(freedom: usize) -> f64 {
    let part = 2.0 / (9.0 * freedom as f64);
    freedom as f64 * (1.0 - part + 5.0 * part.sqrt()).powi(3)
}

fn assert_alike(senders: usize, count: usize, overrides: &[&str]) {
    let requests = requests(senders, count, overrides);
    let assert_fair = |what: &str, value: fn(&Row) -> u64| {
        let blocks: Vec<Vec<u64>> = requests.iter().map(|flows| flows.iter().map(value).collect()).collect();
        let found = friedman(&blocks);
        assert!(found.unwrap_or(0.0) < limit(senders - 1), "{overrides:?}, {senders} senders: {what} by sender: {found:?}");
        found
    };
    let finish = assert_fair("finish", |row| row.finish.expect("a finished flow").as_ps());
    assert!(finish.is_some(), "{overrides:?}: all flows finish at the same time");
    assert_fair("retransmissions", |row| u64::from(row.retransmissions));
}

/// By hand: of three values, the third is the largest in both of two blocks, and the others change places.
#[test]
fn the_statistic_by_hand() {
    // Ranks around zero: -1, 0, 1 and 0, -1, 1. Their sums are -1, -1, 2, and the sum of their squares is 4.
    assert_eq!(friedman(&[vec![1, 2, 3], vec![5, 4, 6]]), Some(2.0 * 6.0 / 4.0));
    assert_eq!(friedman(&[vec![1, 1, 1]]), None);
    assert!((limit(15) - 60.7).abs() < 0.1);
}

/// About a hundred statistics are compared with a limit that each of them exceeds by chance with a probability of 3e-7.
#[test]
fn the_number_of_a_host_has_no_influence_on_its_flows() {
    let names: Vec<String> = (catalogue::transport_names().filter(|name| *name != catalogue::IDEAL))
        .map(|name| format!("transport.name={name}"))
        .collect();
    let plain = names.iter().map(|name| vec![name.as_str()]);
    for overrides in plain.chain(VARIANTS.iter().map(|variant| variant.to_vec())) {
        assert_alike(3, 60, &overrides);
        assert_alike(16, 40, &overrides);
    }
}
