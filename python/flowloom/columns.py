"""The columns of `flows.parquet`: what they mean, in which unit, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from flowloom import storage

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from numpy.typing import NDArray


class Column(NamedTuple):
    """One column of the flow table."""

    type: str
    unit: str
    about: str
    always: bool = True
    """Whether each flow table has it."""


FLOWS = {
    "id": Column("uint32", "", "The flow's number; flows are in order of start"),
    "src": Column("uint32", "", "The sending host, counted from 0"),
    "dst": Column("uint32", "", "The receiving host, counted from 0"),
    "bytes": Column("uint64", "B", "Payload bytes"),
    "start": Column("float64", "s", "When the application handed the flow to the sender"),
    "finish": Column(
        "float64", "s", "When the flow was complete, as defined by metrics.fct_end; null if it is unfinished or aborted"
    ),
    "optimum": Column("float64", "s", "Completion time alone in the network, including metrics.request_delay"),
    "slowdown": Column("float64", "", "(finish - start + metrics.request_delay) / optimum; null if unfinished"),
    "deadline": Column("float64", "s", "Absolute deadline; null if the flow has none"),
    "tenant": Column("uint16", "", "The flow's tenant, or its part of a mix, counted from 0"),
    "coflow": Column("int64", "", "The number of the request (coflow) that the flow belongs to; null if none"),
    "retransmissions": Column("uint32", "", "Data packets that the sender sent again"),
    "timeouts": Column("uint32", "", "How often the sender's retransmission timer expired"),
    "aborted": Column(
        "string", "", "Why the flow was given up: deadline (missed, or out of reach) or node_down; null if it was not"
    ),
    "src_nic": Column(
        "uint16", "", "Which of the sending host's links it uses, from 1 on, if hosts have several", always=False
    ),
    "dst_nic": Column(
        "uint16", "", "Which of the receiving host's links it uses, from 1 on, if hosts have several", always=False
    ),
}


def flow_table(arrays: Mapping[str, NDArray[Any] | list[str]]) -> pa.Table:
    """Build the flow table from the simulator's columns; NaN, negative values and empty texts mean "none" and become null."""
    import pyarrow as pa

    fields, columns = [], []
    for name, column in FLOWS.items():
        if not column.always and name not in arrays:
            continue
        columns.append(_column(arrays[name], column.type))
        about = {"unit": column.unit, "about": column.about}
        fields.append(pa.field(name, column.type, metadata={k: v for k, v in about.items() if v}))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _column(values: NDArray[Any] | list[str], kind: str) -> pa.Array:
    import pyarrow as pa

    if isinstance(values, list):
        return pa.array([value or None for value in values], kind)
    missing = _missing(values)
    return pa.array(values, mask=missing).cast(kind) if missing is not None else pa.array(values, kind)


def _missing(values: NDArray[Any]) -> NDArray[np.bool_] | None:
    import numpy as np

    if values.dtype.kind == "f":
        found = np.isnan(values)
    elif values.dtype.kind == "i":
        found = values < 0
    else:
        return None
    return found if found.any() else None


def series_table(arrays: Mapping[str, NDArray[Any] | tuple[NDArray[Any], list[str]]]) -> pa.Table:
    """Build a table from the columns of one series; NaN becomes null, and indices become the names that they refer to."""
    import pyarrow as pa

    def column(values: NDArray[Any] | tuple[NDArray[Any], list[str]]) -> pa.Array:
        if isinstance(values, tuple):
            return pa.DictionaryArray.from_arrays(pa.array(values[0], "uint32"), pa.array(values[1], "string"))
        return pa.array(values, mask=_missing(values) if values.dtype.kind == "f" else None)

    return pa.table({name: column(values) for name, values in arrays.items()})


_PARQUET = {"compression": "zstd", "version": "2.6", "write_statistics": True, "write_page_checksum": True}


def write(table: pa.Table, path: Path) -> None:
    """Write a Parquet file with checksums; its bytes depend on the table's content alone."""
    import pyarrow.parquet as pq

    with storage.naming(path):
        pq.write_table(table, path, **_PARQUET)


def writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Begin a Parquet file like those of `write`, to which tables are appended."""
    import pyarrow.parquet as pq

    return pq.ParquetWriter(path, schema, **_PARQUET)


def write_csv(table: pa.Table, path: Path) -> None:
    """Write CSV with a header line; nulls are empty."""
    from pyarrow import csv

    with storage.naming(path):
        csv.write_csv(table, path)
