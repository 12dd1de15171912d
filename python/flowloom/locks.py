"""A lock file, which one process at a time can hold. It names its holder, and is released when that process ends."""

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
    """Another process holds the lock; the message names it."""


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock file until the block ends.

    The lock is the kernel's (`flock`), which releases it when its holder ends for any reason. The lock file of a killed process
    can therefore be locked again, and no rule about the age of lock files is needed.

    Args:
        path: The file; its folder must exist.
        wait: Wait until the lock is free instead of raising HeldError.

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
        # The file is removed first. A process that waits for the lock then finds that the file has changed, and tries again.
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
            os.close(handle)  # its last holder has deleted the file
        except BlockingIOError:
            held = HeldError(_holder(handle))
            os.close(handle)
            raise held from None
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                return handle  # the file system has no locks, so no process can be kept out
            os.close(handle)
            raise


def _unlock(handle: int) -> None:
    # Closing the file does not release the lock while a forked child has the file open.
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
        return f"process {found['pid']} on {found['host']} has held the lock since {found['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process holds the lock"
