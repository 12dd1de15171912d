"""Data frames of pandas and polars, which nothing else needs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


class Framed:
    """What becomes a data frame."""

    def _framed(self) -> pa.Table:
        """Return the table that becomes a data frame."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Return the table as a pandas data frame. A null is NaN or None there.

        Raises:
            ImportError: pandas is not installed; it comes with `flowloom[pandas]`.
        """
        _package("pandas")
        return self._framed().to_pandas()

    def to_polars(self) -> Any:
        """Return the table as a polars data frame.

        Raises:
            ImportError: polars is not installed; it comes with `flowloom[polars]`.
        """
        return _package("polars").from_arrow(self._framed())


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f'a data frame of {name} needs the package {name}, which is not installed: pip install "flowloom[{name}]"'
        ) from error
