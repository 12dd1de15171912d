"""Many runs: on local processes or any `concurrent.futures.Executor`, keeping what is finished whatever happens."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import multiprocessing
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from flowloom import outputs, results, signals
from flowloom._native import RunError, ScenarioError
from flowloom.engine import simulate
from flowloom.progress import Reporter, Silent
from flowloom.results import Results


class Question(Protocol):
    """What a run is made from: a scenario, or what a tool is asked."""

    def key(self) -> str:
        """Give a hash of all that the result depends on."""


@dataclasses.dataclass(frozen=True)
class Job:
    """One run to make."""

    label: str
    """For progress and messages: `phost, web_search, seed 1`."""
    scenario: Question
    key: str
    """`scenario.key()`: jobs with equal keys are one run."""
    run: Callable[..., Results] = simulate
    """Makes results of the scenario, telling its second argument about progress."""

    @classmethod
    def of(cls, label: str, scenario: Question, run: Callable[..., Results] = simulate) -> Job:
        """Make one, checking the scenario."""
        return cls(label, scenario, scenario.key(), run)


class Store:
    """A folder of finished runs, each in a directory named by its key."""

    def __init__(self, folder: Path, *, flows: bool = True) -> None:
        """Keep runs in `folder`; `flows` says whether a run without its flow table counts as finished."""
        self.folder = folder
        self.flows = flows

    def find(self, key: str) -> Results | None:
        """Give the finished run, None if there is none.

        Raises:
            ScenarioError: There is one, and it is damaged.
        """
        directory = self.folder / key
        if not directory.is_dir() or all(entry.name.startswith(".") for entry in directory.iterdir()):
            return None
        # Reading all of it takes a hundredth of the time that making it did.
        found = results.read(directory, whole=True).without_flows()
        return found if not self.flows or (directory / "flows.parquet").exists() else None

    def keep(self, key: str, run: Results) -> Results:
        """Save a run and give it as it is on disk, so that its flows need no memory."""
        with outputs.claim(self.folder / key, outputs.RESULT, key, stored=True) as output:
            return results.read(run.write(output, flows=self.flows))


def run_jobs(
    jobs: Sequence[Job],
    *,
    executor: Executor | None = None,
    workers: int | None = None,
    store: Store | None = None,
    reporter: Reporter | None = None,
) -> dict[str, Results]:
    """Run what the store does not have yet.

    Args:
        jobs: The runs; several may share a key, and are then run once.
        executor: Where to run; by default as many processes as there are cores.
        workers: How many local processes, instead of one for each core.
        store: Keeps each run as it finishes; a run it has is not made again. None keeps them in memory.
        reporter: Is told how it goes.

    Returns:
        Results by key.

    Raises:
        RunError: Some runs failed; all others were made and kept.
    """
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
    failures: list[str] = []
    # A run that is finished is also saved before an interrupt is heard.
    with (
        signals.held() as step,
        contextlib.closing(_outcomes(list(missing.values()), executor, workers, reporter, step)) as outcomes,
    ):
        for job, outcome in outcomes:
            if isinstance(outcome, Results):
                done[job.key] = store.keep(job.key, outcome) if store else outcome
                reporter.finished(job.key, job.label)
            else:
                failures.append(f"{job.label}: {outcome}")
                reporter.failed(job.key, job.label)
    if failures:
        raise RunError(f"{len(failures)} of {len(jobs)} runs failed:\n" + "\n".join(failures))
    return done


def _find(store: Store, job: Job, reporter: Reporter) -> Results | None:
    try:
        return store.find(job.key)
    except ScenarioError as error:
        reporter.warn(f"{error}; this run ({job.label}) is made anew")
        return None


def _outcomes(
    jobs: list[Job], executor: Executor | None, workers: int | None, reporter: Reporter, step: Callable[[], None]
) -> Generator[tuple[Job, Results | str]]:
    if executor is not None:
        yield from _collect({executor.submit(job.run, job.scenario): job for job in jobs}, step)
    elif jobs:
        with _LocalPool(min(workers or cores(), len(jobs)), reporter) as pool:
            yield from _collect(pool.submit(jobs), step)


def _collect(futures: dict[Future[Results], Job], step: Callable[[], None]) -> Iterator[tuple[Job, Results | str]]:
    try:
        while futures:
            step()
            # Handing out a future's result drops the future, and with it the result, which may be large.
            for future in wait(futures, timeout=0.2, return_when=FIRST_COMPLETED).done:
                job = futures.pop(future)
                try:
                    yield job, future.result()
                except BrokenProcessPool as error:
                    step()  # a signal to all processes at once reaches this one too
                    raise RunError(
                        "a worker process died, perhaps for lack of memory; finished runs are kept: "
                        "start again with fewer workers (--jobs 1)"
                    ) from error
                except RunError as error:
                    yield job, str(error)
                step()
    finally:
        for future in futures:
            future.cancel()


def cores() -> int:
    """Give how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Stopped(Exception):  # noqa: N818, it is not an error
    """Ends a run in a worker when the whole is interrupted."""


