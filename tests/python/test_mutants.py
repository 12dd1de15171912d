"""Mutants of every figure file, and of ledgers. None ends in a traceback, and what is wrong is an error that names the file.

`FLOWLOOM_MUTANTS` is the number of mutants of each kind, 150 by default.
With `FLOWLOOM_MUTANT_SECONDS`, each kind is tried for that long.
`FLOWLOOM_MUTANT_SEED` repeats a failure. A mutant that fails is kept in the folder `FLOWLOOM_FINDINGS`, if it is given.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import shutil
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import mutants
from conftest import FIGURE, SMALL
from flowloom import ScenarioError, toml
from flowloom.claims import ledger
from flowloom.cli import app
from flowloom.figures import reader
from flowloom.figures.grid import TRIAL_SEED, Grid, PlannedRun, choose, expressions, settings
from flowloom.jobs import Job
from flowloom.plots.figure import draw
from flowloom.results import Results
from flowloom.summary import ANY, NUMBER, SHAPE

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = int(os.environ.get("FLOWLOOM_MUTANTS", "150"))
SECONDS = float(os.environ.get("FLOWLOOM_MUTANT_SECONDS", "0"))
SEED = int(os.environ.get("FLOWLOOM_MUTANT_SEED", "26"))
MESSAGE_MAX = 1500
FLOWS = ("bytes", "start", "finish", "optimum", "slowdown", "deadline", "tenant")
RUNS_MAX = 600
"""The maximum number of runs of a mutant whose runs are made up."""


def numbers(count: int = MUTANTS) -> Iterator[int]:
    """Number the mutants of a kind."""
    end = time.monotonic() + SECONDS
    for number in itertools.count():
        if time.monotonic() > end if SECONDS else number >= count:
            return
        yield number


@contextmanager
def told(number: int, name: str, what: str, text: str) -> Iterator[None]:
    """Say how a failure is repeated, and keep the mutant `text` of the file `name`."""
    try:
        yield
    except Exception as error:
        error.add_note(f"FLOWLOOM_MUTANT_SEED={SEED} FLOWLOOM_MUTANTS={number + 1}: {name}: {what}")
        if folder := os.environ.get("FLOWLOOM_FINDINGS"):
            kept = Path(folder, f"figures-{SEED}-{number}-{Path(name).name}")
            kept.write_text(text)
            error.add_note(f"kept as {kept}")
        raise


def check_shares(ends: Counter[str], good: str) -> None:
    """Check that mutants are neither all wrong nor all right, if there are enough to tell."""
    if ends.total() >= 100:
        assert ends["error"] > ends.total() / 4
        assert ends[good] > ends.total() / 20


def check_message(text: str, name: str) -> None:
    assert name in text, text
    assert len(text) < MESSAGE_MAX, text
    assert all(c.isprintable() or c == "\n" for c in text), repr(text)
    assert not re.search(r"Traceback|NoneType|pydantic|value_error|\bdict\b|float64", text), text


class MadeUp(Results):
    """Results of made-up numbers, of which no warning is true."""

    warnings = ()


def made_up(shape, draw: random.Random):
    """Make a summary of random numbers: the numbers of a simulation, or those of a tool."""
    if isinstance(shape, list):
        return [made_up(shape[0], draw) for _ in range(4)]
    if isinstance(shape, dict):
        hops = ("host-leaf", "leaf-spine", "spine-leaf", "leaf-host", "host-switch", "switch-host", "0", "1", "2", "tor", "agg")
        return {key: made_up(part, draw) for name, part in shape.items() for key in (hops if name == ANY else (name,))}
    return draw.choice([draw.random() * 1000, draw.random(), 0, None]) if shape == NUMBER else "text"


def finish(figure, scale: str, draw_it: bool, folder: Path, random_: random.Random) -> None:
    """Do what follows the runs of a figure, with made-up results: choose parameters, judge claims, write data, draw."""
    from flowloom.figures.tools import TOOLS

    shape = dict.fromkeys(TOOLS[figure.tool].metrics, NUMBER) if figure.tool else SHAPE
    series = {"pending": pa.table({"arrived_share": [0.0, 0.4, 0.9], "pending_share": [0.1, 0.2, random_.random()]})}
    flows = pa.table({name: [1.0, 2.0, 3.0] for name in FLOWS})
    made: dict[str, Results] = {}

    def planned(found, seeds):
        runs = []
        for at in found:
            for seed in seeds:
                key = str(len(made))
                made[key] = MadeUp(made_up(shape, random_), "", {}, _flows=flows, _series=series)
                runs.append(PlannedRun(at.point, seed, at.tuning, at.minimise, Job("", None, key)))
        return runs

    tried = planned([s for s in settings(figure, scale) if s.trial], [TRIAL_SEED])
    chosen = choose(figure, tried, made)
    runs = planned([s for s in settings(figure, scale, chosen=chosen) if not s.trial], [1, 2])
    grid = Grid(figure, runs, made, tried)
    for claim in figure.claims:
        try:
            ledger.content(ledger.evaluate(claim, grid))
        except ScenarioError as error:
            check_message(str(error), "metric `")  # a hop or a tenant that this run does not have
    try:
        pa.Table.from_pylist(grid.rows(expressions(figure)))
        if draw_it and figure.panels:
            draw(grid, folder / "drawn", "made up")
    except ScenarioError as error:
        check_message(str(error), "metric `")


def test_mutants_of_figure_files(tmp_path):
    papers = tmp_path / "papers"
    shutil.copytree(ROOT / "papers", papers)
    paths = [path for path in sorted(papers.glob("*/*.toml")) if "axis" in tomllib.loads(path.read_text())]
    assert len(paths) > 60
    ends: Counter[str] = Counter()
    for number in numbers():
        draw_ = random.Random(f"{SEED} {number}")
        path = draw_.choice(paths)
        good = path.read_text()
        table, what = mutants.mutant(tomllib.loads(good), draw_)
        text = toml.document(table)
        path.write_text(text)
        with told(number, f"{path.parent.name}/{path.name}", what, text):
            try:
                ends[one(path, draw_, tmp_path)] += 1
            except ScenarioError as error:
                check_message(str(error), path.name)
                ends["error"] += 1
            finally:
                path.write_text(good)
    print(f"{ends.total()} mutants of figure files, seed {SEED}: {dict(ends)}")
    check_shares(ends, "finished")


def one(path: Path, draw_: random.Random, folder: Path) -> str:
    figure = reader.read(path)
    scale = draw_.choice(sorted(figure.scales))
    points = sum(1 for _ in settings(figure, scale))
    if points > RUNS_MAX:
        return "valid"
    finish(figure, scale, draw_it=points < 40 and draw_.random() < 0.2, folder=folder, random_=draw_)
    return "finished"


@pytest.fixture
def with_ledger(papers):
    """The folder of the small paper, with a ledger that has every key."""
    check = {"paper": "p", "verdict": "holds", "measured": "1", "band": "≤ 2", "value": 1.0, "interval": [0.9, 1.1]}
    more = check | {"verdict": "differs", "where": "load 0.3", "readings": {"core": {"verdict": "holds", "measured": "1"}}}
    about = {"seeds": 2, "runs": 12, "seconds": 2.0, "commit": "abc", "clean": True, "date": "2026-01-01"}
    run = {"verdict": "differs", "checks": [check, more | {"given": "g"}, check | {"beside": "b"}], **about}
    digests = {"inputs": "i", "behaviour": "b"}
    content = {f"tiny/{n}": {"fig1": {"quick": run | digests, "full": run | {"commit": None}}} for n in (1, 2)}
    (papers / "claims.json").write_text(json.dumps(content))
    (papers / "causes.toml").write_text('["tiny/1"]\ncause = "c"\nexperiment = "e"\ncommand = "flowloom list"\n')
    return papers


def test_mutants_of_ledgers_and_causes(with_ledger, fake):
    ends: Counter[str] = Counter()
    for number in numbers():
        draw_ = random.Random(f"{SEED} {number}")
        name = draw_.choice(["claims.json", "claims.json", "claims.json", "causes.toml"])
        path = with_ledger / name
        good = path.read_text()
        read, write = (json.loads, json.dumps) if name == "claims.json" else (tomllib.loads, toml.document)
        table, what = mutants.mutant(read(good), draw_)
        text = write(table)
        if name == "claims.json" and draw_.random() < 0.2:
            cut = draw_.randrange(len(text))
            text = draw_.choice([text[:cut], text[cut:], json.dumps([table]), '{"a": 1, "a": 2}', "3", "null"])
        path.write_text(text)
        run = ["paper", "run", "tiny", "--scale", "none"]
        command = draw_.choice([["claims"], ["claims", "--json"], ["paper", "list"], run])
        result = CliRunner().invoke(app, command)
        path.write_text(good)
        with told(number, name, f"{what}, flowloom {' '.join(command)}", text):
            check_end(result)
            if name in result.stderr:
                check_message(result.stderr, name)
                assert result.exit_code in (1, 2)
                ends["error"] += 1
            else:
                assert result.exit_code == 0 or command[:2] == ["paper", "run"], result.stderr
                ends["read"] += 1
    print(f"{ends.total()} mutants of ledgers and causes, seed {SEED}: {dict(ends)}")
    check_shares(ends, "read")


def check_end(result) -> None:
    """Check that a command ended with an exit code, not with an exception."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception


