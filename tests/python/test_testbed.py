"""`flowloom testbed`: the network of a scenario on this machine, its ports, and that nothing of it is left behind."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import namespaces
from conftest import eventually
from flowloom import Scenario, load, progress, run, toml
from flowloom._native import RunError, ScenarioError
from flowloom.cli import testbed as commands
from flowloom.deploy.plan import plan_of
from flowloom.tagging import command
from flowloom.testbed import checks, keeper, machine, running
from flowloom.testbed import namespaces as spaces
from flowloom.testbed import network as networks
from flowloom.testbed.network import Network

EXAMPLE = Path(__file__).parents[2] / "examples" / "testbed" / "port.toml"
STAR = Scenario.of(EXAMPLE)
TREE = """\
[topology]
kind = "leaf_spine"
racks = 2
spines = 2
hosts_per_rack = 2
host_rate = "100Mb/s"
spine_rate = "100Mb/s"
delay = "10us"

[fabric]
routing = "ecmp"

[workload]
kind = "permutation"
sizes = { fixed = "100kB" }

[transport]
name = "dctcp"
"""


@pytest.fixture(autouse=True)
def _possible(kernel, monkeypatch):
    if why := spaces.lacking():
        namespaces.skip(why)
    namespaces.built(monkeypatch, "flowloom-port", "flowloom-node", "ping")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The state of testbeds is in a folder of the test, so that one of the user's is left alone."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield tmp_path
    keeper.down()


def flowloom(*words, **options):
    return subprocess.run([sys.executable, "-m", "flowloom", "testbed", *words], capture_output=True, text=True, **options)


def devices():
    """The devices of the namespace of the tests: a testbed adds none."""
    return sorted(link["ifname"] for link in json.loads(namespaces.run("ip", "-j", "link")))


def test_hosts_reach_each_other_over_all_shortest_paths():
    with Network(Scenario(TREE)) as network:
        hosts = network.view.hosts
        for source in hosts:
            for other in hosts:
                source.space.run("ping", "-c", "1", "-W", "5", other.address)
        leaf = network.view.find("l0")
        beyond = next(host for host in hosts if host.cables[0].to != "l0")
        routes = json.loads(leaf.space.run("ip", "-j", "route", "show", beyond.address))
        assert {hop["dev"] for hop in routes[0]["nexthops"]} == {
            cable.device for cable in leaf.cables if cable.to.startswith("s")
        }


def test_ports_have_the_queues_that_deploy_prints():
    with Network(STAR) as network:
        switch = network.view.switches[0]
        assert [cable.to for cable in switch.cables] == list(network.plan.hosts)
        for cable in switch.cables:
            queues = json.loads(switch.space.run("tc", "-j", "qdisc", "show", "dev", cable.device))
            assert [queue["kind"] for queue in queues if queue.get("root")] == ["htb"]
            assert sorted(queue["handle"] for queue in queues if queue["kind"] == "bfifo") == ["10:", "11:", "12:", "13:"]
        assert network.view.marks in ("RED", command.PORT)


def test_marks_at_random_with_a_share_of_0_are_none():
    def marks(share):
        port = {"mark_above": "5kB", "mark_all_above": "100kB", "mark_share": share}
        plan = plan_of(STAR.set({"transport.name": "dctcp", "transport.dctcp.port": port}))
        return plan.switches[0].groups()[0].port.profile

    assert networks._marks(marks(0.0)) == ["--above", "100000B", "--queues", "1"]
    assert marks(0.1).marks.is_random


def test_a_testbed_is_up_until_it_is_removed(home):
    before = devices()
    done = flowloom("up", str(EXAMPLE))
    assert done.returncode == 0, done.stderr
    assert "PIAS" in done.stdout and "10.77.0.1" in done.stdout
    again = flowloom("up", str(EXAMPLE))
    assert again.returncode == 1 and "`flowloom testbed down` removes it" in again.stderr
    found = flowloom("exec", "h0", "sh", "-c", "cat /etc/hosts; ip -br address show dev lo")
    assert "10.77.0.2 h1" in found.stdout and "10.77.0.1/32" in found.stdout, found.stderr
    assert "10.77" not in Path("/etc/hosts").read_text()
    wrong = flowloom("exec", "h9", "true")
    assert wrong.returncode == 2 and "there are h0, h1, h2, h3, s0" in wrong.stderr
    assert flowloom("exec", "h0", "sh", "-c", "exit 7").returncode == 7
    sleeper = subprocess.Popen([sys.executable, "-m", "flowloom", "testbed", "exec", "h1", "sleep", "1000"])
    status = json.loads(flowloom("status", "--json").stdout)
    assert [host["host"] for host in status["hosts"]] == ["h0", "h1", "h2", "h3"]
    assert {port["to"] for port in status["ports"]} == {"h0", "h1", "h2", "h3"}
    assert devices() == before
    inside = spaces_of(keeper.view())
    assert flowloom("down").stdout == "The testbed is removed.\n"
    assert sleeper.wait() == -signal.SIGKILL
    gone(inside)
    assert flowloom("down").stdout == "No testbed is up.\n"
    assert flowloom("status").returncode == 1


def test_a_killed_keeper_leaves_nothing(home):
    view = keeper.up(STAR)
    inside = spaces_of(view)
    os.kill(int(view.hosts[0].space.path.split("/")[2]), signal.SIGKILL)
    gone(inside)
    # The keeper is in none of these namespaces, and may take longer.
    assert eventually(is_down)
    assert not list(home.iterdir())


def test_a_tagger_goes_with_the_testbed(home, monkeypatch):
    """The file system of BPF objects would keep its programs and its table of flows."""
    namespaces.built(monkeypatch, "flowloom-tag")
    before = set(networks._TAGGERS.glob("*"))
    for name in ("h1", "h2"):
        keeper.up(STAR).find(name).space.run("flowloom-tag", "attach", "eth0", "--thresholds", "20kB", "--exact")
        assert len(set(networks._TAGGERS.glob("*")) - before) == 1
        assert keeper.down()
        assert set(networks._TAGGERS.glob("*")) == before


def test_of_two_that_start_at_once_one_is_up(home):
    """A second keeper would hold its network for ever: `down` knows only the one that the state names."""
    words = [sys.executable, "-m", "flowloom", "testbed", "up", str(EXAMPLE)]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(2)]
    said = [one.communicate()[0] for one in both]
    assert sorted(one.returncode for one in both) == [0, 1], said
    assert "`flowloom testbed down` removes it" in said[both[0].returncode == 0]
    assert keeper.down() and not keeper.down()
    assert not list(home.iterdir())


def is_down():
    try:
        keeper.view()
    except RunError as error:
        return "no testbed is up" in str(error)
    return False


def spaces_of(view):
    return {Path(node.space.path).stat().st_ino for node in view.nodes}


def gone(inside):
    """Wait until no process is in any of these namespaces."""
    while True:
        left = set()
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit():
                    left.add((entry / "ns/net").stat().st_ino)
            except OSError:
                pass
        if not left & inside:
            return
        time.sleep(0.02)


def test_wrong_input_is_named(home):
    with pytest.raises(ScenarioError, match="at most 64"):
        Network(STAR.set({"topology.hosts": 64}))
    lossy = STAR.set({"fault": [{"kind": "loss", "where": "h0-s0", "probability": 0.1}]})
    with pytest.raises(ScenarioError, match=r"fault: nothing goes wrong .* \(loss\)"):
        Network(lossy)
    with Network(lossy.set({"fault": []})):
        pass
    with pytest.raises(ScenarioError, match=r"topology\.hosts"):
        keeper.up(STAR.set({"topology.hosts": 0}))
    with pytest.raises(ScenarioError, match="three hosts"):
        checks.check(STAR.set({"topology.hosts": 2}), lambda what: None)
    with pytest.raises(ScenarioError, match="one queue"):
        checks.check(STAR.set({"transport.name": "dctcp"}), lambda what: None)


def good(found):
    wrong = [line.text for line in checks.verdict(*found) if not line.good]
    assert not wrong, (wrong, found)


def test_a_port_serves_in_strict_priority_and_marks():
    good(checks.check(STAR, lambda what: None))


def test_the_same_in_user_mode_linux():
    if why := machine.unsuited():
        pytest.skip(why)
    if why := machine.lacking():
        namespaces.skip(why)
    found = checks.check_in_machine(STAR.set({"topology.host_rate": "50Mb/s"}), lambda what: None)
    assert found[0].marks == "RED" and found[0].control == "dctcp"
    good(found)


def test_an_answer_from_user_mode_linux_is_read(monkeypatch):
    """The same program runs here instead, without a kernel of its own."""

    def run(commands, **_):
        return [subprocess.run(one, shell=True, capture_output=True, text=True).stdout.strip() for one in commands]

    monkeypatch.setattr(machine, "run", run)
    with pytest.raises(ScenarioError, match="three hosts"):
        checks.check_in_machine(STAR.set({"topology.hosts": 2}), lambda what: None)
    port, fifo = checks.check_in_machine(STAR.set({"topology.host_rate": "50Mb/s"}), lambda what: None)
    assert (port.rate_bps, port.marks, fifo.port) == (50_000_000, command.PORT, "one FIFO")


def measured(**changes):
    values = {
        "port": "a port", "rate_bps": 100_000_000, "high_us": (1.0, 2.0, 9.0), "low_us": (6.0, 6.0, 7.0), "goodput_bps": 75e6,
        "marked": 1, "dropped": 0, "retransmitted": 0, "ecn": True, "marks": "RED", "control": "dctcp",
    }  # fmt: skip
    return checks.Measured(**{**values, **changes})


def test_the_verdict_names_what_is_wrong():
    fifo = measured(high_us=(3.0,), low_us=(6.0,), goodput_bps=100e6)
    assert all(line.good for line in checks.verdict(measured(), fifo))
    wrong = [{"high_us": (2.1,)}, {}, {"goodput_bps": 74e6}, {"marked": 0}, {"dropped": 1}]
    for number, changes in enumerate(wrong):
        lines = checks.verdict(measured(**changes), fifo if changes else measured(goodput_bps=100e6))
        assert [line.good for line in lines] == [number != other for other in range(5)]
    assert not checks.verdict(measured(ecn=False), fifo)[4].good
    # Hosts that are too busy for the rate are no fault of the port.
    assert checks.verdict(measured(goodput_bps=30e6), measured(high_us=(6.0,), goodput_bps=40e6))[2].good


SLOW = STAR.set({"topology.host_rate": "50Mb/s", "topology.hosts": 3, "transport.pase.arbitration": "local"})
"""At this rate, hosts have processor time to spare: a full packet takes 240 us."""
BYTES = 1_500_000
CAPABLE = {"pias", "pase", "dctcp"}
"""Whose data packets may be marked. The arbitrators of PASE leave no queue that would be long enough."""


def share_of_rate(packets):
    """Return how much of the port's rate these packets have, from the first one on."""
    carried = sum(packet.payload + 28 + 14 for packet in packets[1:])
    return 8 * carried / (packets[-1].at - packets[0].at) / 50e6


