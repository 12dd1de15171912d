//! What every transport does on one small network, as a table: a change of behaviour is a diff that can be read.

use flowloom_lab::catalogue;
use flowloom_lab::run;
use flowloom_lab::spec::Scenario;

const SCENARIO: &str = r#"
    [topology]
    kind = "leaf_spine"
    racks = 3
    hosts_per_rack = 8
    spines = 2

    [workload]
    kind = "poisson"
    sizes = "web_search"
    load = 0.6
    flows = 300
    matrix = "all_to_all"

    [transport]
    name = "ideal"
"#;

/// Load by metric, Web Search on 24 hosts. `cargo insta review` accepts a change that was meant.
#[test]
fn table() {
    let mut lines = vec![format!(
        "{:10} {:>4} {:>13} {:>12} {:>9} {:>13} {:>8} {:>11}",
        "transport", "load", "mean slowdown", "p99 slowdown", "mean FCT", "data packets", "dropped", "packet-hops"
    )];
    for name in catalogue::transport_names() {
        for load in ["0.3", "0.6", "0.8"] {
            // Each with the memory that its paper gives a port: marks come above 97.5 kB.
            let buffer = if ["phost", "pfabric", "fastpass", "ideal"].contains(&name) { "36.864kB" } else { "360kB" };
            let routing = match name {
                "pase" | "hpcc" | "dcqcn" => "ecmp",
                "pdq" | "d3" | "expresspass" | "top" => "ecmp_symmetric",
                "ndp" => "spray_labelled",
                _ => "spray_round_robin",
            };
            let keys = ["transport.name=", "workload.load=", "fabric.buffer=", "fabric.routing="];
            let overrides = keys.into_iter().zip([name, load, buffer, routing]);
            let overrides: Vec<_> = overrides.map(|(key, value)| format!("{key}{value}")).collect();
            let scenario = Scenario::load(SCENARIO, "behaviour.toml", &overrides).unwrap_or_else(|error| panic!("{error}"));
            let summary = run(&scenario, &mut |_, _, _| true).expect("a run").summary;
            lines.push(format!(
                "{name:10} {load:>4} {:>13.4} {:>12.3} {:>9.1} {:>13} {:>8} {:>11}",
                summary.slowdown.all.mean.expect("flows"),
                summary.slowdown.all.p99.expect("flows"),
                summary.fct_us.all.mean.expect("flows"),
                summary.data_packets,
                summary.drops.total,
                summary.packet_hops,
            ));
        }
    }
    insta::assert_snapshot!(lines.join("\n"));
}
