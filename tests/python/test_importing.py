"""Files of other tools become scenarios: hosts, links, rates, delays and flows are those of a hand-made file, and they run.

`FLOWLOOM_MUTANTS` is the number of mutants of each file, 60 by default. `FLOWLOOM_MUTANT_SEED` repeats a failure.
"""

from __future__ import annotations

import csv
import os
import random
import re
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import flowloom
import mutants
from flowloom import ScenarioError, importing
from flowloom.cli import app
from flowloom.importing import formats, logs, matrices, parts, source, units

MUTANTS = int(os.environ.get("FLOWLOOM_MUTANTS", "60"))
SEED = int(os.environ.get("FLOWLOOM_MUTANT_SEED", "26"))
MESSAGE_MAX = 3000

HPCC_TOPOLOGY = """\
7 3 6
4 5 6
0 4 100Gbps 1000ns 0.000000
1 4 100Gbps 1000ns 0.000000
2 5 25Gbps 0.001ms 0
3 5 50000000000.0 1us 0
4 6 400Gbps 2us 0.5
5 6 400Gbps 2us 0

First line: total node #, switch node #, link #
"""
HPCC_FLOWS = """\
3
0 3 3 100 1000000 2
1 2 3 100 500000 2.0000015
3 0 3 101 7 2.000001
2 1 3 100 9999 5

src0 dst0 3 dst_port0 size0 start_time0
"""
HTSIM_TOPO = """\
# two pods of two racks of two hosts
Nodes 8
Tiers 3
Podsize 4

Tier 0
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 300

Tier 1
downlink_speed_gbps 100
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 700
Switch_Latency_ns 500
Oversubscribed 2
Bundle 1

Tier 2
Downlink_speed_Gbps 50
Radix_Down 4
Downlink_Latency_ns 5000
Bundle 2
"""
HTSIM_CM = """\
Nodes 8
Connections 4
Triggers 2
Failures 1
0->5 id 1 start 0 size 200000 send_done_trigger 1
5->0 id 2 trigger 1 size 100000 recv_done_trigger 2
3->1 id 3 start 2000000 size 300000
4->2 id 4 start 500 size 0 prio 3
trigger id 1 oneshot
trigger id 2 barrier count 2
failure switch_type AGG switch_id 0 link_id 1
"""
GOAL = """\
num_ranks 3
// Rank 0 computes for 2 us, sends, and sends again when the answer is there and it has computed for another microsecond.
rank 0 {
l1: calc 2000 cpu 1
l2: send 3000b to 1 tag 7
l2 requires l1
l3: recv 100b from 1 tag 8
l3 requires l2
l4: calc 1000
l4 requires l3
l5: send 5000b to 2
l5 requires l4
l6: send 10b to 0 tag 1
l7: recv 10b from 0 tag 1
}
rank 1 {
l1: recv 3000b from 0 tag 7
l2: send 100b to 0 tag 8
l2 requires l1
l3: send 0b to 2 tag 9
l3 irequires l2
}
rank 2 {
l1: recv 5000b from 0 cpu 2
}
"""
GML = """\
Creator "by hand"
graph [
  label "Three towns"
  node [ id 0 label "Paris" Latitude 48.85341 Longitude 2.3488 ]
  node [ id 1 label "London" Latitude 51.50853 Longitude -0.12574 ]
  node [ id 2 label "London" ]
  node [ id 7 label "Nowhere" ]
  edge [ source 0 target 1 LinkSpeed "10" LinkSpeedUnits "G" LinkSpeedRaw 10000000000.0 ]
  edge [ source 0 target 1 LinkLabel "OC-48c" ]
  edge [ source 1 target 2 LinkSpeed "155" LinkSpeedUnits "M" delay "3ms" ]
  edge [ source 1 target 1 ]
]
"""
GRAPHML = """\
<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="type" attr.type="string" for="node" id="k" />
  <key attr.name="bandwidth" attr.type="string" for="edge" id="b" />
  <graph edgedefault="directed">
    <node id="a"><data key="k">host</data></node>
    <node id="b"><data key="k">Host</data></node>
    <node id="s"><data key="k">switch</data></node>
    <edge source="a" target="s"><data key="b">40 Gbps</data></edge>
    <edge source="s" target="a"><data key="b">40 Gbps</data></edge>
    <edge source="s" target="b"><data key="b">10Gb/s</data></edge>
  </graph>
</graphml>
"""
DISTANCES = """\
,Ulm,Bonn,Kiel
Ulm,0,300,
Bonn,300,0,450.5
Kiel,,450.5,0
"""
ADJACENCY = "0 1 1 0\n1 0 0 0\n1 0 0 1\n0 0 1 0\n"
COFLOWS = """\
4 3
1 0 2 0 1 1 2:4.0
2 10 1 3 2 0:1.0 3:2
7 10 1 0 1 1:0.000001
"""
LOG = """\
start_us,src,dst,bytes,proto
1700000000000000,10.0.0.1,10.0.0.2,1500,tcp
1700000000000250.5,10.0.0.2,web-1,3000,tcp
1700000000000100,web-1,10.0.0.1,100,udp
1700000000000100,web-1,web-1,100,udp
1700000000000100,web-1,10.0.0.1,0,udp
"""
PERCENT = "0 0\n1000 50\n3000 100\n"
GOOD = {
    "hpcc_topology": HPCC_TOPOLOGY,
    "hpcc_flows": HPCC_FLOWS,
    "htsim_topo": HTSIM_TOPO,
    "htsim_cm": HTSIM_CM,
    "gml": GML,
    "graphml": GRAPHML,
    "distances_km": DISTANCES,
    "adjacency": ADJACENCY,
    "coflows": COFLOWS,
    "flows": LOG,
    "bytes_percent": PERCENT,
}


class Imported:
    """An import of texts, by the names of their files."""

    def __init__(self, folder: Path, named: dict[str, str] | None = None, **texts: str | bytes) -> None:
        paths = []
        for name, text in texts.items():
            path = folder / name.replace("_", ".")
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
            paths.append(path)
        self.out = folder / "made"
        named = {str(folder / file.replace("_", ".")): name for file, name in (named or {}).items()}
        self.made = importing.make(paths, self.out, named)
        self.text = self.made.path.read_text()
        self.table: dict[str, Any] = tomllib.loads(self.text)

    def network(self) -> dict[str, Any]:
        return tomllib.loads((self.out / "network.toml").read_text())

    def names(self, kind: str) -> list[str]:
        return [node["name"] for node in self.network()["node"] if node["kind"] == kind]

    def links(self) -> list[tuple[str, str, str, str]]:
        return [(link["a"], link["b"], link["rate"], link["delay"]) for link in self.network()["link"]]

    def flows(self) -> list[tuple[str, ...]]:
        return [tuple(row) for row in csv.reader((self.out / "flows.csv").open())][1:]

    def run(self, **overrides: Any) -> pa.Table:
        """Run the scenario, whose flows must all finish, and return them."""
        result = flowloom.run(self.made.path, **overrides)
        assert result.summary["finished"] == result.summary["flows"]
        return result.flows

    def says(self, *words: str) -> bool:
        """Return whether a comment of the scenario has these words, whatever its line breaks."""
        comments = re.sub(r"\n# +", " ", self.text)
        return all(word in comments for word in words)


