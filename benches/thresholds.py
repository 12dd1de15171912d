"""The survey of docs/thresholds.md: the thresholds that `flowloom thresholds` recommends, against the equal split, in simulations.

    nice .venv/bin/python benches/thresholds.py docs/thresholds.md

For each of twelve distributions of sizes and three loads, it computes the thresholds, checks them as the command does, and then compares
what is recommended with the equal split on seeds that the check did not use. It replaces the table between the marks of the page, and
exits with 1 if a recommended set is significantly worse. It takes about 20 minutes on two cores.
"""

from __future__ import annotations

import math
import re
import statistics
import sys
from pathlib import Path

import numpy as np

import flowloom
from flowloom.demotion.check import FABRIC
from flowloom.demotion.sizes import Sizes
from flowloom.metrics import significant, spread

LOADS = (0.4, 0.6, 0.8)
TABLES = ("web_search", "data_mining", "imc10", "fb_hadoop", "cache_follower", "web_server", "ali_storage", "google_rpc")
FRESH = {"run": {"seed": 1001}} | FABRIC
FRESH_SEEDS = 8
MARKS = ("<!-- survey: benches/thresholds.py writes this table -->\n", "<!-- end of the survey -->\n")


def log_normal(median: float, sigma: float) -> Sizes:
    """Return a log-normal distribution, cut at the quantile 0.9999."""
    shares = [*np.arange(0.005, 1, 0.005), 0.998, 0.999, 0.9995, 0.9999]
    points = [(math.exp(math.log(median) + sigma * statistics.NormalDist().inv_cdf(share)), share) for share in shares]
    return Sizes.through(f"log-normal, median {median / 1000:g} kB, sigma {sigma:g}", [*points[:-1], (points[-1][0], 1.0)])


def tailed() -> Sizes:
    """Return sizes of which four in five are 10 kB, and the others have a Pareto tail of shape 1.2, up to 5 MB."""
    shares = np.array([0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998])
    tail = zip(10_000 * (0.2 / (1 - shares)) ** (1 / 1.2), shares, strict=True)
    return Sizes.through("10 kB, and a Pareto tail", [(10_000, 0.8), *tail, (5_000_000, 1.0)])


def distributions() -> list[Sizes]:
    bimodal = [(4380, 0.9), (1_022_000, 0.9), (1_022_000, 1.0)]
    own = [log_normal(10_000, 1), log_normal(10_000, 2), Sizes.through("4380 B, or 1 MB for one in ten", bimodal), tailed()]
    return [Sizes.of(name) for name in TABLES] + own


def survey(sizes: Sizes, load: float) -> tuple[list[str], bool]:
    """Return a row of the table, and whether the recommended set is significantly worse than the equal split."""
    solution = flowloom.thresholds(sizes, load, min(8, sizes.queues))
    checked = flowloom.check_thresholds(solution)
    again = flowloom.check_thresholds(solution, FRESH, seeds=FRESH_SEEDS)
    name = checked.best.name
    means = {each.name: significant(each.value.mean, 4) for each in again.sets}
    (difference,) = (each.difference for each in again.sets if each.name == name)
    worse = difference.mean - (difference.half_width or 0) > 0
    shown = "0" if difference.mean == 0 else spread(difference, 3, sign="+")
    recommended = "the model's" if name == "found" else name
    return [sizes.name, f"{load:g}", means["found"], means["equal split"], recommended, shown, "worse" if worse else ""], worse


def main(page: Path) -> int:
    rows, failed = [], False
    head = ["sizes", "load", "the model's set", "equal split", "recommended", "minus the equal split", ""]
    for sizes in distributions():
        for load in LOADS:
            row, worse = survey(sizes, load)
            rows.append(row)
            failed |= worse
            print(" | ".join(row), flush=True)
    lines = [head, ["---"] * len(head), *rows]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    text = page.read_text(encoding="utf-8")
    begin, end = map(re.escape, MARKS)
    text, count = re.subn(f"(?s)({begin}).*?({end})", lambda found: f"{found[1]}\n{table}\n{found[2]}", text)
    if count != 1:
        sys.exit(f"{page} has no place for the survey, which is between two marks")
    page.write_text(text, encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
