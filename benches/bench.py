"""What Flowloom costs on this machine: `make bench` and `make bench-memory`; benches/README.md says how to read the numbers."""

import datetime
import functools
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PHOST, PIAS, PASE = (f"papers/{paper}/default.toml" for paper in ("phost", "pias", "pase"))
SYMMETRIC = "fabric.routing=ecmp_symmetric"
# All transports, each in the default scenario of a paper. Those that are compared are in one scenario: PASE, NDP, Homa, HPCC and DCQCN
# with DCTCP, and ExpressPass and TOP with pHost.
CASES = [
    *((transport, PHOST, ()) for transport in ("phost", "pfabric", "fastpass")),
    *((transport, PIAS, ()) for transport in ("dctcp", "d2tcp", "l2dct", "ecn_star", "tcp", "pias", "las", "homa")),
    *((transport, PASE, ()) for transport in ("dctcp", "pase", "pdq", "d3")),
    *((transport, PHOST, (SYMMETRIC,)) for transport in ("phost", "expresspass", "top")),
    ("ndp", PIAS, ("fabric.routing=spray_labelled",)),
    *((transport, PIAS, ("fabric.routing=ecmp",)) for transport in ("dctcp", "hpcc", "dcqcn")),
]

SPREAD = [("dctcp", "benches/fat_tree.toml", ()), ("pase", PASE, ()), ("phost", PHOST, ())]
SPREAD_FLOWS = 5000

SAMPLED = [("phost", PHOST, ()), ("pias", PIAS, ())]
QUEUES = ('observe.queues=["all"]', "observe.period=10us")

FLOWS = 2500
REPETITIONS = 9
# Under callgrind, a run takes fifty times as long. Counts are a tenth lower than with FLOWS flows, since tables are smaller.
INSTRUCTION_FLOWS = 400
NS3_LIBRARIES = ["core", "network", "internet", "point-to-point", "traffic-control"]
NS3_REPETITIONS = 3
STARTS = 10
SWEEP_RUNS, SWEEP_FLOWS = 100, 2000
# A sweep in a process of its own, which prints how long it takes to get to its first run, and what it and its workers take.
SWEEP = """
import json, resource, sys, tempfile, time
from pathlib import Path
begin = time.time()
import flowloom
from flowloom.progress import Silent
class Clock(Silent):
    def begin(self, runs, *, kept):
        self.submitted = time.time()
def own(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime
scenario, runs, flows = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
clock = Clock()
with tempfile.TemporaryDirectory() as folder:
    base = flowloom.Scenario.of(Path(scenario)).set({"workload.flows": flows})
    made = flowloom.sweep(base, {"transport.name": ["phost"]}, seeds=runs, out=folder, reporter=clock)
    files = [(run.results.directory / "summary.json", run.results.provenance["wall_s"]) for run in made]
    begun = min(file.stat().st_mtime - wall_s for file, wall_s in files)
print(json.dumps({
    "submitted_s": clock.submitted - begin, "begun_s": begun - begin,
    "own_s": own(resource.RUSAGE_SELF), "workers_s": own(resource.RUSAGE_CHILDREN),
}))
"""
MEMORY_FLOWS = [250_000, 1_000_000]
SAMPLED_FLOWS = [25_000, 100_000]


def output(*command: str | Path) -> str:
    """Runs a command in the repository's root and returns what it printed; its errors go through."""
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def lines(*command: str | Path) -> list[dict]:
    """The lines of JSON that a command prints."""
    return [json.loads(line) for line in output(*command).splitlines()]


def table(*rows: tuple) -> None:
    """Prints rows as Markdown, the first one as the head."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    texts.insert(1, ["-" * width for width in widths])
    for row in texts:
        print("|", " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)), "|")
    print(flush=True)


@functools.cache
def program(name: str) -> Path:
    """Builds one of the lab's bench programs."""
    command = ["cargo", "bench", "--quiet", "--package", "flowloom-lab", "--bench", name, "--no-run"]
    messages = lines(*command, "--message-format=json-render-diagnostics")
    return next(Path(message["executable"]) for message in messages if message.get("executable"))


