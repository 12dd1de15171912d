"""Generated damage and signals. Each case ends in an error that names the file, or in a complete result."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import flowloom
from conftest import HANG_S, SMALL, eventually
from flowloom import ScenarioError, engine, integrity, series, storage
from flowloom.cli import app
from flowloom.progress import Silent
from flowloom.results import MARKER
from fork_server import ForkServer

COUNTED: dict[str, int] = {}


@pytest.fixture(scope="module", autouse=True)
def count_is_printed(pytestconfig):
    yield
    words = ", ".join(f"{count} {what}" for what, count in COUNTED.items())
    with pytestconfig.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{sum(COUNTED.values())} generated cases of damage and signals: {words}")


class Damage(NamedTuple):
    """A change to one file of a result."""

    name: str
    how: str
    content: bytes | None
    """The new content. None deletes the file, and b"/" replaces it by a folder."""

    @property
    def named(self) -> str:
        """What an error names: a manifest with a file too many looks like a file that was lost."""
        return "series/lost.parquet" if "lost" in self.how else self.name.partition("/")[0]

    def do(self, folder: Path) -> None:
        path = folder / self.name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        if self.content == b"/":
            path.mkdir()
        elif self.content is not None:
            path.write_bytes(self.content)


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def paths_of(value, path=()):
    """Return the path of every value of a JSON document."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths_of(inner, (*path, key))


def changed(document, path, value=None, *, drop=False):
    document = copy.deepcopy(document)
    *ways, last = path
    place = document
    for way in ways:
        place = place[way]
    if drop:
        del place[last]
    else:
        place[last] = value
    return json.dumps(document).encode()


