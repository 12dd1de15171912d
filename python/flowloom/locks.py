"""One process at a time: a lock file that says who holds it, and that a process which is no more cannot hold."""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path


class HeldError(Exception):
    """Someone else holds the lock; the message says who."""


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock file until the block ends.

    The lock is the kernel's (`flock`), which releases it when its holder ends, however that happens. A lock file that a killed
    process left behind is therefore free, and no rule about the age of lock files is needed.

    Args:
        path: The file; its folder must exist.
        wait: Wait for another holder instead of refusing.

    Raises:
        HeldError: Another process, or another thread of this one, holds it.
        OSError: The file cannot be written.
    """
    handle = _take(path, wait)
    try:
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(_me()).encode())
        yield
    finally:
        # The file goes first: whoever opens it from now on makes a new one, and whoever waits for this one looks again.
        path.unlink(missing_ok=True)
        _unlock(handle)
        os.close(handle)


def _take(path: Path, wait: bool) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if _is_at(handle, path):
                return handle
            os.close(handle)  # its last holder has deleted it meanwhile
        except BlockingIOError:
            held = HeldError(_holder(handle))
            os.close(handle)
            raise held from None
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                return handle  # a file system without locks: then nobody can be kept out
            os.close(handle)
            raise


def _unlock(handle: int) -> None:
    # Closing would do, but not while a child that was forked meanwhile has the file open too.
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _me() -> dict[str, object]:
    now = datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": now}


def _holder(handle: int) -> str:
    try:
        found = json.loads(os.pread(handle, 1000, 0))
        return f"process {found['pid']} on {found['host']} has held it since {found['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process holds it"