def runs(case: tuple, flows: int, repetitions: int, *prefix: str, threads: str = "1") -> list[dict]:
    """Runs a case this many times, with each number of threads in turn."""
    transport, scenario, settings = case
    settings = [f"transport.name={transport}", f"workload.flows={flows}", *settings]
    return lines(*prefix, program("speed"), str(repetitions), threads, scenario, *settings)


def where(case: tuple) -> str:
    """The scenario of a case, with its settings."""
    _, scenario, settings = case
    return ", ".join((scenario, *settings))


def million_per_second(run: dict) -> float:
    """Packet-hops per second of user time."""
    return run["packet_hops"] / run["user_s"] / 1e6


def speed() -> None:
    """Packet-hops per second of user time on one core."""
    print(f"Speed: {FLOWS} flows, {REPETITIONS} runs")
    rows = [("scenario", "transport", "packet-hops", "M packet-hops/s, best", "median", "events per packet-hop", "digest")]
    for case in CASES:
        measured = runs(case, FLOWS, REPETITIONS)
        speeds = [million_per_second(run) for run in measured]
        run = measured[0]
        events = run["events"] / run["packet_hops"]
        best, median = max(speeds), statistics.median(speeds)
        rows.append((where(case), case[0], run["packet_hops"], f"{best:.1f}", f"{median:.1f}", f"{events:.2f}", run["digest"]))
    table(*rows)


def instructions() -> None:
    """Instructions per packet-hop, which do not depend on what else the machine does."""
    if not shutil.which("valgrind"):
        print("Instructions: left out, since valgrind is not installed (apt-get install valgrind)\n")
        return
    print(f"Instructions: the same, {INSTRUCTION_FLOWS} flows, counted by callgrind (minutes)", flush=True)
    rows = [("scenario", "transport", "packet-hops", "instructions per packet-hop")]
    for case in CASES:
        packet_hops, count = counted(case)
        rows.append((where(case), case[0], packet_hops, f"{count / packet_hops:.0f}"))
    table(*rows)
    print(f"Instructions: the same, with samples of all queues of 144 hosts: {QUEUES}", flush=True)
    rows = [("scenario", "transport", "instructions per packet-hop", "with samples", "more")]
    for case in SAMPLED:
        without, sampled = (count / hops for hops, count in (counted(case), counted(case, *QUEUES)))
        rows.append((where(case), case[0], f"{without:.0f}", f"{sampled:.0f}", f"{sampled / without - 1:.1%}"))
    table(*rows)


def counted(case: tuple, *more: str) -> tuple[int, int]:
    """The packet-hops and the instructions of a run of a case with further settings."""
    transport, scenario, settings = case
    with tempfile.NamedTemporaryFile(suffix=".callgrind") as counts:
        options = ["--tool=callgrind", "--quiet", "--toggle-collect=*speed::measured*"]
        valgrind = ["valgrind", *options, f"--callgrind-out-file={counts.name}"]
        (run,) = runs((transport, scenario, (*settings, *more)), INSTRUCTION_FLOWS, 1, *valgrind)
        total = next(line for line in Path(counts.name).read_text().splitlines() if line.startswith("summary:"))
    return run["packet_hops"], int(total.split()[1])