def test_a_topology_and_flows_of_hpcc(tmp_path):
    made = Imported(tmp_path, net_txt=HPCC_TOPOLOGY, flow_txt=HPCC_FLOWS)
    assert made.names("host") == ["h0", "h1", "h2", "h3"]
    levels = {node["name"]: (node["level"], node["tier"]) for node in made.network()["node"] if node["kind"] == "switch"}
    assert levels == {"s4": (1, "tier1"), "s5": (1, "tier1"), "s6": (2, "tier2")}
    assert made.links() == [
        ("h0", "s4", "100Gb/s", "1us"), ("h1", "s4", "100Gb/s", "1us"), ("h2", "s5", "25Gb/s", "1us"),
        ("h3", "s5", "50Gb/s", "1us"), ("s4", "s6", "400Gb/s", "2us"), ("s5", "s6", "400Gb/s", "2us"),
    ]  # fmt: skip
    # A link loses packets both ways. The flow after the third is none.
    assert [(f["where"], f["probability"]) for f in made.table["fault"]] == [("s4-s6", 0.5), ("s6-s4", 0.5)]
    assert made.flows() == [("0", "0", "3", "1000000"), ("0.000001", "3", "0", "7"), ("0.0000015", "1", "2", "500000")]
    assert made.says("the 1 after them are left out", "Time 0 is 2 s of the file", "Priority groups")
    flows = made.run(fault=[])
    assert flows["bytes"].to_pylist() == [1_000_000, 7, 500_000]
    # 7 bytes are one small packet, so the way takes the delays of four links, 1 + 2 + 2 + 1 us, and little more.
    assert 6e-6 < flows["optimum"][1].as_py() < 6.1e-6


def test_counts_of_hpcc_may_have_the_racks_and_rates_between_them(tmp_path):
    made = Imported(tmp_path, net_txt=HPCC_TOPOLOGY.replace("7 3 6", "7 3 2 6 25000000000 25000000000"))
    assert len(made.names("host")) == 4 and len(made.links()) == 6
    # Without flows, there are random ones.
    assert made.table["workload"]["kind"] == "poisson" and made.says("No file has flows")
    assert made.run(workload__flows=20, fault=[]).num_rows == 20


def test_hosts_of_hpcc_have_the_numbers_of_our_hosts_even_if_a_switch_comes_first(tmp_path):
    star = "4 1 3\n0\n0 1 10Gbps 1us 0\n0 2 10Gbps 1us 0\n0 3 10Gbps 1us 0\n"
    made = Imported(tmp_path, net_txt=star, flow_txt="1\n3 1 3 100 1000 0\n")
    assert made.names("host") == ["h1", "h2", "h3"] and made.flows() == [("0", "2", "0", "1000")]


def test_flows_of_hpcc_alone_are_on_one_switch(tmp_path):
    made = Imported(tmp_path, flow_txt=HPCC_FLOWS)
    assert made.table["topology"] == {"kind": "single_switch", "hosts": 4, "host_rate": "100Gb/s", "delay": "1us"}
    assert made.says("No file says the network")
    assert sum(made.run()["bytes"].to_pylist()) == 1_500_007


def test_a_topology_and_connections_of_htsim(tmp_path):
    made = Imported(tmp_path, net_topo=HTSIM_TOPO, traffic_cm=HTSIM_CM)
    assert len(made.names("host")) == 8
    counted = Counter(made.links())
    # Half of a switch's latency is on each of its links: 1000 + 300/2, 700 + (300 + 500)/2, and 5000 + 500/2 ns.
    host = [link for link in counted if link[0].startswith("h")]
    up = [link for link in counted if link[0].startswith("tor")]
    core = [link for link in counted if link[0].startswith("agg")]
    assert (len(host), len(up), len(core)) == (8, 8, 4)
    assert {link[2:] for link in host} == {("100Gb/s", "1.15us")}
    assert {link[2:] for link in up} == {("100Gb/s", "1.1us")}
    assert {link[2:] for link in core} == {("50Gb/s", "5.25us")}
    # Two parallel links join each aggregation switch to its core: those of both pods that have the same place.
    assert {counted[link] for link in core} == {2}
    assert {link[:2] for link in core} == {("agg0", "core0"), ("agg1", "core1"), ("agg2", "core0"), ("agg3", "core1")}
    assert made.flows() == [
        ("0", "0", "0", "5", "200000", ""),
        ("3", "0.0000000005", "4", "2", "100000000", ""),
        ("2", "0.000002", "3", "1", "300000", ""),
        ("1", "", "5", "0", "100000", "0@acknowledged"),
    ]
    assert made.says("of size 0 (1): they have 100 MB", "Priorities", "Failures")
    flows = made.run()
    assert sum(flows["bytes"].to_pylist()) == 100_600_000


def test_connections_of_htsim_wait_for_their_triggers(tmp_path):
    """A barrier waits for all that activate it; a multishot lets one connection start each time."""
    header = "Nodes 4\nConnections 6\nTriggers 2\n"
    begin = "0->1 id 1 start 0 size 1000 recv_done_trigger 1\n2->1 id 2 start 0 size 2000 recv_done_trigger 1\n"
    wait = "1->3 id 3 trigger 1 size 500 send_done_trigger 2\n1->2 id 4 trigger 1 size 400 recv_done_trigger 2\n"
    again = "3->0 id 5 trigger 2 size 300\n3->1 id 6 trigger 2 size 200\n"
    made = Imported(tmp_path, net_cm=header + again + begin + wait + "trigger id 1 barrier count 2\ntrigger id 2 multishot\n")
    assert {row[0]: row[5] for row in made.flows()} == {
        "2": "", "3": "", "4": "2@received 3@received", "5": "2@received 3@received", "0": "4@acknowledged", "1": "5@received"
    }  # fmt: skip
    assert made.says("Connections of multishot triggers (2): each waits for the activation of its own place")
    flows = made.run()
    starts = dict(zip(flows["bytes"].to_pylist(), flows["start"].to_pylist(), strict=True))
    finishes = dict(zip(flows["bytes"].to_pylist(), flows["finish"].to_pylist(), strict=True))
    assert starts[500] == starts[400] == pytest.approx(max(finishes[1000], finishes[2000]) + 1e-12, abs=2e-15)


def test_a_schedule_in_goal(tmp_path):
    made = Imported(tmp_path, net_goal=GOAL)
    assert made.flows() == [
        ("0", "0", "0", "1", "3000", ""),
        ("2", "", "1", "0", "100", "0@received"),
        ("3", "", "1", "2", "1", "0@received"),
        ("1", "", "0", "2", "5000", "0@begun+0.000001 2@received+0.000001"),
    ]
    assert made.says(
        "Time 0 is 0.000002 s of the file", "Messages of 0 bytes (1)", "Sends that no receive takes (1)", "Which processor"
    )
    flows = made.run(**{"transport.name": "pfabric"})
    rows = {row["bytes"]: row for row in flows.to_pylist()}
    assert rows[100]["start"] == pytest.approx(rows[3000]["finish"], abs=2e-12)
    assert rows[5000]["start"] == pytest.approx(rows[100]["finish"] + 1e-6, abs=2e-12)