def test_mutants_on_the_command_line(papers, fake):
    """Mutants of a small figure go through every command, and their runs are made."""
    path = papers / "fig1.toml"
    (papers / "fig2.toml").write_text(FIGURE.replace("tiny/", "other/"))
    ends: Counter[str] = Counter()
    for number in numbers(max(MUTANTS // 5, 10)):
        draw_ = random.Random(f"{SEED} {number}")
        table, what = mutants.mutant(tomllib.loads(FIGURE), draw_)
        text = toml.document(table)
        (papers / "default.toml").write_text(SMALL.replace("load = 0.5", "load = 0.5  # the fake simulator"))
        path.write_text(text)
        listed = CliRunner().invoke(app, ["paper", "list"])
        shown = CliRunner().invoke(app, ["paper", "show", "tiny/fig1"])
        with told(5 * number + 4, "fig1.toml", what, text):
            assert "tiny/fig2" in listed.stdout, listed.output
            assert listed.exit_code == int("fig1.toml" in listed.stderr), listed.stderr
            check_end(listed)
            check_end(shown)
            if shown.exit_code:
                assert re.search(r"fig1\.toml|no figure", shown.stderr), shown.stderr
        ends["error" if shown.exit_code else "shown"] += 1
    print(f"{ends.total()} mutants on the command line, seed {SEED}: {dict(ends)}")
