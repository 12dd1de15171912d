"""Hundreds of generated inputs, most of them broken. Each ends in an error that names the place, or in a complete result.

There is no traceback, no endless run, and no message of a megabyte. Errors inside a scenario are generated in
`crates/lab/tests/generated_input.rs`. These tests cover the command line, the Python API, and the files that Python reads.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

import flowloom
from conftest import SMALL
from flowloom import importing, metrics
from flowloom.cli import app
from flowloom.sweeps import sweep
from flowloom.words import elided, shown

LONG = "x" * 100_000
MESSAGE_MAX = 3000
TYPES = ("u8", "u16", "u32", "u64", "usize", "i32", "i64", "f64", "NoneType", "Traceback")


def check_message(text: str, where: object) -> None:
    assert text.strip(), where
    assert len(text) < MESSAGE_MAX, (len(text), str(where)[:300], text[:500])
    for name in TYPES:
        assert name not in text, (name, str(where)[:300], text)
    assert all(c.isprintable() or c == "\n" for c in text), (where, text)


class Count(Counter[str]):
    """Counts inputs by their outcome."""

    def command(self, *words: object) -> str:
        """Run a command line, which must exit with 0 or 2."""
        result = CliRunner().invoke(app, [str(word) for word in words])
        where = [str(word)[:200] for word in words]
        assert result.exception is None or isinstance(result.exception, SystemExit), (where, result.exc_info)
        assert result.exit_code in (0, 2), (where, result.exit_code, result.output[:500])
        if result.exit_code:
            check_message(result.stderr, where)
        self["errors" if result.exit_code else "results"] += 1
        return result.stderr

    def call(self, function, *arguments, **named) -> None:
        """Call a Python function, which must raise only ScenarioError."""
        where = (function.__name__, [type(argument).__name__ for argument in arguments], list(named)[:3])
        try:
            function(*arguments, **named)
        except flowloom.ScenarioError as error:
            check_message(str(error), where)
            self["errors"] += 1
        else:
            self["results"] += 1

    def told(self, least: int) -> None:
        print(f"{self.total()} inputs: {dict(self)}")
        assert self.total() >= least, self


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "s.toml"
    path.write_text(SMALL.replace("flows = 200", "flows = 20"))
    return path


def test_command_lines(small):
    count = Count()
    broken = [
        "", " ", ",", "=", "=1", "a", "a=", "workload.load", "workload.load=", "workload.load=,", "nope=1", "workload.load=nan",
        "workload.load=1e999", "workload.load=[[[[", f"workload.load={LONG}", f"{LONG}=1", LONG, "\x00=1", "\udcff=1",
        "workload.load=\x1b[2J", "workload.load=" + "[" * 50_000, "a." * 20_000 + "a=1", "workload.load=\udcff",
    ]  # fmt: skip
    for text in broken:
        count.command("run", small, "--set", text)
        count.command("sweep", small, "--vary", text, "--out", "s")
        count.command("compare", small, "--transports", "phost", "--over", text or "=", "--out", "c")
    for text in ["", ",", "all,nope", "nope", LONG, "phost,,nope", "PHOST", "\udcff", "phost;pfabric"]:
        error = count.command("compare", small, "--transports", text, "--out", "c")
        assert "--transports" in error, (text, error)
    for words in [
        ["--seed", "-1"], ["--seed", "1.5"], ["--seed", LONG], ["--seed", "9" * 30], ["--csv"], ["--nope"], ["--set"],
        ["--out", small],
    ]:  # fmt: skip
        count.command("run", small, *words)
    for words in [
        ["--vary", "workload.load=0.2", "--vary", "workload.load=0.3"], ["--vary", "workload.load=0.2", "--seeds", "0"],
        ["--vary", "workload.load=0.2", "--seeds", 10**9], ["--vary", "run.seed=1,2", "--seeds", 2], [],
        ["--vary", "workload.load=0.2", "--jobs", "0"], ["--vary", "workload.load=0.2", "--jobs", "x"],
        ["--vary", "transport.name=nope"], ["--vary", "workload.flows=-1,0"], ["--vary", "workload.kind=incast"],
    ]:  # fmt: skip
        count.command("sweep", small, *words, "--out", "s")
    count.command("compare", small, "--transports", "phost", "--over", "transport.name=phost")
    for plot in ["x.pdf", "x", "x.PNG", ".png.gz", "x.", LONG]:
        assert "--plot" in count.command("show", "web_search", "--plot", plot)
    assert "--plot" in count.command("show", "phost", "--plot", "x.png")
    for command, word in itertools.product(
        ["run", "show", "explain", "doctor", "list", "claims", "rnu"],
        ["", "nope", LONG, "/dev/zero", ".", "..", "a/b", "nope.toml", "\udcff", "\x1b[2J", "-1", "((", "a" * 300 + ".toml"],
    ):
        if (command, word) not in {("claims", ""), ("list", "")}:
            count.command(command, word)
    count.told(180)
    assert not (small.parent / "s").exists() or not list((small.parent / "s").rglob("flows.parquet"))


def test_scenario_files(small):
    count = Count()
    good = SMALL.encode()
    for text in [
        b"", b"\n", b"\xff\xfe", good[:50], good + b"\xff", SMALL.encode("utf-16"), b"\0" * 1000, bytes(range(256)), b"PAR1",
        b"[" * 100_000, b"a." * 50_000 + b"a = 1", good + b"x = " + b"{a=" * 50_000, good.replace(b"=", b":"),
        good + b'"' + b"y" * 10**6 + b'" = 1', good + b"[nope]", good.replace(b"0.5", b"nan"),
        good.replace(b"200ns", b"200"), good * 2,
    ]:  # fmt: skip
        small.write_bytes(text)
        for command in ("run", "doctor", "show"):
            assert "s.toml" in count.command(command, small), text[:80]
    small.write_bytes(b"\xef\xbb\xbf" + good.replace(b"\n", b"\r\n").replace(b"200\r", b"20\r"))
    count.command("run", small)
    assert count["results"] == 1
    count.told(50)


GOOD_TABLES = {
    "bytes_probability": "bytes,cumulative_probability\n1000,0.5\n2000,1\n",
    "bytes_percent": "1000 50\n2000 100\n",
    "packets_probability": "1,0.5\n2,1\n",
    "ns2_bytes": "1000 1 0.5\n2000 1 1\n",
    "histogram": "bytes,count\n1000,3\n2000,4\n",
    "flows": "id,bytes\n1,1000\n2,2000\n",
}


def broken_tables(good: str):
    lines = good.splitlines()
    yield from [b"", b"\n", b"#", b"\xff" * 100, bytes(range(256)), b"PAR1\x15", good.encode("utf-16"), (good + "\0").encode()]
    yield from [
        (good + LONG * 2).encode(),
        (lines[0] + "\n").encode(),
        ("," * 100_000 + "\n" + good).encode(),
        (good + "9" * 10_000).encode(),
    ]
    for value in ("nan", "inf", "-inf", "1e300", "-1e300", "-1", "x", "", "0x10", "1;5", "\x1b[2J", LONG):
        for column in range(len(lines[-1].replace(",", " ").split())):
            separator = "," if "," in lines[-1] else " "
            cells = lines[-1].split(separator)
            cells[column] = value
            yield "\n".join([*lines[:-1], separator.join(cells), ""]).encode()


@pytest.mark.parametrize("dialect", GOOD_TABLES)
def test_size_tables(tmp_path, dialect):
    count = Count()
    path = tmp_path / "table.csv"
    for text in broken_tables(GOOD_TABLES[dialect]):
        path.write_bytes(text)
        count.call(importing.read, path, dialect)
        with contextlib.suppress(flowloom.ScenarioError):
            # An accepted table is a distribution of finite numbers, which scenarios can read.
            points = importing.read(path, dialect).points
            assert all(0 <= size <= 1e15 and 0 <= share <= 1 for size, share in points), text[:100]
            assert math.isclose(points[-1][1], 1.0), text[:100]
    assert count["errors"] >= 20, count
    # A byte order mark and Windows line ends are accepted.
    path.write_bytes(b"\xef\xbb\xbf" + GOOD_TABLES[dialect].replace("\n", "\r\n").encode())
    marked = importing.read(path, dialect)
    path.write_text(GOOD_TABLES[dialect])
    assert marked == importing.read(path, dialect)
    count.told(25)


def test_a_byte_order_mark_is_no_mistake_in_files_that_scenarios_name(small):
    trace = "start_s,src,dst,bytes\n0,0,1,1000\n"
    (small.parent / "t.csv").write_bytes(b"\xef\xbb\xbf" + trace.encode())
    (small.parent / "t.txt").write_bytes(b"\xef\xbb\xbf" + b"2 1\r\n1 0 1 0 1 1:0.001\r\n")
    (small.parent / "c.csv").write_bytes(b"\xef\xbb\xbf" + GOOD_TABLES["bytes_probability"].encode())
    assert flowloom.run(small, workload={"kind": "trace", "file": "t.csv"}).summary["flows"] == 1
    assert flowloom.run(small, workload={"kind": "coflow_trace", "file": "t.txt"}).summary["flows"] == 1
    assert flowloom.run(small, workload__sizes={"cdf": "c.csv"}).summary["flows"] == 20


def test_traces_of_coflows(small):
    count = Count()
    good = "3 2\n1 0 1 0 1 1:0.001\n2 5 2 0 1 1 2:0.002\n"
    words = good.replace("\n", " \n ").split(" ")
    for place, value in itertools.product(range(len(words)), ["", "nan", "-1", "1e300", "99", "x:y", "\n", "\x1b[2J", LONG]):
        (small.parent / "t.txt").write_text(" ".join([*words[:place], value, *words[place + 1 :]]))
        count.call(flowloom.run, small, {"workload": {"kind": "coflow_trace", "file": "t.txt"}})
    assert count["errors"] >= 100, count
    count.told(150)


def test_python(small):
    count = Count()
    for axes in [
        {"workload.load": []}, {"workload.load": [0.2], "k": []}, {"workload.load": ()}, {"workload.load": "0.5"},
        {"nope": [1]}, {"": [1]}, {LONG: []}, {"workload.load": [0.2, float("nan")]},
    ]:  # fmt: skip
        count.call(sweep, small, axes)
    for seeds in ([], 0, -1, 1.5, "3", True, None, 10**9):
        count.call(sweep, small, {"workload.load": [0.2]}, seeds=seeds)
    for workers in ([], 0, -1, 1.5, "3", True):
        count.call(sweep, small, {"workload.load": [0.2]}, workers=workers)
        count.call(flowloom.compare, small, ["phost"], workers=workers)
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    for value in [
        float("nan"),
        float("inf"),
        10**5000,
        10**30,
        -1,
        1e300,
        "",
        LONG,
        "\0",
        "\udcff",
        [],
        {},
        deep,
        True,
        {"": 1},
    ]:
        for key in ("workload.load", "workload.flows", "transport.name", "topology.delay", "workload.sizes", "topology"):
            count.call(flowloom.run, small, {key: value})
    for source in [
        "",
        "\0",
        LONG,
        "nope.toml",
        "=",
        "a=1",
        {},
        {"a": 1},
        {"a": {}},
        {"workload": deep},
        "\udcff=1",
        ".",
        "/dev/zero",
    ]:
        count.call(flowloom.run, source)
    for expression in [
        "", " ", "(", "(" * 400, "(" * 100_000, "-1", "slowdown", "slowdown.mean.x", "slowdown[0]", "slowdown.by_size[99].mean",
        "slowdown.by_size[-1].mean", "slowdown['mean']['x']", "transport + 1", "1 / 0", "9" * 400, "9" * 5000, "1e308 * 1e308",
        "10**9", "lambda: 0", "__import__('os')", "a.b", LONG, "a" * 400, "+".join("1" * 200), "drops.by_hop['x']", "\0", "\n",
    ]:  # fmt: skip
        count.call(metrics.evaluate, expression, SUMMARY)
        count.command("explain", expression)
    count.told(120)


SUMMARY = {"slowdown": {"mean": 1.5, "by_size": [{"mean": 1.2}]}, "transport": "phost", "drops": {"by_hop": {"a-b": 3}}}


def test_values_are_shown_by_their_ends():
    assert elided("abcdefghijkl", 6) == "abcd… (12 characters) …kl"
    assert shown("a\tb\x1b[2J\udcff µ") == "a\\tb\\x1b[2J\\udcff µ"
    assert len(shown("y" * 10**6)) < 120
