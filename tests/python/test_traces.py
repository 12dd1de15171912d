"""Traces of packets: captures as Wireshark reads them, timelines as Perfetto's schema says, both against the run's counters."""

import collections
import itertools
import os
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

import flowloom
from flowloom.cli import app

SENDERS = 3
BYTES = 30_000
SCENARIO = """
topology = { kind = "single_switch", hosts = 4, host_rate = "10Gb/s", delay = "200ns" }
fabric = { routing = "ecmp_symmetric", buffer = "36kB" }
workload = { kind = "trace", file = "flows.csv" }
transport = { name = "phost", dctcp = { port = { mark_above = "6kB" } }, ndp = { data_queue = 4 } }
observe = { links = ["all"], flows = "all", period = "10us" }
trace = {}
"""
FIELDS = [
    *("frame.interface_name", "frame.time_epoch", "frame.len", "frame.comment", "frame.packet_id"),
    *("ip.dsfield.dscp", "ip.dsfield.ecn"),
    *("flowloom.flow", "flowloom.offset", "flowloom.payload", "flowloom.message", "flowloom.retransmission"),
]
LAST_HOP = "s0-h3"


@pytest.fixture(scope="module")
def tshark() -> str:
    found = shutil.which("tshark")
    if not found and os.environ.get("CI") != "true":
        pytest.skip("tshark is not installed")
    assert found, "CI needs tshark (Debian's package of this name)"
    return found


def scenario(folder, text=SCENARIO):
    rows = (f"0,{src},3,{BYTES}" for src in range(SENDERS))
    (folder / "flows.csv").write_text("\n".join(["start_s,src,dst,bytes", *rows]) + "\n")
    path = folder / "three.toml"
    path.write_text(text)
    return path


