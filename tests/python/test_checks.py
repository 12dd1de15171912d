"""Each kind of check on made-up numbers for which it must hold, and on numbers for which it must not."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowloom import ScenarioError
from flowloom.claims import checks, intervals
from flowloom.claims.intervals import Band, Span
from flowloom.distributions import quantiles


class Made:
    """A grid with one metric, given as {values of a point: a number, or a number per seed}, and one recorded series.

    For checks of distributions, a point has a list of flows' numbers per seed.
    """

    def __init__(self, axes, values, course=()):
        self.axes, self.numbers, self.recorded = axes, values, course

    def points(self, where):
        every = [dict(zip(self.axes, v, strict=True)) for v in itertools.product(*self.axes.values())]
        return [p for p in every if all(p[a] in wanted for a, wanted in where.items())]

    def values_of(self, axis):
        return self.axes[axis]

    def name(self, point):
        return ", ".join(map(str, point.values()))

    def samples(self, metric, point):
        assert metric == "m"
        found = self.numbers[tuple(point[a] for a in self.axes)]
        return found if isinstance(found, list) else [found]

    def quantiles(self, quantity, point):
        assert quantity.expression == "slowdown"
        return [quantiles(np.array(flows, dtype=float)).tolist() for flows in self.numbers[tuple(point[a] for a in self.axes)]]

    def course(self, series, x, y, point):
        assert (series, x, y) == ("pending", "x", "y")
        return [self.recorded]


def grid(phost, pfabric, fastpass):
    """Make a grid of three transports at the loads 0.5, 0.6 and 0.7."""
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


def test_mean_ratio():
    # The mean of 0.55, 0.4 and 0.325 is 0.425.
    assert holds("mean_ratio", metric="m", of=PHOST, to=FASTPASS, at_most=0.426)
    assert not holds("mean_ratio", metric="m", of=PHOST, to=FASTPASS, at_most=0.424)
    assert not holds("mean_ratio", metric="m", of=PHOST, to=FASTPASS, at_least=0.426)
    unknown = grid([1.1, math.nan, 1.3], [1.0, 1.2, 1.4], [2.0, 3.0, 4.0])
    assert not holds("mean_ratio", unknown, metric="m", of=PHOST, to=FASTPASS, at_most=0.5)


def test_ratio_of_sums():
    # 1.1 + 1.2 + 1.3 = 3.6, over 2 + 3 + 4 = 9: 0.4. The mean of the ratios would be 0.425.
    assert holds("ratio_of_sums", metric="m", of=PHOST, to=FASTPASS, at_most=0.401)
    assert not holds("ratio_of_sums", metric="m", of=PHOST, to=FASTPASS, at_most=0.399)
    assert not holds("ratio_of_sums", metric="m", of=PHOST, to=FASTPASS, at_least=0.401)
    # Without the last load: 2.3 over 5.
    two = {"where": {"load": [0.5, 0.6]}}
    assert holds("ratio_of_sums", metric="m", of=PHOST, to=FASTPASS, at_least=0.459, at_most=0.461, **two)
    unknown = grid([1.1, math.nan, 1.3], [1.0, 1.2, 1.4], [2.0, 3.0, 4.0])
    assert not holds("ratio_of_sums", unknown, metric="m", of=PHOST, to=FASTPASS, at_most=0.5)
    nothing = grid([1.0, 1.0, 1.0], [1.0, 1.2, 1.4], [0.0, 0.0, 0.0])
    assert not holds("ratio_of_sums", nothing, metric="m", of=PHOST, to=FASTPASS, at_most=9e9)
    with pytest.raises(ScenarioError, match="selects no point"):
        holds("ratio_of_sums", metric="m", of=PHOST, to=FASTPASS, where={"load": [0.9]}, at_most=1)


def test_a_ratio_of_sums_is_paired_by_seed():
    # Seed by seed, the sums are 1 + 3 over 2 + 6 and 4 + 6 over 10 + 10, so both ratios are 0.5, and the interval has no width.
    values = {(0.5, "a"): [1.0, 4.0], (0.6, "a"): [3.0, 6.0], (0.5, "b"): [2.0, 10.0], (0.6, "b"): [6.0, 10.0]}
    made = Made({"load": [0.5, 0.6], "transport": ["a", "b"]}, values)
    found = checks.ratio_of_sums(made, metric="m", of={"transport": ["a"]}, to={"transport": ["b"]}, at_most=1)
    assert found.decisive == Span(0.5, 0.5, 0.5)
    # With 6 + 6 below in the second seed, its ratio is 10 / 12. The mean of 1 / 2 and 5 / 6 is 2 / 3, and half the width is
    # t = 12.7062 times half their distance.
    values[0.5, "b"][1] = values[0.6, "b"][1] = 6.0
    found = checks.ratio_of_sums(made, metric="m", of={"transport": ["a"]}, to={"transport": ["b"]}, at_most=1)
    assert found.decisive == pytest.approx((2 / 3, 2 / 3 - 12.7062 / 6, 2 / 3 + 12.7062 / 6), rel=1e-5)
    assert found.verdict == intervals.UNDECIDED


def test_best_ratio():
    # phost / fastpass is 0.55, 0.4 and 0.325.
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
    # phost and pfabric are equal at the reference, so they have no order.
    outcome = checks.same_order(GOOD, metric="m", across="transport", along="load", at=at)
    assert outcome.holds
    assert outcome.measured == "0 of 4 comparisons changed sides; 1 pairs have no order at 0.6"
    assert not holds("same_order", metric="m", across="transport", along="load", at={"load": [0.5]})
    assert holds("same_order", metric="m", across="transport", along="load", at={"load": [0.5]}, tolerance=0.11)
    crossing = grid([1.0, 1.0, 3.0], [2.0, 2.0, 2.0], [5.0, 5.0, 5.0])
    outcome = checks.same_order(crossing, metric="m", across="transport", along="load", at=at)
    assert not outcome.holds
    # Three pairs are compared at two loads with their order at the third.
    assert outcome.measured == "1 of 6 comparisons changed sides: phost against pfabric at 0.7"


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
    # A straight line through the origin has the mean 0.9 at 0.8-1.0, and 0.4 at 0.3-0.5.
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
        ("quantiles_below", {"quantity": "slowdown", "of": {"transport": []}, "to": PHOST}),
    ],
)
def test_a_check_of_nothing_is_a_mistake(kind, parameters):
    with pytest.raises(ScenarioError, match="selects no point"):
        checks.KINDS[kind](GOOD, **parameters)


def test_parameters_are_the_functions_own():
    def defaults(kind):
        return {name: default for name, (_, default) in checks.parameters(kind).items()}

    assert defaults("spread") == {"metric": ..., "across": ..., "at_most": ..., "where": None, "difference": False}
    assert defaults("level") == {"metric": ..., "where": None, "at_least": None, "at_most": None, "every_run": False}


def seeds(**rows):
    """Make a grid of one load, with a number for each seed."""
    return Made({"transport": list(rows)}, {(name,): row for name, row in rows.items()})


def test_an_interval_inside_the_band_holds_outside_differs_and_across_a_limit_is_undecided():
    # The mean is 2. With two degrees of freedom, Student's 95 % interval is 4.303 standard errors: 2 +- 0.2484.
    grid = seeds(phost=[1.9, 2.0, 2.1])
    found = checks.level(grid, metric="m").decisive
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 1.7516, 2.2484), abs=1e-4)
    for limits, verdict in (
        ({"at_most": 2.3}, "holds"),
        ({"at_least": 1.7}, "holds"),
        ({"at_most": 2.2}, "undecided"),
        ({"at_most": 1.9}, "undecided"),
        ({"at_least": 2.24}, "undecided"),
        ({"at_least": 1.8, "at_most": 2.2}, "undecided"),
        ({"at_most": 1.7}, "differs"),
        ({"at_least": 2.3}, "differs"),
    ):
        assert checks.level(grid, metric="m", **limits).verdict == verdict, limits


def test_with_one_seed_the_value_alone_decides():
    outcome = checks.level(seeds(phost=[2.0]), metric="m", at_most=2.0)
    assert (outcome.verdict, outcome.measured) == ("holds", "2")


def test_ratios_are_of_the_same_seed():
    # Seeds differ by a factor of two, and in each of them phost is about 10 % above pfabric.
    grid = seeds(phost=[1.101, 2.2, 4.396], pfabric=[1.0, 2.0, 4.0])
    outcome = checks.ratio(grid, metric="m", of=PHOST, to=PFABRIC, at_most=1.11)
    assert outcome.verdict == "holds"
    assert outcome.decisive.high - outcome.decisive.low < 0.006
    # Without pairing, the same numbers are undecided.
    assert checks.level(grid, metric="m", at_most=3.0).verdict == "undecided"


def test_the_worst_point_decides():
    narrow, wide, above = [1.0, 1.01, 0.99], [1.0, 1.2, 0.8], [2.0, 2.01, 1.99]
    for rows, verdict in (
        ({"a": narrow}, "holds"),
        ({"a": narrow, "b": wide}, "undecided"),
        ({"a": narrow, "b": wide, "c": above}, "differs"),
    ):
        outcome = checks.level(seeds(**rows), metric="m", at_most=1.1)
        assert outcome.verdict == verdict
    # An undecided point between the extremes is named.
    middle = seeds(a=[0.1, 0.1], b=[0.9, 1.1], c=[1.1, 1.1])
    outcome = checks.level(middle, metric="m", at_most=1.1)
    assert outcome.verdict == "undecided"
    assert (outcome.where, outcome.decisive.value, outcome.points) == ("b", pytest.approx(1.0), 3)
    # Where a check holds at several points, no point alone decides; where there is one point, it does.
    assert checks.level(middle, metric="m", at_most=3.0).where == ""
    assert checks.level(seeds(a=[1.0, 1.0]), metric="m", at_most=2.0).where == "a"


def test_the_best_of_several_ratios_is_as_uncertain_as_they_are():
    grid = seeds(phost=[0.5, 0.6, 0.7], pfabric=[0.9, 0.9, 0.9], fastpass=[1.0, 1.0, 1.0])
    of = {"transport": ["phost", "pfabric"]}
    # The ratios are 0.6 +- 0.248 and 0.9, so the smaller one lies between 0.352 and 0.848.
    assert checks.best_ratio(grid, metric="m", of=of, to=FASTPASS, at_most=0.85).verdict == "holds"
    assert checks.best_ratio(grid, metric="m", of=of, to=FASTPASS, at_most=0.84).verdict == "undecided"
    assert checks.best_ratio(grid, metric="m", of=of, to=FASTPASS, at_most=0.35).verdict == "differs"


def test_noise_is_no_spread():
    # Both have the same mean. In each seed, the larger one is 20 % above the smaller.
    grid = seeds(phost=[1.0, 1.2] * 4, pfabric=[1.2, 1.0] * 4)
    assert checks.spread(grid, metric="m", across="transport", at_most=0.2).verdict == "holds"
    assert checks.spread(grid, metric="m", across="transport", at_most=0.1).verdict == "undecided"


def test_orders_and_trends_are_undecided_where_steps_may_go_either_way():
    clear = seeds(phost=[1.0, 2.0, 3.0], pfabric=[1.1, 2.1, 3.1])
    unclear = seeds(phost=[1.0, 2.0, 3.0], pfabric=[1.1, 1.9, 3.1])
    for made, verdict in ((clear, "holds"), (unclear, "undecided")):
        assert checks.order(made, metric="m", across="transport", rising=["phost", "pfabric"]).verdict == verdict
        assert checks.trend(made, metric="m", along="transport").verdict == verdict
    assert checks.trend(clear, metric="m", along="transport", falling=True).verdict == "differs"
    # Seeds in which one or both are zero count too.
    drops = seeds(phost=[0.0, 0.0, 0.0], pfabric=[0.0, 0.1, 0.1])
    assert checks.order(drops, metric="m", across="transport", rising=["phost", "pfabric"]).verdict == "undecided"


def test_sides_are_changed_only_for_certain():
    loads = {"load": [0.5, 0.6], "transport": ["phost", "pfabric"]}

    def verdict(then):
        values = {(0.5, "phost"): [1.0, 1.0, 1.0], (0.5, "pfabric"): [1.2, 1.2, 1.2]}
        values |= {(0.6, "phost"): then, (0.6, "pfabric"): [1.0, 1.0, 1.0]}
        made = Made(loads, values)
        return checks.same_order(made, metric="m", across="transport", along="load", at={"load": [0.5]}).verdict

    assert verdict([0.9, 0.91, 0.89]) == "holds"
    assert verdict([1.1, 1.11, 1.09]) == "differs"
    assert verdict([1.1, 0.9, 1.2]) == "undecided"


def test_where_nothing_has_an_order_nothing_is_tested():
    same = grid([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    outcome = checks.same_order(same, metric="m", across="transport", along="load", at={"load": [0.6]})
    assert (outcome.verdict, outcome.measured) == (
        "undecided", "0 of 0 comparisons changed sides; 3 pairs have no order at 0.6",
    )  # fmt: skip


def test_one_run_in_which_it_fails_refutes_what_must_hold_in_every_run():
    timeouts = seeds(phost=[0.0, 0.0, 0.0, 1.0])
    assert checks.level(timeouts, metric="m", at_most=0).verdict == "undecided"
    assert checks.level(timeouts, metric="m", at_most=0, every_run=True).verdict == "differs"
    assert checks.level(seeds(phost=[0.0, 0.0]), metric="m", at_most=0, every_run=True).verdict == "holds"


def test_a_ratio_to_zero_is_no_value_and_no_seed_is_left_out_for_it():
    def found(pfabric):
        return checks.ratio(seeds(phost=[1.0, 1.0], pfabric=pfabric), metric="m", of=PHOST, to=PFABRIC, at_most=2)

    # Of the seed with a zero nothing is known, so the other one decides nothing.
    assert (found([1.0, 0.0]).verdict, found([1.0, 0.0]).decisive) == ("undecided", (1.0, -math.inf, math.inf))
    assert found([0.0, 0.0]).verdict == "differs"
    assert "no value" in found([0.0, 0.0]).measured


def test_a_level_in_every_run_is_undecided_if_some_run_has_no_value():
    def verdict(*samples):
        return checks.level(seeds(phost=list(samples)), metric="m", at_most=0.6, every_run=True).verdict

    assert verdict(0.5, math.nan) == "undecided"
    assert verdict(0.7, math.nan) == "differs"
    assert verdict(math.nan, math.nan) == verdict(math.nan) == "differs"
    assert verdict(0.5, 0.6) == "holds"


def test_a_ratio_of_several_says_which_it_means():
    outcome = checks.ratio(GOOD, metric="m", of={"transport": ["pfabric", "fastpass"]}, to=PHOST)
    assert outcome.measured == "0.909 (0.5, pfabric) to 3.08 (0.7, fastpass)"


def test_seeds_without_a_value_leave_a_claim_undecided():
    """Of twelve seeds, one has a value: nothing is known of the others."""
    some = Span.of([1.0] + [math.nan] * 11)
    assert some == (1.0, -math.inf, math.inf) and Band(None, 1.05).judge(some) == Band(2.0, None).judge(some) == "undecided"
    assert intervals.smallest([some, Span(2.0, 2.0, 2.0)]) == (1.0, -math.inf, 2.0)
    made = grid([[1.1, math.nan], 1.2, 1.3], [[1.0, 1.0], 1.2, 1.4], [[2.0, 2.0], 3.0, 4.0])
    first = {"where": {"load": [0.5]}}
    assert checks.ratio(made, metric="m", of=PHOST, to=PFABRIC, at_most=1.2, **first).verdict == "undecided"
    # All seeds have a value, or none has, or there is one only.
    assert Band(None, 1.05).judge(Span.of([1.0, 1.0])) == "holds"
    assert [Band(None, 1.05).judge(Span.of(samples)) for samples in ([math.nan] * 2, [math.nan])] == ["differs"] * 2


def test_extremes_of_intervals():
    a, b = Span(1.0, 0.5, 1.5), Span(2.0, 0.0, 4.0)
    assert intervals.smallest([a, b]) == Span(1.0, 0.0, 1.5)
    assert intervals.largest([a, b]) == Span(2.0, 0.5, 4.0)
    assert not intervals.smallest([a, Span.of([math.nan])]).known
    assert Band(0.0, 1.0).judge(Span.of([])) == "differs"
    assert intervals.worst([]) == "holds"


def below(a, b, **parameters):
    """Check the share of quantiles at which the distribution of a is below that of b; both have flows' numbers per seed."""
    made = Made({"transport": ["phost", "pfabric"]}, {("phost",): a, ("pfabric",): b})
    return checks.quantiles_below(made, quantity="slowdown", of=PHOST, to=PFABRIC, **parameters)


