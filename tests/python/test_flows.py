"""Flows from Python become a trace."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import flowloom

STAR = {
    "topology": {"kind": "single_switch", "hosts": 4, "host_rate": "10Gb/s"},
    "transport": {"name": "pfabric"},
    "workload": {"kind": "trace", "file": "flows.csv"},
}


def test_flows_of_an_iterator_run(tmp_path):
    """Flows can be tuples of the type, mappings or sequences; numbers of numpy are numbers."""

    def flows():
        yield flowloom.Flow(0, 0, 1, 1000, id=7)
        yield {"start_s": np.float64(0.1) + 0.2, "src": "h1", "dst": np.int64(2), "bytes": 2000, "tenant": 3}
        yield (0.5, 2, 3, 3000)
        yield flowloom.Flow(None, 1, 0, 4000, after=["7@received+0.25"])

    scenario = flowloom.Scenario.of(STAR | {"workload": {"kind": "trace", "file": str(tmp_path / "flows.csv")}})
    assert flowloom.write_trace(tmp_path / "flows.csv", flows()) == 4
    rows = {row["bytes"]: row for row in flowloom.run(scenario).flows.to_pylist()}
    assert [rows[size]["start"] for size in (1000, 2000, 3000)] == [0, pytest.approx(0.3, abs=1e-12), 0.5]
    assert rows[4000]["start"] == pytest.approx(rows[1000]["finish"] + 0.25, abs=1e-12)
    assert rows[2000]["tenant"] == 3 and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("flow", "complaint"),
    [
        ({"start_s": 0, "src": 0, "dst": 1, "byte": 1}, 'flow 1: unknown field byte: did you mean "bytes"'),
        ({"start_s": 0, "src": 0, "dst": 1}, "flow 1: .* is no flow .*bytes.*; it has start_s, src, dst, bytes"),
        ((0, 0, 1, 1, 1, 1, 1, 1, (), 1), "flow 1: .* is no flow"),
        (5, "flow 1: 5 is no flow"),
        ((0, "a,b", 1, 1), 'flow 1: src is "a,b"; a value has no comma'),
        ((0, 0, 1, 1, math.nan), "flow 1: deadline_s is nan, which is no value; None says nothing"),
        ((Decimal("inf"), 0, 1, 1), "flow 1: start_s is Infinity, which is no value"),
        ((Fraction(1, 3), 0, 1, 1), r"flow 1: start_s is Fraction\(1, 3\); a value is a number, a text or None"),
        ((0, True, 1, 1), "flow 1: src is True; a value is a number, a text or None"),
        ((0, np.array([0, 1]), 1, 1), "flow 1: src is array.*; a value is a number"),
        ({"src": 0, "dst": 1, "bytes": 1, "after": 7}, "flow 1: after is 7; it is a list of ids, such as .7., or a text"),
        ({"src": 0, "dst": 1, "bytes": 1, "after": None}, "flow 1: after is None; it is a list of ids"),
    ],
)
def test_a_wrong_flow_is_named_and_replaces_nothing(tmp_path, flow, complaint):
    (tmp_path / "flows.csv").write_text("as before")
    with pytest.raises(flowloom.ScenarioError, match=complaint):
        flowloom.write_trace(tmp_path / "flows.csv", [flowloom.Flow(0, 0, 1, 1), flow])
    assert [path.read_text() for path in tmp_path.iterdir()] == ["as before"]


@pytest.mark.parametrize(
    ("after", "cell"),
    [
        ("12", "12"),
        ("1 12@begun+0.5", "1 12@begun+0.5"),
        (["12"], "12"),
        ([1, "12"], "1 12"),
        (np.array([1, 12]), "1 12"),
        ("", ""),
    ],
)
def test_a_text_of_ids_is_not_one_of_its_digits(tmp_path, after, cell):
    """Flow 12 is not the flows 1 and 2."""
    flows = [flowloom.Flow(0, 0, 1, 1000, id=number) for number in range(13)]
    flowloom.write_trace(tmp_path / "flows.csv", [*flows, flowloom.Flow(0.5, 1, 2, 1000, after=after)])
    assert (tmp_path / "flows.csv").read_text().splitlines()[-1].split(",")[-1] == cell


def test_decimals_are_numbers(tmp_path):
    flowloom.write_trace(tmp_path / "flows.csv", [flowloom.Flow(Decimal("0.10"), 0, 1, 1000)])
    assert (tmp_path / "flows.csv").read_text().splitlines()[-1].startswith("0.10,0,1,1000,")


def test_repetitions_and_deciles(tmp_path):
    """Ten sizes of each repetition make ten bins of as many flows."""
    flowloom.write_trace(tmp_path / "flows.csv", ((n / 1e4, n % 4, (n + 1) % 4, 1000 * n + 1000) for n in range(10)))
    workload = {"kind": "trace", "file": str(tmp_path / "flows.csv"), "repeat": 5, "period": "10ms"}
    results = flowloom.run(STAR | {"workload": workload, "metrics": {"size_bins": "deciles"}})
    assert results.summary["finished"] == 50
    assert [each["flows"] for each in results.summary["slowdown"]["by_size"]] == [5] * 10
