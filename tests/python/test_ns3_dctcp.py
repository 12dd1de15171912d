"""DCTCP compared with ns-3's in the same dumbbell (benches/ns3_dctcp.cc). Skipped if ns-3 is not installed."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import flowloom

SOURCE = Path(__file__).parents[2] / "benches" / "ns3_dctcp.cc"
LIBRARIES = ["core", "network", "internet", "point-to-point", "traffic-control", "applications"]
FLOWS = [2, 10]
WARM_MS, END_MS = 25, 75
# RFC 8257 and Flowloom cut the window at once. ns-3's default takes a round trip, and then often cuts again.
AT_ONCE, GRADUALLY = "TcpClassicRecovery", "TcpPrrRecovery"
# Tolerances of the mean queue.
TOLERANCE = {AT_ONCE: 0.03, GRADUALLY: 0.15}

# This scenario follows ns-3's behaviour: it marks if 65 packets are in the queue discipline, when one more is in the device's
# queue; windows have at least two packets; ports of hosts do not mark.
SCENARIO = """\
[run]
time_limit = "{end_ms}ms"

[topology]
kind = "dumbbell"
hosts_per_side = {flows}
host_rate = "10Gb/s"
middle_rate = "10Gb/s"
delay = "16us"

[fabric]
buffer = "150MB"
routing = "ecmp"
switching = "store_and_forward"

[workload]
kind = "trace"
file = "{trace}"

[transport]
name = "dctcp"

[transport.dctcp]
initial_window = 10
max_window = 2800
min_window = 2
rto_min = "1s"
rto_initial = "1s"

[transport.dctcp.port]
mark_above = "99kB"

[transport.dctcp.nic]
ecn = "off"
"""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory) -> dict[tuple[int, str], dict[str, float]]:
    """Return ns-3's measurements by number of flows and kind of cut."""
    if not shutil.which("g++"):
        pytest.skip("the comparison with ns-3 needs a C++ compiler (apt-get install g++ libns3-dev)")
    include = '#include "ns3/core-module.h"'
    header = subprocess.run(["g++", "-E", "-xc++", "-"], input=include, text=True, capture_output=True, check=False)
    if header.returncode != 0:
        pytest.skip("the comparison with ns-3 needs ns-3 (apt-get install libns3-dev)")
    program = tmp_path_factory.mktemp("ns3") / "ns3_dctcp"
    links = [f"-lns3-{name}" for name in LIBRARIES]
    subprocess.run(["g++", "-std=c++17", "-O1", "-DNDEBUG", "-o", program, SOURCE, *links], check=True)

    def measure(case: tuple[int, str]) -> dict[str, float]:
        flows, recovery = case
        command = [program, f"--flows={flows}", f"--recovery={recovery}", f"--warm-ms={WARM_MS}", f"--end-ms={END_MS}"]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    cases = list(itertools.product(FLOWS, TOLERANCE))
    with ThreadPoolExecutor(2) as executor:
        return dict(zip(cases, executor.map(measure, cases), strict=True))


def ours(flows: int, folder: Path) -> dict[str, float]:
    """Measure the same in Flowloom. Runs of two lengths begin alike, so their difference covers the time between."""
    trace = folder / "long.csv"
    rows = [f"{53 * flow}e-6,{flow},{flows + flow},4000000000" for flow in range(flows)]
    trace.write_text("\n".join(["start_s,src,dst,bytes", *rows]) + "\n")

    def integrals(end_ms: int) -> tuple[float, float, float]:
        summary = flowloom.run(SCENARIO.format(flows=flows, trace=trace, end_ms=end_ms)).summary
        assert summary["drops"]["total"] == 0
        assert summary["timeouts"] == 0
        span = summary["sim_s"]
        # The mean covers both directions. In the other direction, acknowledgements of 40 B do not queue.
        packets = 2 * summary["queue"]["leaf-leaf"]["mean_bytes"] / 1500
        return span, packets * span, summary["utilisation"]["leaf-leaf"]["max"] * span

    before, after = integrals(WARM_MS), integrals(END_MS)
    span, queue, busy = (b - a for a, b in zip(before, after, strict=True))
    return {"mean_packets": queue / span, "utilisation": busy / span}


@pytest.mark.parametrize("flows", FLOWS)
def test_the_bottleneck_is_as_long_and_as_busy_as_in_ns3(flows, theirs, tmp_path):
    measured = ours(flows, tmp_path)
    for recovery, tolerance in TOLERANCE.items():
        reference = theirs[flows, recovery]
        assert reference["drops"] == 0
        assert reference["marks"] > 1000, "ns-3 marks, so that its queue is DCTCP's doing"
        assert measured["mean_packets"] == pytest.approx(reference["mean_packets"], rel=tolerance), recovery
        assert measured["utilisation"] == pytest.approx(reference["utilisation"], rel=0.02), recovery
