from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowloom
from conftest import SMALL
from flowloom import Scenario, ScenarioError, toml
from flowloom.engine import execute
from test_cli import call

KEYS = st.text(min_size=1, max_size=8)
PLAIN = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_what_is_written_as_toml_reads_back(table):
    assert tomllib.loads(toml.document(table)) == table


@given(VALUES)
def test_a_value_on_one_line_reads_back(value):
    text = toml.value(value)
    assert "\n" not in text
    assert tomllib.loads(f"v = {text}")["v"] == value


def test_numpy_scalars_are_numbers_and_none_is_refused():
    assert toml.value(np.float64(0.5)) == "0.5"
    assert toml.value(np.int32(3)) == "3"
    with pytest.raises(TypeError, match="None"):
        toml.value({"a": None})


def test_path_dict_and_text_are_the_same_scenario(scenario):
    as_path, as_text, as_dict = (Scenario.of(s) for s in (scenario, SMALL, tomllib.loads(SMALL)))
    assert as_path.resolve() == as_text.resolve() == as_dict.resolve()
    assert as_path.key() == as_text.key() == as_dict.key()


def test_overrides_with_dots_or_underscores_and_the_last_one_wins(scenario):
    base = Scenario.of(scenario)
    resolved = tomllib.loads(base.set({"workload.load": 0.2, "workload__flows": 7}).set({"workload.load": 0.4}).resolve())
    assert (resolved["workload"]["load"], resolved["workload"]["flows"]) == (0.4, 7)


def test_a_dict_replaces_the_table_it_names(scenario):
    incast = {"kind": "incast", "senders": 3, "bytes": "30kB", "requests": 4, "period": "1ms"}
    resolved = tomllib.loads(Scenario.of(scenario).set({"workload": incast}).resolve())
    assert resolved["workload"] == incast | {"receivers": "random", "flows_per_sender": 1}  # the defaults


def test_the_key_tells_what_a_result_depends_on(scenario):
    base = Scenario.of(scenario)
    assert base.set({"run.seed": 1}).key() == base.key()  # the default is 1
    keys = {base.key(), base.set({"run.seed": 2}).key(), base.set({"transport.name": "pfabric"}).key()}
    assert len(keys) == 3


def test_the_key_does_not_depend_on_transports_that_do_not_run(scenario):
    base = Scenario.of(scenario).set({"transport.name": "dctcp"})
    assert base.set({"transport.pase.cut": "per_mark", "transport.pias.thresholds": ["1kB"]}).key() == base.key()
    assert base.set({"transport.dctcp.initial_window": 3}).key() != base.key()


def test_the_key_follows_the_content_of_a_named_file(scenario, tmp_path):
    table = tmp_path / "sizes.csv"
    traced = Scenario.of(scenario).set({"workload.sizes": {"cdf": "sizes.csv", "dialect": "bytes_probability"}})
    table.write_text("1000,0\n2000,1\n")
    before = traced.key()
    table.write_text("1000,0\n3000,1\n")
    assert traced.key() != before


TRACED = re.sub(r"(?s)\[workload\].*\[transport\]", '[workload]\nkind = "trace"\nfile = "t.csv"\n\n[transport]', SMALL)
LINE = TRACED.splitlines().index('file = "t.csv"') + 1


@pytest.mark.parametrize(
    "words",
    [
        ["run"], ["sweep", "--vary", "run.seed=1,2"], ["compare", "--transports", "phost,tcp"],
        ["sweep", "--vary", "transport.name=phost,tcp", "--seeds", "2"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("folder", [False, True])
def test_a_file_that_a_scenario_names_and_that_cannot_be_read_is_named_by_its_key(tmp_path, monkeypatch, words, folder):
    monkeypatch.chdir(tmp_path)
    Path("b.toml").write_text(TRACED)
    if folder:
        Path("t.csv").mkdir()
    why = "Is a directory" if folder else "No such file or directory"
    command, *options = words
    assert f'b.toml:{LINE}: workload.file: cannot read "t.csv": {why}' in call(command, "b.toml", *options, code=2).stderr


def test_so_is_one_that_an_option_or_a_network_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("b.toml").write_text(TRACED)
    Path("t.csv").write_text("start_s,src,dst,bytes\n0,0,1,1000\n")
    told = call("sweep", "b.toml", "--vary", "workload.file=t.csv,nofile.csv", code=2).stderr
    assert 'workload.file: cannot read "nofile.csv": No such file' in told
    told = call("compare", "b.toml", "--variant", "x: workload.file=nofile.csv", code=2).stderr
    assert 'variant "x": workload.file: cannot read "nofile.csv": No such file' in told
    Path("n.toml").write_text('[topology]\nkind = "custom"\nfile = "net.toml"\n' + TRACED[TRACED.index("[workload]") :])
    told = call("compare", "n.toml", "--transports", "phost", code=2).stderr
    assert 'n.toml:3: topology.file: cannot read "net.toml": No such file' in told


def test_a_saved_scenario_says_where_it_runs_if_it_names_files(tmp_path, scenario):
    (tmp_path / "b.toml").write_text(TRACED)
    (tmp_path / "t.csv").write_text("start_s,src,dst,bytes\n0,0,1,1000\n")
    key = Scenario.of(tmp_path / "b.toml").key()
    result = flowloom.run(tmp_path / "b.toml", out=tmp_path / "o")
    saved = tmp_path / "o" / "scenario.toml"
    text = saved.read_text()
    assert text.startswith(
        "# The names of these files are relative to the folder of the scenario that was run: t.csv.\n"
        "# To run this again, copy it there, or them here.\n"
    )
    assert result.scenario == flowloom.load(tmp_path / "o").scenario == text
    assert call("run", saved, code=2)
    (tmp_path / "again.toml").write_text(text)
    again = flowloom.run(tmp_path / "again.toml", out=tmp_path / "p")
    assert again.flows == result.flows and result.provenance["key"] == key
    assert (tmp_path / "p" / "scenario.toml").read_text() == text
    # Absolute names are valid anywhere, and other scenarios have no names.
    for where, changes in ((tmp_path / "b.toml", {"workload.file": str(tmp_path / "t.csv")}), (scenario, {})):
        assert not flowloom.run(where, changes).scenario.startswith("#")


def test_a_file_that_is_deleted_during_the_run_costs_no_result(tmp_path):
    (tmp_path / "b.toml").write_text(TRACED)
    (tmp_path / "t.csv").write_text("start_s,src,dst,bytes\n0,0,1,1000\n")
    plan = Scenario.of(tmp_path / "b.toml").plan()
    (tmp_path / "t.csv").unlink()
    result = execute(plan)
    assert "key" not in result.provenance
    assert result.summary["finished"] == 1


@pytest.mark.parametrize("name", ["nowhere.toml", "."])
def test_an_unreadable_scenario_is_bad_input(name):
    with pytest.raises(ScenarioError, match="cannot read the scenario"):
        Scenario.of(name)


def test_binary_is_no_scenario(tmp_path):
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        Scenario.of(tmp_path / "x.toml")


def test_a_wrong_key_is_named_with_its_line(scenario):
    scenario.write_text(SMALL.replace("load = 0.5", "laod = 0.5"))
    with pytest.raises(ScenarioError, match=r'small\.toml:10: .*laod(.|\n)*"load"'):
        Scenario.of(scenario).resolve()
