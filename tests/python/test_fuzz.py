"""What `make fuzz` starts from. The fuzzer itself runs only where there is time for it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from flowloom.transports import transports

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("fuzz", ROOT / "fuzz" / "fuzz.py")
assert spec is not None and spec.loader is not None
fuzz = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fuzz)


@pytest.mark.parametrize("kind", fuzz.SEEDS)
def test_seeds_are_inputs_that_fit(kind):
    seeds = list(fuzz.SEEDS[kind]())
    assert len(set(seeds)) > len(transports()) and all(seeds)
    if kind == "header":
        assert max(map(len, seeds)) <= fuzz.INPUT_BYTES_MAX[kind]


def test_the_dictionary_has_keys_and_names():
    assert {"workload", "load", "phost", "leaf_spine", "trace.csv", "--set"} <= fuzz.dictionary()
