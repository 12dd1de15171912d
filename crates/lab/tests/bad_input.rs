//! Every way in which input is bad has an error whose first line says where, which key, what was found and what would be right.

use std::path::{Path, PathBuf};

use flowloom_lab::Plan;
use flowloom_lab::spec::Scenario;

const GOOD: &str = r#"
[topology]
kind = "leaf_spine"
racks = 2
hosts_per_rack = 2

[workload]
kind = "poisson"
sizes = "web_search"
load = 0.6
flows = 10

[transport]
name = "phost"
"#;

/// A folder of its own with these files.
fn folder(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    files.iter().for_each(|(file, text)| std::fs::write(folder.join(file), text).unwrap());
    folder
}

/// The whole error of a scenario.
fn error(text: &str, overrides: &[&str]) -> String {
    error_in(&PathBuf::new(), text, overrides)
}

/// The whole error of a scenario in `folder`, whose name is left out.
fn error_in(folder: &Path, text: &str, overrides: &[&str]) -> String {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let path = folder.join("scenario.toml").display().to_string();
    let result = Scenario::load(text, &path, &overrides).and_then(|scenario| Plan::new(&scenario.validate()?).map(drop));
    let message = result.err().map_or("no error".to_owned(), |error| error.to_string());
    let prefix = format!("{}/", folder.display());
    if prefix == "/" { message } else { message.replace(&prefix, "") }
}

