"""What a run records over its course: written while it runs, read on demand, kept with the result."""

from __future__ import annotations

import pickle
import re
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flowloom
from flowloom import columns, results, series, summary
from flowloom.plots import pictures, samples
from test_cli import call

SCENARIO = """\
[topology]
kind = "single_switch"
hosts = 4

[workload]
kind = "burst"
flows = 40
sizes = { fixed = "100kB" }

[transport]
name = "dctcp"

[observe]
queues = ["switch-host"]
links = ["all"]
flows = "all"
hosts = ["h0", "h1"]
period = "10us"
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text(SCENARIO)
    return path


def test_series_have_the_columns_of_the_summary_module(scenario):
    found = flowloom.run(scenario).series
    assert list(found) == sorted(summary.SERIES.keys() - {"steps"})  # this scenario has no job
    for name, table in found.items():
        given = summary.SERIES[name]
        assert tuple(table.column_names)[: len(given)] == given
        assert table.num_rows > 10
    assert found["flows"].column_names[6:] == ["window_bytes", "in_flight_bytes", "rtt_us", "marked_share"]
    assert set(found["hosts"]["host"].to_pylist()) == {"h0", "h1"}
    assert set(found["queues"]["link"].to_pylist()) <= {f"s0-h{host}" for host in range(4)}


def test_the_steps_of_a_job_are_those_of_its_flows():
    """Four ranks add up 4 MB in a ring, twice: six steps of four flows of 1 MB each time."""
    job = {
        "kind": "collective",
        "collective": "all_reduce",
        "algorithm": "ring",
        "size": "4MB",
        "iterations": 2,
        "pause": "1ms",
    }
    star = {"kind": "single_switch", "hosts": 4, "host_rate": "10Gb/s"}
    result = flowloom.run({"topology": star, "workload": job, "transport": {"name": "pfabric"}})
    steps = result.series["steps"]
    assert tuple(steps.column_names) == summary.SERIES["steps"]
    rows, flows = steps.to_pylist(), {row["id"]: row for row in result.flows.to_pylist()}
    assert [(row["iteration"], row["step"], row["flows"]) for row in rows] == [(i, s, 4) for i in range(2) for s in range(6)]
    for row in rows:
        slowest = flows[int(row["slowest_flow"])]
        assert row["slowest_fct"] == pytest.approx(slowest["finish"] - slowest["start"])
        assert row["start"] <= slowest["start"] < slowest["finish"] <= row["end"]
    times = [rows[5]["end"] - rows[0]["start"], rows[11]["end"] - rows[6]["start"]]
    (job,) = result.summary["jobs"].values()
    assert (job["ranks"], job["finished"], job["bytes"]) == (4, 2, 4_000_000)
    assert job["time_us"]["mean"] == pytest.approx(1e6 * sum(times) / 2)
    assert job["algorithm_gbps"] == pytest.approx(8 * 4e6 / (sum(times) / 2) / 1e9)
    assert job["bus_gbps"] == pytest.approx(1.5 * job["algorithm_gbps"])
    assert rows[6]["start"] == pytest.approx(rows[5]["end"] + 1e-3, abs=1e-4)
    ((_, drawing),) = pictures.of_series(result, "steps")
    ((line,),) = (spot.lines for spot in drawing.axes)
    assert line.get_xdata() == pytest.approx([1e3 * row["start"] for row in rows])
    assert line.get_ydata() == pytest.approx([1e3 * row["slowest_fct"] for row in rows])


def test_sums_are_those_of_the_flow_table(scenario):
    result = flowloom.run(scenario)
    flows = result.series["flows"]
    last = flows.group_by("flow").aggregate([("delivered_bytes", "max")])
    assert last["delivered_bytes_max"].to_pylist() == [100_000] * 40
    goodput, span = (flows[name].to_numpy() for name in ("goodput_gbps", "span"))
    assert np.isclose((goodput * span).sum() * 1e9 / 8, 4_000_000)
    # The first round trip has not been measured when a flow starts.
    assert flows["rtt_us"].null_count and all(rtt is None or rtt > 0 for rtt in flows["rtt_us"].to_pylist())


@pytest.mark.parametrize("rows", [10, 1000, series.IN_MEMORY])
def test_a_saved_result_has_its_series_and_another_process_can_send_them(scenario, tmp_path, monkeypatch, rows):
    monkeypatch.setattr(series, "IN_MEMORY", rows)
    result = flowloom.run(scenario)
    sent = pickle.loads(pickle.dumps(result))
    result.save(tmp_path / "kept")
    loaded = results.load(tmp_path / "kept", whole=True)
    for other in (sent, loaded):
        assert list(other.series) == list(result.series)
        assert all(other.series[name].equals(result.series[name]) for name in result.series)
    again = flowloom.run(scenario)
    again.save(tmp_path / "again")
    for name in result.series:
        one, two = (tmp_path / kept / "series" / f"{name}.parquet" for kept in ("kept", "again"))
        assert one.read_bytes() == two.read_bytes()


def test_a_long_table_has_several_row_groups(tmp_path):
    long = SCENARIO.replace("10us", "1ns").replace('queues = ["switch-host"]\nlinks = ["all"]\n', "")
    (tmp_path / "scenario.toml").write_text(long)
    result = flowloom.run(tmp_path / "scenario.toml")
    result.save(tmp_path / "r")
    flows = pq.ParquetFile(tmp_path / "r" / "series" / "flows.parquet")
    assert flows.num_row_groups > 3
    assert max(flows.metadata.row_group(group).num_rows for group in range(flows.num_row_groups)) < 40_000


def test_samples_that_do_not_fit_on_the_disk_are_an_error_with_the_file(scenario, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(columns, "writer", full)
    monkeypatch.setattr(series, "IN_MEMORY", 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = call("run", scenario, code=1)
    assert re.search(r"flowloom-recorded-\w+/\w+\.parquet: No space left on device", made.stderr)
    assert not list(tmp_path.glob("flowloom-recorded-*"))


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("queues", '["s0-h9"]', "no link is called"),
        ("hosts", '["h9"]', 'no host is called "h9"'),
        ("flows", '"every"', "observe.flows"),
        ("to", "0s", "not after observe.from"),
        ("periods", "1us", 'did you mean "period"'),
    ],
)
def test_a_wrong_key_is_named(scenario, key, value, complaint):
    made = call("run", scenario, "--set", f"observe.{key}={value}", code=2)
    assert f"observe.{key}" in made.stderr and complaint in made.stderr, made.stderr


def test_a_run_without_samples_records_the_backlog_alone(scenario):
    nothing = {f"observe__{what}": [] for what in ("queues", "links", "flows", "hosts")}
    assert list(flowloom.run(scenario, **nothing).series) == ["pending"]
    assert list(flowloom.run(scenario, **nothing, observe__pending=False).series) == []


def test_samples_are_drawn_with_the_run_and_for_several_transports_beside_each_other(scenario, tmp_path):
    made = call("run", scenario, "--plot", "--out", tmp_path / "r").stdout
    for name in ("flows", *(f"series-{kind}" for kind in samples.KINDS)):
        assert f"picture: {tmp_path / 'r' / name}.png" in made
    call("compare", scenario, "--transports", "dctcp,phost", "--out", tmp_path / "c")
    assert "picture" in call("plot", tmp_path / "c", "--series", "queues").stdout
    compared = [results.load(tmp_path / "r"), flowloom.run(scenario, transport__name="phost")]
    shown = [samples.Shown(each.summary["transport"], each.series) for each in compared]
    drawing = samples.draw(shown, ["flows"], "two")
    rows = [spot.get_ylabel() for spot in drawing.axes][:: len(shown)]
    assert rows[:3] == ["Goodput (Gb/s)", "Window (kB)", "In flight (kB)"] and "Tokens unanswered" in rows
    known, unknown = drawing.axes[2:4]
    assert len(known.lines) == samples.MOST and not unknown.lines
    assert [text.get_text() for text in unknown.texts] == ["none"]


def test_columns_of_several_series_make_one_picture(scenario, tmp_path):
    call("compare", scenario, "--transports", "dctcp,phost", "--out", tmp_path / "c", "--no-plot")
    wanted = "flows.window_bytes, queues.packets, hosts.receiving"
    told = call("plot", tmp_path / "c", "--series", wanted).stdout
    assert told == f"picture: {tmp_path / 'c/series-flows-window_bytes-queues-packets-hosts-receiving'}.png\n"
    ((_, drawing),) = pictures.of_series(flowloom.load_comparison(tmp_path / "c"), wanted)
    rows = [drawing.axes[number : number + 2] for number in (0, 2, 4)]
    assert [left.get_ylabel() for left, _ in rows] == ["Window (kB)", "Queue (packets)", "Flows that it receives"]
    assert rows[0][0].lines and not rows[0][1].lines  # pHost has no windows
    # Flows, ports and hosts differ in their colours.
    shades = [{line.get_color() for line in left.lines} for left, _ in rows]
    assert all(shades) and len(set.union(*shades)) == sum(map(len, shades))


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ("flows.windw_bytes", 'the series "flows" has no column "windw_bytes"; did you mean "window_bytes"?'),
        ("flows.flow", 'the series "flows" has no column "flow"'),
        ("flows,quues.bytes", 'there is no series "quues": did you mean "queues"?'),
        ("flows,pending", 'the series "pending" is drawn alone and whole'),
        ("pending.pending_share", 'the series "pending" is drawn alone and whole'),
    ],
)
def test_a_series_or_a_column_that_is_not_there_is_named(scenario, wanted, complaint):
    with pytest.raises(flowloom.ScenarioError, match=re.escape(complaint)):
        list(pictures.of_series(flowloom.run(scenario), wanted))


def shown_of(kind, table, column):
    """Return what is drawn of a column of samples: the values of each link, flow or host."""
    (panel,) = samples.arranged([samples.Shown("", {kind: table})], [f"{kind}.{column}"]).panels
    return {line.key: line for line in panel.columns[0]}


def test_the_first_sample_counts_as_much_as_its_span():
    table = pa.table(
        {
            "time": [1e-3, 2e-3, 2e-3, 3e-3], "span": [1e-3] * 4, "link": ["a", "a", "b", "a"], "bytes": [9, 1, 5, 1],
            "utilisation": [0.9, 0.1, 0.5, 0.1],
        }
    )  # fmt: skip
    found = shown_of("links", table, "utilisation")
    thirds = {key: line.values.reshape(3, -1).mean(axis=1).tolist() for key, line in found.items()}
    assert thirds == {"a": pytest.approx([90, 10, 10]), "b": pytest.approx([0, 50, 0])}


def test_averages_keep_their_sum():
    rng = np.random.default_rng(1)
    time = np.cumsum(rng.uniform(0.5, 1.5, 1000))
    span = np.diff(time, prepend=0.0)
    values = rng.uniform(0, 10, 1000)
    edges = np.linspace(0, time[-1], samples.POINTS + 1)
    at, mean = samples._averaged(time, span, values, edges)
    assert len(at) == samples.POINTS
    assert np.isclose((mean * np.diff(edges)).sum(), (values * span).sum())
    # Where there are no samples, such as before a flow's start, there is no average.
    at, mean = samples._averaged(time[500:], span[500:], values[500:], edges)
    assert at[0] > time[499] and values[500:].min() <= mean.min()
    # A flow that was open for an instant has one all the same.
    at, mean = samples._averaged(time[500:501], np.array([1e-9]), values[500:501], edges)
    assert len(at) in (1, 2) and mean == pytest.approx(values[500])


PULSES = """[topology]
kind = "single_switch"
hosts = 4
host_rate = "10Gb/s"