def test_a_topology_of_htsim_that_has_a_kind_here(tmp_path):
    """Two tiers are a leaf-spine, and three a fat tree, whose tiers may differ."""
    header = "Nodes 8\nTiers 2\nPodsize 8\n"
    leaves = "Tier 0\nDownlink_speed_Gbps 25\nRadix_Down 4\nRadix_Up 2\nDownlink_Latency_ns 1000\nOversubscribed 1\n"
    spines = "Tier 1\nDownlink_speed_Gbps 50\nRadix_Down 2\nDownlink_Latency_ns 2000\n"
    made = Imported(tmp_path, net_topo=header + leaves + spines)
    assert made.table["topology"] == {
        "kind": "leaf_spine", "racks": 2, "hosts_per_rack": 4, "spines": 2, "host_rate": "25Gb/s", "spine_rate": "50Gb/s",
        "delay": "2us", "host_delay": "1us",
    }  # fmt: skip
    (tmp_path / "fat").mkdir()
    tier = "Tier {}\nDownlink_speed_Gbps 100\nRadix_Down {}\n{}Downlink_Latency_ns 1000\n"
    tiers = [tier.format(0, 2, "Radix_Up 2\n"), tier.format(1, 2, "Radix_Up 2\n"), tier.format(2, 4, "")]
    made = Imported(tmp_path / "fat", net_topo="Nodes 16\nTiers 3\nPodsize 4\n" + "".join(tiers))
    assert made.table["topology"] == {"kind": "fat_tree", "k": 4, "rate": "100Gb/s", "delay": "1us", "host_delay": "1us"}
    # Eight hosts of 50 Gb/s, and two links of 100 Gb/s above them.
    (tmp_path / "over").mkdir()
    tier = "Tier {}\nDownlink_speed_Gbps {}\nRadix_Down {}\nDownlink_Latency_ns {}\n"
    above = "Radix_Up 2\nOversubscribed {}\n"
    tiers = [
        tier.format(0, 50, 8, 300) + above.format(2),
        tier.format(1, 100, 2, 1000) + above.format(1),
        tier.format(2, 100, 4, 5000),
    ]
    made = Imported(tmp_path / "over", net_topo="Nodes 64\nTiers 3\nPodsize 16\n" + "".join(tiers))
    assert made.table["topology"] == {
        "kind": "fat_tree", "k": 4, "hosts_per_edge": 8, "host_rate": "50Gb/s", "rate": "100Gb/s",
        "host_delay": "300ns", "delay": "1us", "core_delay": "5us",
    }  # fmt: skip
    assert made.run(workload__flows=10).num_rows == 10


def test_a_graph_whose_nodes_are_alike_has_a_host_at_each(tmp_path):
    made = Imported(tmp_path, towns_gml=GML)
    assert made.names("host") == ["Paris", "London", "London_2"]
    links = made.links()
    assert [link[2] for link in links] == ["10Gb/s", "2.48832Gb/s", "155Mb/s", "10Gb/s", "10Gb/s", "155Mb/s"]
    # Paris and London are 343.8 km apart, by the spherical law of cosines, and light takes 5 us per kilometre in fibre.
    assert float(links[0][3].removesuffix("ms")) == pytest.approx(343.8 * 5e-3, rel=1e-3)
    assert links[1][3] == links[0][3] and links[2][3] == "3ms"
    assert made.says("Nowhere", "1 link from a node to itself", "London is London_2")
    assert made.run(workload__flows=10).num_rows == 10


def test_a_graph_that_knows_its_hosts(tmp_path):
    made = Imported(tmp_path, net_graphml=GRAPHML, log_csv="start_s,src,dst,bytes\n0,b,a,1000\n")
    assert made.names("host") == ["a", "b"] and made.names("switch") == ["s"]
    # The edge back is the same link.
    assert made.links() == [("a", "s", "40Gb/s", "1us"), ("s", "b", "10Gb/s", "1us")]
    assert made.flows() == [("0", "1", "0", "1000")]
    assert made.says("Links whose delay is not known (2 of 2)")
    assert made.run()["bytes"].to_pylist() == [1000]


@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("distances_km", [("10Gb/s", "1.5ms"), ("10Gb/s", "2.2525ms")]),
        ("delays_ms", [("10Gb/s", "300ms"), ("10Gb/s", "450.5ms")]),
        ("delays_us", [("10Gb/s", "300us"), ("10Gb/s", "450.5us")]),
        ("rates_gbps", [("300Gb/s", "1us"), ("450.5Gb/s", "1us")]),
    ],
)
def test_a_matrix_of_numbers_says_what_they_are(tmp_path, name, links):
    made = Imported(tmp_path, {"m_csv": name}, m_csv=DISTANCES)
    assert made.names("host") == ["Ulm", "Bonn", "Kiel"]
    assert [link[2:] for link in made.links()[:2]] == links and len(made.links()) == 5


def test_a_matrix_that_could_mean_several_things_is_not_guessed(tmp_path):
    with pytest.raises(ScenarioError) as error:
        Imported(tmp_path, m_csv=DISTANCES)
    for words in ("distances_km (450.5 km are a delay of 2.2525ms)", "delays_us (450.5 us are", "rates_gbps (450.5 Gb/s)"):
        assert words in str(error.value)
    assert "adjacency" not in str(error.value)


@pytest.mark.parametrize("text", [ADJACENCY, ADJACENCY.replace(" ", ","), "0 1 1 0\n0 0 0 0\n0 0 0 1\n0 0 0 0\n"])
def test_an_adjacency_matrix_needs_no_option(tmp_path, text):
    made = Imported(tmp_path, m_txt=text)
    between = [link[:2] for link in made.links() if link[0].endswith("switch")]
    assert between == [("n0 switch", "n1 switch"), ("n0 switch", "n2 switch"), ("n2 switch", "n3 switch")]
    assert made.says("Pairs of nodes whose two cells differ (3)") == (text.count("1") == 3)


def test_coflows(tmp_path):
    made = Imported(tmp_path, trace_txt=COFLOWS)
    assert made.table["topology"]["hosts"] == 4
    assert (made.out / "coflows.txt").read_text() == COFLOWS
    assert made.says("3 coflows with 5 flows of 7 MB", "Flows within a rack (1)")
    # 4 MB from two mappers, 1 MB, and 1 byte; the flow of 2 MB stays in its rack.
    assert sorted(made.run()["bytes"].to_pylist()) == [1, 1_000_000, 2_000_000, 2_000_000]


def test_large_coflows_are_scaled(tmp_path):
    made = Imported(tmp_path, trace_txt=COFLOWS.replace("2:4.0", "2:40000.0"))
    assert made.table["workload"]["size_divisor"] == made.table["workload"]["time_divisor"] == 10
    assert made.says("Sizes and times are divided by 10")


def test_a_log_of_flows(tmp_path):
    made = Imported(tmp_path, log_csv=LOG)
    assert made.names("host") == ["10.0.0.1", "10.0.0.2", "web-1"]
    assert made.flows() == [("0", "0", "1", "1500"), ("0.0001", "2", "0", "100"), ("0.0002505", "1", "2", "3000")]
    assert made.says("proto", "Time 0 is 1700000000 s", "from a host to itself (1)", "of 0 bytes (1)")
    assert made.run()["bytes"].to_pylist() == [1500, 100, 3000]


