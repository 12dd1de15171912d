"""The command line with streams that are closed or full, disks that are full, too little memory, and files that are none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import flowloom
from conftest import HANG_S
from flowloom.cli import app
from flowloom.words import printable

FULL = "error: cannot write to standard output: No space left on device\n"
CLOSED = "error: cannot write to standard output: Bad file descriptor\n"
SWEEP = ["--vary", "workload.load=0.2,0.3", "--jobs", "1"]
COMPARE = ["--transports", "phost,ideal", "--jobs", "1"]


def shell(redirection: str, *words: object, limit: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line from a shell that redirects a stream, or with a limit in kB: `-f` of files, `-v` of memory."""
    script = f'{limit and f"ulimit {limit}; "}exec "$@" {redirection}'
    command = ["bash", "-c", script, "bash", sys.executable, "-m", "flowloom", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False, stdin=subprocess.DEVNULL)


def told(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a command wrote to stderr, without the progress of a run that takes some seconds on a busy machine."""
    lines = done.stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not re.search(r"packet-hops/s, .* left$|no packet is on its way yet$", line))


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize(
    ("words", "saved"),
    [(["run"], "summary.json"), (["sweep", *SWEEP], "sweep.csv"), (["compare", *COMPARE], "compare.png")],
    ids=["run", "sweep", "compare"],
)
def test_runs_need_no_stderr(scenario, tmp_path, words, saved, redirection):
    command, *options = words
    done = shell(redirection, command, scenario, *options, "--out", tmp_path / "o", "--set", "workload.flows=20")
    assert done.returncode == 0
    assert "Mean slowdown" in done.stdout
    assert (tmp_path / "o" / saved).exists()


def test_a_closed_stdout_is_an_error_after_the_result_was_saved(scenario, tmp_path):
    done = shell(">&-", "run", scenario, "--out", tmp_path / "o")
    assert (done.returncode, told(done)) == (1, CLOSED)
    assert (tmp_path / "o" / "summary.json").exists()
    # A file that is opened later must not get the number of a closed stream, and so what is meant for the stream.
    for redirection in (">&- 2>&-", ">&- 2>&- <&-"):
        assert shell(redirection, "run", scenario, "--out", tmp_path / "p", "--force").returncode == 1
        assert flowloom.load(tmp_path / "p", whole=True).summary["flows"] == 200


@pytest.mark.parametrize(
    "words",
    [
        "-h", "--version", "run -h", "paper -h", "run S", "run S --json", "list transports", "show S", "explain slowdown",
        "doctor", "paper list", "claims --json", "thresholds --published", "--show-completion bash",
    ],
)  # fmt: skip
def test_a_full_stdout_is_one_line_on_stderr(scenario, papers, words):
    done = shell(">/dev/full", *(scenario if word == "S" else word for word in words.split()))
    assert (done.returncode, told(done)) == (1, FULL)


def test_a_reader_that_leaves_ends_the_command_without_a_word(scenario):
    done = shell("| head -n 1", "list")
    assert (done.stdout, done.stderr) == ("transports\n", "")


@pytest.mark.parametrize(
    ("words", "limit_kb", "named"),
    [
        (["run", "S", "--csv", "--out", "o"], 1, "o/summary.json"),
        (["run", "S", "--csv", "--out", "o"], 8, "o/flows.parquet"),
        (["sweep", "S", *SWEEP, "--out", "o"], 1, r"o/runs/\w+/summary.json"),
        (["compare", "S", *COMPARE, "--out", "o"], 40, "o/compare.png"),
        (["thresholds", "--sizes", "web_search", "--load", "0.8", "--no-check", "--out", "o"], 1, "o/thresholds.json"),
        (["show", "web_search", "--plot", "o.png"], 8, "o.png"),
        (["import", "log.csv", "--out", "o"], 1, "o/sizes.csv"),
    ],
)
def test_a_full_disk_names_file_and_folder(scenario, tmp_path, monkeypatch, words, limit_kb, named):
    # A limit on the size of files makes the system refuse to write, as a full disk does.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "mpl"))
    (tmp_path / "log.csv").write_text("id,bytes\n" + "".join(f"{n},{100 * n}\n" for n in range(1, 500)))
    done = shell("", *(scenario if word == "S" else word for word in words), limit=f"-f {limit_kb}")
    wanted = rf"error: cannot read or write {named}: File too large. No incomplete file was left behind."
    assert done.returncode == 1
    assert re.fullmatch(wanted, done.stderr.splitlines()[-1])
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith((".partial", ".flowloom-"))]


@pytest.mark.parametrize("words", [["run"], ["sweep", *SWEEP], ["compare", *COMPARE]], ids=["run", "sweep", "compare"])
def test_flows_that_need_more_memory_than_there_is(scenario, words):
    command, *options = words
    done = shell("", command, scenario, *options, "--set", "workload.flows=100000000", limit="-v 6000000")
    assert done.returncode == 2
    wanted = r"workload: 100,000,000 flows need at least \d+\.\d GB, and [1-6]\.\d GB are available; take fewer flows"
    assert re.search(wanted, done.stderr)


@pytest.mark.parametrize(
    "words",
    [
        "run P", "doctor P", "show P", "compare P --transports phost", "sweep P --vary workload.load=0.2",
        "import P --out o", "import P --as flows --out o", "import L P --out o",
        "thresholds --flows P --load 0.5", "thresholds --sizes P --load 0.5",
    ],
)  # fmt: skip
def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("id,bytes\n1,100\n")
    os.mkfifo(pipe := "pipe.parquet" if "flows" in words else "pipe.toml")
    done = CliRunner().invoke(app, [{"P": pipe, "L": "log.csv"}.get(word, word) for word in words.split()])
    assert done.exit_code == 2
    assert f"{pipe}: it is not a regular file" in done.stderr


@pytest.mark.parametrize(
    "words",
    ["run P", "doctor P", "show P", "compare P --transports phost,tcp --jobs 1", "sweep P --vary workload.repeat=1,2 --jobs 1"],
)
@pytest.mark.parametrize("make", [os.mkfifo, lambda name: Path(name).symlink_to("/dev/full")], ids=["pipe", "device"])
def test_a_scenario_that_names_a_pipe_or_a_device_is_refused(tmp_path, monkeypatch, words, make):
    """Who reads it to its end waits for ever, or fills the memory."""
    monkeypatch.chdir(tmp_path)
    make("flows.csv")
    workload = '[workload]\nkind = "trace"\nfile = "flows.csv"'
    Path("pipe.toml").write_text(f'[topology]\nkind = "single_switch"\n{workload}\n[transport]\nname = "phost"\n')
    done = CliRunner().invoke(app, ["pipe.toml" if word == "P" else word for word in words.split()])
    assert done.exit_code == 2
    assert re.search(r'pipe\.toml:5: workload\.file: cannot read "flows\.csv": it is not a regular file', done.stderr)


@pytest.mark.parametrize("redirection", ['/dev/stdin < "$S"', '/dev/stdin < <(cat "$S")', '<(cat "$S")'])
def test_a_scenario_may_come_from_standard_input_or_a_command(scenario, redirection):
    command = f"{sys.executable} -m flowloom run --set workload.flows=20 {redirection}"
    environment = os.environ | {"S": str(scenario)}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert "20 of 20 flows finished" in done.stdout, done.stderr


def test_a_result_with_a_pipe_in_it_is_damaged(scenario, tmp_path):
    CliRunner().invoke(app, ["run", str(scenario), "--out", str(tmp_path / "o")])
    for name in ("summary.json", "scenario.toml"):
        (tmp_path / "o" / name).rename(tmp_path / name)
        os.mkfifo(tmp_path / "o" / name)
        with pytest.raises(flowloom.ScenarioError, match=f"{name} is damaged: it is not a regular file"):
            flowloom.load(tmp_path / "o")
        Path(tmp_path / name).replace(tmp_path / "o" / name)


def test_characters_that_a_terminal_would_obey_are_escaped():
    assert printable("a\x1b[2Jb\x07\x9b1m\x7f\u202ec\u2066\udcff\r") == r"a\x1b[2Jb\x07\x9b1m\x7f\u202ec\u2066\udcff\r"
    assert printable("µ ± ≤ …\n\tx") == "µ ± ≤ …\n\tx"
