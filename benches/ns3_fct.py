"""TCP over drop-tail, flow by flow, beside ns-3's: benches/ns3_fct.cc. Two minutes for each eight seeds, most of them ns-3's.

python benches/ns3_fct.py [SEEDS]

docs/trust.md has what it prints, and what it means.
"""

import csv
import io
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import flowloom

SOURCE = Path(__file__).with_suffix(".cc")
LIBRARIES = ["core", "network", "internet", "point-to-point", "traffic-control", "applications"]
HOSTS, LOAD, FLOWS = 16, 0.8, 500
SMALLEST, LARGEST = 20_000, 2_000_000
BINS = [0, 100_000, 1_000_000, LARGEST]
RTO_MS, INITIAL_WINDOW, BUFFER = 10, 10, 360_000

SCENARIO = f"""\
[topology]
kind = "single_switch"
hosts = {HOSTS}
host_rate = "10Gb/s"
delay = "10us"

[fabric]
buffer = "{BUFFER}B"
routing = "ecmp"
switching = "store_and_forward"

[workload]
kind = "trace"
file = "{{trace}}"

[transport]
name = "tcp"

[transport.tcp]
initial_window = {INITIAL_WINDOW}
max_window = 10000
rto_min = "{RTO_MS}ms"
rto_initial = "{RTO_MS}ms"
connections = 0                 # each flow opens a connection of its own
persistent = false
handshake = true
"""


def make_flows(seed: int, trace: Path) -> list[int]:
    """Writes Poisson flows between random hosts, their sizes uniform on a logarithmic scale, and returns the sizes."""
    dice = random.Random(seed)
    span = math.log(SMALLEST), math.log(LARGEST)
    sizes = [round(math.exp(dice.uniform(*span))) for _ in range(FLOWS)]
    on_wire = statistics.fmean(size + 40 * -(-size // 1460) for size in sizes)
    rate = 10e9 * HOSTS * LOAD / (8 * on_wire)
    now, rows = 0.0, ["start_s,src,dst,bytes"]
    for size in sizes:
        now += dice.expovariate(rate)
        source = dice.randrange(HOSTS)
        rows.append(f"{now:.12f},{source},{(source + 1 + dice.randrange(HOSTS - 1)) % HOSTS},{size}")
    trace.write_text("\n".join(rows) + "\n")
    return sizes


def ours(trace: Path) -> list[tuple[float, int]]:
    """Completion time in us and timeouts of each flow."""
    flows = flowloom.run(SCENARIO.format(trace=trace)).flows
    starts, ends, timeouts = (flows[name].to_pylist() for name in ("start", "finish", "timeouts"))
    return [((end - start) * 1e6, count) for start, end, count in zip(starts, ends, timeouts, strict=True)]


def theirs(program: Path, trace: Path) -> list[tuple[float, int]]:
    """The same from ns-3."""
    options = [f"--buffer={BUFFER}", f"--nic={BUFFER}", f"--rto-ms={RTO_MS}", f"--initial-window={INITIAL_WINDOW}"]
    done = subprocess.run([program, f"--flows={trace}", *options], check=True, capture_output=True, text=True)
    return [(float(row["fct_us"]), int(row["timeouts"])) for row in csv.DictReader(io.StringIO(done.stdout))]


def main() -> None:
    """Prints mean completion times and the share of flows with timeouts by size, with standard errors over seeds."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    samples: dict[tuple[str, int], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        program, trace = Path(folder, "ns3_fct"), Path(folder, "flows.csv")
        links = [f"-lns3-{name}" for name in LIBRARIES]
        subprocess.run(["g++", "-std=c++17", "-O2", "-DNDEBUG", "-o", program, SOURCE, *links], check=True)
        for seed in range(1, seeds + 1):
            sizes = make_flows(seed, trace)
            for name, results in (("flowloom", ours(trace)), ("ns-3", theirs(program, trace))):
                for number in range(1, len(BINS)):
                    found = [
                        result for size, result in zip(sizes, results, strict=True) if BINS[number - 1] < size <= BINS[number]
                    ]
                    means = statistics.fmean(fct for fct, _ in found), statistics.fmean(count > 0 for _, count in found)
                    samples.setdefault((name, BINS[number]), []).append(means)
    for (name, most), values in sorted(samples.items(), key=lambda item: item[0][1]):
        row: dict[str, object] = {"flows up to": most, "by": name}
        for key, column in zip(("fct_us", "with_timeouts"), zip(*values, strict=True), strict=True):
            error = statistics.stdev(column) / math.sqrt(len(column)) if len(column) > 1 else math.nan
            row[key], row[f"{key}_error"] = round(statistics.fmean(column), 4), round(error, 4)
        print(json.dumps(row))


main()