def ends(outcome):
    return tuple(round(end, 3) for end in outcome.decisive)


EVERY = {"between": (0.001, 1.0)}
"""A thousand quantiles, so that each of a distribution's flows has an equal number of them."""


def test_the_share_of_quantiles_at_which_one_distribution_is_below():
    # Each of the four values stands for a quarter of the quantiles. The curves cross between the second and the third.
    low, high = [1, 2, 5, 6], [2, 3, 4, 5]
    assert ends(below([low], [high], **EVERY)) == (0.5, 0.5, 0.5)
    assert ends(below([high], [low], **EVERY)) == (0.5, 0.5, 0.5)
    assert ends(below([[1, 2, 4, 5]], [high], **EVERY)) == (0.5, 0.5, 0.5)  # equal values do not count
    assert ends(below([[1, 2, 3, 4]], [high], **EVERY)) == (1, 1, 1)
    assert ends(below([low], [low], **EVERY)) == (0, 0, 0)
    # Of the quantiles 0.5 to 0.75, only 0.5 belongs to the second value.
    assert ends(below([low], [high], between=(0.5, 0.75))) == (round(1 / 251, 3),) * 3
    # The order and the number of flows do not matter.
    assert ends(below([low[::-1] * 3], [high], **EVERY)) == (0.5, 0.5, 0.5)