[workload]
kind = "trace"
file = "flows.csv"

[transport]
name = "tcp"

[observe]
links = ["s0-h3"]
hosts = ["h3"]
period = "10us"
"""


def test_a_link_that_rests_while_nothing_else_is_sampled_is_drawn_at_its_own_rate(tmp_path):
    pulses = "".join(f"{number / 1000},2,3,12500\n" for number in range(10))
    (tmp_path / "flows.csv").write_text(f"start_s,src,dst,bytes\n0,0,1,12000000\n{pulses}")
    (tmp_path / "scenario.toml").write_text(PULSES)
    found = flowloom.run(tmp_path / "scenario.toml").series
    for kind, column, truth in (
        ("links", "utilisation", sum(found["links"]["bytes"].to_pylist()) * 8 / 10e9 * 100),
        ("hosts", "goodput_gbps", 10 * 12500 * 8 / 1e9),
    ):
        ((_, line),) = shown_of(kind, found[kind], column).items()
        # The line has parts of equal length up to the last sample, so its mean is that of all the time.
        last = max(found[kind]["time"].to_pylist())
        assert line.values.mean() * last == pytest.approx(truth, rel=0.02)
        assert len(line.values) == samples.POINTS


def test_a_queue_without_rows_was_empty_all_the_while():
    rows = {"time": [1e-6, 2e-6, 9e-6], "span": [1e-6] * 3, "link": ["a"] * 3, "bytes": [1000, 2000, 3000]}
    table = pa.table(rows | {"mean_bytes": [1.0] * 3})
    line = shown_of("queues", table, "bytes")["a"]
    assert line.at.tolist() == pytest.approx([1, 2, 3, 8, 9])
    assert line.values.tolist() == [1, 2, 0, 0, 3]
    # A run ends between two samples.
    last = pa.table({"time": [9.25e-6], "span": [0.25e-6], "link": ["a"], "bytes": [500], "mean_bytes": [1.0]})
    line = shown_of("queues", pa.concat_tables([table, last]), "bytes")["a"]
    assert line.at.tolist() == pytest.approx([1, 2, 3, 8, 9, 9.25])
    assert line.values.tolist() == [1, 2, 0, 0, 3, 0.5]
    # Instants at which nothing happens anywhere are not sampled: the span of the next sample is longer, and nothing is missing.
    longer = table.set_column(1, "span", pa.array([1e-6, 1e-6, 7e-6]))
    assert shown_of("queues", longer, "bytes")["a"].values.tolist() == [1, 2, 3]