def damages(folder: Path) -> list[Damage]:
    """Return damages, each of which makes the result invalid."""
    draw = random.Random(9)
    found = []
    for name in ("summary.json", "scenario.toml", "flows.parquet", "series/pending.parquet", MARKER):
        whole = (folder / name).read_bytes()
        cuts = sorted({1, len(whole) // 2, *(draw.randrange(1, len(whole) - 4) for _ in range(3))})
        if name == "scenario.toml":  # half a TOML file can be valid, so it is cut inside a value
            cuts = [at + 2 for at in (m.end() for m in re.finditer(rb" = ", whole)) if whole[at : at + 1] == b'"'][:5]
        found += [Damage(name, f"cut at {at}", whole[:at]) for at in cuts]
        found += [
            Damage(name, "empty", b""),
            Damage(name, "deleted", None),
            Damage(name, "a folder", b"/"),
            Damage(name, "noise", draw.randbytes(500)),
            Damage(name, "not UTF-8", b"\xff\xfe" + whole),
            Damage(name, "zeros", bytes(len(whole))),
        ]
    for name in ("summary.json", MARKER):
        document = json.loads((folder / name).read_text())
        texts = ["{}", "[]", "null", "3", '"text"', "[" * 100_000, '{"a":' * 100_000, "{} {}"]
        found += [Damage(name, text[:8], text.encode()) for text in texts]
        needed = [p for p in paths_of(document) if p and p[0] in integrity._PROVENANCE | {"files": 0} | integrity._SUMMARY]
        for path in draw.sample(
            [p for p in needed if isinstance(p[-1], str) and _is_needed(name, p)], 5 if name == MARKER else 30
        ):
            if path != ("files",):
                found.append(Damage(name, f"without {path}", changed(document, path, drop=True)))
            found.append(Damage(name, f"{path} is a list", changed(document, path, [[1]])))
            found.append(Damage(name, f"{path} is true", changed(document, path, True)))
    document = json.loads((folder / "summary.json").read_text())
    for path in (("backlog", "second"), ("backlog", "noise")):
        found.append(Damage("summary.json", f"without {path}", changed(document, path, drop=True)))
        found.append(Damage("summary.json", f"{path} is a list", changed(document, path, [[1]])))
    document = json.loads((folder / MARKER).read_text())
    for names in ([1], ["../x"], ["/etc/passwd"], "flows.parquet", ["series/lost.parquet"]):
        found.append(Damage(MARKER, f"lists {names}", changed(document, ("files",), names)))
    for text in (
        "[run]",
        "[transport]",
        "transport = 3",
        '[run]\nseed = 1\n[transport]\nname = "phost"',
        "a = 1\na = 2",
        "a" * 1000,
    ):
        found.append(Damage("scenario.toml", text[:20], text.encode()))
    flows = pq.read_table(folder / "flows.parquet")
    tables = {"one column": flows.select(["id"]), "fewer rows": flows.slice(0, 10), "no rows": flows.slice(0, 0)}
    tables |= {f"without {name}": flows.drop_columns([name]) for name in flows.column_names}
    for index, field in enumerate(flows.schema):
        text = field.type == pa.string()
        other = pa.nulls(flows.num_rows, "int64") if text else flows[field.name].cast("string")
        tables[f"{field.name} as {'numbers' if text else 'text'}"] = flows.set_column(index, field.name, other)
    tables["foreign"] = pa.table({"a": [1, 2], "b": ["x", "y"]})
    found += [Damage("flows.parquet", how, parquet(table)) for how, table in tables.items()]
    found.append(Damage("flows.parquet", "CSV", b"id,src,dst\n0,1,2\n"))
    found += [Damage("series", "a file", b"junk"), Damage("series", "deleted", None), Damage("series", "empty folder", b"/")]
    return found


def _is_needed(name: str, path) -> bool:
    """Return whether a result without this key is damaged. Names of hops and reasons depend on the run, so none is needed."""
    shape = integrity._SUMMARY if name == "summary.json" else integrity._PROVENANCE | {"files": ["names"]}
    for key in path:
        if isinstance(shape, list):
            shape = shape[0]
        elif isinstance(shape, dict) and key in shape:
            shape = shape[key]
        else:
            return False
    return True


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return flowloom.run(SMALL).save(tmp_path_factory.mktemp("whole") / "r")


def complaint(call) -> str | None:
    """Return the message of a ScenarioError, None without an error; any other error fails the test."""
    try:
        call()
    except ScenarioError as error:
        return str(error)
    return None


def everything_of(folder):
    found = flowloom.load(folder)
    return found.flows, dict(found.series)


def test_damaged_results_are_named(whole, tmp_path):
    cases = damages(whole)
    for case in cases:
        folder = tmp_path / "r"
        shutil.copytree(whole, folder)
        case.do(folder)
        message = complaint(lambda folder=folder: everything_of(folder))
        assert message, case[:2]
        assert case.named in message, (case[:2], message)
        assert str(folder) in message, (case[:2], message)
        assert len(message) < 400, (case[:2], message)
        for command in ("explain", "doctor"):
            done = CliRunner().invoke(app, [command, str(folder)])
            assert done.exit_code == 2, (case[:2], done.output, done.exception)
            assert isinstance(done.exception, SystemExit), (case[:2], done.exception)
            assert done.stderr == f"error: {message}\n", (case[:2], done.stderr)
        shutil.rmtree(folder)
    COUNTED["damaged results"] = len(cases)


def test_a_number_of_the_backlog_that_is_not_known_is_harmless(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "r")
    document = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_bytes(changed(document, ("backlog", "later"), 1.0))
    assert [found.flag for found in flowloom.load(folder).warnings] == [found.flag for found in flowloom.load(whole).warnings]


def test_flipped_bits_are_harmless_or_named(whole, tmp_path):
    draw = random.Random(4)
    flows, series = everything_of(whole)
    named = 0
    names = ["flows.parquet"] * 60 + ["series/pending.parquet"] * 20 + ["summary.json", "scenario.toml", MARKER] * 20
    folder = tmp_path / "r"
    shutil.copytree(whole, folder)
    for name in names:
        data = bytearray((whole / name).read_bytes())
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        (folder / name).write_bytes(data)
        try:
            found, courses = everything_of(folder)
        except ScenarioError as error:
            named += 1
            assert (str(folder / name) if name != MARKER else str(folder)) in str(
                error
            )  # a damaged manifest may name other files
            assert CliRunner().invoke(app, ["explain", str(folder)]).exit_code == 2
        else:
            # Tables have checksums, so whatever is read from them is correct. JSON and TOML have none.
            assert found.equals(flows)
            assert courses["pending"].equals(series["pending"])
            for command in ("explain", "doctor"):
                done = CliRunner().invoke(app, [command, str(folder)])
                assert isinstance(done.exception, SystemExit | None), (name, done.exception)
        (folder / name).write_bytes((whole / name).read_bytes())
    assert named > len(names) / 3
    COUNTED["flipped bits"] = len(names)


class Recorder(Silent):
    """Stores warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def sweep(out, reporter=None):
    with ThreadPoolExecutor(1) as executor:
        return flowloom.sweep(SMALL, {"workload.flows": [200]}, executor=executor, out=out, reporter=reporter)


def test_a_sweep_makes_damaged_runs_anew_and_says_so(tmp_path):
    out = tmp_path / "s"
    (run,) = sweep(out)
    folder = out / "runs" / run.key
    cases = damages(folder)[::3]
    for case in cases:
        case.do(folder)
        recorder = Recorder()
        (again,) = sweep(out, recorder)
        assert len(recorder.warnings) == 1, (case[:2], recorder.warnings)
        assert "is simulated again" in recorder.warnings[0]
        assert case.named in recorder.warnings[0]
        assert again.results.flows.equals(run.results.flows)
        assert everything_of(folder)
    recorder = Recorder()
    sweep(out, recorder)
    assert not recorder.warnings
    COUNTED["damaged runs of a sweep"] = len(cases)


def test_the_command_says_on_stderr_what_is_made_anew(scenario, tmp_path):
    words = ["sweep", str(scenario), "--vary", "workload.load=0.3", "--jobs", "1", "--out", str(tmp_path / "s")]
    assert CliRunner().invoke(app, words).exit_code == 0
    (run,) = (tmp_path / "s" / "runs").iterdir()
    (run / "summary.json").write_text("{}")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert (
        f'warning: {run}/summary.json is damaged: it has no "transport"; this run (load 0.3) is simulated again' in done.stderr
    )


# Signals


@pytest.fixture(scope="module")
def fork_server(tmp_path_factory):
    found = ForkServer(tmp_path_factory.mktemp("fork_server"))
    yield found
    found.close()


CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}


def send(fork_server, words, number, after_s) -> tuple[int, str]:
    """Start a command, and send a signal to its processes after a delay."""
    child = fork_server.start(*words)
    time.sleep(after_s)
    with contextlib.suppress(ProcessLookupError):  # the command has ended or not begun
        os.killpg(child, number)
    code, stderr = fork_server.end()
    assert "Traceback" not in stderr, stderr
    return code, stderr


def duration_of(fork_server, words) -> float:
    begin = time.monotonic()
    fork_server.start(*words)
    code, stderr = fork_server.end()
    assert code == 0, stderr
    return time.monotonic() - begin


def unfinished(folder: Path) -> list[Path]:
    return [path for path in folder.rglob(".*") if path.name.startswith((".flowloom", ".partial"))]


def test_signals_at_random_moments_of_a_run(fork_server, scenario, tmp_path):
    draw = random.Random(1)
    out = tmp_path / "r"
    words = ["run", scenario, "--csv", "--out", out]
    typical_s = duration_of(fork_server, words)
    expected = everything_of(out)[0]
    cases = [number for number in CODES for _ in range(15)]
    ends = {}
    for turn, number in enumerate(cases):
        fresh = turn % 2 == 0
        if fresh:
            shutil.rmtree(out, ignore_errors=True)
        elif not out.exists():
            duration_of(fork_server, words)
        code, stderr = send(fork_server, words, number, draw.uniform(0, 1.2 * typical_s))
        # Before the program handles signals, they have their default action.
        assert code in (0, CODES[number], -number), (code, stderr)
        ends[code] = ends.get(code, 0) + 1
        message = complaint(lambda: everything_of(out))
        if message is None:
            assert everything_of(out)[0].equals(expected)
        else:
            assert "is not a results directory" in message
            assert code != 0
            assert fresh or number == signal.SIGKILL, "a result that was there is lost"
        if number != signal.SIGKILL:
            assert not out.exists() or not unfinished(out)
        else:
            assert duration_of(fork_server, words)
            assert everything_of(out)[0].equals(expected)
            assert not unfinished(out)
    assert set(CODES.values()) <= ends.keys(), ends
    COUNTED["signals to a run"] = len(cases)


def test_signals_at_random_moments_of_a_sweep(fork_server, scenario, tmp_path):
    draw = random.Random(2)
    out = tmp_path / "s"
    words = ["sweep", scenario, "--vary", "workload.load=0.2,0.3,0.4", "--jobs", 1, "--out", out]
    typical_s = duration_of(fork_server, words)
    expected = (out / "sweep.csv").read_bytes()
    cases = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL] * 3
    for number in cases:
        shutil.rmtree(out, ignore_errors=True)
        code, stderr = send(fork_server, words, number, draw.uniform(0, 1.1 * typical_s))
        assert code in (0, CODES[number], -number), (code, stderr)
        for run in (out / "runs").glob("*"):
            message = complaint(lambda run=run: everything_of(run))
            assert message is None or "is not a results directory" in message
            assert message is None or number == signal.SIGKILL
        if (out / "sweep.csv").exists():
            assert (out / "sweep.csv").read_bytes() == expected
        if number != signal.SIGKILL and code != 0:
            assert not unfinished(out) if out.exists() else True
            assert code != CODES[number] or "finished runs are kept" in stderr or not (out / "runs").exists(), stderr
    assert duration_of(fork_server, words)
    assert (out / "sweep.csv").read_bytes() == expected
    COUNTED["signals to a sweep"] = len(cases)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", [["run"], ["sweep", "--vary", "workload.load=0.2,0.3"]])
def test_setting_up_shows_progress_and_can_be_interrupted(fork_server, scenario, tmp_path, words, number):
    # Drawing this many flows takes a second or more.
    command, *more = words
    many = ["--set", "workload.flows=8000000"]
    child = fork_server.start(command, scenario, *more, *many, "--out", tmp_path / "out")
    if command == "run":
        assert eventually(lambda: "setting up, no packet is on its way yet" in fork_server.stderr.read_text())
    else:
        time.sleep(0.3)
    os.kill(child, number)
    code, stderr = fork_server.end()
    assert code == CODES[number]
    assert "Traceback" not in stderr
    # The workers of a sweep plan its runs, so there is a folder for them.
    assert not (tmp_path / "out").exists() if command == "run" else not [*(tmp_path / "out").rglob("summary.json")]


def test_a_run_that_is_left_has_left_python(scenario, monkeypatch):
    """The simulator's thread may be in Python when a run is stopped, and Python must not end before it has come back."""
    called, back = threading.Event(), threading.Event()

    def slow(*_: object) -> None:
        called.set()
        time.sleep(1.5)  # longer than a run is waited for
        back.set()

    def stop(*_: object) -> None:
        if called.is_set():
            raise KeyboardInterrupt

    monkeypatch.setattr(series.Writer, "take", slow)
    plan = flowloom.Scenario.of(scenario).plan()
    with pytest.raises(KeyboardInterrupt):
        engine.execute(plan, stop)
    assert back.is_set()


LONG = "workload.flows=300001,300002"


def children_of(parent: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(status.parent.name))
    return found


def workers_of(parent: int) -> list[int]:
    """Return the worker processes, without the resource tracker of `multiprocessing`."""
    found = []
    for child in children_of(parent):
        with contextlib.suppress(OSError):  # the process has just ended
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGABRT, signal.SIGINT])
def test_workers_end_with_their_parent_whatever_kills_it(fork_server, scenario, tmp_path, number):
    parent = fork_server.start("sweep", scenario, "--vary", LONG, "--jobs", 2, "--out", tmp_path / "s")

    assert eventually(lambda: len(workers_of(parent)) == 2)
    workers = workers_of(parent)
    os.kill(parent, number)  # only the parent gets the signal
    code, stderr = fork_server.end()
    assert code in (CODES.get(number, -number), -number), stderr
    assert eventually(lambda: not any(map(is_alive, workers)))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_worker_is_deaf_to_ctrl_c_from_its_first_moment(fork_server, scenario, tmp_path):
    parent = fork_server.start("sweep", scenario, "--vary", "workload.load=0.2,0.3", "--jobs", 2, "--out", tmp_path / "s")
    assert eventually(lambda: workers_of(parent))
    for worker in workers_of(parent):
        os.kill(worker, signal.SIGINT)
    code, stderr = fork_server.end()
    assert code == 0, stderr
    assert "Traceback" not in stderr