def threads() -> None:
    """How much faster a run is when it is spread over threads."""
    numbers = [1, *(number for number in (2, 4, 8, 16) if number <= len(os.sched_getaffinity(0)))]
    print(
        f"Threads: {SPREAD_FLOWS} flows, {REPETITIONS} runs with each number of them in turn, and the median of their ratios",
        flush=True,
    )
    rows = [("scenario", "transport", "M packet-hops/s of one thread", *(f"{number} threads" for number in numbers[1:]))]
    for case in SPREAD:
        measured = iter(runs(case, SPREAD_FLOWS, REPETITIONS, threads=",".join(map(str, numbers))))
        turns = list(zip(*(measured for _ in numbers), strict=True))
        if len({run["digest"] for turn in turns for run in turn}) > 1:
            sys.exit(f"{where(case)}: flows depend on the number of threads")
        alone = statistics.median(turn[0]["packet_hops"] / turn[0]["wall_s"] / 1e6 for turn in turns)
        faster = [
            statistics.median(turn[0]["wall_s"] / turn[index]["wall_s"] for turn in turns) for index in range(1, len(numbers))
        ]
        rows.append((where(case), case[0], f"{alone:.1f}", *(f"{ratio:.2f}" for ratio in faster)))
    table(*rows)


def ns3_program() -> Path | None:
    """Builds the yardstick, where ns-3 is installed."""
    source, built = ROOT / "benches/ns3_leaf_spine.cc", TARGET / "ns3_leaf_spine"
    header = subprocess.run(["g++", "-E", "-xc++", "-"], input='#include "ns3/core-module.h"', text=True, capture_output=True)
    if header.returncode != 0:
        return None
    TARGET.mkdir(exist_ok=True)
    output("g++", "-std=c++17", "-O3", "-DNDEBUG", "-o", built, source, *(f"-lns3-{name}" for name in NS3_LIBRARIES))
    return built


def ns3() -> None:
    """Flowloom and ns-3 in turn."""
    yardstick = ns3_program() if shutil.which("g++") else None
    if yardstick is None:
        print("ns-3: left out, since it is not installed (apt-get install g++ libns3-dev)\n")
        return
    print(f"ns-3: a leaf-spine network under the same load, in turn with pHost, best of {NS3_REPETITIONS}", flush=True)
    best: dict[str, dict] = {}
    for _ in range(NS3_REPETITIONS):
        for name, (run,) in {
            "Flowloom, phost": runs(CASES[0], FLOWS, 1),
            "ns-3, its own routing": lines(yardstick, "--routing=global"),
            "ns-3, routing in constant time": lines(yardstick, "--routing=table"),
        }.items():
            best[name] = max(best.get(name, run), run, key=million_per_second)
    ours = million_per_second(best["Flowloom, phost"])
    rows = [("simulator", "packet-hops", "user s", "M packet-hops/s", "Flowloom is faster by")]
    for name, run in best.items():
        theirs = million_per_second(run)
        rows.append((name, run["packet_hops"], f"{run['user_s']:.2f}", f"{theirs:.3f}", f"{ours / theirs:.0f}"))
    table(*rows)


def startup() -> None:
    """How long the command line takes to say what it can do, and a sweep to get to its first run."""
    command = Path(sys.executable).parent / "flowloom"
    taken = []
    for _ in range(STARTS):
        before = time.perf_counter()
        output(command, "--help")
        taken.append(time.perf_counter() - before)
    print(f"Startup: flowloom --help takes {statistics.median(taken):.2f} s, median of {STARTS}", flush=True)
    (swept,) = lines(sys.executable, "-c", SWEEP, PHOST, str(SWEEP_RUNS), str(SWEEP_FLOWS))
    whole = swept["own_s"] + swept["workers_s"]
    print(
        f"A sweep of {SWEEP_RUNS} runs of {SWEEP_FLOWS} flows submits the first after {swept['submitted_s']:.2f} s and begins it "
        f"after {swept['begun_s']:.2f} s; its process takes {swept['own_s']:.2f} s of {whole:.2f} s of processor time "
        f"({swept['own_s'] / whole:.1%})\n",
        flush=True,
    )


def memory_of_open_flows() -> None:
    """What an open flow takes at its ends."""
    print("Memory: bytes of an open flow at each end, at the worst moment of growing arrays")
    rows = [("transport", "source", "destination")]
    for transport in dict.fromkeys(transport for transport, *_ in CASES):
        (run,) = lines(program("memory"), "open", transport)
        rows.append((transport, run["source_bytes"], run["destination_bytes"]))
    table(*rows)