@pytest.mark.parametrize("name", ["phost", "top", "pias", "pase", "dctcp", "homa", "ndp", "expresspass"])
def test_two_senders_share_a_port(name, tmp_path):
    """Files arrive as they are; the port carries its rate and no more; marks and classes are those of the transport."""
    files = [tmp_path / f"file{number}" for number in (1, 2)]
    for file in files:
        file.write_bytes(os.urandom(BYTES))
    with Network(SLOW.set({"transport.name": name})) as network:
        receiver, *senders = network.view.hosts
        (tmp_path / "cluster.toml").write_text(toml.document(running.cluster(network)))
        common = ["flowloom-node", "--cluster", str(tmp_path / "cluster.toml"), *running.settings(network)]
        with contextlib.ExitStack() as stack:
            packets = stack.enter_context(namespaces.captured(receiver.space.path, receiver.device))
            # What comes in at the switch: a host's emulated NIC is a port, which marks packets, too.
            (switch,) = network.view.switches
            sent = [
                stack.enter_context(namespaces.captured(switch.space.path, cable.device))
                for cable in switch.cables
                if cable.to != receiver.name
            ]
            sink = receiver.space.start(*common, "--me", receiver.name, "--save", str(tmp_path), log=tmp_path / "sink.log")
            sending = [
                host.space.start(
                    *common, "--me", host.name, "--send", f"{receiver.name}:{file}", log=tmp_path / f"{host.name}.log"
                )
                for host, file in zip(senders, files, strict=True)
            ]
            codes = [one.wait() for one in sending]
            sink.stdin.close()
            assert sink.wait() == 0
        count = next(one for one in network.view.counters() if one.to == receiver.name)
    assert codes == [0, 0], (tmp_path / "h1.log").read_text()
    saved = [file.read_bytes() for file in tmp_path.iterdir() if file.name.isdigit()]
    assert sorted(saved) == sorted(file.read_bytes() for file in files)
    # The rate of the port, while both send. Where other programs keep the processors busy, hosts are not always ready to
    # send, but a queue leaves at the rate.
    data = [packet for packet in packets if packet.payload > 1000]
    ends = [max(packet.at for packet in data if packet.source == host.address) for host in senders]
    both = [packet for packet in data if packet.at <= min(ends)]
    assert share_of_rate(both) <= 1.02
    assert max(share_of_rate(both[at : at + 33]) for at in range(len(both) - 32)) >= 0.8
    assert {packet.checksums for packet in packets} == {True}
    came, left = (sum(packet.ecn == 3 for packet in some) for some in (itertools.chain(*sent), packets))
    assert count.marked == left - came
    if name in CAPABLE:
        assert {packet.ecn for packet in data} <= {2, 3} and (count.marked > 0) == (name != "pase")
        stats = [
            dict(word.split("=") for word in (tmp_path / f"{host.name}.log").read_text().split() if "=" in word)
            for host in senders
        ]
        assert [int(one["nic_drops"]) for one in stats] == [0, 0]
    else:
        assert {packet.ecn for packet in packets} == {0}
    assert {packet.dscp for packet in packets} <= {8 * (7 - class_) for class_ in range(8)}


