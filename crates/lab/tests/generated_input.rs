//! Hundreds of generated inputs, most of them broken: each ends in an error that names what is wrong and stays short, or in a whole
//! result; never in a panic, and never in a run without end.

use std::ops::AddAssign;
use std::path::{Path, PathBuf};

use flowloom_lab::spec::Scenario;
use flowloom_lab::{RunError, run};
use toml::{Table, Value};

const SWITCH: &str = r#"
[topology]
kind = "single_switch"
hosts = 4

[workload]
kind = "poisson"
sizes = { fixed = "3kB" }
load = 0.5
flows = 10

[transport]
name = "phost"
"#;

/// Longer than any message with all its lists; far shorter than what was read.
const ERROR_MOST: usize = 2_500;
/// A good run of the scenarios here is a few thousand events, less than one call of the progress function.
const STEPS_MOST: u32 = 20;

#[derive(Default, Debug)]
struct Count {
    errors: u32,
    results: u32,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.errors += other.errors;
        self.results += other.results;
    }
}

impl Count {
    fn all(&self) -> u32 {
        self.errors + self.results
    }

    /// Runs a scenario. Its error must begin with one of `places`.
    fn case(&mut self, folder: &Path, text: &str, overrides: &[&str], places: &[&str]) {
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let path = folder.join("scenario.toml").display().to_string();
        let mut steps = 0;
        let result = Scenario::load(text, &path, &overrides).map_err(RunError::Scenario).and_then(|scenario| {
            run(&scenario, &mut |_, _, _| {
                steps += 1;
                steps < STEPS_MOST
            })
        });
        let what =
            || format!("{text:.300}\n{}", overrides.iter().map(|text| format!("{text:.300}")).collect::<Vec<_>>().join("\n"));
        match result {
            Ok(outcome) => {
                assert_eq!(outcome.rows.len(), outcome.summary.flows, "{}", what());
                self.results += 1;
            }
            Err(RunError::Scenario(error)) => {
                check_words(&error.to_string().replace(&format!("{}/", folder.display()), ""), places, &what());
                self.errors += 1;
            }
            Err(RunError::Failed(message)) => {
                check_words(&message, &[""], &what());
                self.errors += 1;
            }
            Err(RunError::Stopped) => panic!("no end\n{}", what()),
        }
    }
}

fn check_words(error: &str, places: &[&str], what: &str) {
    assert!(places.iter().any(|place| error.starts_with(place)), "no place: {error}\n{what}");
    assert!(error.chars().count() < ERROR_MOST, "{} characters: {error}\n{what}", error.chars().count());
    assert!(error.lines().count() <= 4, "{error}\n{what}");
    assert!(!error.chars().any(|c| c.is_control() && c != '\n'), "{error:?}\n{what}");
    let words: Vec<&str> = error.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    for word in ["u8", "u16", "u32", "u64", "usize", "i32", "i64", "f64", "struct", "enum", "variant", "newtype", "deserialize"]
    {
        assert!(!words.contains(&word), "says {word}: {error}\n{what}");
    }
}

/// A folder of its own with these files.
fn folder(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    files.iter().for_each(|(file, text)| std::fs::write(folder.join(file), text).unwrap());
    folder
}

/// Values that are wrong nearly everywhere.
fn values() -> Vec<String> {
    let long = "x".repeat(1_000_000);
    let mut values: Vec<String> = [
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "1e300",
        "300",
        "5000000000",
        "9223372036854775807",
        "-9223372036854775808",
        "99999999999999999999",
        "1.5",
        "\"\"",
        "\" \"",
        "\"\\u0000\\u001b[2J\"",
        "true",
        "[]",
        "[\"\"]",
        "[[[[[[[[1]]]]]]]]",
        "{}",
        "{ a = { b = 1 } }",
        "1979-05-27",
        "\"10GB/s\"",
        "\"1e9s\"",
        "\"99999999999999999999s\"",
        "\"-1us\"",
        "\"0s\"",
        "\"1B\"",
        "=",
    ]
    .map(str::to_owned)
    .to_vec();
    values.push(format!("\"{long}\""));
    values.push(format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)));
    values
}

/// The dotted keys of all values in a table.
fn keys(table: &Table, path: &str, all: &mut Vec<String>) {
    for (name, value) in table {
        let key = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        all.push(key.clone());
        if let Value::Table(inner) = value {
            keys(inner, &key, all);
        }
    }
}