def memory_of_finished_flows() -> None:
    """What a run holds while flows finish."""
    flows = MEMORY_FLOWS[0]
    print(f"Memory: heap of a run of {flows} flows (phost, imc10) while they finish", flush=True)
    settings = ["workload.sizes=imc10", f"workload.flows={flows}"]
    points = lines(program("memory"), "done", PHOST, *settings)
    rows = [(f"{point['done']:.0%}", f"{point['bytes'] / 1e6:.1f}") for point in points]
    table(("flows done", "MB"), *rows)


def whole_run(flows: int, *settings: str) -> tuple[int, float, int]:
    """The packet-hops, seconds and bytes of peak memory of `flowloom run`, from the command line to the files it writes."""
    command = Path(sys.executable).parent / "flowloom"
    with tempfile.TemporaryDirectory() as folder:
        all_settings = ("workload.sizes=imc10", f"workload.flows={flows}", *settings)
        options = [word for setting in all_settings for word in ("--set", setting)]
        before = time.perf_counter()
        child = subprocess.Popen([command, "run", PHOST, *options, "--out", folder], cwd=ROOT)
        _, status, usage = os.wait4(child.pid, 0)
        if status != 0:
            sys.exit(f"the run of {flows} flows failed")
        summary = json.loads((Path(folder) / "summary.json").read_text())
        return summary["packet_hops"], time.perf_counter() - before, usage.ru_maxrss * 1024


def memory_of_whole_runs() -> None:
    """What a million flows take, all in all."""
    print("Memory: flowloom run, phost, imc10, load 0.6", flush=True)
    measured = [(flows, *whole_run(flows)) for flows in MEMORY_FLOWS]
    rows = [(flows, hops, f"{seconds:.0f}", f"{peak / 1e6:.0f}") for flows, hops, seconds, peak in measured]
    table(("flows", "packet-hops", "s", "peak RSS, MB"), *rows)
    (few, _, _, low), (many, _, _, high) = measured[0], measured[-1]
    print(f"Each flow more takes {(high - low) / (many - few):.0f} B of peak RSS\n")


def memory_of_samples() -> None:
    """What samples take: a longer run has more of them, and holds no more."""
    print("Memory: the same with samples of all queues", flush=True)
    rows = [("flows", "peak RSS, MB", "with samples")]
    for flows in SAMPLED_FLOWS:
        peaks = [whole_run(flows, *settings)[2] for settings in ((), QUEUES)]
        rows.append((flows, *(f"{peak / 1e6:.0f}" for peak in peaks)))
    table(*rows)


def memory() -> None:
    """What flows take while they are open, when they are done, and all in all."""
    memory_of_open_flows()
    memory_of_finished_flows()
    memory_of_whole_runs()
    memory_of_samples()


PARTS = {"speed": speed, "instructions": instructions, "threads": threads, "ns3": ns3, "startup": startup, "memory": memory}


def machine() -> str:
    """The processor, and whether it has something else to do."""
    info = Path("/proc/cpuinfo")
    facts = (line.split(": ") for line in info.read_text().splitlines()) if info.exists() else iter(())
    processor = next((fact[1] for fact in facts if fact[0].startswith("model name")), platform.machine())
    busy = os.getloadavg()[0]
    noise = f"; {busy:.1f} processes wanted to run in the last minute, so times are pessimistic" if busy > 1.5 else ""
    return f"{processor}, {os.cpu_count()} CPUs, {platform.system()}{noise}"


def main() -> None:
    """Runs the parts that are named."""
    parts = sys.argv[1:]
    if not parts or not set(parts) <= set(PARTS):
        sys.exit(f"usage: bench.py {' | '.join(PARTS)} ...")
    commit = output("git", "describe", "--always", "--dirty").strip() if (ROOT / ".git").exists() else "no commit"
    compiler = output("rustc", "--version").strip()
    print(f"{datetime.date.today()}, {commit}, {compiler}\n{machine()}\n", flush=True)
    for part in parts:
        PARTS[part]()


main()