def test_a_log_in_other_forms(tmp_path):
    rows = [["2026-01-01T00:00:00", "5", "0", "10"], ["2026-01-01T00:00:01.5", "0", "2", "20"]]
    expected = [("0", "5", "0", "10"), ("1.5", "0", "2", "20")]
    for number, separator in enumerate("\t; "):
        folder = tmp_path / str(number)
        folder.mkdir()
        text = "\n".join(separator.join(row) for row in [["Timestamp", "Src_IP", "DstIP", "size"], *rows])
        made = Imported(folder, log_tsv=text)
        assert made.flows() == expected and made.table["topology"]["hosts"] == 6
    pq.write_table(
        pa.table({"start": [7.25, 7.0], "src": [1, 0], "dst": [0, 1], "bytes": [30, 40], "tenant": [0, 0]}),
        tmp_path / "log.parquet",
    )
    made = Imported(tmp_path, log_parquet=(tmp_path / "log.parquet").read_bytes())
    assert made.flows() == [("0", "0", "1", "40"), ("0.25", "1", "0", "30")]
    assert made.says("tenant", "The column start says no unit")


@pytest.mark.parametrize(
    "text",
    [
        "bytes,start,src,dst\n1,500,0,a,b\n2,000,1,b,a\n",  # 1,500 bytes
        "bytes start src dst\n1500 2026-01-01 00:00:00 a b\n",
        "bytes\tstart\tsrc\tdst\n0\t1500\t0\ta\tb\n",
    ],
)
def test_a_row_of_a_log_has_no_more_cells_than_there_are_columns(tmp_path, text):
    cells = re.escape(f"{tmp_path / 'i.csv'}:2: the row has 5 cells, and the first line names 4 columns")
    with pytest.raises(ScenarioError, match=cells):
        Imported(tmp_path, i_csv=text)
    with pytest.raises(ScenarioError, match=cells):
        importing.read(tmp_path / "i.csv", "flows")
    separator = "," if "," in text else "\t"
    (ends := tmp_path / "ends").mkdir()
    made = Imported(ends, i_csv=f"bytes,start,src,dst\n1500,0,a,b{',' * 3}\n".replace(",", separator))
    assert made.flows() == [("0", "0", "1", "1500")]