def test_a_quantile_counts_for_certain_if_all_seeds_agree():
    # In each seed the flows are constant, and the differences are those of one number. They are shares of the larger value.
    four = [[4.0] * 3] * 3
    assert below([[3.0], [3.1], [2.9]], four, at_least=0.95).verdict == "holds"
    assert below([[5.0], [5.1], [4.9]], four, at_least=0.95).verdict == "differs"
    # The differences are -0.25, -0.25 and 0.2. Their mean is below zero, and their interval is not.
    unclear = below([[3.0], [3.0], [5.0]], four, at_least=0.95)
    assert (unclear.verdict, ends(unclear)) == ("undecided", (1, 0, 1))
    # The lower half is below for certain, and the upper half above on average, but not for certain.
    half = below([[3.0, 3.0], [3.0, 5.0], [3.0, 5.0]], four, between=(0.001, 1.0))
    assert ends(half) == (0.5, 0.5, 1)
    assert below([[3.0, 3.0], [3.0, 5.0], [3.0, 5.0]], four, between=(0.001, 1.0), at_least=0.4).verdict == "holds"
    assert below([[3.0, 3.0], [3.0, 5.0], [3.0, 5.0]], four, between=(0.001, 1.0), at_least=0.95).verdict == "undecided"
    assert below([[3.0, 3.0], [3.0, 5.0], [3.0, 5.0]], four, between=(0.001, 1.0), at_most=0.4).verdict == "differs"