class _LocalPool:
    """Worker processes that report progress, stop within a tenth of a second when the block is left early, and end with us.

    Nothing that a worker can be killed in the middle of keeps us waiting: locks that processes share would.
    """

    def __init__(self, workers: int, reporter: Reporter) -> None:
        # Spawned, not forked: a forked child would inherit the threads' locks of NumPy and Arrow.
        context = multiprocessing.get_context("spawn")
        self._progress: Any = context.SimpleQueue()
        # Nothing is ever written to it: its end is the message, be it closed here or by the kernel after our death.
        self._leash, self._held = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(
            workers, mp_context=context, initializer=_set_up_worker, initargs=(self._progress, self._leash, os.getpid())
        )
        self._ended = threading.Event()
        self._listener = threading.Thread(target=self._listen, args=(reporter,), daemon=True)

    def __enter__(self) -> _LocalPool:
        self._listener.start()
        return self

    def submit(self, jobs: Sequence[Job]) -> dict[Future[Results], Job]:
        # A spawned process first runs the parent's main module again, which no job needs and which, in a script without
        # an `if __name__ == "__main__"` guard, would start the sweep anew. The pool starts its processes as jobs come in.
        main, sys.modules["__main__"] = sys.modules["__main__"], types.ModuleType("__main__")
        # Ctrl-C reaches every process of the terminal, and only the parent acts on it. Workers inherit the mask, so they
        # are never without it: a worker that ignored the signal on its own could be interrupted while it starts.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return {self._pool.submit(_work, job): job for job in jobs}
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            sys.modules["__main__"] = main

    def __exit__(self, *_: object) -> None:
        self._held.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._leash.close()
        self._ended.set()
        self._listener.join(timeout=1)

    def _listen(self, reporter: Reporter) -> None:
        while not self._ended.is_set():
            if self._progress.empty():
                self._ended.wait(0.05)
            else:
                reporter.progress(*self._progress.get())


# What a worker reports with, and whether it is to stop; set once when it starts.
_report: Callable[[tuple[str, str, float, float, int]], None]
_stop = threading.Event()


def _set_up_worker(progress: Any, leash: Connection, parent: int) -> None:
    global _report
    _die_with(parent)
    threading.Thread(target=_watch, args=(leash, parent), daemon=True).start()
    _report = progress.put


def _die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends, where it can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before we had asked
        os._exit(1)


_PR_SET_PDEATHSIG = 1


def _watch(leash: Connection, parent: int) -> None:
    """Wait until the other end of the leash is gone; then stop the run, or all, if there is no parent to give it to."""
    leash.poll(None)
    _stop.set()
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def _work(job: Job) -> Results:
    def progress(done: float, sim_s: float, packet_hops: int) -> None:
        if _stop.is_set():
            raise Stopped
        _report((job.key, job.label, done, sim_s, packet_hops))

    return job.run(job.scenario, progress)
