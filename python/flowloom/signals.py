"""Signals that end the program: on the command line SIGTERM and SIGHUP act as Ctrl-C does; none cuts a step in two."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

_ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Ended(BaseException):
    """A signal asked the command line to end. Not a KeyboardInterrupt, which libraries catch and give names of their own."""

    def __init__(self, number: int) -> None:
        """Remember which signal it was."""
        super().__init__(signal.Signals(number).name)
        self.number = number


def raise_ended() -> None:
    """Make Ctrl-C, SIGTERM and SIGHUP raise `Ended`, unless whoever started the program ignores them, as nohup does."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise_ended)


def _raise_ended(number: int, _: FrameType | None) -> NoReturn:
    raise Ended(number)


@contextlib.contextmanager
def held() -> Iterator[Callable[[], None]]:
    """Hold signals back until the block ends; lend a function that delivers those that came so far.

    Python would raise KeyboardInterrupt anywhere: between two renames that belong together, or between taking a lock and
    remembering to give it back, which now and then ended in a deadlock with the pool of workers. The second signal of a
    kind is not held back. Only the main thread handles signals, so that elsewhere nothing needs to be done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)
        signal.signal(number, handlers[number])

    def deliver() -> None:
        while came:
            number = came.pop()
            handlers[number](number, None)

    for number in _ENDING:
        handler = signal.getsignal(number)
        if callable(handler):
            handlers[number] = handler
            signal.signal(number, note)
    try:
        yield deliver
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        deliver()
