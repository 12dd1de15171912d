"""What `make test` compiles."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def packages(*selection: str) -> set[str]:
    """Return the packages that cargo would compile for a selection of crates, each with its version and its features."""
    command = ["cargo", "tree", "--locked", "--prefix", "none", "--format", "{p} with {f}", *selection]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.removesuffix(" (*)") for line in lines if line}


def test_the_native_module_and_the_tests_share_all_that_they_compile():
    native = packages("--package", "flowloom-python", "--edges", "no-dev")
    assert len(native) > 50
    assert native <= packages("--workspace"), "crates/python/Cargo.toml says which features are to be listed there"
