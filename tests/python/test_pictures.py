"""Pictures from the command line: of runs, sweeps and comparisons, and again from what was saved, without a simulation."""

from __future__ import annotations

import json
import shutil

import pytest

import flowloom
from conftest import SMALL
from flowloom import ScenarioError, _native
from test_cli import call
from test_comparisons import SHALLOW, written

QUICK = ("--set", "workload.flows=40", "--jobs", 1)


@pytest.fixture
def unsimulated(monkeypatch):
    """Fail if anything is simulated from now on."""

    def forbid():
        def plan(*_):
            raise AssertionError("something is to be simulated")

        monkeypatch.setattr(_native, "plan", plan)

    return forbid


def pictures(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".png", ".svg")}


@pytest.mark.parametrize("flows", [12, 60])
def test_a_run_is_drawn_and_drawn_again(scenario, tmp_path, unsimulated, flows):
    out = tmp_path / "elsewhere"
    words = ["run", scenario, "--set", f"workload.flows={flows}", "--plot", "--out", out]
    assert f"picture: {out / 'flows.png'}" in call(*words).stdout
    first = pictures(out)
    assert set(first) == {"flows.png", "flows.svg"} and len(first["flows.png"]) > 10_000
    # The pictures belong to the result: it may be repeated, and is read as before.
    call(*words)
    assert flowloom.load(out).summary["flows"] == flows
    (out / "flows.svg").unlink()
    unsimulated()
    assert f"picture: {out / 'flows.png'}" in call("plot", out).stdout
    assert pictures(out) == first
    assert set(json.loads((out / "provenance.json").read_text())["files"]) >= {"flows.png", "flows.svg", "flows.parquet"}


def test_without_a_directory_a_picture_goes_to_results(scenario, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = call("run", scenario, "--set", "workload.flows=5", "--plot").stdout
    assert "picture: results/small/flows.png" in said and "saved in results/small" in said
    assert (tmp_path / "results/small/flows.png").exists()
    assert "give another directory, or --force" in call("run", scenario, "--set", "workload.flows=6", "--plot", code=2).stderr
    json.loads(call("run", scenario, "--set", "workload.flows=5", "--plot", "--json").stdout)


def test_a_comparison_is_drawn_again_with_all_that_was_beside_it(scenario, tmp_path, unsimulated):
    (tmp_path / "f.csv").write_text("bytes,slowdown\n" + "".join(f"{100 * n},{1 + n / 50}\n" for n in range(1, 60)))
    (tmp_path / "p.csv").write_text("x,y\n1kB,1.5\n100kB,2\n")
    out = tmp_path / "c"
    words = ["compare", scenario, *QUICK, "--transports", "phost", "--variant", f"shallow: {written(SHALLOW)}", "--out", out]
    call(*words, "--with", f"{tmp_path / 'f.csv'}:tool", "--with", f"{tmp_path / 'p.csv'}:paper")
    first = pictures(out)
    assert set(first) == {"compare.png", "compare.svg"}
    for name in ("f.csv", "p.csv"):
        (tmp_path / name).unlink()
    unsimulated()
    call("plot", out)
    assert pictures(out) == first
    loaded = flowloom.load_comparison(out)
    assert [(other.label, other.points is None) for other in loaded.beside] == [("tool", True), ("paper", False)]
    assert [variant.title for variant in loaded.variants] == ["pHost", "shallow"]
    (tmp_path / "q.csv").write_text("x,y\n1kB,1.5\n")
    call("plot", out, "--with", f"{tmp_path / 'q.csv'}:more")
    assert pictures(out) != first
    assert 'the label "tool" is given twice' in call("plot", out, "--with", f"{tmp_path / 'q.csv'}:tool", code=2).stderr


def test_a_comparison_over_a_key_and_a_sweep_are_drawn_again(scenario, tmp_path, unsimulated):
    over = ["--over", "workload.load=0.2,0.4", "--metrics", "slowdown.mean,drops.rate"]
    call("compare", scenario, *QUICK, "--transports", "phost,ideal", *over, "--seeds", 2, "--out", tmp_path / "c")
    vary = ["--vary", "workload.load=0.2,0.4,0.6", "--vary", "transport.name=phost,ideal", "--metrics", "slowdown.p50"]
    said = call("sweep", scenario, *QUICK, *vary, "--out", tmp_path / "s").stdout
    assert f"picture: {tmp_path / 's/sweep.png'}" in said
    assert "Median slowdown" in said and "Mean slowdown" not in said
    first = pictures(tmp_path / "c"), pictures(tmp_path / "s")
    assert set(first[0]) == {f"{name}.{end}" for name in ("compare-0.2", "compare-0.4", "tournament") for end in ("png", "svg")}
    assert set(first[1]) == {"sweep.png", "sweep.svg"}
    unsimulated()
    for name in ("c", "s"):
        call("plot", tmp_path / name)
    assert (pictures(tmp_path / "c"), pictures(tmp_path / "s")) == first
    # Another metric needs no other runs.
    to = tmp_path / "elsewhere/x.svg"
    assert f"picture: {to}" in call("plot", tmp_path / "s", "--metrics", "slowdown.p99", "--to", to).stdout
    assert [path.name for path in to.parent.iterdir()] == ["x.svg"]
    assert pictures(tmp_path / "s") == first[1]
    series = call("plot", tmp_path / "s", "--series", "pending").stdout
    assert f"picture: {tmp_path / 's/series-pending.png'}" in series
    assert "series-pending-0.2.png" in call("plot", tmp_path / "c", "--series", "pending").stdout


def test_pictures_can_be_left_out(scenario, tmp_path):
    for words in (["compare", "--transports", "phost"], ["sweep", "--vary", "workload.load=0.2,0.4"]):
        out = tmp_path / words[0]
        assert "picture:" not in call(words[0], scenario, *QUICK, *words[1:], "--out", out, "--no-plot").stdout
        assert not pictures(out)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nowhere"], "nowhere is not a results directory: it does not exist"),
        (["R", "--series", "queues"], 'there is no series "queues"'),
        (["R", "--metrics", "slowdown.mean"], "--metrics selects what is drawn over the values of a key, but there is none"),
        (["R", "--with", "x.csv:x"], "--with lays another tool's results beside a comparison, but this is none"),
        (["R", "--to", "x.pdf"], "give a .png or a .svg file"),
        (["S", "--metrics", "slowdwn.mean"], 'did you mean "slowdown"?'),
        (["S/runs"], "not a results directory"),
        (["F"], "holds a figure, which the command that made it draws again: flowloom paper run"),
        (["C", "--to", "x.png"], "--to is for one picture, but there are 3"),
        (["C", "--with", "x.csv:tool", "--with", "y.csv:tool"], '--with: the label "tool" is given twice'),
    ],
)
def test_what_cannot_be_drawn_is_told(made, words, complaint):
    words = [str(made / word) if word.split("/")[0] in "RSFC" else word for word in words]
    assert complaint in call("plot", *words, code=2).stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, a sweep, a comparison over a key, and a figure's directory."""
    folder = tmp_path_factory.mktemp("made")
    scenario = SMALL.replace("flows = 200", "flows = 20")
    flowloom.run(scenario, out=folder / "R")
    flowloom.sweep(scenario, {"workload.load": [0.2, 0.4]}, out=folder / "S", workers=1)
    flowloom.compare(scenario, ["phost"], over={"workload.load": [0.2, 0.4]}, out=folder / "C", workers=1)
    (folder / "F").mkdir()
    (folder / "F/claims.json").write_text("{}")
    return folder


