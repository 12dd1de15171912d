"""Runs on the workers of a Dask cluster, which can be on other machines."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, Self, TypeVar

from flowloom._native import RunError, ScenarioError
from flowloom.jobs import Job, JobExecutor, Question, Stopped
from flowloom.progress import Reporter
from flowloom.results import Results

if TYPE_CHECKING:
    import distributed

T = TypeVar("T")

PATIENCE_S = 10.0
"""How long a scheduler may take to answer."""

_REPORT_S = 0.5
"""How often a worker reports the progress of a run."""


class Cluster(JobExecutor):
    """A Dask cluster as an executor.

    It reports progress, repeats a run on another worker if its own is lost, and ends all runs after an interrupt. A worker
    refuses a run whose key it computes differently: it has another build of Flowloom, or the scenario's files differ there.
    """

    def __init__(self, where: str | distributed.Client) -> None:
        """Connect to a cluster.

        Args:
            where: The address of its scheduler, such as `tcp://10.0.0.1:8786`, or a connected `dask.distributed.Client`.

        Raises:
            ScenarioError: Dask is not installed, the address is not valid, or no scheduler answers there.
        """
        self._owned = isinstance(where, str)
        self._client: Any = _connected(where) if isinstance(where, str) else where

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    @property
    def threads(self) -> int:
        """How many runs the workers make at a time, at present; at least 1."""
        workers: dict[str, dict[str, int]] = self._client.scheduler_info()["workers"]
        return max(1, sum(worker["nthreads"] for worker in workers.values()))

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call a function on a worker."""
        return self._begin(f"call-{uuid.uuid4().hex}", fn, *args, **kwargs)[1]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Close the connection. The cluster goes on."""
        if self._owned:
            self._client.close()

    @contextlib.contextmanager
    def running(self, jobs: Sequence[Job], reporter: Reporter) -> Iterator[dict[Future[Results], Job]]:
        """Submit jobs; when the block ends, those that are not over are stopped."""
        if not self._client.scheduler_info()["workers"]:
            reporter.warn("the cluster has no workers; runs begin when the first one has joined (`dask worker ADDRESS`)")
        name = f"flowloom-{uuid.uuid4().hex}"
        self._client.subscribe_topic(name, lambda event: reporter.progress(*event[1]))
        begun: list[tuple[Any, Future[Results]]] = []
        try:
            for number, job in enumerate(jobs):
                begun.append(self._begin(f"{name}-{number}", _work, name, job.key, job.label, job.run, job.scenario))
            yield {future: job for (_, future), job in zip(begun, jobs, strict=True)}
        finally:
            left = [task for task, future in begun if not future.done()]
            # A scheduler that is lost cannot be told anything.
            with contextlib.suppress(Exception):
                self._client.cancel(left)
            with contextlib.suppress(Exception):
                self._client.unsubscribe_topic(name)

    def _begin(self, key: str, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> tuple[Any, Future[T]]:
        """Submit a call; return Dask's future, and one that other executors have, too."""
        future: Future[T] = Future()
        # A function that is not pure is called even if Dask has seen the same call before.
        task = self._client.submit(fn, *args, **kwargs, key=key, pure=False)
        task.add_done_callback(lambda task: _settle(task, future))
        return task, future


def _connected(address: str) -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ScenarioError(f"a cluster needs Dask ({error}); install it with `pip install 'flowloom[dask]'`") from None
    try:
        _check(address)
        client: Any = distributed.Client
        return client(address, timeout=PATIENCE_S, set_as_default=False)
    except ValueError as error:
        raise ScenarioError(f"cluster {address}: {error}; give an address such as tcp://10.0.0.1:8786") from None
    except OSError as error:
        why = f"no Dask scheduler answers within {PATIENCE_S:g} s ({type(error).__name__})"
        raise ScenarioError(f"cluster {address}: {why}; start one with `dask scheduler`, or give its address") from None


def _check(address: str) -> None:
    """Raise ValueError for what is no address. Dask's client finds that too, but then waits for 20 s when it is deleted."""
    from distributed.comm.addressing import get_address_host_port, parse_address

    known: Any = parse_address
    if known(address)[0] == "inproc":  # this process has no port
        return
    parts: Any = get_address_host_port
    host, port = parts(address)
    if not host or not 0 < port < 1 << 16:
        raise ValueError("it lacks a host, or a port from 1 to 65535")


def _settle(task: Any, future: Future[Any]) -> None:
    """Give a future the outcome of Dask's."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(task.result())
    except BaseException as error:
        future.set_exception(_worded(error))
    finally:
        task.release()  # else the worker would keep the result until all jobs are over


def _worded(error: BaseException) -> BaseException:
    """Return an error in our words, if it is not one of ours."""
    from distributed.scheduler import KilledWorker

    if isinstance(error, ScenarioError | RunError | MemoryError):
        return error
    if isinstance(error, KilledWorker):
        return RunError(f"{error.allowed_failures + 1} workers were lost while they ran it, perhaps for lack of memory")
    if isinstance(error, CancelledError):
        return RunError("the connection to the cluster's scheduler was lost; finished runs are kept")
    return RunError(f"a worker failed: {type(error).__name__}: {error}")


def _work(topic: str, key: str, label: str, run: Callable[..., Results], scenario: Question) -> Results:
    """Make a run, on a worker."""
    from distributed import get_worker

    worker: Any = get_worker()
    task = worker.get_current_task()
    if scenario.key() != key:
        reason = "has another build of Flowloom, or other files of the scenario, than the machine that asks for the run"
        raise RunError(f"worker {worker.address} {reason}; install the same there, and share the files")
    reported = 0.0

    def progress(done: float, sim_s: float, packet_hops: int) -> None:
        nonlocal reported
        state = worker.state.tasks.get(task)
        if state is None or state.state == "cancelled":
            raise Stopped
        if time.monotonic() - reported >= _REPORT_S:
            reported = time.monotonic()
            worker.log_event(topic, (key, label, done, sim_s, packet_hops))

    return run(scenario, progress)