DATES = """\
bytes,start,src,dst
1500,2026-10-25T02:59:59,a,b
1500,2026-10-25T03:59:59+01:00,b,a
1500,2026-10-25T03:00:00,b,a
"""


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_dates_without_a_zone_do_not_depend_on_the_machine(tmp_path, monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        made = Imported(tmp_path, i_csv=DATES)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [start for start, *_ in made.flows()] == ["0", "0", "1"]
    assert made.says("The column start has dates without a time zone: they are read as UTC")
    assert not made.says("says no unit")


def test_dates_keep_their_digits(tmp_path):
    starts = ["2026-01-01T10:00:00.000000100Z", "2026-01-01T11:00:00,000000900123+01:00"]
    made = Imported(tmp_path, i_csv=f"bytes\tstart\tsrc\tdst\n5\t{starts[0]}\ta\tb\n5\t{starts[1]}\ta\tb\n")
    assert [start for start, *_ in made.flows()] == ["0", "0.000000800123"]
    assert not made.says("says no unit") and not made.says("time zone")


@pytest.mark.parametrize(("unit", "zone"), [("ns", None), ("ns", "Europe/Berlin"), ("us", None), ("s", "UTC")])
def test_dates_of_parquet(tmp_path, unit, zone):
    factor = {"ns": 10**9, "us": 10**6, "s": 1}[unit]
    # The second start is in the hour that Berlin's clocks show twice.
    starts = [1792886399 * factor + (100 if unit == "ns" else 0), 1792891000 * factor + (900 if unit == "ns" else 0)]
    column = pa.array(starts, pa.timestamp(unit, zone))
    pq.write_table(pa.table({"start": column, "src": [0, 1], "dst": [1, 0], "bytes": [5, 5]}), tmp_path / "i.parquet")
    made = Imported(tmp_path, i_parquet=(tmp_path / "i.parquet").read_bytes())
    assert [start for start, *_ in made.flows()] == ["0", "4601.0000008" if unit == "ns" else "4601"]
    assert made.says("time zone") == (zone is None)


@pytest.mark.parametrize(
    "text",
    ["bytes\n10\n30\n10\n20\n", "10\n30\n10\n20\n", "id;Bytes\n1;10\n2;30\n3;10\n4;20\n", "size\tx\n1e1\t\n30\t\n10\t\n20\t\n"],
)
def test_a_log_of_sizes_needs_no_option(tmp_path, text):
    made = Imported(tmp_path, log_csv=text)
    steps = [line for line in (made.out / "sizes.csv").read_text().splitlines() if line[0].isdigit()]
    assert steps == ["10,0.5", "20,0.5", "20,0.75", "30,0.75", "30,1"]
    assert set(made.run(workload__flows=50)["bytes"].to_pylist()) == {10, 20, 30}
    assert importing.read(tmp_path / "log.csv", None).mean == 17.5


@pytest.mark.parametrize("names", ["size,cdf", "bytes;F(x)", "Flow Size\tpercent", "nbytes p", "x,y"])
def test_shares_below_other_names_are_no_log_of_sizes(tmp_path, names):
    """A log would have each size of the table once, whatever its share."""
    between = next(sign for sign in ",;\t " if sign in names)
    rows = [(100, 0.05), (2000, 0.95), (3000, 1)]
    text = "".join(f"{size}{between}{share}\n" for size, share in rows)
    with pytest.raises(
        ScenarioError, match=r"the columns could mean several things; give --as bytes_probability \(mean 1,075 B"
    ):
        Imported(tmp_path, x_csv=f"{names}\n{text}")
    percent = "".join(f"{size}{between}{100 * share}\n" for size, share in rows)
    made = Imported(tmp_path, x_csv=f"{names}\n{percent}")
    # Linear between the points: 0.05 * 100 + 0.9 * 1050 + 0.05 * 2500 = 1075.
    assert importing.read(tmp_path / "x.csv", None).mean == pytest.approx(1075) and made.says("read as bytes_percent")


@pytest.mark.parametrize(
    "text", ["bytes,start\n5,0\n7,1\n", "id,bytes\n5,7\n7,100\n", "bytes,port\n5,100\n", "size,ttl\n5,100\n6,99\n"]
)
def test_logs_with_few_columns_stay_logs(tmp_path, text):
    made = Imported(tmp_path, x_csv=text)
    assert importing.read(tmp_path / "x.csv", None).dialect == "flows"
    assert made.says("Columns that are not read: ")


def test_commas_in_numbers_of_a_table_are_no_columns(tmp_path):
    """A row that cannot be read must not be taken for a line of names: the rest would be another distribution."""
    with pytest.raises(ScenarioError, match=r"x.csv:1: not a row of numbers: 100;0,5"):
        Imported(tmp_path, {"x_csv": "bytes_probability"}, x_csv="100;0,5\n200;1\n")


def test_a_parquet_file_with_sizes_alone(tmp_path):
    pq.write_table(pa.table({"bytes": [5, 5]}), tmp_path / "x.parquet")
    assert importing.read(tmp_path / "x.parquet", None).points == [(5.0, 1.0)]


def test_sizes_go_with_a_topology(tmp_path):
    made = Imported(tmp_path, net_txt=HPCC_TOPOLOGY, sizes_txt=PERCENT)
    assert made.table["workload"]["sizes"] == {"cdf": "sizes.csv"} and made.table["topology"]["file"] == "network.toml"
    # Linear from 0 over (1000, 0.5) to (3000, 1): 500 / 2 + 2000 / 2.
    assert made.says("mean 1,250 B, largest 3,000 B")


def test_sizes_that_could_be_packets_come_with_what_each_reading_means(tmp_path):
    with pytest.raises(ScenarioError) as error:
        Imported(tmp_path, sizes_txt="1 0.5\n2 1\n")
    # In packets of 1460 B, half of the flows have one, and the others up to two: 1460 * (0.5 + 0.5 * 1.5).
    for words in ("--as bytes_probability (mean 1 B, largest 2 B)", "--as packets_probability (mean 1,825 B, largest 2,920 B)"):
        assert words in str(error.value)
    with pytest.raises(ScenarioError, match=r"ns2_bytes \(mean 1 B, largest 2 B\) or --as ns2_packets \(mean 1,825 B"):
        Imported(tmp_path, sizes_txt="1 1 0.5\n2 1 1\n")


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_numbers_that_count_rows_and_columns_are_names(tmp_path, first, between):
    """Tables are often written with the numbers of their rows. As cells, they would be one more node with links of its own."""
    rows = [["", first, first + 1, first + 2], [first, 0, 7, ""], [first + 1, 7, 0, 2], [first + 2, "", 2, 0]]
    text = "".join(between.join(map(str, row)) + "\n" for row in rows)
    log = f"start_s,src,dst,bytes\n0,{first},{first + 1},5\n"
    made = Imported(tmp_path, {"net_csv": "distances_km"}, net_csv=text, log_csv=log)
    assert sorted(link[3] for link in made.links()) == ["10us", "1us", "1us", "1us", "35us"]
    assert made.flows() == [("0", "0", "1", "5")]


def test_distances_along_a_line_are_no_names(tmp_path):
    made = Imported(tmp_path, {"net_csv": "distances_km"}, net_csv=",1,2,3\n1,,1,2\n2,1,,1\n3,2,1,\n")
    assert len(made.names("host")) == 4


def test_a_name_that_two_hosts_have_is_no_end_of_a_flow(tmp_path):
    """The first of them is as likely meant as the second."""
    graph = """graph [
        node [ id 5 label "a" ] node [ id 6 label "a" ] node [ id 7 label "b" ] node [ id 8 label "5" ]
        edge [ source 5 target 6 ] edge [ source 6 target 7 ] edge [ source 7 target 8 ]
    ]"""
    log = "start_s,src,dst,bytes\n0,{},b,1000\n"
    complaint = 'log.csv: a flow ends or begins at "a", but 2 hosts of net.gml have this name; give their ids, 5; 6'
    with pytest.raises(ScenarioError, match=re.escape(complaint)):
        Imported(tmp_path, net_gml=graph, log_csv=log.format("a"))
    # Host 5 is the first one, whose id it is, and not the last, whose label it is.
    assert Imported(tmp_path, net_gml=graph, log_csv=log.format("5")).flows() == [("0", "0", "2", "1000")]


def test_hosts_with_several_links_and_hosts_that_are_joined_directly(tmp_path):
    text = "5 1 6\n4\n0 4 1Gbps 1us 0\n0 1 1Gbps 1us 0\n1 4 1Gbps 1us 0\n2 3 1Gbps 3us 0\n1 4 1Gbps 1us 0.5\n2 4 1Gbps 1us 0\n"
    # The only link of host 3 leads to host 2, which forwards nothing.
    with pytest.raises(ScenarioError, match=r"there is a flow from h\d to h\d, but no path joins NICs of these hosts"):
        Imported(tmp_path, net_txt=text)
    made = Imported(tmp_path, net_txt=text, flow_txt="3\n0 2 3 100 1 0\n0 1 3 100 1 0\n3 2 3 100 1 0\n")
    ends = [("h0", "s4"), ("h0", "h1"), ("h1", "s4"), ("h2", "h3"), ("h1", "s4"), ("h2", "s4")]
    assert [link[:2] for link in made.links()] == ends
    assert made.says("3 hosts with several links (h0; h1; h2)", "a NIC for each of its links")
    # The link that loses packets is the third one of host 1.
    assert {fault["where"] for fault in made.table["fault"]} == {"h1:3-s4", "s4-h1:3"}
    flows = made.run()
    assert flows["src_nic"].to_pylist() == [1, 2, 1] and flows["dst_nic"].to_pylist() == [2, 1, 1]
    (tmp_path / "pair").mkdir()
    made = Imported(tmp_path / "pair", net_txt="2 0 1\n0 1 10Gbps 3001ps 0.25\n")
    assert made.links() == [("h0", "h1", "10Gb/s", "3.001ns")]
    assert made.table["fault"] == [{"kind": "loss", "where": "all", "probability": 0.25}]
    made.run(workload__flows=10)


def test_a_flow_that_waits_starts_no_earlier_than_the_file_says(tmp_path):
    # Rank 0 sends after 1 us, where time 0 is, and again no earlier than 5 us: 4 us after time 0.
    goal = (
        "num_ranks 2\nrank 0 {\nl1: calc 1000\nl2: send 8b to 1\nl2 requires l1\nl3: recv 8b from 1\nl4: calc 5000\n"
        "l5: send 9b to 1\nl5 requires l3\nl5 requires l4\n}\n"
        "rank 1 {\nl1: recv 8b from 0\nl2: send 8b to 0\nl2 requires l1\n}\n"
    )
    made = Imported(tmp_path, net_goal=goal)
    assert made.says("Time 0 is 0.000001 s of the file")
    assert {row[4]: row[1] for row in made.flows() if row[5]} == {"8": "", "9": "0.000004"}
    assert made.run()["start"].to_pylist()[-1] >= 4e-6
    # The file says nothing of when a trigger fires, and its first line is not the first flow.
    connections = (
        "Nodes 4\nConnections 3\nTriggers 1\n0->1 id 1 start 5000000 size 100\n"
        "2->3 id 2 start 0 size 200 send_done_trigger 1\n1->2 id 3 trigger 1 size 300\ntrigger id 1 oneshot\n"
    )
    (tmp_path / "htsim").mkdir()
    made = Imported(tmp_path / "htsim", net_cm=connections)
    assert [(row[1], row[4]) for row in made.flows()] == [("0", "200"), ("0.000005", "100"), ("", "300")]


def test_parallel_links_lose_what_each_of_them_does(tmp_path):
    links = "2 3 10Gbps 1us 0\n2 3 10Gbps 1us 0.01\n3 2 10Gbps 1us 0.02\n2 4 10Gbps 1us 0.03\n"
    made = Imported(tmp_path, net_txt=f"5 3 6\n2 3 4\n0 2 10Gbps 1us 0\n1 3 10Gbps 1us 0\n{links}")
    assert {fault["where"]: fault["probability"] for fault in made.table["fault"]} == {
        "s2-s3:2": 0.01, "s3-s2:2": 0.01, "s2-s3:3": 0.02, "s3-s2:3": 0.02, "s2-s4": 0.03, "s4-s2": 0.03
    }  # fmt: skip
    made.run(workload__flows=10)


def test_cells_between_tabs_may_be_empty_at_the_ends_of_a_row(tmp_path):
    text = "note\tbytes\tstart\tsrc\tdst\tport\n\t5000\t0.7\t3\t4\t443\nx\t60\t0.2\t4\t3\t\n"
    made = Imported(tmp_path, log_tsv=text)
    assert made.flows() == [("0", "4", "3", "60"), ("0.5", "3", "4", "5000")]
    # The column of numbers of rows, which has no name.
    (tmp_path / "index").mkdir()
    made = Imported(tmp_path / "index", log_tsv="\tbytes\tstart\tsrc\tdst\n0\t5000\t0.7\t3\t4\n1\t60\t0.2\t4\t3\n")
    assert made.flows() == [("0", "4", "3", "60"), ("0.5", "3", "4", "5000")]


@pytest.mark.parametrize(
    "text",
    [
        "\tA\tB\tC\nA\t\t1\t1\nB\t1\t\t\nC\t1\t\t\n",
        "\t1\t1\n1\t\t\n1\t\t\n",
        "0\t1\t1\n1\t0\t\n1\t0\t\n",
        "0\t1\t1\t\n1\t0\t0\t\n1\t0\t0\t\n",  # a tab after each cell
        "\tA\tB\tC\t\nA\t0\t1\t1\t\nB\t1\t0\t0\t\nC\t1\t0\t0\t\n",
    ],
)
def test_a_matrix_between_tabs(tmp_path, text):
    made = Imported(tmp_path, m_tsv=text)
    between = [tuple(end.removesuffix(" switch") for end in link[:2]) for link in made.links() if link[0].endswith("switch")]
    names = ["A", "B", "C"] if "A" in text else ["n0", "n1", "n2"]
    assert between == [(names[0], names[1]), (names[0], names[2])]


@pytest.mark.parametrize("stray", ["{}\t", "\t{}", "\t {}\t\t"])
def test_a_tab_at_the_end_of_a_row_between_blanks_is_no_cell(tmp_path, stray):
    log = "start src dst bytes\n0.7 3 4 5000\n0.2 4 3 60\n"
    for number, rows in enumerate(((0,), (1, 2), (0, 1, 2))):
        (folder := tmp_path / str(number)).mkdir()
        lines = [stray.format(line) if at in rows else line for at, line in enumerate(log.splitlines())]
        assert Imported(folder, log_txt="\n".join(lines)).flows() == [("0", "4", "3", "60"), ("0.5", "3", "4", "5000")]
    (folder := tmp_path / "matrix").mkdir()
    made = Imported(folder, m_txt="".join(f"{stray.format(line)}\n" for line in ADJACENCY.splitlines()))
    (folder := tmp_path / "plain").mkdir()
    assert made.links() == Imported(folder, m_txt=ADJACENCY).links()


def sparse(nodes, joined, end, between=","):
    """Return a matrix in which only some nodes are joined and all other cells are empty."""
    rows = [[""] * nodes for _ in range(nodes)]
    for a, b in joined:
        rows[a][b] = "1"
    return "".join(between.join(row) + end + "\n" for row in rows)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("nodes", [3, 4, 600])
def test_whether_a_separator_ends_rows_is_seen_at_the_end_of_a_matrix(tmp_path, nodes, closed, separator):
    # No link leads to the last node, so all rows end with an empty cell.
    joined = [(0, 1), *((a, 0) for a in range(1, nodes))]
    text = sparse(nodes, joined, separator * closed, separator)
    assert (len(text) > 262_144) == (nodes == 600)
    assert switch_links(tmp_path, text) == {("n0", f"n{at}") for at in range(1, nodes)}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("comment", ["", "# who is joined\n\n  \n"])
def test_a_row_of_a_matrix_may_be_empty(tmp_path, closed, separator, comment):
    # The cells below the diagonal have the links of a ring, and so have those above it.
    ring = [(a + 1, a) for a in range(5)] + [(5, 0)]
    expected = {(f"n{b}", f"n{a}") for a, b in ring}
    for joined in (ring, [(b, a) for a, b in ring]):
        (folder := tmp_path / str(joined[0][0])).mkdir()
        assert switch_links(folder, comment + sparse(6, joined, separator * closed, separator)) == expected


def test_lines_of_tabs_are_empty_where_no_row_has_as_many(tmp_path):
    row, names = "0\t1\t1\n1\t0\t0\n1\t0\t0\n", "\ta\tb\tc\na\t0\t1\t1\nb\t1\t0\t0\nc\t1\t0\t0\n"
    for number, text in enumerate((row.replace("\t", ",") + "\t\t\n\f\n", "\t\n" + row, "\t\t\t\n" + names + "\t\t\t\n")):
        (folder := tmp_path / str(number)).mkdir()
        one, two, three = "abc" if text.endswith("\t\t\t\n") else ("n0", "n1", "n2")
        assert switch_links(folder, text) == {(one, two), (one, three)}


def switch_links(folder, text):
    """Return the ends of the links between switches of an adjacency matrix."""
    made = Imported(folder, {"m_csv": "adjacency"}, m_csv=text)
    return {tuple(end.removesuffix(" switch") for end in link[:2]) for link in made.links() if link[0].endswith("switch")}


def test_a_large_matrix_may_have_its_only_cell_of_the_last_column_below_its_head(tmp_path):
    nodes = 600
    rows = sparse(nodes, [(a, 0) for a in range(1, nodes)] + [(nodes - 2, nodes - 1)], "").splitlines()
    names = ",".join(f"v{at}" for at in range(nodes))
    for number, end in enumerate(("", ",")):
        (folder := tmp_path / str(number)).mkdir()
        text = f",{names}{end}\n" + "".join(f"v{at},{row}{end}\n" for at, row in enumerate(rows))
        made = Imported(folder, {"m_csv": "adjacency"}, m_csv=text)
        between = {link[:2] for link in made.links() if link[0].endswith("switch")}
        assert between == {("v0 switch", f"v{at} switch") for at in range(1, nodes)} | {("v598 switch", "v599 switch")}


def test_names_have_one_meaning(tmp_path):
    # Both links would be called a-b-c, and a trace would take 7 and +1 for numbers of hosts.
    ends = [("a-b", "c"), ("a", "b-c"), ("x:2", "c"), ("arbiter", "c"), ("7", "c"), ("+1", "b-c"), ("x_2", "c"), ("c", "b-c")]
    edges = "\n".join(f'edge [ source "{a}" target "{b}" ]' for a, b in ends)
    names = sorted({name for pair in ends for name in pair})
    kind = {name: "switch" if name in ("c", "b-c") else "host" for name in names}
    nodes = "\n".join(f'node [ id "{name}" label "{name}" type "{kind[name]}" ]' for name in names)
    made = Imported(tmp_path, x_gml=f"graph [\n{nodes}\n{edges}\n]\n")
    assert sorted(made.names("host")) == ["a", "a_b", "arbiter_4", "n+1", "n7", "x_2", "x_2_6"]
    made.run(workload__flows=10)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("100Gbps", 10**11), ("25Gb/s", 25 * 10**9), ("1MBps", 8 * 10**6), ("2Kib/s", 2048), ("1e10", 10**10),
     ("10 Mbit/s", 10**7), ("0", None), ("999", None),
     ("fast", None), ("-1Gbps", None), ("1Tbps2", None), ("1e40", None), (".", None)],
)  # fmt: skip
def test_rates(text, rate):
    assert units.rate_bps(text) == rate


