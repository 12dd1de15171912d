"""`flowloom pias` without a kernel: the controller, the sessions with agents, and what the commands refuse."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flowloom import RunError, Scenario, ScenarioError
from flowloom.cli import app
from flowloom.demotion import analytic
from flowloom.demotion.sizes import Sizes
from flowloom.tagging import agents, command
from flowloom.tagging.agents import Bin, Local, Remote, Status
from flowloom.tagging.controller import Controller, Settings, points

SMALL, LARGE = (2815, 3071), (294_911, 327_679)
"""Bins of the tagger: eight to an octave, with the last size of the bin before and of the bin itself."""


@dataclasses.dataclass
class Fake:
    """A tagger whose counts a test sets."""

    name: str
    counts: dict[tuple[int, int], int]
    thresholds: tuple[int, ...] = (1,)
    broken: bool = False

    def status(self) -> Status:
        if self.broken:
            raise RunError("it is down")
        return Status(self.thresholds, tuple(Bin(*bin_, count) for bin_, count in self.counts.items()))

    def set(self, thresholds):
        self.thresholds = tuple(thresholds)
        return self.status()


def test_the_controller_computes_what_the_command_computes():
    taggers = [Fake("a", {SMALL: 900}), Fake("b", {SMALL: 100, LARGE: 1000})]
    said: list[str] = []
    found = Controller(taggers, Settings(load=0.7, queues=2), said.append).step()
    shares = [(0.0, 0.0), (2815.0, 0.0), (3071.0, 0.5), (294_911.0, 0.5), (327_679.0, 1.0)]
    assert found == analytic.thresholds(Sizes.through("the same", shares), 0.7, 2).thresholds
    assert [tagger.thresholds for tagger in taggers] == [found, found]
    assert said[0].startswith("2,000 messages of 157.1 kB on average: ") and len(said) == 3


def test_each_period_counts_what_is_new_and_smooths():
    tagger = Fake("a", {SMALL: 1000})
    made = Controller([tagger], Settings(queues=2, smoothing=0.25), lambda _: None)
    made.step()
    tagger.counts = {SMALL: 1000, LARGE: 400}
    made.step()
    assert made.smoothed == {SMALL: 1000.0}, "400 messages are too few"
    tagger.counts = {SMALL: 1000, LARGE: 1200}
    made.step()
    assert made.smoothed == {SMALL: 750.0, LARGE: 300.0}
    # A tagger that was attached anew counts from 0.
    tagger.counts = {SMALL: 4000}
    made.step()
    assert made.smoothed == {SMALL: 0.75 * 750 + 0.25 * 4000, LARGE: 0.75 * 300}


def test_a_tagger_that_is_down_keeps_nobody_waiting_and_gets_thresholds_when_it_is_back():
    up, down = Fake("up", {SMALL: 1000, LARGE: 1000}), Fake("down", {}, broken=True)
    said: list[str] = []
    made = Controller([up, down], Settings(queues=2), said.append)
    found = made.step()
    assert up.thresholds == found and down.thresholds == (1,)
    assert said[0] == "down gives no sizes: it is down"
    down.broken = False
    assert made.step() == found == down.thresholds


def test_messages_of_one_size_leave_thresholds_alone():
    tagger, said = Fake("a", {(7, 8): 5000}), []
    assert Controller([tagger], Settings(), said.append).step() is None
    assert tagger.thresholds == (1,) and said == [
        "5,000 messages of 7.5 B on average: one class is best for them, so thresholds stay"
    ]


def test_sizes_are_spread_over_their_bins_only():
    assert points({LARGE: 1, SMALL: 3}) == [(0, 0), (2815, 0), (3071, 0.75), (294_911, 0.75), (327_679, 1)]


@pytest.mark.parametrize(
    ("settings", "part"),
    [(Settings(load=1.0), "load 1"), (Settings(queues=1), "2 to 8"), (Settings(smoothing=0.0), "above 0"),
     (Settings(reading="x"), "unknown reading")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(settings, part):
    with pytest.raises(ScenarioError, match=part):
        Controller([], settings, print)


KEY = b"0123456789abcdef"
ANSWER = {"thresholds_bytes": [20_000], "sizes": [{"above": 2815, "bytes": 3071, "count": 4}]}


@pytest.fixture
def agent() -> Iterator[tuple[int, list[str]]]:
    """An agent as the documentation of sessions describes it; it keeps the requests whose seal is right."""
    asked: list[str] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def seal(number: int, text: str) -> str:
        return hmac.new(KEY, f"abc {number} {text}".encode(), hashlib.sha256).hexdigest()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rw", encoding="ascii", newline="\n") as stream:
                stream.write("flowloom-tag 1 abc\n")
                stream.flush()
                given, _, text = stream.readline().rstrip("\n").partition(" ")
                if given == seal(0, text):
                    asked.append(text)
                    answer = json.dumps({"error": "no"} if "[0]" in text else ANSWER)
                    stream.write(f"{seal(1, answer)} {answer}\n")

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1], asked
    # Another thread's `accept` ends only if the socket is shut down.
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_an_agent_and_its_controller_share_a_key(agent):
    port, asked = agent
    tagger = Remote("127.0.0.1", port, KEY)
    assert tagger.status() == tagger.set([20_000]) == Status((20_000,), (Bin(2815, 3071, 4),))
    assert [json.loads(text) for text in asked] == [{"do": "status"}, {"do": "set", "thresholds_bytes": [20_000]}]
    with pytest.raises(RunError, match=r": no$"):
        tagger.set([0])
    with pytest.raises(RunError, match="another key"):
        Remote("127.0.0.1", port, b"fedcba9876543210").status()
    assert len(asked) == 3


def test_what_is_no_agent_is_an_error_with_its_address():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def greet() -> None:
            listener.accept()[0].sendall(b"SSH-2.0-x\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(RunError, match=f"127.0.0.1:{port} is no agent"):
            Remote("127.0.0.1", port).status()
        thread.join()
    with pytest.raises(RunError, match=f"127.0.0.1:{port}: Connection refused"):
        Remote("127.0.0.1", port).status()
    with pytest.raises(RunError, match="no status"):
        Status.of({"sizes": [3]})


def test_names_of_taggers():
    assert agents.parse("eth0", None, "red") == Local("eth0", "red")
    assert agents.parse("[fd00::1]:7", KEY, None) == Remote("fd00::1", 7, KEY)
    assert agents.parse("[fd00::1]:7", None, None).name == "[fd00::1]:7"
    for wrong in ("eth0:", ":7", "h:x", "h:70000"):
        with pytest.raises(ScenarioError, match="give a device"):
            agents.parse(wrong, None, None)


def test_a_short_key_is_refused(tmp_path):
    path = tmp_path / "key"
    path.write_bytes(b"short\n")
    with pytest.raises(ScenarioError, match="has 5 bytes"):
        agents.read_key(path)
    with pytest.raises(ScenarioError, match="No such file"):
        agents.read_key(tmp_path / "none")


def test_thresholds_come_out_of_a_scenario():
    given = Scenario.of(Path(__file__).parents[2] / "papers/pias/default.toml")
    assert command.thresholds_of(given.set({"transport.pias.thresholds": ["20kB", "1MB"]})) == "20kB,1MB"
    # A rule has no list; the tagger gets what a run would use.
    fitted = given.set({"transport.pias.thresholds": "fitted"})
    assert command.thresholds_of(fitted) == ",".join(fitted.plan().fitted()["transport.pias.thresholds"]["value"])
    with pytest.raises(ScenarioError, match=r'transport\.name is "dctcp"'):
        command.thresholds_of(given.set({"transport.name": "dctcp"}))


def invoke(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["pias", *words])
    return result.exit_code, result.output


@pytest.fixture
def tag(tmp_path, monkeypatch) -> Path:
    """A `flowloom-tag` that prints what it is asked."""
    program = tmp_path / "flowloom-tag"
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def test_options_go_to_the_program(tag):
    asked = "attach eth0 --thresholds 20kB --idle-gap 1ms --timeouts 0 --ecn off --exact --table-size 2048 --netns red\n"
    words = "attach eth0 --thresholds 20kB --idle-gap 1ms --timeouts 0 --no-ecn --exact --table-size 2048 --netns red"
    assert invoke(*words.split()) == (0, asked)
    assert invoke("set", "eth0", "--ecn") == (0, "set eth0 --ecn on\n")
    assert invoke("status", "--json") == (0, "status --json\n")
    assert invoke("detach", "--all") == (0, "detach --all\n")


def test_errors_of_the_program_are_errors_of_the_command(tag):
    tag.write_text("#!/bin/sh\necho flowloom-tag: no >&2\nexit 2\n", encoding="utf-8")
    assert invoke("status") == (2, "error: no\n")
    tag.write_text("#!/bin/sh\necho flowloom-tag: never >&2\nexit 1\n", encoding="utf-8")
    assert invoke("status") == (1, "error: never\n")
    assert invoke("attach", "eth0", "--set", "a=b")[0] == 2
    assert invoke("attach", "eth0", "--thresholds", "1kB", "--scenario", "x.toml") == (
        2,
        "error: --thresholds and --scenario both give thresholds; leave one of them out\n",
    )


def test_a_program_that_is_not_built_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(command.shutil, "which", lambda *_, **__: None)
    assert invoke("status") == (1, "error: flowloom-tag is not built; run `make node`, which needs Rust and Linux\n")