fn first_line(text: &str, overrides: &[&str]) -> String {
    error(text, overrides).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn the_good_scenario_is_good() {
    assert_eq!(error(GOOD, &[]), "no error");
}

/// Apart from the rest, since the list grows with every transport.
#[test]
fn parameters_of_no_transport() {
    let line = first_line(&format!("{GOOD}[transport.nosuch]\na = 1"), &[]);
    assert!(line.starts_with("scenario.toml:15: transport.nosuch: unknown key; there are name, "), "{line}");
}

/// Apart for the same reason.
#[test]
fn ports_that_cannot_share_a_memory() {
    let line = first_line(GOOD, &["fabric.sharing=switch"]);
    let start = "--set fabric.sharing=switch: fabric.sharing: found \"switch\", but ports of phost cannot share a memory; it must be \"port\", or transport.name one of ";
    assert!(line.starts_with(start) && line.ends_with("ideal"), "{line}");
    assert!(!line[start.len()..].contains("phost"), "{line}");
    assert_eq!(error(GOOD, &["fabric.sharing=switch", "transport.name=ideal"]), "no error");
    assert_eq!(error(GOOD, &["fabric.sharing=switch", "fabric.alpha=0.5", "transport.name=ideal"]), "no error");
}

#[test]
fn edits() {
    let edit = |from: &str, to: &str| {
        assert!(GOOD.contains(from), "{from}");
        first_line(&GOOD.replace(from, to), &[])
    };
    let lines = [
        edit("load =", "laod ="),
        edit("load = 0.6", "load = 0"),
        edit("load = 0.6", "load = 3"),
        edit("load = 0.6", "load = -0.1"),
        edit("load = 0.6", "load = nan"),
        edit("load = 0.6", "load = \"high\""),
        edit("load = 0.6\n", ""),
        edit("flows = 10", "flows = 0"),
        edit("flows = 10", "flows = -1"),
        edit("flows = 10", "flows = 1.5"),
        edit("flows = 10", "flows = 10\nsenders = 3"),
        edit("flows = 10", "flows = 10\nload_link = \"spine\""),
        edit("flows = 10", "flows = 10\nmatrix = \"alltoall\""),
        edit("\"web_search\"", "\"websearch\""),
        edit("\"web_search\"", "5"),
        edit("\"web_search\"", "{ fixed = 100 }"),
        edit("\"web_search\"", "{ fixed = \"0B\" }"),
        edit("\"web_search\"", "{ fixed = \"10KB\" }"),
        edit("\"web_search\"", "{ fixd = \"10kB\" }"),
        edit("\"web_search\"", "{ uniform = [\"9kB\", \"2kB\"] }"),
        edit("\"web_search\"", "{ uniform = [\"9kB\"] }"),
        edit("\"web_search\"", "{ bimodal = [\"1kB\", \"2kB\"] }"),
        edit("\"web_search\"", "{ bimodal = [\"1kB\", \"2kB\"], first_share = 1.5 }"),
        edit("\"web_search\"", "{ cdf = \"no-such-file.csv\" }"),
        edit("\"poisson\"", "\"poison\""),
        edit("kind = \"poisson\"\n", ""),
        edit("[workload]", "[worklaod]"),
        edit("[transport]\nname = \"phost\"\n", ""),
        edit("\"phost\"", "\"fost\""),
        edit("name = \"phost\"", "name = \"phost\"\n[transport.phost]\nfree_token = 8"),
        edit("name = \"phost\"", "name = \"phost\"\n[transport.phost]\nfree_tokens = \"8\""),
        edit("name = \"phost\"", "name = \"phost\"\n[transport.phost]\ntoken_life_slots = 0.0"),
        edit("racks = 2", "racks = 0"),
        edit("racks = 2", "racks = 2\nhost_rate = \"10GB/s\""),
        edit("racks = 2", "racks = 2\nhost_rate = \"0Gb/s\""),
        edit("racks = 2", "racks = 2\nhost_rate = 10"),
        edit("racks = 2", "racks = 2\ndelay = \"200\""),
        edit("racks = 2", "racks = 2\nk = 4"),
        edit("racks = 2", "racks = 2\nracks = 3"),
        edit("racks = 2", "racks = "),
        edit("kind = \"leaf_spine\"", "kind = 3"),
        edit("[topology]", "topology = 3\n[top]"),
        edit("[topology]", "[run]\nseed = -1\n[topology]"),
        edit("[topology]", "[run]\ntime_limit = \"0s\"\n[topology]"),
        edit("[topology]", "[fabric]\nbuffer = \"1kB\"\n[topology]"),
        edit("[topology]", "[fabric]\nwire = \"ip_9000\"\n[topology]"),
        edit("[topology]", "[metrics]\nsize_bins = [\"10kB\", \"1kB\"]\n[topology]"),
        edit("[topology]", "[fabric]\nbuffer = \"2GiB\"\n[topology]"),
        edit("[topology]", "[fabric]\nsharing = \"node\"\n[topology]"),
        edit("[topology]", "[fabric]\nalpha = 2\n[topology]"),
        edit("[topology]", "[fabric]\nsharing = \"switch\"\nalpha = 0\n[topology]"),
        edit("[topology]", "[fabric]\nsharing = \"switch\"\nbuffer = \"1kB\"\n[topology]"),
        edit("racks = 2", "racks = 2\nhost_delay = 20"),
        edit("[topology]", "[metrics]\nrequest_delay = \"2000000s\"\n[topology]"),
        edit("[topology]", "[metrics]\nrequest_delay = 3\n[topology]"),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn kinds() {
    let workload = |text: &str| {
        let (before, rest) = GOOD.split_once("[workload]").unwrap();
        let (_, after) = rest.split_once("[transport]").unwrap();
        first_line(&format!("{before}{text}\n[transport]{after}"), &[])
    };
    let topology = |text: &str| {
        let (_, after) = GOOD.split_once("[workload]").unwrap();
        first_line(&format!("{text}\n[workload]{after}"), &[])
    };
    let incast = "[workload]\nkind = \"incast\"\nrequests = 3\nbytes = \"1MB\"\n";
    let tenants = |second: &str| {
        let one = "[[workload.tenant]]\nname = \"a\"\nshare = 0.5";
        workload(&format!("[workload]\nkind = \"burst\"\nsizes = \"imc10\"\nflows = 5\n{one}\n{second}"))
    };
    let fault = |text: &str| first_line(&format!("{GOOD}\n[[fault]]\n{text}"), &[]);
    let deadline =
        |text: &str| first_line(&GOOD.replace("[transport]", &format!("[workload.deadline]\n{text}\n[transport]")), &[]);
    let lines = [
        workload(&format!("{incast}senders = 4\nflows_per_sender = 0\nload = 0.5")),
        workload(&format!("{incast}senders = 0\nload = 0.5")),
        workload(&format!("{incast}senders = 3")),
        workload(&format!("{incast}senders = 3\nload = 0.5\nperiod = \"1ms\"")),
        workload(&format!("{incast}senders = 3\nperiod = \"0ms\"")),
        workload(&format!("{incast}senders = 3\nperiod = \"9000000s\"")),
        workload(&format!("{incast}senders = 3\nperiod = \"900000s\"")),
        workload(&format!("{}senders = 3\nload = 0.5", incast.replace("= 3", "= 100000000"))),
        workload(&format!("{incast}senders = 3\nmatrix = \"permutation\"\nperiod = \"1s\"")),
        workload("[workload]\nkind = \"incast\"\nrequests = 3\nbytes = \"2B\"\nsenders = 3\nload = 0.5"),
        tenants(""),
        tenants("[[workload.tenant]]\nname = \"a\"\nshare = 0.5"),
        tenants("[[workload.tenant]]\nname = \"b\"\nshare = 0.5\nsize = \"imc10\""),
        fault("kind = \"loss\"\nwhere = \"leaf-spin\"\nprobability = 0.1"),
        fault("kind = \"loss\"\nwhere = \"leaf-spine\"\nprobability = 1.1"),
        fault("kind = \"loss\"\nwhere = \"leaf-spine\""),
        fault("kind = \"link_down\"\nwhere = \"l0-s0\"\nfrom = \"2ms\"\nto = \"1ms\""),
        fault("kind = \"lost\"\nwhere = \"all\"\nprobability = 0.1"),
        deadline("kind = \"exponential\""),
        deadline("kind = \"exponential\"\nmean = \"0s\""),
        deadline("kind = \"uniform\"\nmin = \"5ms\"\nmax = \"1ms\""),
        topology("[topology]\nkind = \"three_tier\"\nracks = 5"),
        topology("[topology]\nkind = \"fat_tree\"\nk = 5"),
        topology("[topology]\nkind = \"leaf_spine\"\nracks = 1\nhosts_per_rack = 1"),
        topology("[topology]\nkind = \"custom\"\nfile = \"no-such-file.toml\""),
        topology("[topology]\nkind = \"leaf_spine\"\nracks = 9000\nhosts_per_rack = 9000"),
        topology("[topology]\nkind = \"leaf_spine\"\nracks = 2000\nspines = 2000"),
        topology("[topology]\nkind = \"custom\""),
        first_line(
            &GOOD
                .replace("leaf_spine\"\nracks = 2\nhosts_per_rack = 2", "single_switch\"")
                .replace("load =", "load_link = \"core\"\nload ="),
            &[],
        ),
        first_line("", &[]),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn mixes() {
    let folder = folder("mixes", &[("tenants.csv", "start_s,src,dst,bytes,tenant\n0,0,1,1,3\n")]);
    let mix = |text: &str| {
        let (before, rest) = GOOD.split_once("[workload]").unwrap();
        let (_, after) = rest.split_once("[transport]").unwrap();
        let text = format!("{before}[workload]\nkind = \"mix\"\n{text}\n[transport]{after}");
        error_in(&folder, &text, &[]).lines().next().unwrap_or_default().to_owned()
    };
    let part = "[[workload.part]]\nname = \"a\"\nkind = \"poisson\"\nsizes = \"imc10\"\nload = 0.5\nflows = 10\n";
    let second = |text: &str| mix(&format!("{part}[[workload.part]]\nname = \"b\"\n{text}"));
    let queries = "kind = \"incast\"\nsenders = 3\nbytes = \"3kB\"\nrequests = 5\n";
    let lines = [
        mix(part),
        second(&format!("{queries}period = \"1ms\"\nreceiver = 3\nstart = \"1ms\"")),
        mix(""),
        mix("part = []"),
        mix("part = 3"),
        mix("flows = 3"),
        mix(&format!("{part}{part}")),
        mix(&part.replace("name = \"a\"\n", "")),
        mix(&part.replace("poisson", "mix")),
        mix(&part.replace("load = 0.5", "laod = 0.5")),
        mix(&part.replace("load = 0.5", "senders = 5")),
        mix(&part.replace("load = 0.5", "load = 0.5\nstart = 3")),
        mix(&part.replace("load = 0.5", "load = 0.5\nstart = \"2000000s\"")),
        mix(&part.replace("\"imc10\"", "{ fixed = \"0B\" }")),
        mix(&format!("{part}[[workload.part.tenant]]\nname = \"x\"\nshare = 1")),
        second("kind = \"trace\"\nfile = \"tenants.csv\""),
        second(&queries.replace("senders = 3", "senders = 4\nflows_per_sender = 0\nperiod = \"1ms\"")),
        second(queries),
        second(&format!("{queries}period = \"1ms\"\nmean_gap = \"1ms\"")),
        second(&format!("{queries}mean_gap = \"0s\"")),
        second(&format!("{queries}load = 0.1\nmean_gap = \"1ms\"")),
        second(&format!("{queries}mean_gap = \"1ms\"\nreceiver = 4")),
        second(&format!("{queries}mean_gap = \"1ms\"\nreceiver = \"l0\"")),
        second(&format!("{queries}mean_gap = \"1ms\"\nreceiver = -1")),
        second(&format!("{queries}mean_gap = \"1ms\"\nreceiver = 1.5")),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn closed_loops() {
    let edit = |from: &str, to: &str, transport: &str| {
        let text = "from = [0, \"h1\"]\nto = 3\nsizes = { fixed = \"20kB\" }\nrequests = 5\nthink = \"10us\"\n";
        assert!(text.contains(from), "{from}");
        let (before, rest) = GOOD.split_once("[workload]").unwrap();
        let (_, after) = rest.split_once("[transport]").unwrap();
        let workload = format!("[workload]\nkind = \"closed_loop\"\n{}", text.replace(from, to));
        first_line(&format!("{before}{workload}[transport]{}", after.replace("phost", transport)), &[])
    };
    let lines = [
        edit("requests", "requests", "phost"),
        edit("to = 3", "to = 1", "phost"),
        edit("to = 3", "to = 4", "phost"),
        edit("to = 3", "to = [3]", "phost"),
        edit("[0, \"h1\"]", "[0, \"h0\"]", "phost"),
        edit("[0, \"h1\"]", "[0, \"h5\"]", "phost"),
        edit("[0, \"h1\"]", "[]", "phost"),
        edit("[0, \"h1\"]", "0", "phost"),
        edit("\"10us\"", "\"0us\"", "phost"),
        edit("\"10us\"", "\"300000s\"", "phost"),
        edit("think = \"10us\"", "", "phost"),
        edit("requests = 5", "requests = 0", "phost"),
        edit("requests = 5", "requests = 16000000\nloops = 3", "phost"),
        edit("requests = 5", "requests = 5\nmatrix = \"across\"", "phost"),
        edit("requests", "requests", "ideal"),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn traces() {
    let trace = |text: &str| {
        let folder = folder("traces", &[("flows.csv", text)]);
        let overrides = ["workload={kind=\"trace\",file=\"flows.csv\"}"];
        error_in(&folder, GOOD, &overrides)
    };
    let lines = [
        trace("start_s,src,dst,bytes\n0,0,1,1000\n0.5,1,0,1\n"),
        trace("dst,src,bytes,start_s,coflow,tenant,id,deadline_s\n1,0,1000,0,,,,\nh1,h0,1000,0,1,2,3,1e-3\n"),
        trace("start_s,src,dst,bytes\n0,0,4,1000\n"),
        trace("start_s,src,dst,bytes\n0,0,l0,1000\n"),
        trace("start_s,src,dst,bytes\n0,1,1,1000\n"),
        trace("start_s,src,dst,bytes\n# one\n\n0.2,0,1,1\n0.1,0,1,1\n"),
        trace("start_s,src,dst,bytes\n0,0,1,-5\n"),
        trace("start_s,src,dst,bytes\n0,0,1,1.5\n"),
        trace("start_s,src,dst,bytes\n0,0,1,many\n"),
        trace("start_s,src,dst,bytes\n0,0,1,\n"),
        trace("start_s,src,dst,bytes\n-1,0,1,1\n"),
        trace("start_s,src,dst,bytes\ninf,0,1,1\n"),
        trace("start_s,src,dst,bytes\n0,0,1\n"),
        trace("start_s,src,dst,bytes,id\n0,0,1,1,7\n0,0,1,1,7\n"),
        trace("start_s,src,dst,bytes,tenant\n0,0,1,1,70000\n"),
        trace("start_s,src,dst,bytes,deadline_s\n1,0,1,1,0.5\n"),
        trace("start_s,src,dst\n0,0,1\n"),
        trace("start,src,dst,bytes\n0,0,1,1\n"),
        trace("start_s,src,dst,bytes,src\n0,0,1,1,0\n"),
        trace("0,0,1,1000\n"),
        trace("start_s,src,dst,bytes\n"),
        trace(""),
        trace("\u{feff}start_s,src,dst,bytes\r\n0,0,1,1000\r\n"),
        trace("start_s,src,dst,bytes\nnan,0,1,1\n"),
        trace("id,start_s,src,dst,bytes,after\n7,0,0,1,1,\n,,1,0,1,7+1e-6 7@begun\n,0.1,2,3,1,7@acknowledged\n"),
        trace("id,start_s,src,dst,bytes,after\n7,0,0,1,1,\n,,1,0,1,8\n"),
        trace("id,start_s,src,dst,bytes,after\n7,0,0,1,1,\n,,1,0,1,7 7\n"),
        trace("id,start_s,src,dst,bytes,after\n7,0,0,1,1,\n,,1,0,1,7@recieved\n"),
        trace("id,start_s,src,dst,bytes,after\n7,0,0,1,1,\n,,1,0,1,7+soon\n"),
        trace("id,start_s,src,dst,bytes,after,deadline_s\n7,0,0,1,1,,\n,,1,0,1,7,1\n"),
        trace("id,start_s,src,dst,bytes,after\n,,1,0,1,7\n7,0,0,1,1,\n"),
        trace("id,start_s,src,dst,bytes,after\n7,,0,1,1,\n"),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn coflow_traces() {
    let with = |text: &str, keys: &str| {
        let folder = folder("coflows", &[("trace.txt", text)]);
        error_in(&folder, GOOD, &[&format!("workload={{kind=\"coflow_trace\",file=\"trace.txt\"{keys}}}")])
    };
    let trace = |text: &str| with(text, "");
    let good = "9 2\n1 0 2 0 1 1 2:7\n2 5 1 4 2 1:1 3:2\n";
    let changed = |from: &str, to: &str| trace(&good.replacen(from, to, 1));
    let lines = [
        trace(good),
        trace(&format!("\u{feff}{}", good.replace('\n', "\r\n"))),
        trace(""),
        trace("9\n"),
        trace("9 2 7\n"),
        trace("0 2\n"),
        trace("9 0\n"),
        changed("9 2", "9 3"),
        changed("9 2", "9 1"),
        changed("9 2", "4 2"),
        changed("2:7", "2"),
        changed("2:7", "2:nan"),
        changed("2:7", "2:-1"),
        changed("2:7", "2:1e300"),
        changed("2:7", "9:7"),
        changed("2:7", "2:7 3:7"),
        changed("1 2:7", "2 2:7"),
        changed("2 0 1", "3 0 1"),
        changed("2 0 1", "0 0 1"),
        changed("2 0 1", "2 0 -1"),
        changed("2 0 1", "99999999999 0 1"),
        changed("1 0 2", "1 6 2"),
        changed("1 0 2", "1 -5 2"),
        changed("1 0 2", "1 1e12 2"),
        changed("1 0 2", "2 0 2"),
        changed("1 0 2", "one 0 2"),
        trace("9 1\n1 0 1 0 1 4:1\n"),
        with(good, ",from=\"1s\""),
        with(good, ",from=\"5ms\",until=\"5ms\""),
        with(good, ",size_divisor=0"),
        with(good, ",time_divisor=nan"),
        with(good, ",coflows=0"),
        with(&good.replacen("2 5 1", "2 1e9 1", 1), ",time_divisor=0.001"),
        with(good, ",seed=1"),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn size_tables() {
    let table = |text: &str, dialect: &str| {
        let folder = folder("tables", &[("sizes.csv", text)]);
        error_in(&folder, GOOD, &[&format!("workload.sizes={{cdf=\"sizes.csv\"{dialect}}}")])
    };
    let lines = [
        table("100 50\n200 100\n", ""),
        table("100 0.5\n200 1\n", ",dialect=\"bytes_probability\""),
        table("100 0.5\n200 1\n", ""),
        table("100 0.5\n200 1\n", ",dialect=\"bytes\""),
        table("100 0.5\n50 1\n", ",dialect=\"bytes_probability\""),
        table("100 0.5\n200 0.9\n", ",dialect=\"bytes_probability\""),
        table("\u{feff}bytes,cumulative_probability\r\n100,0.5\r\n200,1\r\n", ""),
        table("100 0.5\nnan 1\n", ",dialect=\"bytes_probability\""),
        table("100 0.5\n1e300 1\n", ",dialect=\"bytes_probability\""),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn custom_networks() {
    let hosts = "[[node]]\nkind = \"host\"\nname = \"a\"\n[[node]]\nkind = \"host\"\nname = \"b\"\n";
    let switch = "[[node]]\nkind = \"switch\"\nname = \"s\"\n";
    let link = |a: &str, b: &str| format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\nrate = \"1Gb/s\"\n");
    let net = |text: &str| {
        let folder = folder("networks", &[("net.toml", text)]);
        let error = error_in(&folder, GOOD, &["topology={kind=\"custom\",file=\"net.toml\"}"]);
        error.lines().next().unwrap().to_owned()
    };
    let lines = [
        net(&format!("{hosts}{switch}{}{}", link("a", "s"), link("s", "b"))),
        net(&format!("{hosts}{switch}{}", link("a", "s"))),
        net(&format!("{hosts}{}{}{}", switch.replace("s\"\n", "a:2\"\n"), link("a", "a:2"), link("a", "b"))),
        net(&format!("{hosts}{switch}[[node]]\nkind=\"switch\"\nname=\"t\"\n{}{}", link("a", "s"), link("b", "t"))),
        net(&format!("{hosts}{switch}{}{}", link("a", "s"), link("s", "c"))),
        net(&format!("{hosts}{switch}{}{}", link("a", "a"), link("s", "b"))),
        net(&format!("{hosts}{switch}{switch}{}", link("a", "s"))),
        net(&format!("{hosts}{switch}{}lenght = 3", link("a", "s"))),
        net(&format!("{hosts}[[node]]\nkind = \"router\"\nname = \"s\"\n{}", link("a", "s"))),
        net(&format!("{switch}[[node]]\nname = \"t\"\nkind = \"switch\"\nlevel = 0\n{}", link("t", "s"))),
        net(&format!("{switch}link = []")),
        net(hosts),
        net("node = ["),
        net(&format!("{hosts}[[node]]\nkind = \"switch\"\nname = \"s\"\ntier = \"\"\n{}", link("a", "s"))),
        net(&format!("{hosts}[[node]]\nkind = \"switch\"\nname = \" \"\n{}", link("a", "b"))),
        net("[[node]]\nkind = \"host\"\nname = \"\"\n"),
        net("node = []\nlink = []"),
        net(&format!("\u{feff}{hosts}{switch}{}{}", link("a", "s"), link("s", "b"))),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

/// A name that could mean two things is an error, with the place where to change it.
#[test]
fn names_of_two_meanings() {
    let host = |name: &str| format!("[[node]]\nkind = \"host\"\nname = \"{name}\"\n");
    let switch = |name: &str, tier: &str| format!("[[node]]\nkind = \"switch\"\nname = \"{name}\"\ntier = \"{tier}\"\n");
    let link = |a: &str, b: &str| format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\nrate = \"1Gb/s\"\n");
    let net = |parts: &[String]| {
        let folder = folder("names", &[("net.toml", &parts.concat())]);
        let error = error_in(&folder, GOOD, &["topology={kind=\"custom\",file=\"net.toml\"}"]);
        error.lines().next().unwrap().to_owned()
    };
    let star = |a: &str, b: &str| net(&[host(a), host(b), switch("s", "leaf"), link(a, "s"), link(b, "s")]);
    // Hosts by number: only its own number can be a host's name.
    assert_eq!(star("0", "1"), "no error");
    let expected = "net.toml:6: node.1.name: found \"0\", but this is host number 1, and a trace may name hosts by number; call it \"1\", or";
    assert!(star("a", "0").starts_with(expected), "{}", star("a", "0"));
    assert!(star("2", "b").starts_with("net.toml:3: node.0.name: found \"2\""), "{}", star("2", "b"));
    // The control host of Fastpass.
    let expected = "net.toml:6: node.1.name: found \"arbiter\", which is the name of the control host";
    assert!(star("a", "arbiter").starts_with(expected), "{}", star("a", "arbiter"));
    // From a-b to c, and from a to b-c.
    let nodes = [host("x"), host("y"), switch("a-b", "p"), switch("c", "q"), switch("a", "r"), switch("b-c", "s")];
    let links = [link("x", "a-b"), link("a-b", "c"), link("c", "a"), link("a", "b-c"), link("b-c", "y")];
    let expected =
        "link.3: \"a-b-c\" would mean what joins \"a\" to \"b-c\" and what joins \"a-b\" to \"c\"; rename a node or a tier";
    let found = net(&[&nodes[..], &links].concat());
    assert!(found.starts_with("net.toml:") && found.ends_with(expected), "{found}");
    // Nodes that are called like tiers, which have other links, too.
    let nodes = [host("x"), host("y"), switch("leaf", "leaf"), switch("spine", "spine"), switch("t", "leaf")];
    let links = [link("x", "leaf"), link("leaf", "spine"), link("t", "spine"), link("y", "t")];
    let found = net(&[&nodes[..], &links].concat());
    let expected =
        "\"leaf-spine\" would mean the links from tier \"leaf\" to tier \"spine\" and what joins \"leaf\" to \"spine\"";
    assert!(found.contains(expected), "{found}");
    assert_eq!(net(&[&nodes[..4], &[link("x", "leaf"), link("leaf", "spine"), link("y", "spine")]].concat()), "no error");
}

/// A name with digits is meant for one link. A hop, which is many links, is no suggestion for it.
#[test]
fn links_that_do_not_exist() {
    let at = |place: &str| {
        let fault = format!("fault=[{{ kind = \"link_down\", where = \"{place}\", from = \"1us\", to = \"2us\" }}]");
        first_line(GOOD, &["topology={ kind = \"leaf_spine\", racks = 3, hosts_per_rack = 2, spines = 2 }", &fault])
    };
    for (place, like) in [("leaf0-spine0", "l0-s0"), ("leaf2-spine1", "l2-s1"), ("spine1-leaf0", "s1-l0"), ("l1-s9", "l1-s0")] {
        let expected = format!(
            "no link is called \"{place}\"; did you mean \"{like}\"? (one link has the names of its two nodes, as in \"h0-l0\""
        );
        assert!(at(place).contains(&expected), "{}", at(place));
    }
    assert!(at("leafs-spine").contains("did you mean \"leaf-spine\"?"), "{}", at("leafs-spine"));
}

#[test]
fn overrides() {
    let lines = [
        first_line(GOOD, &["workload.load=3"]),
        first_line(GOOD, &["workload.laod=0.5"]),
        first_line(GOOD, &["workload.load"]),
        first_line(GOOD, &["=3"]),
        first_line(GOOD, &["workload..load=3"]),
        first_line(GOOD, &["workload.load="]),
        first_line(GOOD, &["workload.load=[1, 2"]),
        first_line(GOOD, &["workload.sizes.fixed=10kB"]),
        first_line(GOOD, &["workload.sizes={fixed=\"10\"}"]),
        first_line(GOOD, &["workload.kind=incast"]),
        first_line(GOOD, &["fault.0.where=all"]),
        first_line(GOOD, &["fault=[{kind=\"loss\",where=\"all\",probability=0.1}]", "fault.1.where=all"]),
        first_line(GOOD, &["fault=[{kind=\"loss\",where=\"all\",probability=0.1}]", "fault.0.probability=2"]),
        first_line(GOOD, &["topology.delay=-1us"]),
        first_line(GOOD, &["transport.phost.policy=fifo"]),
        first_line(GOOD, &["workload.load=0.7", "workload.load=0.8"]),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_line_at_fault_is_shown() {
    let errors = [
        error(&GOOD.replace("load = 0.6", "  laod = 0.6 # of the hosts' links"), &[]),
        error(&GOOD.replace("load = 0.6", "load = 0.6,"), &[]),
        error(&GOOD.replace("load = 0.6\n", ""), &[]),
        error(&GOOD.replace("\"web_search\"", "{ fixed = \"µB\" } # µ"), &[]),
    ];
    insta::assert_snapshot!(errors.join("\n\n"));
}