LOSES_A_SIGNAL = """
import os, signal, sys, time
from flowloom import signals

class Ignoring:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

signals.raise_ended()
try:
    Ignoring()
    time.sleep(60)
except signals.Ended as stop:
    sys.exit(128 + stop.number)
"""


def test_a_signal_is_not_lost_where_python_ignores_exceptions():
    done = subprocess.run([sys.executable, "-c", LOSES_A_SIGNAL], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (143, "")


WATCHED = """
import multiprocessing, os, sys, time
from flowloom import jobs
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=jobs._watch, args=(receiver, os.getpid()))
    child.start()
    print(child.pid, flush=True)
    time.sleep(600)
"""


def test_workers_notice_a_dead_parent_where_the_kernel_does_not_tell_them(tmp_path):
    (tmp_path / "parent.py").write_text(WATCHED)
    parent = subprocess.Popen([sys.executable, tmp_path / "parent.py"], stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    assert is_alive(worker)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert eventually(lambda: not is_alive(worker))


def test_a_worker_that_is_killed_ends_the_sweep_with_advice(fork_server, scenario, tmp_path):
    parent = fork_server.start("sweep", scenario, "--vary", LONG, "--jobs", 2, "--out", tmp_path / "s")
    assert eventually(lambda: workers_of(parent))
    os.kill(workers_of(parent)[0], signal.SIGKILL)
    code, stderr = fork_server.end()
    assert code == 1
    assert "a worker process died" in stderr
    assert not unfinished(tmp_path)


def test_a_signal_that_was_ignored_from_the_start_stays_ignored(scenario, tmp_path):
    shell = (
        f"trap '' HUP TERM; exec {sys.executable} -m flowloom run {scenario} --set workload.flows=20000 --out {tmp_path / 'r'}"
    )
    child = subprocess.Popen(["sh", "-c", shell], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.7)
    for number in (signal.SIGHUP, signal.SIGTERM):
        child.send_signal(number)
    assert child.wait() == 0
    assert tomllib.loads((tmp_path / "r" / "scenario.toml").read_text())["workload"]["flows"] == 20000


def test_ctrl_c_before_there_is_a_handler_ends_without_a_traceback():
    early = "def early():\n    raise KeyboardInterrupt\n"
    code = f"from flowloom import cli, signals\n{early}signals.raise_ended = early\ncli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "")


def test_the_librarys_threads_hold_no_file_of_pythons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that closes a file of Python's after Python has ended aborts the process. `compare` did so in one of ten runs
    on a busy machine, after it had refused a folder with another table."""
    path = tmp_path / os.fsdecode(b"load:0.8 \xff.parquet")
    with path.open("wb") as file:
        pq.write_table(pa.table({"run": ["a", "b"], "load": [1, 2]}), file)
    read, given = pq.read_table, []

    def watched(source: object, **rest: Any) -> pa.Table:
        given.append(source)
        return read(source, **rest)

    monkeypatch.setattr(pq, "read_table", watched)
    assert integrity.read_table(path).to_pylist() == [{"run": "a", "load": 1}, {"run": "b", "load": 2}]
    assert storage.read_parquet(path, ["run"]).to_pylist() == [{"run": "a"}, {"run": "b"}]
    assert len(given) == 2
    assert all(isinstance(source, pa.NativeFile) and not isinstance(source, pa.PythonFile) for source in given)
