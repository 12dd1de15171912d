"""papers/pias/default.toml compared with measurements of the PIAS authors' ns-2 code."""

from __future__ import annotations

from pathlib import Path

import pytest

import flowloom

DEFAULT = Path(__file__).parents[2] / "papers" / "pias" / "default.toml"


def fct_us(tmp_path: Path, rows: list[str], **overrides) -> list[float]:
    trace = tmp_path / "flows.csv"
    trace.write_text("\n".join(["start_s,src,dst,bytes", *rows]) + "\n")
    workload = {"kind": "trace", "file": str(trace)}
    flows = flowloom.run(DEFAULT, {"workload": workload}, **overrides).flows
    return [
        (finish - start) * 1e6 for start, finish in zip(flows["start"].to_pylist(), flows["finish"].to_pylist(), strict=True)
    ]


@pytest.mark.parametrize("transport", ["pias", "dctcp"])
def test_a_lone_flow_of_19_packets_within_a_rack_takes_as_long_as_in_ns2(transport, tmp_path):
    """In ns-2, the flow takes 104.864 us until its last acknowledgement arrives."""
    (found,) = fct_us(tmp_path, [f"0,0,1,{19 * 1460}"], transport__name=transport)
    assert found == pytest.approx(104.864, abs=1e-6)


def test_a_second_connection_of_a_pair_takes_a_handshake_and_a_used_one_starts_anew(tmp_path):
    """The pair's connection is busy with 10 MB when the second flow starts. The third flow reuses a connection at once."""
    rows = ["0,0,1,10000000", f"1e-3,0,1,{19 * 1460}", f"0.1,0,1,{19 * 1460}"]
    _, second, third = fct_us(tmp_path, rows, transport__name="pias")
    assert third == pytest.approx(104.864, abs=1e-6)
    assert second > 104.864 + 80