def test_distributions_of_the_same_seed_are_compared():
    # Seeds differ by a factor of ten, and in each of them phost is 1 % below pfabric.
    pfabric = [[1.0, 2.0], [5.0, 9.0], [10.0, 20.0]]
    phost = [[0.99 * x for x in flows] for flows in pfabric]
    assert ends(below(phost, pfabric)) == (1, 1, 1)
    assert ends(below(phost, pfabric[::-1])) != (1, 1, 1)


def test_more_seeds_decide_quantiles_that_are_close():
    # Phost is 10 % below pfabric, and the quantiles of a seed vary more than that.
    draw = np.random.default_rng(1)
    seeds = [(0.9 * draw.exponential(1, 200), draw.exponential(1, 200)) for _ in range(200)]
    between = {"between": (0.1, 0.9)}
    alone = [below([phost], [pfabric], **between).decisive.value for phost, pfabric in seeds[:20]]
    assert sum(alone) / len(alone) < 0.9  # so a mean of the seeds' shares would never hold

    def verdict(n):
        phost, pfabric = zip(*seeds[:n], strict=True)
        return below(phost, pfabric, at_least=0.95, **between).verdict

    assert [verdict(n) for n in (3, 6, 200)] == ["undecided", "undecided", "holds"]


def test_unfinished_flows_are_the_slowest():
    # Half of the flows of pfabric never finish.
    assert ends(below([[1, 2, 9, 9]], [[1, 2, math.inf, math.inf]], **EVERY)) == (0.5, 0.5, 0.5)
    assert ends(below([[9, 9, 9, math.inf]], [[1, 2, 3, math.inf]], **EVERY)) == (0, 0, 0)
    assert below([[math.inf], [1.0], [1.0]], [[math.inf], [2.0], [2.0]], at_least=0.95).verdict == "undecided"