@pytest.mark.parametrize(
    ("text", "delay"),
    [("1000ns", 10**6), ("0.001ms", 10**6), ("1us", 10**6), ("0.5", 5 * 10**11), ("1e-6s", 10**6), ("0", 0), ("1001s", None),
     ("-1us", None), ("soon", None)],
)  # fmt: skip
def test_delays(text, delay):
    assert units.delay_ps(text) == delay


ERRORS = [
    (
        HPCC_TOPOLOGY,
        "0 4 100Gbps",
        "0 9 100Gbps",
        ':3: an end of the link is "9"; it is a whole number from 0 to 6 (read as a topology of',
    ),
    (HPCC_TOPOLOGY, "25Gbps", "25Gbbs", ':5: the rate is "25Gbbs"; it is something like 100Gbps'),
    (HPCC_TOPOLOGY, "0.001ms", "0.001m", ':5: the delay is "0.001m"'),
    (HPCC_TOPOLOGY, "7 3 6", "7 3 9", ":10: a link has both ends"),
    (HPCC_TOPOLOGY, "7 3 6\n4 5 6", "7 3 6\n4 5 5", ":2: switch 5 appears twice"),
    (HPCC_TOPOLOGY, "2us 0.5", "2us 1.5", ':7: the error rate is "1.5"; it is a number from 0 to 1'),
    (HPCC_FLOWS, "3\n", "9\n", ':7: a host is "src0"'),
    (
        HPCC_FLOWS,
        "100 500000 2.0000015",
        "100 500000",
        ":3: a flow has source, destination, priority group, port, bytes and start",
    ),
    (HPCC_FLOWS, "1000000 2", "1e6 2", ':2: the number of bytes is "1e6"'),
    (
        HPCC_FLOWS,
        "2.0000015",
        "9999999",
        ":3: flows start 9,999,997 s apart; at most 1,000,000 s fit into a run; check the unit of starts",
    ),
    (
        HTSIM_TOPO,
        "Podsize 4",
        "Podsize 3",
        ":6: tier 0: the number of nodes must be a multiple of the pod size: 8 is no multiple of 3",
    ),
    (
        HTSIM_TOPO,
        "Oversubscribed 2\n",
        "",
        ":13: tier 1: Oversubscribed is 1, but radices and speeds give 2 (2 links of 100Gb/s below",
    ),
    (HTSIM_TOPO, "Radix_Down 4", "Radix_Down 3", ":22: tier 2: Radix_Down is 3, but it must be 4, for 2 pods, with Bundle 2"),
    (
        HTSIM_TOPO,
        "Switch_Latency_ns 300",
        "Switch_Latencies 3",
        'unknown key "Switch_Latencies": did you mean "switch_latency_ns"',
    ),
    (HTSIM_TOPO, "Nodes 8", "Nodes 999999", "Nodes is 999,999; the simulator has at most 65,000 hosts"),
    (HTSIM_CM, "Connections 4", "Connections 5", "Connections is 5, but there are 4"),
    (
        HTSIM_CM,
        "3->1",
        "3->8",
        ':7: a node is "8"; it is a whole number from 0 to 7 (read as a connection matrix of htsim (.cm), starts',
    ),
    (HTSIM_CM, "start 2000000 size", "strat 2000000 size", ':7: unknown key "strat": did you mean "start"'),
    (HTSIM_CM, "start 2000000 size", "size", ":7: a connection has either a start or a trigger"),
    (
        HTSIM_CM,
        "trigger id 1 oneshot",
        "trigger id 1 oneshoot",
        ':9: unknown kind of trigger "oneshoot": did you mean "oneshot"',
    ),
    (
        HTSIM_CM,
        "trigger id 1 oneshot",
        "trigger id 3 oneshot",
        ":6: the connection waits for trigger 1, which is not in the file",
    ),
    (HTSIM_CM, "barrier count 2", "barrier", ":10: a barrier has a count, as in `trigger id 1 barrier count 2`"),
    (
        HTSIM_CM,
        "id 1 oneshot",
        "id 1 barrier count 2",
        "waits until trigger 1 was activated 2 times, and 1 connections activate it",
    ),
    (HTSIM_CM, " send_done_trigger 1", "", ":6: no connection activates trigger 1, so this one never starts"),
    (HTSIM_CM, "recv_done_trigger 2", "recv_done_trigger 1", "trigger 1 is activated 2 times, but is a oneshot"),
    (GOAL, "num_ranks 3", "num_ranks 2", ':11: a rank is "2"; it is a whole number from 0 to 1'),
    (GOAL, "l4: calc 1000", "l4: calc 1000b", ":9: calc is written as in `l1: calc 1500`"),
    (GOAL, "l4 requires l3", "l4 requires l9", ':10: no operation above has the label "l9"'),
    (GOAL, "l4 requires l3", "l4 wants l3", ':10: "l4 wants l3" is neither an operation'),
    (GOAL, "recv 100b", "recv 101b", ":7: the receive has 101 B, but the send that it takes has 100 B"),
    (
        GOAL,
        "recv 100b from 1 tag 8",
        "recv 100b from 1 tag 5",
        ":7: rank 1 sends nothing with tag 5 that this receive could take",
    ),
    (GOAL, "l2 requires l1", "l2 requires l2", "the operation waits for itself"),
    (GOAL, "rank 1 {", "rank 0 {", ":16: rank 0 has a block already"),
    (GML, "edge [ source 1 target 2", "edge [ source 1 tarrget 2", "the graph cannot be read"),
    (GRAPHML, "</graph>", "", "the graph cannot be read: mismatched tag"),
    (DISTANCES, "Bonn,300,0,450.5", "Bonn,300,0", ":3: the row has 2 cells, and the first one 3"),
    (ADJACENCY, "1 0 0 1", "1 0 0 x", "this is no format that is read"),
    (COFLOWS, "2 10 1 3", "2 10 1 4", ':3: a rack is "4"; it is a whole number from 0 to 3'),
    (COFLOWS, "4 3\n", "4 4\n", "line 1 says that there are 4 coflows, but 3 follow"),
    (COFLOWS, "3:2", "3;2", ':3: a reducer is "3;2"; it is rack:megabytes'),
    (COFLOWS, "2 10 1", "1 10 1", ":3: a second coflow has id 1"),
    (COFLOWS, "7 10", "7 9", ":4: the coflow arrives at 9 ms, before the one above it"),
    (LOG, ",1500,", ",many,", ':2: "many" in the column bytes is not a number'),
    (LOG, "1700000000000250.5,", "later,", ':3: "later" in the column start_us is neither a number nor a date'),
    (LOG, ",10.0.0.2,1500", ",,1500", ":2: dst is empty"),
    (
        LOG,
        "1700000000000250.5,10.0.0.2,web-1,3000,tcp",
        "1700000000000250.5,10.0.0.2",
        ":3: the row has 2 cells, and the first line names 5",
    ),
    (PERCENT, "3000 100", "3000 99", ":2: 1000 at 50 is no point of a distribution in bytes_probability"),
]