/// Every key of a scenario with all defaults written out, but for the transport's parameters, each with every value.
#[test]
fn every_key_with_every_value() {
    let mut count = Count::default();
    let resolved = Scenario::load(SWITCH, "scenario.toml", &[]).unwrap().spec.to_toml();
    let mut all = Vec::new();
    keys(&toml::from_str(&resolved).unwrap(), "", &mut all);
    for key in all.iter().filter(|key| !key.starts_with("transport.phost.")) {
        for value in values() {
            let text = format!("{key}={value}");
            // A value that is no TOML is text; what is wrong may show in another key, since a file is read as a whole.
            count.case(Path::new(""), SWITCH, &[&text], &["--set ", "scenario.toml:", "scenario.toml: "]);
        }
    }
    println!("{count:?}: {} keys and values", count.all());
    assert!(count.all() >= 500 && count.errors >= 400, "{count:?}");
}

/// Every parameter of every transport with what no parameter can be.
#[test]
fn every_parameter_of_the_wrong_type() {
    let mut count = Count::default();
    let catalogue = flowloom_lab::catalogue();
    for transport in catalogue["transports"].as_array().expect("a list") {
        let transport = transport["name"].as_str().expect("a name");
        let name = format!("transport.name={transport}");
        let mut all = Vec::new();
        let resolved = Scenario::load(SWITCH, "scenario.toml", std::slice::from_ref(&name)).unwrap().spec.to_toml();
        let table: Table = toml::from_str(&resolved).unwrap();
        keys(table["transport"][transport].as_table().unwrap(), "", &mut all);
        for key in all {
            for value in ["nan", "-1", "[[1]]", "{ a = 1 }", "\"\"", "99999999999999999999"] {
                let text = format!("transport.{transport}.{key}={value}");
                count.case(Path::new(""), SWITCH, &[&name, &text], &["--set transport."]);
            }
        }
    }
    println!("{count:?}: {} parameters and values", count.all());
    assert!(count.errors >= 2000, "{count:?}");
}

#[test]
fn texts() {
    let mut count = Count::default();
    let place = ["scenario.toml: ", "scenario.toml:"];
    let mut case = |text: &str| count.case(Path::new(""), text, &[], &place);
    for cut in (0..SWITCH.len()).step_by(3) {
        case(&SWITCH[..cut]);
    }
    for (index, line) in SWITCH.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        let with = |new: &str| {
            let mut lines: Vec<&str> = SWITCH.lines().collect();
            lines[index] = new;
            lines.join("\n")
        };
        case(&with(""));
        case(&with(&format!("{line}\n{line}")));
        case(&with(&format!("x{line}")));
        case(&with(&format!("{line} x")));
        case(&with(&line.replace('"', "")));
    }
    case("");
    case(" \n\n");
    case("\0\u{1}\u{1b}[2J");
    case(&format!("\u{feff}{}", SWITCH.replace('\n', "\r\n")));
    case(&format!("{SWITCH}# {}", "x".repeat(1_000_000)));
    case(&format!("{SWITCH}{} = 1", "x".repeat(1_000_000)));
    case(&format!("{SWITCH}\"{}\" = 1", "\\n".repeat(1_000_000)));
    case(&format!("{SWITCH}[{}]", vec!["a"; 100_000].join(".")));
    case(&format!("{SWITCH}{} = 1", vec!["a"; 100_000].join(".")));
    case(&format!("{SWITCH}a = {}", "[".repeat(1_000_000)));
    case(&format!("{SWITCH}a = {}", "{a=".repeat(100_000)));
    case(&"[[fault]]\n".repeat(10_000));
    case(&SWITCH.replace("0.5", "0,5"));
    case(&SWITCH.replace('=', ":"));
    println!("{count:?}: {} texts", count.all());
    assert!(count.all() >= 100 && count.results >= 2, "{count:?}");
}