def test_without_flows_there_is_no_share():
    outcome = below([[], []], [[1.0], [1.0]], at_most=1)
    assert (outcome.verdict, outcome.decisive.known) == ("differs", False)


FLOWS = st.lists(st.lists(st.floats(0.001, 1000) | st.just(math.inf), min_size=1, max_size=8), min_size=1, max_size=4)


@settings(max_examples=30)
@given(FLOWS, FLOWS, st.integers(-5, 5))
def test_what_one_side_gains_the_other_loses(a, b, power):
    a, b = a[: len(b)], b[: len(a)]
    (share, low, high), (other, other_low, other_high) = below(a, b, **EVERY).decisive, below(b, a, **EVERY).decisive
    assert 0 <= low <= share <= high <= 1
    # Quantiles with a mean of zero count for neither side.
    assert share + other <= 1 + 1e-9
    assert low + other_high <= 1 + 1e-9
    assert other_low + high <= 1 + 1e-9
    if len(a) == 1:
        brute = sum(x < y for x, y in zip(*(quantiles(np.array(seed))[1:] for seed in (a[0], b[0])), strict=True)) / 1000
        assert share == low == high == pytest.approx(brute)
    scaled = [[[x * 2.0**power for x in seed] for seed in side] for side in (a, b)]
    assert below(*scaled, **EVERY).decisive == (share, low, high)  # the unit does not matter


@settings(max_examples=30)
@given(FLOWS, st.floats(0.1, 0.9))
def test_a_distribution_that_is_faster_throughout_is_below_everywhere(b, factor):
    finite = [[min(x, 1e6) for x in seed] for seed in b]
    assert ends(below([[factor * x for x in seed] for seed in finite], finite)) == (1, 1, 1)