@pytest.mark.parametrize(("good", "old", "new", "complaint"), ERRORS, ids=[f"{number}" for number in range(len(ERRORS))])
def test_an_error_says_where_and_what_would_be_right(tmp_path, good, old, new, complaint):
    assert good.count(old) >= 1
    with pytest.raises(ScenarioError) as error:
        Imported(tmp_path, {"x_txt": "distances_km"} if good == DISTANCES else None, x_txt=good.replace(old, new, 1))
    assert f"{tmp_path / 'x.txt'}" in str(error.value) and complaint in str(error.value)
    assert not (tmp_path / "made").exists()


def test_starts_without_a_unit_are_not_guessed(tmp_path):
    old = "Nodes 2\nConnections 1\n0->1 start 5 size 100\n"
    with pytest.raises(
        ScenarioError, match=r"--as htsim_cm \(the last flow starts at 5e-12 s\) or --as htsim_cm_us .*0.000005 s"
    ):
        Imported(tmp_path, x_cm=old)
    made = Imported(tmp_path, {"x_cm": "htsim_cm_us"}, x_cm=old)
    assert made.says("Time 0 is 0.000005 s of the file")


def test_files_that_take_long_or_much_memory_elsewhere(tmp_path):
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10 if n else "a" * 10}">' for n in range(10))
    bomb = f'<?xml version="1.0"?><!DOCTYPE g [{entities}]><graphml><graph>&a9;</graph></graphml>'
    for text, complaint in [
        (bomb, "limit on input amplification factor"),
        ("graph [ " + "a [ " * 20_000 + "] " * 20_000 + "]", "the graph cannot be read"),
        (f"2 1\n1 0 {10**9} 0 1 1 1:1\n", 'a rack is "1:1"; it is a whole number from 0 to 1'),
        (f"Nodes {10**9}\nConnections 1\n0->1 start 0 size 1\n", "Nodes is"),
        (HTSIM_TOPO.replace("_Up 2", f"_Up {10**9}"), "the network has 2,000,000,004,000,000,008 links"),
        (f"{10**9} 1 1\n0\n0 1 1Gbps 1us 0\n", "the number of nodes is"),
    ]:
        with pytest.raises(ScenarioError) as error:
            Imported(tmp_path, x_txt=text)
        assert complaint in str(error.value)
    made = Imported(tmp_path, x_csv=f"start_s,src,dst,bytes\n0,{'9' * 5000},1,10\n")
    assert [len(name) for name in made.names("host")] == [61, 2]


