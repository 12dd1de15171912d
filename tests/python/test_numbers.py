from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from flowloom import ScenarioError, engine, summary
from flowloom.metrics import METRICS, bin_label, evaluate, explain, show, show_estimate, significant, size
from flowloom.stats import Estimate, estimate

SUMMARY = {
    "slowdown": {"mean": 1.5, "p99": 3.0, "by_size": [{"mean": 1.25}, {"mean": None}]},
    "drops": {"total": 0, "by_hop": {"host-leaf": 4}},
    "transport": "phost",
    "nfct": None,
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("slowdown.mean", 1.5),
        ("slowdown.p99 / slowdown.mean", 2.0),
        ("(slowdown.p99 - slowdown.mean) * 2 + 1", 4.0),
        ("slowdown.by_size[0].mean", 1.25),
        ('drops.by_hop["host-leaf"]', 4.0),
        ("1000", 1000.0),
    ],
)
def test_expressions(expression, value):
    assert evaluate(expression, SUMMARY) == value


@pytest.mark.parametrize("expression", ["nfct", "nfct * 2", "slowdown.by_size[1].mean", "2 / drops.total", "nfct.x"])
def test_what_has_no_value_is_nan(expression):
    assert math.isnan(evaluate(expression, SUMMARY))


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("slowdwn.mean", 'no "slowdwn": did you mean "slowdown"'),
        ('drops.by_hop["host-laef"]', 'did you mean "host-leaf"'),
        ("slowdown", "a group of values"),
        ("transport", "a text"),
        ("slowdown.by_size[7].mean", "2 entries"),
        ("slowdown.mean.p50", "cannot be looked up in a single value"),
        ("slowdown.mean +", "invalid syntax"),
        ("__import__('os')", "only paths"),
        ("slowdown.mean ** 2", "only paths"),
    ],
)
def test_what_is_no_metric_is_told(expression, complaint):
    with pytest.raises(ScenarioError) as error:
        evaluate(expression, SUMMARY)
    assert complaint in str(error.value)


@pytest.mark.parametrize(
    ("value", "digits", "written"),
    [
        (1.5634, 3, "1.56"), (1.0, 3, "1.00"), (1.1, 3, "1.10"), (20.0, 3, "20.0"), (123.4, 3, "123"), (12345.6, 3, "12,346"),
        (1e7, 4, "10,000,000"), (9.996, 3, "10.0"), (0.00012345, 3, "0.000123"), (-1.5, 2, "-1.5"), (0.0, 3, "0"),
        (1e-30, 3, "0.000000000000"), (math.inf, 3, "inf"),
    ],
)  # fmt: skip
def test_significant_digits_without_an_exponent(value, digits, written):
    assert significant(value, digits) == written


@pytest.mark.parametrize(
    ("expression", "mean", "half_width", "written"),
    [
        ("slowdown.mean", 1.5634, 0.0312, "1.56 ± 0.03"), ("slowdown.mean", 1.5634, None, "1.56"),
        ("fct_us.mean", 4574.4, 0.8, "4,574 ± 1"), ("slowdown.mean", 2.0, 12.34, "2.0 ± 12.3"),
        ("drops.rate", 0.24615, 0.00411, "24.615% ± 0.411%"), ("packet_hops", 1234567.8, 12.3, "1,234,568 ± 12"),
        ("nfct", math.nan, None, "-"),
    ],
)  # fmt: skip
def test_means_and_their_intervals_end_at_the_same_place(expression, mean, half_width, written):
    assert show_estimate(expression, Estimate(mean, half_width, 3)) == written


def test_confidence_intervals_against_a_table():
    assert estimate([3.0]) == (3.0, None, 1)
    # For one degree of freedom and 95 %, Student's t is 12.706. The standard error of (1, 3) is 1.
    assert estimate([1.0, 3.0]) == pytest.approx((2.0, 12.706, 2), rel=1e-4)
    # For four degrees of freedom, Student's t is 2.776. The standard error of 1..5 is sqrt(2.5 / 5).
    assert estimate([1, 2, 3, 4, 5]) == pytest.approx((3.0, 2.776 * math.sqrt(0.5), 5), rel=1e-3)
    assert estimate([2.0, math.nan]) == (2.0, None, 1)
    assert math.isnan(estimate([]).mean)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    # Of 1000 samples of 4 normal values, the share whose interval covers the mean is binomial with p = 0.95 and standard
    # deviation 0.007. The limits are 6 standard deviations away.
    sample = np.random.default_rng(1).normal(10, 3, (1000, 4))
    covered = np.mean([abs(e.mean - 10) <= e.half_width for e in map(estimate, sample.tolist())])
    assert 0.91 <= covered <= 0.99


def test_numbers_as_people_write_them():
    assert [size(v) for v in (0, 999, 1e3, 1.5e6, 1e9)] == ["0 B", "999 B", "1 kB", "1.5 MB", "1 GB"]
    assert bin_label({"above_bytes": 0, "up_to_bytes": 10_000}) == "up to 10 kB"
    assert bin_label({"above_bytes": 10_000, "up_to_bytes": None}) == "over 10 kB"
    assert show("drops.rate", 0.0123) == "1.230%"
    assert show("packet_hops", 12345678.0) == "12,345,678"
    assert show("slowdown.mean", math.nan) == "-"


def test_every_number_is_explained():
    for name, metric in METRICS.items():
        assert metric.label, name
        assert metric.about.endswith("."), name


