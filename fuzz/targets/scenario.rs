//! Any text as a scenario. Lines that begin with `--set ` are overrides, as on the command line.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};

/// Its folder has the files that scenarios name.
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/lab/tests/generator/files/scenario.toml");

fuzz_target!(|data: &[u8]| -> Corpus {
    // Text is decoded before a scenario is read.
    let Ok(text) = str::from_utf8(data) else { return Corpus::Reject };
    let (overrides, lines): (Vec<&str>, Vec<&str>) = text.split('\n').partition(|line| line.starts_with("--set "));
    let overrides: Vec<String> = overrides.into_iter().map(|line| line["--set ".len()..].to_owned()).collect();
    flowloom_fuzz::attempt(&lines.join("\n"), PATH, &overrides);
    Corpus::Keep
});
