"""Tries inputs that nobody wrote: `make fuzz SECONDS=60`. It gives each kind of input the same time and says what was found.

libFuzzer makes scenarios, the files that they name, and what peers send: it mutates inputs that reach new code. Python reads
figure files and ledgers, and `tests/python/test_mutants.py` makes mutants of them. What libFuzzer has learnt stays in
`target/fuzz/corpus`, and the next run goes on from there.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowloom import _native, toml

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "target" / "fuzz"
FINDINGS = TARGET / "findings"
NAMED = ROOT / "crates" / "lab" / "tests" / "generator" / "files"
"""The files that the seeds of scenarios name."""
COVERAGE = (
    "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters "
    "-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
)
"""How rustc makes code that tells libFuzzer where it goes. It is the list that cargo-fuzz gives, and stable Rust takes it."""
INPUT_BYTES_MAX = {"scenario": 4096, "trace": 2048, "header": 1024}
SECONDS_PER_INPUT = 60
"""An input takes less than a second. A busy machine makes that several."""
MEMORY_MB = 2048
TRANSPORTS_MAX = 64
SHOWN_LINES = 15


@dataclass
class Outcome:
    """What came of one kind of input: how many were tried, and what to show and to run again if one was wrong."""

    inputs: int
    finding: str = ""
    file: str = ""
    command: str = ""


def build() -> Path:
    """Build the targets and return the folder of the programs."""
    version = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = next(line.split()[1] for line in version.splitlines() if line.startswith("host:"))
    # With --target, the flags are not for build scripts and macros, which run without libFuzzer.
    command: list[str | Path] = [
        "cargo",
        "build",
        "--quiet",
        "--manifest-path",
        ROOT / "fuzz" / "Cargo.toml",
        "--target",
        host,
        "--target-dir",
        TARGET,
    ]
    subprocess.run(command, env={**os.environ, "RUSTFLAGS": COVERAGE}, check=True)
    return TARGET / host / "debug"


def words(schema: Any) -> Iterator[str]:
    """Yield the keys and the words of a JSON schema."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        yield from (word for word in (schema.get("const"), *schema.get("enum", ())) if isinstance(word, str))
        yield from (word for bound in ("x-min", "x-max") if isinstance(word := schema.get(bound), str))
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from words(part)


def dictionary() -> set[str]:
    """Return what libFuzzer puts into inputs at once, where letter by letter would take too long."""
    others = '--set [[ ]] { } = " 0 1 -1 1e300 nan inf 9223372036854775807 10Gb/s 1us 1kB 0.5 h0 leaf-spine all'
    others += " start_s,src,dst,bytes deadline_s tenant coflow id bytes,cumulative_probability packets node link level tier"
    found = {*words(json.loads(_native.schema())), *others.split(), *(path.name for path in NAMED.iterdir())}
    return {word for word in found if word.isascii()}


SMALL = {
    "hosts": 4, "hosts_per_rack": 2, "hosts_per_side": 2, "racks": 2, "spines": 2, "aggregations": 2, "k": 4,
    "flows": 6, "senders": 2, "requests": 2, "loops": 1, "coflows": 1, "pairs": 2,
    "from": [0, 1], "to": 2, "src": 0, "dst": 1, "receiver": 2,
}  # fmt: skip
"""What makes a scenario small. `from` and `to` are hosts in closed loops, but times elsewhere."""
FILES = {"custom": "network.toml", "trace": "trace.csv", "coflow_trace": "coflows.txt"}


def small(table: Any) -> Any:
    """Return a scenario with few hosts and flows, whose files are those of the seeds."""
    if isinstance(table, list):
        return [small(part) for part in table]
    if not isinstance(table, dict):
        return table
    kept = {key: SMALL[key] if key in SMALL and not isinstance(value, str) else small(value) for key, value in table.items()}
    if "file" in table:
        kept["file"] = FILES[table["kind"]]
    if "cdf" in table:
        kept["cdf"] = "sizes.csv"
    return kept


def scenarios() -> Iterator[bytes]:
    """Yield small forms of all scenarios of the repository, and the defaults of every transport."""
    for path in [*ROOT.glob("examples/*.toml"), *ROOT.glob("papers/*/*.toml")]:
        table = tomllib.loads(path.read_text())
        if {"topology", "workload", "transport"} <= table.keys():
            yield toml.document(small(table)).encode()
    base = '[topology]\nkind = "leaf_spine"\nracks = 2\nhosts_per_rack = 2\nspines = 2\n[fabric]\nrouting = "ecmp_symmetric"\n'
    base += '[workload]\nkind = "burst"\nflows = 4\nsizes = { fixed = "20kB" }\n[transport]\n'
    for transport in json.loads(_native.catalogue())["transports"]:
        text = f'{base}name = "{transport["name"]}"\n'
        yield f'{text}--set fault=[{{ kind = "loss", where = "all", probability = 0.1 }}]\n'.encode()
        yield _native.resolve(text, "scenario.toml", []).encode()