def test_a_testbed_and_the_simulator_have_a_result_each_and_a_place_is_checked_before_a_run(tmp_path, monkeypatch):
    done = flowloom("compare", str(EXAMPLE), "--set", "workload.flows=4", "--out", str(tmp_path / "both"))
    assert done.returncode == 0, done.stderr
    places = {world: tmp_path / "both" / "pias" / world for world in ("simulated", "testbed")}
    found = {world: load(place) for world, place in places.items()}
    assert [result.summary["finished"] for result in found.values()] == [4, 4]
    assert found["simulated"].flows.column("bytes").equals(found["testbed"].flows.column("bytes"))

    monkeypatch.setattr(running, "run", lambda *_: pytest.fail("the run has begun"))
    monkeypatch.setattr(running, "simulate", lambda *_: pytest.fail("the simulation has begun"))
    others = ["workload.flows=5"]
    with pytest.raises(ScenarioError, match="the result of another scenario or seed"):
        commands.run(EXAMPLE, set_=others, out=places["testbed"])
    with pytest.raises(ScenarioError, match="the result of another scenario or seed"):
        commands.compare(EXAMPLE, set_=others, out=tmp_path / "both")


def test_a_comparison_has_its_warnings_in_words(monkeypatch, capsys):
    found = run(STAR.set({"workload.flows": 2, "transport.pias.tcp.port.mark_above": "1MB"}))
    monkeypatch.setattr(running, "compare", lambda *_: iter([(("pias", "simulated"), found)]))
    commands.compare(EXAMPLE)
    assert "warning: no marks (PIAS, simulated): switches mark above 1MB" in capsys.readouterr().out


