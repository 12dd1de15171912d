"""Signals that end the program. On the command line, SIGTERM and SIGHUP act like Ctrl-C. They can be held back for a while."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

# Set to True when the command has ended: a later signal is ignored, since nothing would catch what its handler raises.
# This is a variable, since Python handles signals where a function is called: a signal could come before its first line.
command_ended = False


class Ended(BaseException):
    """A signal ends the command line. It is not a KeyboardInterrupt, since libraries catch that."""

    def __init__(self, number: int) -> None:
        """Store the signal's number."""
        super().__init__(signal.Signals(number).name)
        self.number = number


def raise_ended() -> None:
    """Make Ctrl-C, SIGTERM and SIGHUP raise `Ended`. Signals that were ignored from the start (`nohup`) stay ignored."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise_ended)
    sys.unraisablehook = _send_again


def _send_again(ignored: sys.UnraisableHookArgs) -> None:
    """Send a signal again if it arrived in a destructor or a callback from which Python ignores exceptions."""
    if isinstance(ignored.exc_value, Ended):
        # The delay lets this hook return first, since it ignores exceptions too.
        timer = threading.Timer(0.1, signal.raise_signal, (ignored.exc_value.number,))
        timer.daemon = True
        timer.start()
    else:
        sys.__unraisablehook__(ignored)


def _raise_ended(number: int, _: FrameType | None) -> None:
    if not command_ended:
        raise Ended(number)


@contextlib.contextmanager
def held() -> Iterator[Callable[[], None]]:
    """Delay signals until the block ends; provide a function that delivers the signals received so far.

    Python would raise KeyboardInterrupt at any point: between two renames that belong together, or between taking a lock
    and registering its release, which could deadlock the pool of workers. A second signal of the same kind is not
    delayed. Only the main thread handles signals, so in other threads this does nothing.
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
