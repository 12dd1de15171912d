"""The warning of a growing backlog, against queues whose stability is known."""

import numpy as np
import pyarrow as pa
import pytest

from flowloom.backlog import growth


def fifo(load, sizes, rng):
    """Flows of a link of 1 B/s that serves them in the order of arrival, with Poisson arrivals."""
    start = np.cumsum(rng.exponential(sizes.mean() / load, len(sizes)))
    # Lindley's recursion: the work ahead of each flow.
    ahead = np.concatenate([[0], np.cumsum(sizes[:-1] - np.diff(start))])
    waiting = ahead - np.minimum.accumulate(np.minimum(ahead, 0))
    return pa.table({"start": start, "finish": start + waiting + sizes, "optimum": sizes, "bytes": sizes})


def exponential(rng, flows):
    return rng.exponential(1, flows)


def heavy_tailed(rng, flows):
    return np.minimum(rng.pareto(1.3, flows) + 0.1, 1000)


@pytest.mark.parametrize("sizes", [exponential, heavy_tailed])
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8, 0.95])
def test_a_queue_that_keeps_up_gives_no_warning(sizes, load):
    rng = np.random.default_rng(1)
    found = [growth(fifo(load, sizes(rng, flows), rng)) for flows in (50, 500, 5000, 50_000) for _ in range(50)]
    # Of 200 runs, at most one, by a chance of one in a thousand each.
    assert sum(each.is_certain for each in found) <= 1


@pytest.mark.parametrize(("load", "flows"), [(2.0, 500), (1.2, 5000), (1.05, 60_000)])
def test_an_overloaded_queue_is_known(load, flows):
    rng = np.random.default_rng(2)
    assert all(growth(fifo(load, exponential(rng, flows), rng)).is_certain for _ in range(20))


def test_open_flows_are_counted():
    # 100 B from 0 to 10 s, 60 B from 3 to 16 s, 5 B from 6 to 7 s, and 7 B at 8 s that never finish.
    flows = {"start": [0.0, 3.0, 6.0, 8.0], "finish": [10.0, 16.0, 7.0, None], "bytes": [100, 60, 5, 7], "optimum": [0.1] * 4}
    found = growth(pa.table(flows))
    # 100 B are open at 0 s, 160 at 4 s, 167 at 8 s. 12 B arrive in the second half; their squares are 25 and 49.
    assert found == pytest.approx((12, 60, 7, 74**0.5, 0.1 / 4))
    assert not found.is_certain and found.longer == pytest.approx(9 * 74 / 49)


def test_flows_that_were_given_up_are_not_open_for_ever():
    """Each flow takes 0.1 ms, but every tenth is given up."""
    rng, flows = np.random.default_rng(4), 20_000
    start, one = np.sort(rng.uniform(0, 1, flows)), np.ones(flows)
    finish = np.where(np.arange(flows) % 10 == 0, np.nan, start + 1e-4)
    table = pa.table({"start": start, "finish": pa.array(finish, from_pandas=True), "optimum": one * 1e-4, "bytes": one})
    aborted = pa.array(["deadline" if number % 10 == 0 else None for number in range(flows)])
    found = growth(table.append_column("aborted", aborted))
    # About two flows are open at a time.
    assert found.arrived == pytest.approx(9000, rel=0.05) and abs(found.second) < 10 and not found.is_certain
    # Without a reason, they wait.
    waiting = growth(table.append_column("aborted", pa.nulls(flows, pa.string())))
    assert waiting.second == pytest.approx(1000, rel=0.05) and waiting.is_certain


def test_a_network_that_fills_up_says_nothing():
    """A flow of 1 B arrives every 0.1 s and takes 3 s alone, so that thirty are open once the first has finished."""

    def found(flows, *, stuck=False):
        start, one = np.arange(flows) * 0.1, np.ones(flows)
        finish = pa.nulls(flows, pa.float64()) if stuck else start + 3
        return growth(pa.table({"start": start, "finish": finish, "optimum": 3 * one, "bytes": one}))

    early = found(24)
    assert early.second == 12 > 3 * early.noise and early.warm_up == pytest.approx(3 / 1.15)
    assert not early.is_certain and early.longer == pytest.approx(4 * early.warm_up)
    # Later, a network that keeps up differs from one in which no flow ever ends.
    assert not found(300).is_certain and found(300, stuck=True).is_certain


def test_flows_that_start_together_say_nothing():
    together = pa.table(
        {"start": [0.0, 0.0, 0.0, 1.0], "finish": [1.0, 2.0, 3.0, 4.0], "optimum": [1.0] * 4, "bytes": [1, 1, 1, 1]}
    )
    assert growth(together) is None and growth(together[:1]) is None


def test_a_longer_run_decides():
    """A load of 1.02 shows in four times `longer` flows, and not in a tenth of them."""
    rng = np.random.default_rng(3)
    found = growth(fifo(1.02, exponential(rng, 20_000), rng))
    flows = 20_000 * found.longer
    assert 0 < flows < np.inf
    assert growth(fifo(1.02, exponential(rng, int(4 * max(flows, 40_000))), rng)).is_certain
    assert not growth(fifo(1.02, exponential(rng, 1000), rng)).is_certain
