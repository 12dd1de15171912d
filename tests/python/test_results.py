from __future__ import annotations

import errno
import json
import tomllib

import pyarrow.parquet as pq
import pytest

import flowloom
from flowloom import ScenarioError, columns, explanations, integrity, storage
from flowloom.results import MARKER


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    from conftest import SMALL

    return flowloom.run(SMALL)


def test_a_saved_result_loads_as_it_was(result, tmp_path):
    loaded = flowloom.load(result.save(tmp_path / "r"))
    assert loaded.summary == result.summary
    assert loaded.scenario == result.scenario
    assert loaded.provenance == result.provenance
    assert loaded.flows.equals(result.flows, check_metadata=True)
    assert loaded.series.keys() == result.series.keys()


def test_the_flow_table_agrees_with_itself_and_with_the_summary(result):
    flows = result.flows.to_pylist()
    assert list(flows[0]) == [name for name, column in columns.FLOWS.items() if column.always]
    assert [f["id"] for f in flows] == sorted(f["id"] for f in flows)
    for flow in flows:
        assert flow["slowdown"] == pytest.approx((flow["finish"] - flow["start"]) / flow["optimum"], rel=1e-6)
        assert flow["src"] != flow["dst"]
        assert flow["deadline"] is None
        assert flow["coflow"] is None
    assert result.summary["slowdown"]["mean"] == pytest.approx(sum(f["slowdown"] for f in flows) / len(flows))
    assert result.summary["flows"] == result.summary["finished"] == len(flows) == 200


def test_columns_say_their_units(result, tmp_path):
    schema = pq.read_schema(result.save(tmp_path / "r") / "flows.parquet")
    units = {field.name: (field.metadata or {}).get(b"unit") for field in schema}
    assert units["start"] == units["finish"] == units["optimum"] == b"s"
    assert units["bytes"] == b"B"


def test_unfinished_flows_have_nulls(tmp_path):
    from conftest import SMALL

    result = flowloom.run(SMALL, {"run.time_limit": "200us"})
    missing = result.summary["flows"] - result.summary["finished"]
    assert missing > 0
    assert result.flows["finish"].null_count == result.flows["slowdown"].null_count == missing


def test_aborted_flows_say_why(tmp_path):
    from conftest import SMALL

    down = [{"kind": "node_down", "node": "h1", "from": "50us", "to": "400us"}]
    result = flowloom.run(SMALL, {"fault": down})
    why = result.flows["aborted"].to_pylist()
    aborted = [flow for flow in result.flows.to_pylist() if flow["aborted"]]
    assert set(why) == {None, "node_down"}
    assert 0 < len(aborted) == result.summary["aborted"] == result.summary["flows"] - result.summary["finished"]
    assert all(1 in (flow["src"], flow["dst"]) and flow["finish"] is None for flow in aborted)
    assert [found.flag for found in result.warnings if found.flag in ("aborted", "unfinished")] == ["aborted"]
    saved = result.save(tmp_path / "r")
    assert f"{len(aborted)} flows were aborted" in explanations.of_directory(saved)
    assert pq.read_table(saved / "flows.parquet")["aborted"].to_pylist() == why


def test_background_flows_are_beside_the_others(tmp_path):
    from conftest import SMALL

    result = flowloom.run(SMALL, {"workload.background": [{"src": 0, "dst": 1}]})
    assert result.summary["flows"] == result.summary["finished"] == 200 == result.flows.num_rows
    assert result.summary["background"]["flows"] == 1
    assert "1 background flows ran beside them" in explanations.of_directory(result.save(tmp_path / "r"))
    alike = flowloom.run(SMALL, {"workload.background": [{"src": 0, "dst": 1}], "metrics.background": True})
    assert alike.flows.num_rows == 201


@pytest.mark.parametrize("transport", ["phost", "pfabric", "ideal"])
def test_the_same_scenario_and_seed_give_the_same_bytes(transport, tmp_path):
    from conftest import SMALL

    files = []
    for name in ("a", "b"):
        folder = flowloom.run(SMALL, {"transport.name": transport}).save(tmp_path / name)
        files.append([(folder / f).read_bytes() for f in ("flows.parquet", "summary.json", "scenario.toml")])
    assert files[0] == files[1]


def test_another_seed_gives_other_flows(result):
    from conftest import SMALL

    assert not flowloom.run(SMALL, run__seed=2).flows.equals(result.flows)


def test_the_transport_does_not_change_the_arrivals(result):
    from conftest import SMALL

    other = flowloom.run(SMALL, transport__name="pfabric")
    for column in ("src", "dst", "bytes", "start", "optimum"):
        assert other.flows[column].equals(result.flows[column])


def test_provenance_says_how_to_make_it_again_and_nothing_private(result, tmp_path):
    folder = result.save(tmp_path / "r")
    made = json.loads((folder / MARKER).read_text())
    assert made["seed"] == 1
    assert {"flowloom", "commit", "engine", "command", "date", "wall_s"} <= made.keys()
    assert set(made["machine"]) == {"system", "architecture", "cores"}
    assert tomllib.loads((folder / "scenario.toml").read_text())["run"]["seed"] == 1


def test_an_earlier_result_is_replaced_and_anything_else_refused(result, tmp_path):
    target = tmp_path / "r"
    result.save(target)
    result.save(target, csv=True)
    assert (target / "flows.csv").exists()
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter1.tex").write_text("precious")
    with pytest.raises(ScenarioError, match="holds something else"):
        result.save(other)
    assert [p.name for p in other.iterdir()] == ["chapter1.tex"]
    with pytest.raises(ScenarioError, match="it is not a directory"):
        result.save(other / "chapter1.tex")


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_cannot_be_written_whole_leaves_no_trace(result, tmp_path, monkeypatch, failure):
    result.save(tmp_path / "r")
    before = sorted((p.name, p.stat().st_mtime_ns) for p in (tmp_path / "r").iterdir())

    def full(*_: object) -> None:
        raise failure

    monkeypatch.setattr(storage, "write_json", full)
    for name in ("r", "new"):
        with pytest.raises(type(failure)):
            result.save(tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ["r"]
    assert sorted((p.name, p.stat().st_mtime_ns) for p in (tmp_path / "r").iterdir()) == before


def test_half_a_directory_is_no_result(result, tmp_path):
    folder = result.save(tmp_path / "r")
    (folder / MARKER).unlink()
    with pytest.raises(ScenarioError, match="not a results directory: it has no provenance"):
        flowloom.load(folder)
    (folder / MARKER).write_text("{")
    with pytest.raises(ScenarioError, match="damaged"):
        flowloom.load(folder)


def test_a_result_without_flows_says_so(result, tmp_path):
    folder = result.save(tmp_path / "r", flows=False)
    with pytest.raises(ScenarioError, match="without its flows"):
        _ = flowloom.load(folder).flows


@pytest.mark.parametrize(
    ("number", "what"),
    [(None, "a format without a number, by an older"), (0, "format 0, by an older"), (7, "format 7, by a newer")],
)
def test_a_result_of_another_version_is_named(result, tmp_path, number, what):
    folder = result.save(tmp_path / "r")
    marker = folder / MARKER
    provenance = json.loads(marker.read_text())
    assert provenance["format"] == integrity.FORMAT
    marker.write_text(json.dumps({key: value for key, value in (provenance | {"format": number}).items() if value is not None}))
    with pytest.raises(ScenarioError, match=what) as error:
        flowloom.load(folder)
    assert str(marker) in str(error.value) and "run it again with `" in str(error.value)
