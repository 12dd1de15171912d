"""Executes many runs, on local processes or any `concurrent.futures.Executor`, and saves each run as it finishes."""

from __future__ import annotations

import abc
import contextlib
import ctypes
import dataclasses
import multiprocessing
import operator
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from flowloom import outputs, results, signals
from flowloom._native import RunError, ScenarioError
from flowloom.engine import cores, simulate, use_threads
from flowloom.progress import Reporter, Silent
from flowloom.results import Results
from flowloom.words import listed, shown


class Question(Protocol):
    """The input of a run: a scenario, or the arguments of a tool."""

    def key(self) -> str:
        """Return a hash of everything that the result depends on."""


Blame: TypeAlias = Callable[[ScenarioError], ScenarioError]
"""Rewords an error of a scenario, so that it names what the user wrote."""


def unchanged(error: ScenarioError) -> ScenarioError:
    """Return an error as it is."""
    return error


@dataclasses.dataclass(frozen=True)
class Job:
    """A run to execute."""

    label: str
    """The run's name in progress and messages: `phost, web_search, seed 1`."""
    scenario: Question
    key: str
    """`scenario.key()`; jobs with equal keys share one run."""
    run: Callable[..., Results] = simulate
    """Computes the results; its arguments are the scenario and a progress callback."""
    blame: Blame = unchanged
    """Rewords an error of the scenario that its run finds."""

    @classmethod
    def of(cls, label: str, scenario: Question, run: Callable[..., Results] = simulate, blame: Blame = unchanged) -> Job:
        """Create a job. Its scenario is read and its rules are checked, which is all that the key needs.

        Raises:
            ScenarioError: The scenario is not valid, as `blame` words it.
        """
        try:
            return cls(label, scenario, scenario.key(), run, blame)
        except ScenarioError as error:
            raise blame(error) from None


class JobExecutor(Executor, abc.ABC):
    """An executor that reports the progress of jobs."""

    @abc.abstractmethod
    def running(self, jobs: Sequence[Job], reporter: Reporter) -> contextlib.AbstractContextManager[dict[Future[Results], Job]]:
        """Submit jobs; when the block ends, those that are not over are stopped."""


class FailedRuns(RunError):  # noqa: N818, the name says what it has
    """Some runs failed. All others finished, and were saved if there is a store."""

    def __init__(self, failures: Sequence[tuple[str, str]], runs: int, done: dict[str, Results]) -> None:
        """Store the labels of the failed runs with their reasons, and the results of the others by key."""
        alike: dict[str, list[str]] = {}
        for label, reason in failures:
            alike.setdefault(reason, []).append(label)
        reasons = (f"{listed(labels)}: {reason}" for reason, labels in alike.items())
        super().__init__("\n".join([f"{len(failures)} of {runs} runs failed:", *reasons]))
        self.failures = list(failures)
        self.done = done


class Store:
    """A folder of finished runs, each in a directory named by its key."""

    def __init__(self, folder: Path, *, flows: bool | Collection[str] = True) -> None:
        """Use a folder.

        Args:
            folder: The folder.
            flows: Which runs need their flow tables: all, none, or those with these keys. Such a run counts as finished only
                if its flow table was saved.

        Raises:
            ScenarioError: The folder's name cannot be that of an output directory.
        """
        outputs.check_place(folder)
        self.folder = folder
        self.flows = flows

    def _needs_flows(self, key: str) -> bool:
        return self.flows if isinstance(self.flows, bool) else key in self.flows

    def find(self, key: str) -> Results | None:
        """Return the finished run, None if there is none.

        Raises:
            ScenarioError: The run is damaged.
        """
        directory = self.folder / key
        try:
            if all(entry.name.startswith(".") for entry in directory.iterdir()):
                return None
        except (FileNotFoundError, NotADirectoryError):  # another process may remove an empty one at any time
            return None
        # Reading a whole run takes a hundredth of the time of simulating it.
        found = results.read(directory, whole=True).without_flows()
        return found if not self._needs_flows(key) or (directory / "flows.parquet").exists() else None

    def keep(self, key: str, run: Results) -> Results:
        """Save a run and return it without its tables, which are read again on use."""
        with outputs.claim(self.folder / key, outputs.RESULT, key, stored=True) as output:
            # Another command that shares the folder may have saved the flow table, because it needs it.
            flows = self._needs_flows(key) or (output.path / "flows.parquet").exists()
            return results.read(run.write(output, flows=flows))


