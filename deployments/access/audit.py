# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The audit log: who asked for what, and what came of it, a JSON object a line.

Whoever notes something never waits: lines go into a bounded queue, and a thread writes them. What
finds the queue full is counted. A file that was renamed or removed is opened anew, so that usual
rotation works.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from deployments.access.audit_line import AuditEvent, audit_line
from deployments.access.counters import AccessCounters
from deployments.access.policy import AuditRules
from deployments.security.caller import Caller
from deployments.settings.documents import several

_log = logging.getLogger(__name__)

_QUEUE_LIMIT: Final = 10_000
_BATCH: Final = 500
_FILE_MODE: Final = 0o600
_CLOSE_S: Final = 5.0
_STDERR: Final = 2
# Outcomes that are words of `Outcome` themselves; every other one is a failure's code.
_OWN: Final = frozenset(("allowed", "denied", "unauthenticated"))
_FAILED: Final = "failed"


class AuditLog:
    """Takes lines on the loop and writes them on a thread.

    Args:
        clock: Wall clock, in seconds.
        counters: Where dropped lines are counted.
        limit: How many lines may wait.
    """

    def __init__(
        self, clock: Callable[[], float], counters: AccessCounters, limit: int = _QUEUE_LIMIT
    ) -> None:
        self._clock = clock
        self._counters = counters
        self._limit = limit
        self._rules: AuditRules | None = None
        self._share = 0.0
        self._waiting: deque[tuple[str, AuditEvent]] = deque()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def apply(self, rules: AuditRules | None) -> None:
        """Write what these rules ask for from now on; None writes nothing."""
        self._rules = rules

    def note(
        self,
        caller: Caller | None,
        protocol: str,
        what: str,
        model: str,
        outcome: str,
        revision: int,
    ) -> None:
        """Take a line, if the rules want it."""
        rules = self._rules
        if rules is None:
            return
        kind = outcome if outcome in _OWN else _FAILED
        if kind not in several(rules.outcomes) or (
            kind == "allowed" and not self._is_sampled(rules)
        ):
            return
        if len(self._waiting) >= self._limit or self._is_closed:
            self._counters.audit_dropped += 1
            return
        event = AuditEvent(self._clock(), protocol, caller, what, model, outcome, revision)
        self._waiting.append((rules.file, event))
        self._wake_writer()

    def _is_sampled(self, rules: AuditRules) -> bool:
        self._share += rules.allowed_share
        if self._share < 1.0:
            return False
        self._share -= 1.0
        return True

    def _wake_writer(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="manta-audit", daemon=True)
            self._thread.start()
        # A writer that is writing looks again by itself.
        if len(self._waiting) == 1 and self._wake.acquire(blocking=False):
            self._wake.notify()
            self._wake.release()

    def close(self) -> None:
        """Write what waits, and end; a disk that does not take it is not waited for for long."""
        self._is_closed = True
        thread = self._thread
        if thread is None:
            return
        with self._wake:
            self._wake.notify()
        thread.join(_CLOSE_S)

    def _write(self) -> None:
        file = AuditFile()
        try:
            while True:
                with self._wake:
                    if not self._waiting and not self._is_closed:
                        # Bounded: a wake-up may come between the look and the wait.
                        self._wake.wait(0.5)
                if not self._write_batches(file) and self._is_closed:
                    return
        finally:
            file.close()

    def _write_batches(self, file: "AuditFile") -> bool:
        """Write what waits; whether there was anything."""
        lines: dict[str, list[bytes]] = {}
        for _ in range(min(_BATCH, len(self._waiting))):
            path, event = self._waiting.popleft()
            lines.setdefault(path, []).append(audit_line(event))
        for path, of_path in lines.items():
            if not file.write(path, b"".join(of_path)):
                self._counters.audit_dropped += len(of_path)
        return bool(lines)


class AuditFile:
    """The file that lines are appended to, or stderr."""

    def __init__(self) -> None:
        self._path = ""
        self._descriptor = -1
        self._has_failed = False

    def write(self, path: str, content: bytes) -> bool:
        """Append whole lines; whether that worked.

        Args:
            path: The file; empty for stderr.
            content: The lines.
        """
        try:
            descriptor = self._open(path) if path else _STDERR
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                _log.error("audit log '%s' cannot be written: %s", path, error.strerror)
            self.close()
            return False
        self._has_failed = False
        return True

    def _open(self, path: str) -> int:
        if self._descriptor >= 0 and path == self._path and self._is_there(path):
            return self._descriptor
        self.close()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
        self._descriptor = os.open(path, flags, _FILE_MODE)
        self._path = path
        return self._descriptor

    def _is_there(self, path: str) -> bool:
        """Whether the file that is open still has its name."""
        try:
            found, opened = os.stat(path), os.fstat(self._descriptor)  # noqa: PTH116
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