CHAIN = {"kind": "closed_loop", "from": [0], "to": 1, "sizes": {"fixed": "1kB"}, "requests": 3, "think": "1us"}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"fault": [{"kind": "loss", "where": "h0-s0", "probability": 0.1}]}, "fault"),
        ({"run.time_limit": "1us"}, r"run\.time_limit: the last flow starts after .* ms"),
        ({"workload": CHAIN}, "wait for others"),
    ],
)
def test_what_a_testbed_cannot_do_is_named_before_a_simulation(change, what, monkeypatch):
    monkeypatch.setattr(running, "simulate", lambda *_: pytest.fail("the simulation has begun"))
    with progress.reporter() as reporter, pytest.raises(ScenarioError, match=what):
        list(running.compare({"pias": STAR.set(change)}, "loopback", reporter))


def test_hosts_may_have_any_names(tmp_path):
    names = ["../up", "a/b", "-h", "o\u0308 \n$(id)"]
    nodes = [f'[[node]]\nname = {json.dumps(name)}\nkind = "host"\n' for name in names]
    nodes.append('[[node]]\nname = "-s/"\nkind = "switch"\ntier = "leaf"\n')
    links = [f'[[link]]\na = {json.dumps(name)}\nb = "-s/"\nrate = "50Mb/s"\ndelay = "50us"\n' for name in names]
    (tmp_path / "star.net.toml").write_text("\n".join([*nodes, *links]))
    file = tmp_path / "star.toml"
    file.write_text(
        'topology = { kind = "custom", file = "star.net.toml" }\nfabric = { buffer = "300kB" }\ntransport = { name = "pase" }\n'
        'workload = { kind = "permutation", sizes = { fixed = "20kB" } }\n'
    )
    beside = set(Path(tempfile.gettempdir()).glob("up.*"))
    with progress.reporter() as reporter:
        found = running.run(Scenario.of(file), "loopback", reporter)
    assert found.summary["finished"] == 4
    assert set(Path(tempfile.gettempdir()).glob("up.*")) == beside