#[test]
fn overrides() {
    let mut count = Count::default();
    let deep = vec!["a"; 100_000].join(".");
    let long = "x".repeat(1_000_000);
    for text in [
        "",
        "=",
        "a",
        "=1",
        ".=1",
        "a..b=1",
        "workload.=1",
        ".load=1",
        "workload.load",
        "workload.load=",
        "workload.load==",
        "workload.load=\"",
        "workload.load='",
        "workload.load={",
        "workload=3",
        "workload={}",
        "workload.flows.x=1",
        "workload.sizes.fixed.x=1",
        "fault.0.kind=loss",
        "fault=[{}]",
        "fault=[1]",
        "run=[]",
        "transport.name.x=1",
        "workload.load=0.5\nx=1",
        "\0=1",
        "workload.load=\0",
        "topology.kind=fat_tree",
        "topology.kind=custom",
        "workload.part=[]",
        "workload.kind=mix",
        "workload.kind=trace",
        "workload.kind=coflow_trace",
        "workload={kind=\"coflow_synthetic\",coflows=5,load=0.5,size_divisor=1e-9}",
        "workload={kind=\"coflow_synthetic\",coflows=1000000,load=0.5}",
        "workload.kind=incast",
        "workload.tenant=[{}]",
        "metrics.size_bins=[\"0B\",\"0B\"]",
        "metrics.size_bins=[1]",
        "fabric.wire=\"ip_1500\"x",
        &format!("{deep}=1"),
        &format!("{long}=1"),
        &format!("workload.load={long}"),
        &format!("workload.sizes={long}"),
        &format!("workload.{long}=1"),
        &format!("workload.sizes={{cdf=\"{long}\"}}"),
        &long,
        &format!("workload.load={}", "[".repeat(1_000_000)),
        &format!("workload={}", "{a=".repeat(100_000)),
        &format!("transport.phost.{long}=1"),
        &format!("fault=[{}]", vec!["{}"; 100_000].join(",")),
    ] {
        count.case(Path::new(""), SWITCH, &[text], &["--set ", "scenario.toml"]);
    }
    println!("{count:?}: {} overrides", count.all());
    assert!(count.errors >= 40, "{count:?}");
}

/// What a table of numbers can be instead.
fn broken_tables(good: &str) -> Vec<Vec<u8>> {
    let (head, rows) = good.split_once('\n').unwrap();
    let first = rows.lines().next().unwrap();
    let mut all: Vec<String> = vec![
        String::new(),
        "\n\n".into(),
        "#".into(),
        head.into(),
        rows.into(),
        format!("{head}\n{head}\n{rows}"),
        good.replace(',', ";"),
        good.replace(',', "\t"),
        good.replace('\n', "\r"),
        good.replace("\r\n", "\n"),
        format!("\u{feff}{good}"),
        format!("\u{feff}\u{feff}{good}"),
        good.replace('\n', "\r\n"),
        format!("{good}\0\0\0"),
        format!("{good}{}\n", "1,".repeat(100_000)),
        format!("{good}{}\n", "9".repeat(1_000_000)),
        format!("{}\n{rows}", head.repeat(10_000)),
        format!("{good}{}", "x".repeat(1_000_000)),
        format!("{good}\"{first}\"\n"),
    ];
    let cells: Vec<&str> = first.split(',').collect();
    for column in 0..cells.len() {
        let without = |cells: &[&str]| -> String {
            cells.iter().enumerate().filter(|(index, _)| *index != column).map(|(_, cell)| *cell).collect::<Vec<_>>().join(",")
        };
        all.push(format!("{}\n{rows}", without(&head.split(',').collect::<Vec<_>>())));
        all.push(format!("{head}\n{}\n", without(&cells)));
        for value in
            ["nan", "NaN", "inf", "-inf", "1e300", "-1e300", "-1", "1e-300", "1.5", "", " ", "x", "0x10", "1_000", "\u{1b}[2J"]
        {
            let mut row = cells.clone();
            row[column] = value;
            all.push(format!("{head}\n{}\n", row.join(",")));
        }
    }
    let mut all: Vec<Vec<u8>> = all.into_iter().map(String::into_bytes).collect();
    all.push(vec![0xff; 1000]);
    all.push([&[0xff, 0xfe][..], &good.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>()].concat());
    all.push((0..=255).collect());
    all.push(b"PAR1\x15\x00".to_vec());
    all
}

#[test]
fn traces_and_size_tables() {
    let mut count = Count::default();
    let trace = "start_s,src,dst,bytes,deadline_s,tenant,coflow,id\n0,0,1,1000,0.1,1,2,3\n1e-6,1,0,1,,,,\n";
    let sizes = "bytes,cumulative_probability\n1000,0.5\n2000,1\n";
    for (file, good, key) in [
        ("trace.csv", trace, "workload={kind=\"trace\",file=\"trace.csv\"}"),
        ("sizes.csv", sizes, "workload.sizes={cdf=\"sizes.csv\"}"),
        ("sizes.csv", sizes, "workload.sizes={cdf=\"sizes.csv\",dialect=\"packets_probability\"}"),
        ("sizes.csv", sizes, "workload.sizes={cdf=\"sizes.csv\",dialect=\"ns2_bytes\"}"),
    ] {
        for table in broken_tables(good) {
            let folder = folder("generated", &[(file, &table)]);
            count.case(&folder, SWITCH, &[key], &["trace.csv", "sizes.csv", "--set workload"]);
        }
    }
    println!("{count:?}: {} tables", count.all());
    assert!(count.errors >= 150 && count.results >= 10, "{count:?}");
}

