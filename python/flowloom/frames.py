"""Data frames of pandas and polars, which nothing else needs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def to_pandas(table: pa.Table) -> Any:
    """Return a table as a pandas data frame. A null is NaN or None there.

    Raises:
        ImportError: pandas is not installed.
    """
    _package("pandas")
    return table.to_pandas()


def to_polars(table: pa.Table) -> Any:
    """Return a table as a polars data frame.

    Raises:
        ImportError: polars is not installed.
    """
    return _package("polars").from_arrow(table)


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f'a data frame of {name} needs the package {name}, which is not installed: pip install "flowloom[{name}]"'
        ) from error