def test_what_was_saved_is_loaded_as_it_was(made, tmp_path):
    scenario = SMALL.replace("flows = 200", "flows = 20")
    axes = {
        "topology.host_rate": ["10Gb/s", "40Gb/s"],
        "workload.sizes": ["imc10", {"fixed": "2kB"}],
        "transport.name": ["phost"],
    }
    sweep = flowloom.sweep(scenario, axes, seeds=2, out=tmp_path / "s", workers=1, metrics=["slowdown.p50"])
    loaded = flowloom.load_sweep(tmp_path / "s")
    assert [(run.point, run.seed, run.key, run.label) for run in loaded] == [
        (run.point, run.seed, run.key, run.label) for run in sweep
    ]
    assert loaded.metrics == ("slowdown.p50",)
    assert loaded.table().equals(sweep.table())
    with pytest.raises(ScenarioError, match="holds a comparison; flowloom"):
        flowloom.load_sweep(made / "C")
    with pytest.raises(ScenarioError, match="holds a sweep; flowloom"):
        flowloom.load_comparison(made / "S")
    compared = flowloom.load_comparison(made / "C")
    assert list(compared.rounds()) == ["0.2", "0.4"]
    assert [run["over"] for run in compared.as_json()] == [{"workload.load": 0.2}, {"workload.load": 0.4}]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("sweep.toml", "axes = 3\n", "sweep.toml is damaged: it has no table axes with lists of values"),
        ("sweep.toml", "axes = ", "sweep.toml is damaged: it is not TOML"),
        ("sweep.toml", '[axes]\n"workload.load" = [0.7]\n', "sweep.parquet is damaged: a row does not belong to the sweep"),
        ("sweep.parquet", "PAR1", "sweep.parquet is damaged"),
        ("sweep.parquet", None, "an unfinished sweep; repeat the same command to finish it"),
        ("runs", None, "is not a results directory: it does not exist"),
    ],
)
def test_a_damaged_sweep_is_named(made, tmp_path, name, text, complaint):
    shutil.copytree(made / "S", tmp_path / "s")
    path = tmp_path / "s" / name
    if text is not None:
        path.write_text(text)
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    assert complaint in call("plot", tmp_path / "s", code=2).stderr
    with pytest.raises(ScenarioError, match=r"sweep\.toml is damaged: its variants"):
        shutil.copytree(made / "C", tmp_path / "c")
        marker = tmp_path / "c/sweep.toml"
        marker.write_text(marker.read_text().replace('label = "phost"', 'label = "other"'))
        flowloom.load_comparison(tmp_path / "c")


def test_numbers_and_texts_of_one_key_are_texts_in_the_table(fake, tmp_path):
    from test_comparisons import Inline

    sweep = flowloom.sweep('[workload]\nkind = "poisson"\n', {"workload.x": [1, "2kB"]}, executor=Inline(), out=tmp_path / "s")
    assert sweep.table(["slowdown.mean"])["workload.x"].to_pylist() == ["1", "2kB"]
    assert [run.point for run in flowloom.load_sweep(tmp_path / "s")] == [{"workload.x": 1}, {"workload.x": "2kB"}]
