//! The cost of a run. `speed REPETITIONS THREADS SCENARIO.toml [key=value…]` repeats the scenario and prints, for each run, one line of
//! JSON. THREADS is a number, or several with commas between them, each of which is run in turn. `benches/bench.py` calls it, alone and
//! under callgrind.

#![allow(unsafe_code)] // one system call

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::MaybeUninit;
use std::time::Instant;

use flowloom_fabric::Report;
use flowloom_lab::observe::Nowhere;
use flowloom_lab::spec::Scenario;
use flowloom_lab::{Execution, Plan, Simulated, simulate};

fn main() {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [repetitions, threads, path, overrides @ ..] = arguments.as_slice() else {
        eprintln!("usage: speed REPETITIONS THREADS SCENARIO.toml [key=value…]");
        std::process::exit(2);
    };
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let scenario = Scenario::load(&text, path, overrides).unwrap_or_else(|error| panic!("{error}"));
    let plan = scenario.validate().and_then(|spec| Plan::new(&spec)).unwrap_or_else(|error| panic!("{error}"));
    let transport = plan.setup.transport.name;
    let threads: Vec<usize> = threads.split(',').map(|number| number.parse().expect("numbers of threads")).collect();
    let repetitions: usize = repetitions.parse().expect("a number of repetitions");
    for threads in (0..repetitions).flat_map(|_| threads.clone()) {
        let (plan, before, begin) = (plan.clone(), user_seconds(), Instant::now());
        let Simulated { report, windows, .. } = measured(plan, threads);
        let line = serde_json::json!({
            "transport": transport,
            "flows": report.flows.len(),
            "packet_hops": report.packet_hops,
            "data_packets": report.data_packets,
            "events": report.events,
            "simulated_s": report.end.as_secs_f64(),
            "threads": threads,
            "windows": windows.count,
            "events_of_busiest": windows.events,
            "messages": windows.messages,
            "wall_s": begin.elapsed().as_secs_f64(),
            "user_s": user_seconds() - before,
            "digest": format!("{:016x}", digest(&report)),
        });
        println!("{line}");
    }
}

/// The run alone; its network, paths and flows are there already. Callgrind finds this function by its name.
#[inline(never)]
fn measured(plan: Plan, threads: usize) -> Simulated {
    let execution = Execution { threads, progress: &mut |_, _, _| true, sink: &mut Nowhere };
    simulate(plan, execution).unwrap_or_else(|error| panic!("{error}"))
}

/// Stands for what became of every flow: two builds that do the same show the same.
fn digest(report: &Report) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{:?}", report.records).hash(&mut hasher);
    hasher.finish()
}

/// CPU time that this process has spent in user mode.
fn user_seconds() -> f64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills in the structure it is given.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) }, 0);
    // SAFETY: it succeeded; and all zeros is a value too.
    let time = unsafe { usage.assume_init() }.ru_utime;
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}