def traces() -> Iterator[bytes]:
    """Yield files that scenarios name, each after the word that says what it is."""
    for kind, paths in {
        "trace": [NAMED / "trace.csv", *ROOT.glob("examples/*.csv"), *ROOT.glob("papers/*/*.csv")],
        "coflows": [NAMED / "coflows.txt"],
        "network": [NAMED / "network.toml", *ROOT.glob("examples/*.net.toml"), *ROOT.glob("papers/*/*.net.toml")],
        "sizes": [NAMED / "sizes.csv", *ROOT.glob("data/workloads/*.csv")],
    }.items():
        for path in paths:
            lines = path.read_text().splitlines(keepends=True)
            yield f"{kind}\n{''.join(lines[:40])}".encode()
    for kind in ("bytes_percent", "bytes_probability", "packets_probability"):
        yield f"{kind}\n1,0.5\n20,{100 if kind == 'bytes_percent' else 1}\n".encode()
    for kind in ("ns2_bytes", "ns2_packets"):
        yield f"{kind}\n1 1 0.5\n20 1 1\n".encode()


def headers() -> Iterator[bytes]:
    """Yield three packets of each kind, to the nodes of each transport. Most headers begin with a number for their kind."""
    for target in range(TRANSPORTS_MAX):
        for kind in range(8):
            packets = (bytes([40, flow, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, kind]) + bytes(60) for flow in (0, 1, 5))
            yield bytes([target]) + b"".join(packets)


SEEDS = {"scenario": scenarios, "trace": traces, "header": headers}


def prepare(kind: str) -> tuple[Path, Path]:
    """Write the seeds of a target, and return the folders of its corpus and of its seeds."""
    corpus, seeds = TARGET / "corpus" / kind, TARGET / "seeds" / kind
    for folder in (corpus, seeds, FINDINGS):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[kind]()):
        (seeds / f"{number:04}").write_bytes(seed)
    return corpus, seeds


def fuzz(kind: str, programs: Path, words: Path, seconds: int, seed: int) -> Outcome:
    """Run a target of libFuzzer."""
    folders = prepare(kind)
    program, log = programs / kind, TARGET / f"{kind}.log"
    options = {
        "max_total_time": seconds,
        "max_len": INPUT_BYTES_MAX[kind],
        "seed": seed,
        "timeout": SECONDS_PER_INPUT,
        "report_slow_units": SECONDS_PER_INPUT,
        "rss_limit_mb": MEMORY_MB,
        "dict": words,
        "artifact_prefix": FINDINGS / f"{kind}-",
        "print_final_stats": 1,
    }
    # The target `trace` writes its inputs to the folder for temporary files.
    with log.open("w") as output, tempfile.TemporaryDirectory() as temporary:
        command: list[str | Path] = [program, *(f"-{name}={value}" for name, value in options.items()), *folders]
        code = subprocess.run(
            command, stdout=output, stderr=output, env={**os.environ, "TMPDIR": temporary}, check=False
        ).returncode
    text = log.read_text(errors="replace")
    inputs = int(found[1]) if (found := re.search(r"number_of_executed_units: (\d+)", text)) else 0
    if code == 0:
        return Outcome(inputs)
    file = found[1] if (found := re.search(r"Test unit written to (\S+)", text)) else f"none, see {log}"
    reason = re.search(r"^(thread .*panicked|==\d+== ERROR).*", text, re.MULTILINE | re.DOTALL)
    lines = (reason[0] if reason else text[-2000:]).splitlines()[:SHOWN_LINES]
    return Outcome(inputs, "\n".join(lines), file, f"{program.relative_to(ROOT)} {file}")


def mutate(seconds: int, seed: int) -> Outcome:
    """Run the tests of mutants of figure files, of ledgers, and on the command line, for a third of the time each."""
    asked = {"FLOWLOOM_MUTANT_SECONDS": f"{seconds / 3}", "FLOWLOOM_MUTANT_SEED": f"{seed}", "FLOWLOOM_FINDINGS": f"{FINDINGS}"}
    command = [sys.executable, "-m", "pytest", "--quiet", "--capture=no", "tests/python/test_mutants.py"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **asked}, check=False)
    inputs = sum(int(number) for number in re.findall(r"^\W*(\d+) mutants", run.stdout, re.MULTILINE))
    if run.returncode == 0:
        return Outcome(inputs)
    file = found[1] if (found := re.search(r"kept as (\S+)", run.stdout)) else "none, see above"
    again = found[0] if (found := re.search(r"FLOWLOOM_MUTANT_SEED=\d+ FLOWLOOM_MUTANTS=\d+", run.stdout)) else ""
    lines = "\n".join(run.stdout.splitlines()[-2 * SHOWN_LINES :])
    return Outcome(inputs, lines, file, f"{again} {' '.join(command)}")


def main() -> int:
    """Run all kinds, one after the other, and return the exit code."""
    seconds, seed = int(sys.argv[1]), int(sys.argv[2])
    FINDINGS.mkdir(parents=True, exist_ok=True)
    print("== the fuzz targets (the first build takes some minutes)", flush=True)
    programs = build()
    dict_file = TARGET / "dictionary"
    dict_file.write_text("".join(json.dumps(word) + "\n" for word in sorted(dictionary())))
    outcomes = {}
    for kind in (*SEEDS, "figures"):
        print(f"== {kind}: {seconds} s", flush=True)
        outcomes[kind] = mutate(seconds, seed) if kind == "figures" else fuzz(kind, programs, dict_file, seconds, seed)
    for kind, outcome in outcomes.items():
        if outcome.finding:
            print(f"\n{outcome.finding}\n{kind}: the input is {outcome.file}\n{kind}: this repeats it: {outcome.command}")
    print()
    for kind, outcome in outcomes.items():
        found = f"1 finding: {outcome.file}" if outcome.finding else "no finding"
        print(f"{kind:9} {outcome.inputs:>10,} inputs in {seconds} s, {found}")
    return int(any(outcome.finding for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
