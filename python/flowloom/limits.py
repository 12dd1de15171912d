"""The largest numbers that the command line and the Python API take. This module imports nothing, so that `--help` is fast."""

SEED_MAX = 2**63 - 1
"""The largest `run.seed`, as in the simulator."""
THREADS_MAX = 65_536
"""The most threads that a run can be told to have, which is more than machines have cores."""
