"""Names from files contain control sequences, and none of them reaches a terminal."""

from __future__ import annotations

import io
import json
import sys
import tomllib

import pytest
from typer.testing import CliRunner

from conftest import SMALL
from flowloom import progress
from flowloom.cli import app, common, terminal
from test_streams import shell

# Clears the screen, writes a title, reorders text, and begins a control sequence with the one character that can.
EVIL = "\x1b[2J\x1b]0;title\x07\u202e\x9b31m"
ESCAPED = r"\x1b[2J\x1b]0;title\x07\u202e\x9b31m"
TOML = r"\u001b[2J\u001b]0;title\u0007\u202e\u009b31m"

NETWORK = f"""\
[[node]]
kind = "switch"
name = "s{TOML}"
level = 1
tier = "t{TOML}"
"""
for host in range(4):
    NETWORK += f"""\
[[node]]
kind = "host"
name = "h{host}{TOML}"
[[link]]
a = "h{host}{TOML}"
b = "s{TOML}"
rate = "10Gb/s"
delay = "200ns"
"""


def check(text: str) -> None:
    bad = {c for c in text if not c.isprintable() and c not in "\n\t"}
    assert not bad, (bad, text)


@pytest.fixture
def hostile(tmp_path):
    """A scenario in a file with such a name, on a network whose nodes have such names, which loses packets."""
    (tmp_path / "net.toml").write_text(NETWORK)
    _, _, rest = SMALL.partition("[workload]")
    path = tmp_path / f"s{EVIL.replace('/', '')}.toml"
    fault = '[[fault]]\nkind = "loss"\nwhere = "all"\nprobability = 0.05\n'
    path.write_text(f'[topology]\nkind = "custom"\nfile = "net.toml"\n{fault}[workload]{rest}')
    return path


def test_no_command_prints_control_characters(hostile, tmp_path):
    out = tmp_path / f"o{EVIL}"
    pfc = ["--set", "fabric.pfc={ storm_share = 0.0 }", "--set", "transport.name=dctcp"]
    for words in (
        ["run", hostile, "--out", out], ["run", hostile, "--json"], ["run", hostile, *pfc], ["show", hostile],
        ["run", hostile, "--set", "run.stall_limit=1us"], ["run", hostile, "--set", "topology.hosts=3"], ["explain", out],
        ["run", hostile, "--set", f"workload.{EVIL}=1"], ["run", f"{EVIL}.toml"], [EVIL], ["run", hostile, f"--{EVIL}"],
        ["sweep", hostile, "--vary", f"transport.name=phost,{EVIL}"],
    ):  # fmt: skip
        done = shell("", *words)
        assert done.stdout or done.stderr
        check(done.stdout)
        check(done.stderr)
        assert "Traceback" not in done.stderr


def test_progress_and_tables_show_escapes(hostile, capsys):
    with progress.Plain(every_s=0) as plain:
        plain.begin(2, kept=0)
        plain.progress("a", f"run {EVIL}", 0.5, 0.001, 1000)
        plain.failed("a", f"run {EVIL}")
        plain.warn(f"no marks: {EVIL}")
    common.print_table(["name", "value"], [[f"{EVIL}", "1"], ["plain", "2"]], right=(1,), title=EVIL)
    said = capsys.readouterr()
    for text in said:
        check(text)
        assert ESCAPED in text
    # The columns are as wide as the escapes.
    lines = said.out.splitlines()
    assert len({len(line) for line in lines[1:5]}) == 1


def test_bars_show_names_as_they_are(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.Bars() as bars:
        bars.begin(1, kept=0)
        bars.progress("a", f"[red]{EVIL}", 0.5, 0.001, 1000)
        (task,) = bars._bars.tasks
        check(str(task.description))
        assert task.description == r"\[red]" + ESCAPED
        bars.warn(EVIL)
    assert EVIL not in sys.stderr.getvalue()


def test_json_keeps_the_meaning_of_what_it_escapes(capsys):
    value = {EVIL: [EVIL, "\U000e0001\x7f", "µ"]}
    common.print_json(value)
    printed = capsys.readouterr().out
    check(printed)
    assert json.loads(printed) == value and "µ" in printed


def test_show_prints_toml_that_reads_as_the_scenario(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(SMALL + '[[workload.tenant]]\nname = "a\\u202e\\u001b"\nshare = 1.0\n')
    printed = CliRunner().invoke(app, ["show", str(path)]).stdout
    check(printed)
    assert tomllib.loads(printed)["workload"]["tenant"][0]["name"] == "a\u202e\x1b"


def test_the_streams_let_the_bars_through_and_nothing_else():
    raw = io.BytesIO()
    stream = terminal._Guarded(io.BufferedWriter(raw), encoding="utf-8", write_through=True)  # type: ignore[arg-type]
    print(f"µ{EVIL}", file=stream, flush=True)
    stream.bare.write("\x1b[2K")
    stream.bare.flush()
    assert raw.getvalue().decode() == f"µ{ESCAPED}\n\x1b[2K"