/// Every word of a trace of coflows is replaced, left out and repeated.
#[test]
fn coflow_traces() {
    let mut count = Count::default();
    let good = "5 2\n1 0 2 0 1 1 2:0.001\n2 5 1 4 2 1:0.001 3:0.002\n";
    let words: Vec<&str> = good.split_inclusive([' ', '\n', ':']).collect();
    let long = "9".repeat(100_000);
    let mut texts: Vec<String> = vec![
        String::new(),
        "\n".repeat(1000),
        good.repeat(2),
        good.replace(' ', "\t"),
        format!("\u{feff}{good}"),
        "\0".repeat(1000),
    ];
    for (index, word) in words.iter().enumerate() {
        let end = &word[word.len() - 1..];
        let with = |new: &str| [&words[..index], &[new], &words[index + 1..]].concat().concat();
        texts.push(with(""));
        texts.push(with(&word.repeat(2)));
        for value in [
            "nan",
            "inf",
            "-inf",
            "1e300",
            "-1",
            "0",
            "1.5",
            "5000000000",
            "99999999999999999999",
            "x",
            ":",
            "\u{1b}[2J",
            "µ",
            &long,
        ] {
            texts.push(with(&format!("{value}{end}")));
        }
    }
    for text in texts {
        let folder = folder("generated", &[("trace.txt", text.as_bytes())]);
        let key = "workload={kind=\"coflow_trace\",file=\"trace.txt\"}";
        count.case(&folder, SWITCH, &[key], &["trace.txt", "--set workload"]);
    }
    for bytes in [vec![0xff; 100], (0..=255).collect(), b"5 2\n1 0 \xff".to_vec()] {
        let folder = folder("generated", &[("trace.txt", &bytes)]);
        count.case(&folder, SWITCH, &["workload={kind=\"coflow_trace\",file=\"trace.txt\"}"], &["trace.txt", "--set workload"]);
    }
    println!("{count:?}: {} traces of coflows", count.all());
    assert!(count.errors >= 200 && count.results >= 10, "{count:?}");
}

#[test]
fn topology_files() {
    let mut count = Count::default();
    let host = |name: &str| format!("[[node]]\nkind = \"host\"\nname = \"{name}\"\n");
    let link = |a: &str, b: &str| format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\nrate = \"1Gb/s\"\ndelay = \"1us\"\n");
    let switch = "[[node]]\nkind = \"switch\"\nname = \"s\"\nlevel = 1\ntier = \"leaf\"\n";
    let good = format!("{}{}{switch}{}{}", host("a"), host("b"), link("a", "s"), link("s", "b"));
    let mut texts = vec![good.clone(), format!("\u{feff}{}", good.replace('\n', "\r\n")), String::new(), "node = []".into()];
    for (index, line) in good.lines().enumerate().filter(|(_, line)| line.contains('=')) {
        let key = line.split_once('=').unwrap().0;
        for value in values() {
            let mut lines: Vec<&str> = good.lines().collect();
            let new = format!("{key}= {value}");
            lines[index] = &new;
            texts.push(lines.join("\n"));
        }
        texts.push(good.replacen(&format!("{line}\n"), "", 1));
    }
    for text in &texts {
        let folder = folder("generated", &[("net.toml", text.as_bytes())]);
        count.case(&folder, SWITCH, &["topology={kind=\"custom\",file=\"net.toml\"}"], &["net.toml", "--set "]);
    }
    let folder = folder("generated", &[("net.toml", &[0xff, 0xfe, 0]), ("pad", b"")]);
    for file in ["net.toml", ".", "..", "no-such", "", "/dev/zero", "pad/x", "\\u0000"] {
        count.case(&folder, SWITCH, &[&format!("topology={{kind=\"custom\",file=\"{file}\"}}")], &["--set "]);
    }
    println!("{count:?}: {} topology files", count.all());
    assert!(count.errors >= 200 && count.results >= 2, "{count:?}");
}
