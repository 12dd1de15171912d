//! Any bytes as a file that a scenario names: a trace of flows or of coflows, a table of sizes, or a network. The first line says which.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::{Corpus, fuzz_target};

const SCENARIO: &str = r#"
topology = { kind = "leaf_spine", racks = 2, hosts_per_rack = 2, spines = 2 }
workload = { kind = "burst", flows = 6, sizes = { fixed = "3kB" } }
transport.name = "phost"
"#;

/// What the first line can be, and how the scenario then names the file.
const KINDS: [(&str, &str); 9] = [
    ("trace", r#"workload={ kind = "trace", file = "input" }"#),
    ("coflows", r#"workload={ kind = "coflow_trace", file = "input" }"#),
    ("network", r#"topology={ kind = "custom", file = "input" }"#),
    ("sizes", r#"workload.sizes={ cdf = "input" }"#),
    ("bytes_percent", r#"workload.sizes={ cdf = "input", dialect = "bytes_percent" }"#),
    ("bytes_probability", r#"workload.sizes={ cdf = "input", dialect = "bytes_probability" }"#),
    ("packets_probability", r#"workload.sizes={ cdf = "input", dialect = "packets_probability" }"#),
    ("ns2_bytes", r#"workload.sizes={ cdf = "input", dialect = "ns2_bytes" }"#),
    ("ns2_packets", r#"workload.sizes={ cdf = "input", dialect = "ns2_packets" }"#),
];

/// Each process has one, in the folder for temporary files.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("flowloom-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the input");
    folder
});

fuzz_target!(|data: &[u8]| -> Corpus {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let (word, content) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Some((_, key)) = KINDS.into_iter().find(|(kind, _)| kind.as_bytes() == word) else { return Corpus::Reject };
    std::fs::write(FOLDER.join("input"), content).expect("the input is written");
    flowloom_fuzz::attempt(SCENARIO, &FOLDER.join("scenario.toml").display().to_string(), &[key.to_owned()]);
    Corpus::Keep
});
