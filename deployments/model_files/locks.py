# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Locks among all processes of a node, and among the threads of one. The kernel ends them.

A lock belongs to one opened file: two threads that open it exclude each other like two processes.
A process that dies leaves nothing locked.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Final

# flock cannot be waited for with an end; whoever waits for a download waits for seconds anyway.
_POLL_S: Final = 0.02


class StoppedError(Exception):
    """Waiting ended because what it was for has failed elsewhere."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that is held for short times only."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        _unlock(descriptor)


@contextmanager
def locked_while_working(path: Path, stop: Event) -> Iterator[None]:
    """Hold a lock that may be held for long. Its file is removed in the end.

    Raises:
        StoppedError: ``stop`` was set before the lock was free.
    """
    descriptor = _open_locked(path, stop)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        _unlock(descriptor)


def is_locked(path: Path) -> bool:
    """Return whether anybody holds the lock of a file or directory."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def open_shared(directory: Path) -> int:
    """Return a descriptor that keeps a directory from being taken for unused until `let_go`."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def let_go(descriptor: int) -> None:
    """End what `open_shared` began."""
    _unlock(descriptor)


def _open_locked(path: Path, stop: Event) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _wait_locked(descriptor, stop)
            # The former holder has removed the file, and others may have locked a new one.
            if _is_at(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        _unlock(descriptor)


def _wait_locked(descriptor: int, stop: Event) -> None:
    while not _try_lock(descriptor, fcntl.LOCK_EX):
        if stop.wait(_POLL_S):
            raise StoppedError


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def _unlock(descriptor: int) -> None:
    # Closing alone would not do while a process forked meanwhile has the file open too.
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