def numbers(shape, path=()):
    """Return the paths of a shape's numbers."""
    if isinstance(shape, list):
        return numbers(shape[0], (*path, 0))
    if isinstance(shape, dict):
        return [found for name, part in shape.items() for found in numbers(part, (*path, name))]
    return [path] if shape == summary.NUMBER else []


@pytest.mark.parametrize("path", numbers(summary.SHAPE), ids=str)
def test_every_number_of_a_summary_is_explained(path):
    found = explain(path)
    assert found is not None and found.metric.label
    # What is one of several says which.
    assert len(found.only) == sum(part in (0, summary.ANY) for part in path) + ("by_class" in path) + ("by_reason" in path)


def test_the_explained_numbers_are_those_that_a_run_has():
    import flowloom
    from conftest import SMALL

    summary = flowloom.run(SMALL).summary
    for name in METRICS:
        place = summary
        for part in name.split("."):
            assert part in place, name
            place = place[part]
            if place is None:  # this run has no requests
                break


DICTIONARY = (Path(__file__).parents[2] / "docs/data-dictionary.md").read_text(encoding="utf-8")


def leaves(shape, place: str = ""):
    """Return the paths of a shape's numbers and texts, as the data dictionary writes them."""
    if isinstance(shape, list):
        return leaves(shape[0], f"{place}[]")
    if isinstance(shape, dict):
        return {leaf for name, part in shape.items() for leaf in leaves(part, f"{place}.{name}".removeprefix("."))}
    return {(place, shape)}


def test_the_shape_of_a_summary_is_that_of_the_data_dictionary():
    section = DICTIONARY.partition("\n## summary.json")[2].partition("\n## ")[0]
    classes = re.findall(r"`(\w+)`", section.partition("`<class>` for")[2].partition(";")[0])
    assert len(classes) == 4
    documented = {}
    for name, kind in re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", section, re.M):
        if "object" not in kind and not kind.startswith("array"):
            every = classes if "<class>" in name else [""]
            documented |= {name.replace("<class>", one): kind for one in every}
    reasons = re.findall(r"`(\w+)`", section.partition("`<reason>` for")[2].partition(";")[0])
    for reason in reasons:
        documented[f"drops.by_reason.{reason}"] = documented["drops.by_reason.<reason>"]
    del documented["drops.by_reason.<reason>"]
    documented = {re.sub(r"<\w+>", summary.ANY, name): kind for name, kind in documented.items()}
    found = {place: shape for place, shape in leaves(summary.SHAPE) if not place.startswith("backlog.")}
    assert documented.keys() == found.keys()
    assert {name for name, kind in documented.items() if "string" in kind} == {p for p, s in found.items() if s == summary.TEXT}


def test_the_shape_of_the_backlog_and_of_series_is_that_of_the_data_dictionary():
    said = DICTIONARY.partition("add the object `backlog`")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", said)) == set(summary.SHAPE["backlog"])
    for name, columns in summary.SERIES.items():
        table = DICTIONARY.partition(f"## series/{name}.parquet")[2].partition("\n## ")[0]
        table = table.partition("The gauges are")[0]
        found = [name for row in re.findall(r"^\| (`[^|]+) \|", table, re.M) for name in expanded(*re.findall(r"`(\w+)`", row))]
        assert found == list(columns)


def expanded(first, last=""):
    """Expand `class_0_bytes` to `class_7_bytes`."""
    return [first.replace("0", str(number)) for number in range(8)] if last else [first]


def test_the_gauges_of_transports_are_in_the_data_dictionary():
    said = DICTIONARY.partition("The gauges are")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| [^|]* \| [^|]* \| ([^|]+) \|", said, re.M)
    documented = {
        (name, transport) for name, transports in rows for transport in re.findall(r"[a-z]\w*", transports.partition(";")[0])
    }
    extra = {("marked_share", "tcp"), ("marked_share", "ecn_star")}
    listed = {(gauge["name"], entry["name"]) for entry in engine.catalogue()["transports"] for gauge in entry["gauges"]}
    assert documented | extra == listed


@pytest.mark.parametrize(
    "expression",
    [
        "slowdown.by_size[0].mean",
        'tenants["1"].fct_us.p99 / 1000',
        "1 - deadlines_met",
        "sent_by_class[3]",
        'queue["a-b"].peak_bytes',
        'pfc.by_link["h0-l0"].paused_us[1]',
        "backlog.second",
        "drops.by_reason.lost",
    ],
)
def test_a_number_that_a_summary_can_have_is_one(expression):
    summary.check(expression)


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("slowdwn.mean", 'a summary has no "slowdwn" here: did you mean "slowdown"'),
        ("fct_us.slowdown.mean", 'a summary has no "slowdown" here'),
        ("slowdown.by_size.mean", '"mean" must be the number of an entry of a list'),
        ("slowdown.mean.p99", '"p99" cannot be looked up in a number'),
        ("drops.by_reason.lots", 'no "lots" here: did you mean "lost"'),
        ("tenants[1].slowdown.mean", 'a summary has no "1" here'),
        ("queue", "must be a number, but is a group of values"),
        ("sent_by_class", "must be a number, but is a list"),
        ("misfits[0]", "must be a number, but is a text"),
        ("3 * 4", "names no number of the summary"),
    ],
)
def test_a_number_that_no_summary_has_is_told(expression, complaint):
    with pytest.raises(ScenarioError, match=re.escape(complaint)):
        summary.check(expression)
