"""Distributions over flows: against hand-worked values, NumPy, and the percentiles of real runs."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowloom
from flowloom import ScenarioError
from flowloom.distributions import STEPS, Quantity, quantiles
from flowloom.metrics import bytes_of


def table(**changed):
    """Make a flow table of four flows; the last one is unfinished, and the first two have deadlines."""
    columns = {
        "bytes": pa.array([1000, 10_000, 10_001, 1_000_000], "uint64"),
        "start": pa.array([0.0, 1.0, 2.0, 3.0]),
        "finish": pa.array([0.5, 3.0, 2.5, None], "float64"),
        "optimum": pa.array([0.5, 0.5, 0.25, 2.0]),
        "slowdown": pa.array([1.0, 4.0, 2.0, None], "float64"),
        "deadline": pa.array([1.0, 2.0, None, None], "float64"),
        "retransmissions": pa.array([0, 2, 0, 9], "uint32"),
    }
    return pa.table(columns | changed)


INF = math.inf


@pytest.mark.parametrize(
    ("expression", "sizes", "values"),
    [
        ("slowdown", {}, [1, 4, 2, INF]),
        ("fct_us / 1000", {}, [500, 2000, 500, INF]),
        ("(finish - start) * 1000", {}, [500, 2000, 500, INF]),
        ("2 - slowdown", {}, [1, -2, 0, -INF]),
        ("retransmissions", {}, [0, 2, 0, 9]),
        ("retransmissions / retransmissions", {}, [1, 1]),
        ("finish - deadline", {}, [-0.5, 1]),
        ("slowdown", {"above": "10kB"}, [2, INF]),
        ("slowdown", {"up_to": "10kB"}, [1, 4]),
        ("slowdown", {"above": "1kB", "up_to": "10kB"}, [4]),
        ("slowdown", {"above": "1MB"}, []),
    ],
)
def test_a_number_of_each_flow(expression, sizes, values):
    assert Quantity.of(expression, sizes).values(table()).tolist() == values


@pytest.mark.parametrize(
    ("expression", "sizes", "complaint"),
    [
        ("slowdwn", {}, 'flows have no "slowdwn": did you mean "slowdown"'),
        ("fct_us.mean", {}, r'flows have no "fct_us\.mean": did you mean "fct_us"'),
        ("fct_us /", {}, "it is not an expression"),
        ("max(fct_us)", {}, "only paths"),
        ("fct_us ** 2", {}, "only paths"),
        ("-fct_us", {}, "only paths"),
        ("1000", {}, "names no column"),
        ("slowdown", {"abvoe": "1kB"}, 'no "abvoe": did you mean "above"'),
        ("slowdown", {"above": "1 furlong"}, '"1 furlong" is not a number of bytes'),
        ("slowdown", {"above": 1000}, '"1000" is not a number of bytes'),
        ("slowdown", {"above": "10kB", "up_to": "10kB"}, "`above` must be less than `up_to`"),
    ],
)
def test_a_mistake_is_told(expression, sizes, complaint):
    with pytest.raises(ScenarioError, match=complaint):
        Quantity.of(expression, sizes)


def test_a_range_of_sizes_has_a_name():
    assert str(Quantity.of("slowdown")) == "slowdown"
    assert str(Quantity.of("slowdown", {"above": "10kB", "up_to": "1MB"})) == "slowdown (10 kB to 1 MB)"
    assert str(Quantity.of("slowdown", {"up_to": "10kB"})) == "slowdown (up to 10 kB)"
    assert str(Quantity.of("slowdown", {"above": "10kB"})) == "slowdown (over 10 kB)"


def test_numbers_of_bytes_are_those_of_scenarios():
    assert [bytes_of(text) for text in ("0B", "36kB", "36KiB", "1.5MB", "2 GiB")] == [0, 36e3, 36 * 1024, 1.5e6, 2 * 2**30]
    for text in ("36", "kB", "36 kb", "1.2.3kB", "-1B", ""):
        with pytest.raises(ScenarioError, match="is not a number of bytes"):
            bytes_of(text)


def test_quantiles_of_four_values():
    found = quantiles(np.array([4.0, 1.0, 3.0, 2.0]))
    assert len(found) == STEPS + 1
    # A quarter of the values do not exceed 1, and half of them do not exceed 2.
    assert [found[step] for step in (0, 1, 250, 251, 500, 501, 750, 751, 1000)] == [1, 1, 1, 2, 2, 3, 3, 4, 4]
    assert np.isnan(quantiles(np.array([]))).all()


@given(st.lists(st.floats(-1e6, 1e6) | st.just(INF), min_size=1, max_size=50))
def test_a_quantile_is_the_least_value_that_its_share_of_values_does_not_exceed(values):
    found = quantiles(np.array(values))
    for step in (0, 1, 2, 333, 500, 995, 999, 1000):
        enough = [x for x in values if sum(y <= x for y in values) * STEPS >= step * len(values)]
        assert found[step] == min(enough)
    finite = np.array([x for x in values if x < INF])
    if len(finite):
        shares = np.arange(STEPS + 1) / STEPS
        expected = np.quantile(finite, shares[::125], method="inverted_cdf")  # at eighths, which are exact
        assert quantiles(finite)[::125].tolist() == expected.tolist()


def test_quantiles_are_the_percentiles_of_the_run(scenario):
    run = flowloom.run(scenario, **{"metrics.request_delay": "3us", "metrics.size_bins": ["0B", "10kB", "100kB"]})
    for name in ("slowdown", "fct_us"):
        whole = quantiles(Quantity.of(name).values(run.flows))
        assert [whole[at] for at in (500, 950, 990)] == pytest.approx([run.summary[name][p] for p in ("p50", "p95", "p99")])
        for part in run.summary[name]["by_size"]:
            sizes = {"above": f"{part['above_bytes']}B"} | ({"up_to": f"{u}B"} if (u := part["up_to_bytes"]) else {})
            values = Quantity.of(name, sizes).values(run.flows)
            assert len(values) == part["flows"]
            if part["flows"]:
                assert quantiles(values)[950] == pytest.approx(part["p95"])


def test_flows_that_did_not_finish_are_infinitely_slow(scenario):
    run = flowloom.run(scenario, **{"run.time_limit": "400us"})
    assert 0 < run.summary["finished"] < run.summary["flows"]
    values = Quantity.of("fct_us").values(run.flows)
    assert len(values) == run.summary["flows"]
    assert np.isfinite(values).sum() == run.summary["finished"]