def dissected(tshark, folder, *more):
    """Return the packets of a saved run's capture: the values of FIELDS and of further ones."""
    names = (*FIELDS, *more)
    chosen = [option for name in names for option in ("-e", name)]
    command = [tshark, "-X", f"lua_script:{folder}/trace/flowloom.lua", "-r", f"{folder}/trace/packets.pcapng", "-T", "fields"]
    done = subprocess.run([*command, *chosen], capture_output=True, text=True, check=True)
    errors = [line for line in done.stderr.splitlines() if "Running as user" not in line]
    assert not errors, errors
    return [dict(zip(names, line.split("\t"), strict=True)) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Return a function that runs the three flows under a transport, once, and returns the result and its folder."""
    runs = {}

    def run(transport):
        if transport not in runs:
            folder = tmp_path_factory.mktemp(transport)
            result = flowloom.run(scenario(folder), transport__name=transport)
            runs[transport] = result, result.save(folder / "out")
        return runs[transport]

    return run


def was(packet, remark):
    return remark in packet["frame.comment"]


NUMBER = {"phost": "packet"}
"""What a transport's header calls the number of a data packet, if not `number`."""


@pytest.mark.parametrize("transport", ["phost", "top", "pase", "dctcp", "ndp"])
def test_wireshark_sees_what_the_run_has_counted(traced, tshark, transport):
    result, folder = traced(transport)
    number = f"flowloom.{transport}.data.{NUMBER.get(transport, 'number')}"
    packets = dissected(tshark, folder, number)
    sent = [packet for packet in packets if not was(packet, "dropped")]
    times = [float(packet["frame.time_epoch"]) for packet in packets]
    assert times == sorted(times)

    links = result.series["links"].to_pandas().groupby("link", observed=True)
    assert collections.Counter(packet["frame.interface_name"] for packet in sent) == links.packets.sum().to_dict()
    assert sum(map(length, sent)) == links.bytes.sum().sum()

    summary = result.summary
    assert len(packets) - len(sent) == summary["drops"]["total"]
    assert sum(was(packet, "marked here") for packet in sent) == summary["marks"]
    assert sum(was(packet, "cut off here") for packet in sent) == summary["trims"]
    # Class 0 is the code point CS7, which is 56.
    by_class = collections.Counter(7 - int(packet["ip.dsfield.dscp"]) // 8 for packet in sent)
    assert by_class == {number: count for number, count in enumerate(summary["sent_by_class"]) if count}

    for flow in range(SENDERS):
        data = [p for p in sent if p["frame.interface_name"] == LAST_HOP and p["flowloom.flow"] == str(flow) and payload(p)]
        assert {place for p in data for place in range(offset(p), offset(p) + payload(p))} == set(range(BYTES))
        for packet in data:
            assert packet["flowloom.message"] == "Data"
            assert int(packet[number]) * 1460 == offset(packet)
            assert payload(packet) == min(1460, BYTES - offset(packet))
            assert int(packet["frame.len"]) == payload(packet) + 40


def length(packet):
    said = [remark for remark in packet["frame.comment"].split("; ") if remark.endswith(" B on the link")]
    return int(said[0].split()[0]) if said else int(packet["frame.len"])


def offset(packet):
    return int(packet["flowloom.offset"])


def payload(packet):
    return int(packet["flowloom.payload"])


def test_the_marks_that_arrive_are_those_that_are_echoed(traced, tshark):
    _, folder = traced("dctcp")
    packets = dissected(tshark, folder, "flowloom.dctcp.ack.echo")
    marked = [p for p in packets if p["frame.interface_name"] == LAST_HOP and p["ip.dsfield.ecn"] == "3"]
    echoes = [p for p in packets if p["frame.interface_name"] == "h3-s0" and p["flowloom.dctcp.ack.echo"] in ("1", "True")]
    assert len(marked) == len(echoes) > 0


def test_a_packet_of_phost_is_sent_in_the_class_of_its_token(traced, tshark):
    _, folder = traced("phost")
    packets = dissected(tshark, folder, *(f"flowloom.phost.{name}" for name in ("token.serial", "token.class", "data.serial")))
    tokens = {
        (p["flowloom.flow"], p["flowloom.phost.token.serial"]): p["flowloom.phost.token.class"]
        for p in packets
        if p["flowloom.message"] == "Token"
    }
    answers = [p for p in packets if (p["flowloom.flow"], p["flowloom.phost.data.serial"]) in tokens]
    assert len(answers) > 10
    for packet in answers:
        token_class = tokens[packet["flowloom.flow"], packet["flowloom.phost.data.serial"]]
        assert 7 - int(packet["ip.dsfield.dscp"]) // 8 == int(token_class)


def test_what_ndp_cuts_off_is_asked_for_again(traced, tshark):
    _, folder = traced("ndp")
    packets = dissected(tshark, folder, "flowloom.ndp.data.part", "flowloom.ndp.nack.number", "flowloom.ndp.data.number")
    cut = [p for p in packets if p["frame.interface_name"] == LAST_HOP and p["flowloom.ndp.data.part"] == "Cut"]
    nacks = [p for p in packets if p["frame.interface_name"] == "h3-s0" and p["flowloom.message"] == "Nack"]
    key = collections.Counter((p["flowloom.flow"], p["flowloom.ndp.data.number"]) for p in cut)
    assert collections.Counter((p["flowloom.flow"], p["flowloom.ndp.nack.number"]) for p in nacks) == key
    assert len(cut) > 0


def test_a_packet_by_hand(tmp_path, tshark):
    """One packet of 1,500 B over two links at 10 Gb/s with 200 ns each, cut through after 40 B, and what comes back."""
    (tmp_path / "one.csv").write_text("start_s,src,dst,bytes\n0.000001,0,1,1460\n")
    path = scenario(tmp_path, SCENARIO.replace("flows.csv", "one.csv"))
    result = flowloom.run(path, transport__name="dctcp")
    packets = dissected(tshark, result.save(tmp_path / "out"))
    seen = [
        (p["frame.interface_name"], round(float(p["frame.time_epoch"]) * 1e9), length(p), p["frame.packet_id"]) for p in packets
    ]
    data, ack = seen[0][3], seen[2][3]
    assert data != ack
    # 1 µs; 200 ns of delay and 32 ns of header later; 1200 ns of transmission after that and 200 ns of delay, the answer.
    assert seen == [
        ("h0-s0", 1000, 1500, data),
        ("s0-h1", 1232, 1500, data),
        ("h1-s0", 2632, 40, ack),
        ("s0-h0", 2864, 40, ack),
    ]


def test_pause_frames_are_those_of_the_standard(tmp_path, tshark):
    path = scenario(tmp_path)
    overrides = {"transport.name": "dctcp", "transport.dctcp.port.mark_above": "30kB", "fabric.pfc.xoff": "4kB"}
    result = flowloom.run(path, **{key.replace(".", "__"): value for key, value in overrides.items()})
    folder = result.save(tmp_path / "out")
    packets = dissected(tshark, folder, "macc.opcode", "macc.cbfc.pause_time.c7")
    pauses = [p for p in packets if p["macc.opcode"]]
    assert {int(p["macc.opcode"], 0) for p in pauses} == {0x0101}
    times = collections.Counter(int(p["macc.cbfc.pause_time.c7"], 0) for p in pauses)
    assert set(times) == {0, 0xFFFF}
    assert all(p["frame.interface_name"].startswith("s0-") for p in pauses)


def slices(trace):
    """Return the names of the tracks by id with their parents, and the slices by track: begin, end and name."""
    tracks, ends, found, events = {}, collections.defaultdict(list), collections.defaultdict(list), []
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        else:
            events.append((packet.timestamp, packet.track_event))
    for at, event in sorted(events, key=lambda pair: pair[0]):
        if event.type == event.TYPE_SLICE_BEGIN:
            ends[event.track_uuid].append((at, event.name))
        elif event.type == event.TYPE_SLICE_END:
            begin, name = ends[event.track_uuid].pop()
            found[event.track_uuid].append((begin, at, name))
    assert not any(ends.values()), "a slice has no end"
    return tracks, found


@pytest.mark.parametrize("transport", ["phost", "dctcp", "ndp"])
def test_the_slices_of_a_port_add_up_to_the_time_in_which_it_was_busy(traced, transport):
    from google.protobuf.unknown_fields import UnknownFieldSet
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    result, _ = traced(transport)
    trace = Trace.FromString(result.trace["timeline.pftrace"])
    for packet in trace.packet:
        parts = (packet, packet.track_event, packet.track_descriptor, *packet.track_event.debug_annotations)
        assert all(len(UnknownFieldSet(part)) == 0 for part in parts)
        assert packet.trusted_packet_sequence_id == 1
    tracks, found = slices(trace)
    names = {uuid: track.name for uuid, track in tracks.items()}

    links = result.series["links"].to_pandas().groupby("link", observed=True)
    ports = {names[uuid]: spans for uuid, spans in found.items() if names.get(tracks[uuid].parent_uuid) == "ports"}
    busy_ns = {name: sum(end - begin for begin, end, _ in spans) for name, spans in ports.items()}
    assert busy_ns == pytest.approx((links.bytes.sum() * 0.8).to_dict(), rel=0.01)  # 0.8 ns a byte; times are whole nanoseconds
    for spans in ports.values():
        assert all(end <= begin for (_, end, _), (begin, _, _) in itertools.pairwise(spans))

    # The packets that wait for a port, and how long, are its queue.
    waits = sum(end - begin for uuid, spans in found.items() if names[uuid] == "waiting" for begin, end, _ in spans)
    queue = result.summary["queue"]
    packets = {hop: sum(links.packets.sum()[name] for name in links.groups if hop_of(name) == hop) for hop in queue}
    expected = sum(queue[hop]["wait_us_mean"] * packets[hop] * 1000 for hop in queue)
    assert waits == pytest.approx(expected, rel=0.02)

    flows = {names[uuid]: spans for uuid, spans in found.items() if names.get(tracks[uuid].parent_uuid) == "flows"}
    for row in result.flows.to_pylist():
        [(begin, end, name)] = flows[f"flow {row['id']}"]
        assert name == f"h{row['src']} to h3, 30kB"
        assert (begin, end) == pytest.approx((row["start"] * 1e9, row["finish"] * 1e9), abs=1)


def hop_of(link):
    return "-".join("host" if end.startswith("h") else "switch" for end in link.split("-"))


def test_a_run_without_a_trace_writes_none(tmp_path):
    path = scenario(tmp_path, SCENARIO.replace("trace = {}", ""))
    result = flowloom.run(path)
    assert dict(result.trace) == {}
    assert not (result.save(tmp_path / "out") / "trace").exists()


def test_a_saved_trace_is_read_again_and_replaced_with_its_result(traced, tmp_path):
    result, folder = traced("phost")
    assert sorted(flowloom.load(folder).trace) == ["flowloom.lua", "packets.pcapng", "timeline.pftrace"]
    assert dict(flowloom.load(folder).trace) == dict(result.trace)
    (folder / "trace" / "packets.pcapng").rename(tmp_path / "elsewhere")
    try:
        with pytest.raises(flowloom.ScenarioError, match=r"trace/packets\.pcapng is damaged: it is missing"):
            flowloom.load(folder)
    finally:
        (tmp_path / "elsewhere").rename(folder / "trace" / "packets.pcapng")


def test_a_trace_says_that_it_is_cut(tmp_path):
    result = flowloom.run(scenario(tmp_path), trace__records=50)
    [warning] = [found for found in result.warnings if found.flag == "trace cut"]
    assert warning.text.startswith("trace.records: 50 transmissions and drops were recorded until ")


def test_a_trace_that_is_not_kept_is_told(tmp_path):
    done = CliRunner().invoke(app, ["run", str(scenario(tmp_path))])
    assert done.stdout.splitlines()[-1] == "not saved; give --out DIR to keep the flows and the trace"


def test_flows_that_do_not_exist_are_told(tmp_path):
    result = flowloom.run(scenario(tmp_path), trace__flows=[1, 3], observe__flows=[4])
    texts = [found.text for found in result.warnings]
    assert any(text.startswith("trace.flows: no flow has the number 3, so nothing is recorded of it;") for text in texts)
    assert any(text.startswith("observe.flows: no flow has the number 4") and "from 0 to 2" in text for text in texts)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ('trace.links=["s0-h9"]', 'trace.links.0: no link is called "s0-h9"'),
        ('trace.to="0s"', "trace.to: found 0ps, which is not after trace.from (0ps)"),
        ("trace.records=0", "trace.records: found 0"),
        ("trace.flow=[1]", 'did you mean "flows"'),
    ],
)
def test_a_wrong_key_is_named(tmp_path, override, message):
    done = CliRunner().invoke(app, ["run", str(scenario(tmp_path)), "--set", override])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
