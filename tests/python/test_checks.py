"""Each check on numbers made up for it: where it must hold, and where it must not."""

from __future__ import annotations

import itertools
import math

import pytest

from flowloom import ScenarioError
from flowloom.claims import checks


class Made:
    """A grid of one metric, given as {point's values: number}, and of one recorded series."""

    def __init__(self, axes, values, course=()):
        self.axes, self.numbers, self.recorded = axes, values, course

    def points(self, where):
        every = [dict(zip(self.axes, v, strict=True)) for v in itertools.product(*self.axes.values())]
        return [p for p in every if all(p[a] in wanted for a, wanted in where.items())]

    def values_of(self, axis):
        return self.axes[axis]

    def name(self, point):
        return ", ".join(map(str, point.values()))

    def mean(self, metric, point):
        assert metric == "m"
        return self.numbers[tuple(point[a] for a in self.axes)]

    def course(self, series, x, y, point):
        assert (series, x, y) == ("pending", "x", "y")
        return [self.recorded]


def grid(phost, pfabric, fastpass):
    """Three transports at the loads 0.5, 0.6, 0.7."""
    loads = [0.5, 0.6, 0.7]
    rows = {"phost": phost, "pfabric": pfabric, "fastpass": fastpass}
    values = {(load, name): row[i] for name, row in rows.items() for i, load in enumerate(loads)}
    return Made({"load": loads, "transport": list(rows)}, values)


GOOD = grid([1.1, 1.2, 1.3], [1.0, 1.2, 1.4], [2.0, 3.0, 4.0])
PHOST, PFABRIC, FASTPASS = ({"transport": [name]} for name in ("phost", "pfabric", "fastpass"))


def holds(kind, made=GOOD, **parameters):
    outcome = checks.KINDS[kind](made, **parameters)
    assert outcome.measured
    assert outcome.band
    return outcome.holds


def test_best_ratio():
    # phost / fastpass: 0.55, 0.4, 0.325
    assert holds("best_ratio", metric="m", of=PHOST, to=FASTPASS, at_most=0.326)
    assert not holds("best_ratio", metric="m", of=PHOST, to=FASTPASS, at_most=0.324)
    assert not holds("best_ratio", metric="m", of=PHOST, to=FASTPASS, at_least=0.326)
    unknown = grid([1.1, math.nan, 1.3], [1.0, 1.2, 1.4], [2.0, 3.0, 4.0])
    assert not holds("best_ratio", unknown, metric="m", of=PHOST, to=FASTPASS, at_most=0.5)


def test_level():
    assert holds("level", metric="m", where=PHOST, at_least=1.1, at_most=1.3)
    assert not holds("level", metric="m", where=PHOST, at_most=1.29)
    assert not holds("level", metric="m", where=PHOST, at_least=1.11)


def test_ratio_at_every_point():
    assert holds("ratio", metric="m", of=PHOST, to=PFABRIC, at_most=1.1)
    assert not holds("ratio", metric="m", of=PHOST, to=PFABRIC, at_most=1.09)
    assert holds("ratio", metric="m", of=PHOST, to=PFABRIC, at_most=1.09, where={"load": [0.6, 0.7]})
    assert holds("ratio", metric="m", of={"transport": ["pfabric", "fastpass"]}, to=PHOST, at_least=1 / 1.1 - 1e-9)
    assert not holds("ratio", metric="m", of={"transport": ["pfabric", "fastpass"]}, to=PHOST, at_least=1.0)


def test_ratio_says_where_the_extremes_are():
    outcome = checks.ratio(GOOD, metric="m", of=FASTPASS, to=PHOST)
    assert outcome.measured == "1.82 (0.5) to 3.08 (0.7)"


def test_spread():
    short = grid([1.0, 1.0, 1.0], [1.1, 1.1, 1.1], [1.2, 1.1, 1.0])
    assert holds("spread", short, metric="m", across="transport", at_most=0.2 + 1e-9)
    assert not holds("spread", short, metric="m", across="transport", at_most=0.19)
    assert holds("spread", short, metric="m", across="transport", at_most=0.11, where={"load": [0.7]})
    assert holds("spread", short, metric="m", across="load", at_most=0.0, where=PHOST)
    percent = grid([0.10, 0.5, 0.5], [0.12, 0.5, 0.5], [0.11, 0.5, 0.5])
    assert holds("spread", percent, metric="m", across="transport", at_most=0.021, difference=True)
    assert not holds("spread", percent, metric="m", across="transport", at_most=0.019, difference=True)
    assert not holds("spread", percent, metric="m", across="transport", at_most=0.021)


def test_order():
    assert not holds("order", metric="m", across="transport", rising=["phost", "pfabric", "fastpass"])
    assert holds("order", metric="m", across="transport", rising=["phost", "pfabric", "fastpass"], tolerance=0.1)
    assert holds("order", metric="m", across="transport", rising=["phost", "fastpass"])
    assert not holds("order", metric="m", across="transport", rising=["fastpass", "phost"])


def test_order_of_zeros():
    none_but_pfabric = grid([0.0, 0.0, 0.0], [0.1, 0.2, 0.3], [0.0, 0.0, 0.0])
    assert holds("order", none_but_pfabric, metric="m", across="transport", rising=["phost", "pfabric"])
    assert holds("order", none_but_pfabric, metric="m", across="transport", rising=["phost", "fastpass"])
    assert not holds("order", none_but_pfabric, metric="m", across="transport", rising=["pfabric", "phost"])