def run_jobs(
    jobs: Sequence[Job],
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    store: Store | None = None,
    reporter: Reporter | None = None,
    made: Callable[[Job, Results], None] = lambda job, results: None,
) -> dict[str, Results]:
    """Execute the jobs whose runs the store does not have yet.

    Args:
        jobs: The runs. Jobs with the same key are run once.
        executor: Where to run; by default one local process per core.
        workers: The number of local processes, instead of one per core.
        store: Saves each run as it finishes; a stored run is not repeated. Without a store, results stay in memory.
        reporter: Receives progress and warnings.
        made: Is called with each run that was simulated, when it has finished.

    Returns:
        Results by key.

    Raises:
        ScenarioError: The number of workers is not valid.
        FailedRuns: Some runs failed.
    """
    if workers is not None:
        workers = whole_number("workers", workers, "processes")
    reporter = reporter or Silent()
    missing: dict[str, Job] = {}
    done: dict[str, Results] = {}
    for job in jobs:
        found = _find(store, job, reporter) if store and job.key not in done and job.key not in missing else None
        if found is not None:
            done[job.key] = found
        elif job.key not in done:
            missing.setdefault(job.key, job)
    reporter.begin(len(missing), kept=len(done))
    failures: list[tuple[str, str]] = []
    bad: list[ScenarioError] = []
    # Signals are held back, so that a finished run is saved before an interrupt takes effect.
    with (
        signals.held() as step,
        contextlib.closing(_outcomes(list(missing.values()), executor, workers, reporter, step)) as outcomes,
    ):
        for job, outcome in outcomes:
            if isinstance(outcome, Results):
                done[job.key] = store.keep(job.key, outcome) if store else outcome
                reporter.finished(job.key, job.label)
                made(job, outcome)
            else:
                failures.append((job.label, str(outcome)))
                bad += [outcome] if isinstance(outcome, ScenarioError) else []
                reporter.failed(job.key, job.label)
    if bad and len(bad) == len(jobs):
        raise bad[0]  # not some of the runs are at fault, but what they share
    if failures:
        raise FailedRuns(failures, len(jobs), done)
    return done


def whole_number(name: str, value: Any, of: str, most: int | None = None) -> int:
    """Return an argument that must be a whole number from 1 to `most`, of any type that is one, such as NumPy's.

    Raises:
        ScenarioError: It is not.
    """
    try:
        found = operator.index(value)
    except TypeError:
        found = 0
    if isinstance(value, bool) or found < 1 or (most is not None and found > most):
        limit = "" if most is None else f" and at most {most:,}"
        raise ScenarioError(f"{name}: found {shown(repr(value))}; give a whole number of {of}, at least 1{limit}")
    return found


def _find(store: Store, job: Job, reporter: Reporter) -> Results | None:
    try:
        return store.find(job.key)
    except ScenarioError as error:
        reporter.warn(f"{error}; this run ({job.label}) is simulated again")
        return None


def _outcomes(
    jobs: list[Job], executor: Executor | None, workers: int | None, reporter: Reporter, step: Callable[[], None]
) -> Generator[tuple[Job, Results | Exception]]:
    if isinstance(executor, JobExecutor):
        with executor.running(jobs, reporter) as futures:
            yield from _collect(futures, step)
    elif executor is not None:
        yield from _collect({executor.submit(job.run, job.scenario): job for job in jobs}, step)
    elif jobs:
        with _LocalPool(min(workers or cores(), len(jobs)), reporter) as pool:
            yield from _collect(pool.submit(jobs), step)


