"""A fake `flowloom._native` with the same interface that takes microseconds, for tests of the code around a run.

Flows are drawn from the scenario's seed. Slowdowns depend on the transport's name and the load, so that figures and claims
have differences to show. `workload.kind = "fails"` fails, `"panics"` is an error of the simulator, and `"stalls"`
reports progress forever.
"""

from __future__ import annotations

import copy
import json
import random
import tomllib
from pathlib import Path

import numpy as np

from flowloom import _native, toml

__file__ = str(Path(__file__).resolve())

DEFAULTS = {
    "run": {"seed": 1},
    "topology": {"kind": "leaf_spine"},
    "fabric": {"buffer": "36kB"},
    "workload": {"kind": "poisson", "sizes": "web_search", "load": 0.6, "flows": 50},
    "transport": {"name": "phost"},
    "metrics": {"fct_end": "receiver"},
}
PROFILES = {entry["name"]: entry["profile"] for entry in json.loads(_native.catalogue())["transports"]}
"""Labels and looks are the real ones."""
PACE = {"phost": 1.0, "pfabric": 1.02, "fastpass": 2.5, "ideal": 0.9}


class ScenarioError(Exception):
    pass


class RunError(Exception):
    pass


class PanicException(BaseException):
    """What a panic of the native module raises."""


for _error in (ScenarioError, RunError):
    _error.__module__ = "flowloom._native"


def resolve(text, path, overrides):
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path}: {error}") from None
    resolved = copy.deepcopy(DEFAULTS)
    for section, values in table.items():
        if section not in resolved:
            raise ScenarioError(f'{path}: unknown key "{section}"')
        resolved[section].update(values)
    for override in overrides:
        key, _, raw = override.partition("=")
        try:
            value = tomllib.loads(f"v = {raw}")["v"]
        except tomllib.TOMLDecodeError:
            value = raw
        *sections, last = key.split(".")
        place = resolved
        for section in sections:
            if section not in place and place is resolved:
                raise ScenarioError(f'--set {override}: unknown key "{section}"')
            place = place.setdefault(section, {})
        place[last] = value
    if resolved["transport"]["name"] not in PACE:
        raise ScenarioError(f'{path}: transport.name: unknown transport "{resolved["transport"]["name"]}"')
    if not 0 < resolved["workload"].get("load", 0.5) < 1:
        raise ScenarioError("--set workload.load: must lie between 0 and 1")
    return toml.document(resolved)


def refusals(text, path, overrides, transports):
    found = {}
    for name in transports:
        try:
            resolve(text, path, [*overrides, f"transport.name={name}"])
        except ScenarioError as error:
            found[name] = str(error)
    return found


def memories(text, path, variants):
    return [None for _ in variants]


def plan(text, path, overrides, progress=None):
    return Plan(text, path, overrides)


class Plan:
    misfits = ()

    def __init__(self, text, path, overrides):
        self.scenario = (text, path, overrides)
        self.resolved = resolve(*self.scenario)

    def until(self, limit_ps):
        return self

    def run(self, progress=None, sink=None, threads=1):
        return run(*self.scenario, progress, sink)


def run(text, path, overrides, progress, sink=None):
    spec = tomllib.loads(resolve(text, path, overrides))
    workload, name = spec["workload"], spec["transport"]["name"]
    if workload["kind"] == "fails":
        raise RunError("the run made no progress for 10 s")
    if workload["kind"] == "panics":
        raise PanicException("an assertion failed")
    if progress:
        progress(0.5, 0.01, 1000)
    while workload["kind"] == "stalls":
        progress(0.5, 0.01, 1000)
    draw = random.Random(json.dumps([spec["run"]["seed"], workload], sort_keys=True))
    n = workload.get("flows", 50)
    size = np.array([draw.choice([1460, 14600, 1460000]) for _ in range(n)], dtype=np.uint64)
    start = np.cumsum([draw.expovariate(1e5) for _ in range(n)])
    optimum = size * 8 / 1e10 + 1e-6
    slowdown = np.array([1 + draw.random() * workload.get("load", 0.5) for _ in range(n)]) * PACE[name]
    flows = {
        "id": np.arange(n, dtype=np.uint32),
        "src": np.zeros(n, dtype=np.uint32),
        "dst": np.ones(n, dtype=np.uint32),
        "bytes": size,
        "start": start,
        "finish": start + optimum * slowdown,
        "optimum": optimum,
        "slowdown": slowdown,
        "deadline": np.full(n, np.nan),
        "tenant": np.zeros(n, dtype=np.uint16),
        "coflow": np.full(n, -1, dtype=np.int64),
        "retransmissions": np.zeros(n, dtype=np.uint32),
        "timeouts": np.zeros(n, dtype=np.uint32),
        "aborted": [""] * n,
    }
    if sink:
        sink("pending", {"arrived_share": np.linspace(0, 1, 11), "pending_share": np.full(11, 0.1)})
    return {
        "flows": flows,
        "summary": json.dumps(summarise(spec, flows)),
    }


def summarise(spec, flows):
    def spread(values):
        return {"mean": float(np.mean(values))} | {f"p{q}": float(np.percentile(values, q)) for q in (50, 95, 99)}

    n = len(flows["id"])
    whole = {"above_bytes": 0, "up_to_bytes": None, "flows": n, "finished": n}
    fct = flows["finish"] - flows["start"]
    return {
        "transport": spec["transport"]["name"],
        "seed": spec["run"]["seed"],
        "flows": n,
        "finished": n,
        "aborted": 0,
        "not_started": 0,
        "slowdown": spread(flows["slowdown"]) | {"by_size": [whole | spread(flows["slowdown"])]},
        "fct_us": spread(fct * 1e6) | {"by_size": []},
        "nfct": float(fct.mean() / flows["optimum"].mean()),
        "goodput_gbps": 5.0,
        "deadlines_met": None,
        "drops": {"total": 0, "data": 0, "rate": 0.0, "by_hop": {"host-leaf": 0}, "by_reason": {}},
        "marks": 0,
        "trims": 0,
        "retransmissions": 0,
        "timeouts": 0,
        "second_timeouts": 0,
        "queueing_us_mean": 0.5,
        "queue_peak_bytes": 0,
        "queue": {"host-leaf": {"mean_bytes": 100.0, "peak_bytes": 3000, "wait_us_mean": 0.5}},
        "sent_by_class": [1000 * n, 0, 0, 0, 0, 0, 0, 0],
        "packet_hops": 1000 * n,
        "sim_s": float(flows["finish"].max()),
        "wall_s": 0.01,
        "peak_rss_mb": 50.0,
    }


def catalogue():
    return json.dumps(
        {
            "transports": [
                {"name": name, "about": "fake", "profile": PROFILES.get(name, {}), "schema": {}, "defaults": {}}
                for name in PACE
            ],
            "workloads": [],
            "topologies": [],
            "wires": [],
        }
    )


def schema():
    return "{}"