def test_same_order():
    at = {"load": [0.6]}
    # phost and pfabric are equal at the reference, so they have no order to keep.
    assert holds("same_order", metric="m", across="transport", along="load", at=at)
    assert not holds("same_order", metric="m", across="transport", along="load", at={"load": [0.5]})
    assert holds("same_order", metric="m", across="transport", along="load", at={"load": [0.5]}, tolerance=0.11)
    crossing = grid([1.0, 1.0, 3.0], [2.0, 2.0, 2.0], [5.0, 5.0, 5.0])
    outcome = checks.same_order(crossing, metric="m", across="transport", along="load", at=at)
    assert not outcome.holds
    assert outcome.measured == "1 of 9 comparisons changed sides: phost against pfabric at 0.7"


def test_same_order_knows_the_selected_transports_only():
    crossing = grid([1.0, 1.0, 3.0], [2.0, 2.0, 2.0], [5.0, 5.0, 5.0])
    where = {"transport": ["phost", "fastpass"]}
    assert holds("same_order", crossing, metric="m", across="transport", along="load", at={"load": [0.6]}, where=where)


def test_trend():
    assert holds("trend", metric="m", along="load")
    assert not holds("trend", metric="m", along="load", falling=True)
    wavering = grid([1.0, 0.95, 1.1], [1, 1, 1], [3, 2, 1])
    assert not holds("trend", wavering, metric="m", along="load", where=PHOST)
    assert holds("trend", wavering, metric="m", along="load", where=PHOST, tolerance=0.06)
    assert holds("trend", wavering, metric="m", along="load", where=FASTPASS, falling=True)
    from_zero = grid([0.0, 0.0, 0.1], [0.1, 0.0, 0.0], [1, 1, 1])
    assert holds("trend", from_zero, metric="m", along="load", where=PHOST)
    assert not holds("trend", from_zero, metric="m", along="load", where=PFABRIC)


def test_ratio_trend():
    assert holds("ratio_trend", metric="m", of=FASTPASS, to=PHOST, along="load")
    assert not holds("ratio_trend", metric="m", of=PHOST, to=PFABRIC, along="load")


def test_peak():
    assert holds("peak", metric="m", of=PHOST, to=PFABRIC, at={"load": [0.5]})
    assert not holds("peak", metric="m", of=PHOST, to=PFABRIC, at={"load": [0.7]})


def test_growth():
    xs = [i / 100 for i in range(101)]
    series = {"course": "pending", "x": "x", "y": "y"}
    point = {"where": {"transport": ["phost"], "load": [0.5]}}
    flat = Made(GOOD.axes, {}, (xs, [0.1 + 0.01 * (-1) ** i for i in range(101)]))
    growing = Made(GOOD.axes, {}, (xs, xs))
    assert holds("growth", flat, **series, **point, at_most=1.1)
    assert not holds("growth", flat, **series, **point, at_least=1.5)
    # A straight line through the origin: its mean at 0.8-1.0 is 0.9, at 0.3-0.5 it is 0.4.
    assert holds("growth", growing, **series, **point, at_least=2.249, at_most=2.251)
    assert not holds("growth", growing, **series, **point, at_most=1.1)
    assert not holds("growth", Made(GOOD.axes, {}, ([], [])), **series, **point, at_least=0)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("level", {"metric": "m", "at_most": 1e9}),
        ("ratio", {"metric": "m", "of": FASTPASS, "to": PHOST, "at_least": 0}),
        ("spread", {"metric": "m", "across": "transport", "at_most": 1e9}),
        ("order", {"metric": "m", "across": "transport", "rising": ["phost", "fastpass"], "tolerance": 1.0}),
        ("same_order", {"metric": "m", "across": "transport", "along": "load", "at": {"load": [0.5]}, "tolerance": 1e9}),
        ("trend", {"metric": "m", "along": "load", "tolerance": 1e9}),
        ("ratio_trend", {"metric": "m", "of": FASTPASS, "to": PHOST, "along": "load", "tolerance": 1e9}),
        ("peak", {"metric": "m", "of": FASTPASS, "to": PHOST, "at": {"load": [0.5]}}),
    ],
)
def test_a_missing_number_never_holds(kind, parameters):
    assert not holds(kind, grid([1.0, 1.1, 1.2], [1, 1, 1], [2.0, math.nan, 1.0]), **parameters)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("level", {"metric": "m", "where": {"load": [0.9]}}),
        ("ratio", {"metric": "m", "of": {"transport": []}, "to": PHOST}),
        ("peak", {"metric": "m", "of": FASTPASS, "to": PHOST, "at": {"load": [0.9]}}),
    ],
)
def test_a_check_of_nothing_is_a_mistake(kind, parameters):
    with pytest.raises(ScenarioError, match="selects no point"):
        checks.KINDS[kind](GOOD, **parameters)


def test_parameters_are_the_functions_own():
    assert checks.parameters("spread") == (["metric", "across", "at_most"], ["where", "difference"])
    assert checks.parameters("level") == (["metric"], ["where", "at_least", "at_most"])