def test_a_time_limit_ends_a_run_and_what_ports_lack_is_a_warning():
    """LAS has no port of the kernel. 20 MB to one host take 3.2 s at 50 Mb/s."""
    flows = {"kind": "incast", "senders": 2, "bytes": "20MB", "requests": 1, "period": "1s"}
    wanted = SLOW.set({"transport.name": "las", "workload": flows, "run.time_limit": "200ms"})
    with progress.reporter() as reporter:
        found = running.run(wanted, "loopback", reporter)
    assert found.summary["finished"] == 0 and found.summary["sim_s"] == pytest.approx(0.2)
    texts = {finding.flag: finding.text for finding in found.warnings}
    assert "raise or remove run.time_limit" in texts["unfinished"] and "time is up" not in texts
    assert "LAS needs: a port sends the packet with the smallest" in texts["missing in ports"]


def test_a_run_without_a_limit_says_when_it_was_over(monkeypatch):
    monkeypatch.setattr(running, "_AFTER_S", 0.2)
    flows = {"kind": "incast", "senders": 2, "bytes": "20MB", "requests": 1, "period": "1s"}
    with progress.reporter() as reporter:
        found = running.run(SLOW.set({"transport.name": "dctcp", "workload": flows}), "loopback", reporter)
    texts = {finding.flag: finding.text for finding in found.warnings}
    assert "0.2 s after the start of the last flow" in texts["time is up"]
    assert "time_limit" not in texts["unfinished"] and "missing in ports" not in texts
    assert found.summary["sim_s"] == pytest.approx(0.2, abs=0.1)


@pytest.mark.parametrize("control", [{"transport.pias.update.period": "50ms"}, {"transport.name": "fastpass"}])
def test_a_controller_has_a_host_and_a_process(control):
    scenario = STAR.set({"workload.flows": 4, **control})
    plan = plan_of(scenario)
    (switch,) = plan.switches
    assert len(plan.hosts) == 5 and [member.neighbours for member in switch.members] == [plan.hosts]
    with progress.reporter() as reporter:
        assert running.run(scenario, "loopback", reporter).summary["finished"] == 4


def test_datagrams_are_as_long_as_the_packets_of_the_scenario(tmp_path):
    """Longer ones would be sent in fragments, and batches of them not at all."""
    file = tmp_path / "file"
    file.write_bytes(os.urandom(200_000))
    with Network(SLOW.set({"transport.name": "dctcp", "fabric.wire": "ns2_1000"})) as network:
        receiver, sender, _ = network.view.hosts
        (tmp_path / "cluster.toml").write_text(toml.document(running.cluster(network)))
        common = ["flowloom-node", "--cluster", str(tmp_path / "cluster.toml"), *running.settings(network)]
        common += ["--profile", "batched"]
        with namespaces.captured(receiver.space.path, receiver.device) as packets:
            sink = receiver.space.start(*common, "--me", receiver.name, "--save", str(tmp_path), log=tmp_path / "sink.log")
            words = ["--me", sender.name, "--send", f"{receiver.name}:{file}"]
            assert sender.space.start(*common, *words, log=tmp_path / "log").wait() == 0, (tmp_path / "log").read_text()
            sink.stdin.close()
            assert sink.wait() == 0
    # Data has no blocks of acknowledgements in its header, for which there is room.
    assert 950 < max(packet.payload for packet in packets) + 28 <= 1000
    assert {packet.checksums for packet in packets} == {True}, "a fragment has no checksum of its own"


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_process_that_ends_before_its_time_fails_the_run(code, tmp_path):
    log = tmp_path / "0.log"
    log.write_text("flowloom-node: the reason")
    gone = subprocess.Popen(["sh", "-c", f"exit {code}"])
    gone.wait()
    ends = running._ended_flows(
        [tmp_path / "0.records"], 1, {log: gone}, time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 60 * 10**9
    )
    with pytest.raises(RunError, match=f"ended with {code}: .*the reason"):
        list(ends)