def test_files_that_do_not_fit_together(tmp_path):
    with pytest.raises(ScenarioError, match=r"a\.txt and b\.txt both give a network, and a scenario has one of each"):
        Imported(tmp_path, a_txt=ADJACENCY, b_txt=HPCC_TOPOLOGY)
    with pytest.raises(ScenarioError, match=r"b\.txt and c\.txt both give flows or their sizes"):
        Imported(tmp_path, a_txt=ADJACENCY, b_txt=HPCC_FLOWS, c_txt=PERCENT)
    with pytest.raises(ScenarioError, match=r'"10.0.0.1", but the hosts of b\.txt are 0, 1, 2, 3'):
        Imported(tmp_path, a_csv=LOG, b_txt=ADJACENCY)


def test_what_is_no_format(tmp_path):
    for text in (
        b"",
        b"\n\n",
        b"hello world\n",
        b"\xff\xfe",
        b"{}",
        b"1 2 3 4\n5 6 7 8\n1 2 3 4\n5 6 7 8\n1 2 3 4\n",
        bytes(range(256)),
        b"PAR1",
    ):
        with pytest.raises(ScenarioError) as error:
            Imported(tmp_path, x_dat=text)
        assert "x.dat" in str(error.value)
        if text != b"PAR1":
            assert "hpcc_topology" in str(error.value)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["a.txt", "--as", "gmll"], '--as: there is no format "gmll": did you mean "gml"?'),
        (["a.txt", "b.txt", "--as", "gml"], "there are several files, so say which one: --as a.txt=gml"),
        (["a.txt", "--as", "c.txt=gml"], "--as: c.txt is no file of the command; it has a.txt"),
        (["a.txt", "--as", "gml", "--as", "graphml"], "a.txt has two formats, gml and graphml"),
        (["a.txt", "--as", "gml"], "read as GML, as --as says"),
        (["nowhere.txt"], "cannot read nowhere.txt: No such file"),
        (["."], "Is a directory"),
    ],
)
def test_the_command_line(tmp_path, monkeypatch, words, complaint):
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        Path(name).write_text(ADJACENCY)
    done = CliRunner().invoke(app, ["import", *words, "--out", "made"])
    assert done.exit_code == 2 and complaint in done.stderr, done.output
    done = CliRunner().invoke(app, ["import", "a.txt", "--as", "a.txt=adjacency", "--out", "good"])
    assert done.exit_code == 0 and "Run it: flowloom run good/scenario.toml" in done.stdout
    assert "# Made by `flowloom import a.txt --as a.txt=adjacency`." in Path("good/scenario.toml").read_text()


def test_huge_files_are_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "FLOWS_MAX", 2)
    monkeypatch.setattr(logs, "FLOWS_MAX", 2)
    for text in (HPCC_FLOWS, LOG, "1\n2\n3\n"):
        with pytest.raises(ScenarioError, match=r"x\.txt:[34]: an import has at most"):
            Imported(tmp_path, x_txt=text)
    monkeypatch.setattr(source, "LINE_BYTES_MAX", 1000)
    with pytest.raises(ScenarioError, match=r"x\.txt:2: the line has 1,000 bytes or more"):
        Imported(tmp_path, x_txt="bytes\n" + "9" * 1001)
    monkeypatch.setattr(source, "TEXT_BYTES_MAX", 100)
    with pytest.raises(ScenarioError, match=r"x\.txt: the file has more than"):
        Imported(tmp_path, x_txt=GML)
    monkeypatch.setattr(matrices, "_NODES_MAX", 3)
    with pytest.raises(ScenarioError, match=r"x\.txt:1: the matrix has 4 columns; an import has at most 3 nodes"):
        Imported(tmp_path, x_txt=ADJACENCY)


@pytest.mark.parametrize("name", GOOD)
def test_mutants_end_in_a_named_error_or_in_a_scenario(tmp_path, name):
    draw = random.Random(f"{SEED} {name}")
    outcomes: Counter[str] = Counter()
    named = {"x_txt": name} if name == "distances_km" else None
    for number in range(MUTANTS):
        text, what = mutants.text_mutant(GOOD[name], draw)
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            Imported(folder, named, x_txt=text)
        except ScenarioError as error:
            message = str(error)
            assert "x.txt" in message and len(message) < MESSAGE_MAX and message.isprintable(), (number, what, text, message)
            assert not (folder / "made").exists()
            outcomes["errors"] += 1
        except Exception as error:
            error.add_note(f"FLOWLOOM_MUTANT_SEED={SEED} FLOWLOOM_MUTANTS={number + 1}: {name}: {what}\n{text}")
            raise
        else:
            outcomes["scenarios"] += 1
    assert outcomes["errors"] and outcomes["scenarios"], outcomes


def test_each_format_has_a_name_of_its_own_and_recognises_its_file(tmp_path):
    names = [entry.name for entry in formats.FORMATS]
    assert len(set(names)) == len(names)
    known = {"distances_km": "matrix", "adjacency": "matrix", "bytes_percent": "sizes"}
    for name, text in GOOD.items():
        path = tmp_path / "x"
        path.write_text(text)
        with source.opened(path) as found:
            first = next(entry for entry in formats.FORMATS if entry.reason(found) is not None)
        assert first.name == known.get(name, name)