def _collect(futures: dict[Future[Results], Job], step: Callable[[], None]) -> Iterator[tuple[Job, Results | Exception]]:
    try:
        while futures:
            step()
            # Each future is removed when its result is passed on, since the result may be large.
            for future in wait(futures, timeout=0.2, return_when=FIRST_COMPLETED).done:
                job = futures.pop(future)
                try:
                    yield job, future.result()
                except BrokenProcessPool:
                    step()  # the signal that killed the worker may have been sent to this process too
                    yield job, RunError(_WORKER_DIED)
                except ScenarioError as error:
                    yield job, job.blame(error)
                except RunError as error:
                    yield job, error
                except MemoryError:
                    yield job, RunError("there is too little memory")
                step()
    finally:
        for future in futures:
            future.cancel()


_WORKER_DIED = (
    "a worker process died, perhaps for lack of memory; finished runs are kept; "
    "repeat the command with fewer workers (--jobs 1)"
)


class Stopped(Exception):  # noqa: N818, it is not an error
    """Ends a run in a worker process when the command is interrupted."""


class _LocalPool:
    """Worker processes that report progress, and stop within a tenth of a second when the block ends or the parent dies.

    The parent shares no lock with its workers, since a worker that is killed would never release it.
    """

    def __init__(self, workers: int, reporter: Reporter) -> None:
        # Processes are spawned instead of forked: a forked child would inherit locks that threads of NumPy and Arrow hold.
        context = multiprocessing.get_context("spawn")
        self._progress: Any = context.SimpleQueue()
        # Nothing is written to this pipe. Workers stop when its sending end is closed: here, or by the kernel after our death.
        self._stop_receiver, self._stop_sender = context.Pipe(duplex=False)
        about = (self._progress, self._stop_receiver, os.getpid(), max(1, cores() // workers))
        self._pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_set_up_worker, initargs=about)
        self._ended = threading.Event()
        self._listener = threading.Thread(target=self._listen, args=(reporter,), daemon=True)

    def __enter__(self) -> _LocalPool:
        self._listener.start()
        return self

    def submit(self, jobs: Sequence[Job]) -> dict[Future[Results], Job]:
        # A spawned process first runs the parent's main module again. No job needs that, and a script without an
        # `if __name__ == "__main__"` guard would start the sweep again. The pool starts its processes in `submit`.
        main, sys.modules["__main__"] = sys.modules["__main__"], types.ModuleType("__main__")
        # Ctrl-C reaches every process of the terminal, but only the parent acts on it. Workers inherit this mask. If they
        # ignored the signal themselves, it could interrupt them while they start.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return {self._pool.submit(_work, job.key, job.label, job.run, job.scenario): job for job in jobs}
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            sys.modules["__main__"] = main

    def __exit__(self, *_: object) -> None:
        self._stop_sender.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._stop_receiver.close()
        self._ended.set()
        self._listener.join(timeout=1)

    def _listen(self, reporter: Reporter) -> None:
        while not self._ended.is_set():
            if self._progress.empty():
                self._ended.wait(0.05)
            else:
                reporter.progress(*self._progress.get())


# State of a worker process: how it reports progress, and whether it must stop.
_report: Callable[[tuple[str, str, float, float, int]], None]
_stop = threading.Event()


def _set_up_worker(progress: Any, stop_receiver: Connection, parent: int, threads: int) -> None:
    global _report
    use_threads(threads)
    _die_with(parent)
    threading.Thread(target=_watch, args=(stop_receiver, parent), daemon=True).start()
    _report = progress.put


def _die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends, where it supports that (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before this call
        os._exit(1)


_PR_SET_PDEATHSIG = 1


def _watch(stop_receiver: Connection, parent: int) -> None:
    """Wait until the sending end of the pipe is closed, then stop the run. End the process if the parent is gone."""
    stop_receiver.poll(None)
    _stop.set()
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def _work(key: str, label: str, run: Callable[..., Results], scenario: Question) -> Results:
    def progress(done: float, sim_s: float, packet_hops: int) -> None:
        if _stop.is_set():
            raise Stopped
        _report((key, label, done, sim_s, packet_hops))

    return run(scenario, progress)
