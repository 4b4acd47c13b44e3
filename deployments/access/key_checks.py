# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Checks whether unknown credentials are chosen keys: tens of milliseconds for each such key. Pure.

Theory of operation. Whoever shows a credential first has its check begun and is told to wait; who
shows the same one meanwhile waits for the same check. Checks run one after the other, away from the
loop. When one has ended, all who wait ask once more, and find what it has found; nothing is kept
after that, since the guard remembers good and bad credentials.
"""

import logging
from collections.abc import Callable
from typing import Final

from deployments.access.contracts import PendingError
from deployments.access.keys import KeyRing
from deployments.access.policy import StoredKey
from deployments.access.refusals import Method, Reason, RefusedError

_log = logging.getLogger(__name__)

# Credentials that are checked or wait for it; about a second of a thread.
_MOST_CHECKS: Final = 16
# Requests that wait for that.
_MOST_WAITING: Final = 1024

# Runs the first argument on a thread, then the second on the loop with the error, if there was one.
Offload = Callable[[Callable[[], None], Callable[[BaseException | None], None]], None]


class _Check:
    """The check of one credential against one ring of keys."""

    __slots__ = ("_given", "_ring", "error", "found", "is_done", "waiting")

    def __init__(self, ring: KeyRing, given: bytes) -> None:
        self._ring = ring
        self._given = given
        self.is_done = False
        self.found: StoredKey | None = None
        self.error: BaseException | None = None
        self.waiting: list[Callable[[], None]] = []

    def run(self) -> None:
        """Compare with all keys; called on a thread."""
        self.found = self._ring.find_chosen(self._given)


def at_once(work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
    """Run a check where it is asked for, for commands and others that have no loop to keep free."""
    try:
        work()
    except Exception as error:
        done(error)
    else:
        done(None)


class KeyChecks:
    """The checks of one guard; used on the loop's thread.

    Args:
        offload: Runs them, one after the other.
    """

    def __init__(self, offload: Offload = at_once) -> None:
        self._offload = offload
        self._checks: dict[tuple[KeyRing, bytes], _Check] = {}

    def find(self, ring: KeyRing, given: bytes, may_begin: Callable[[], bool]) -> StoredKey | None:
        """Return the chosen key that was given; None when it is none.

        Args:
            ring: The keys.
            given: The credential.
            may_begin: Asked before a check begins.

        Raises:
            PendingError: That is being found out.
            RefusedError: Too much is being found out, or was lately.
        """
        check = self._checks.get((ring, given))
        if check is None:
            if len(self._checks) >= _MOST_CHECKS or not may_begin():
                raise RefusedError(Reason.LIMITED, Method.API_KEY)
            check = self._begin(ring, given)
        if not check.is_done:
            if sum(len(each.waiting) for each in self._checks.values()) >= _MOST_WAITING:
                raise RefusedError(Reason.LIMITED, Method.API_KEY)
            raise PendingError(check.waiting.append)
        if check.error is not None:
            raise check.error
        return check.found

    def _begin(self, ring: KeyRing, given: bytes) -> _Check:
        check = self._checks[ring, given] = _Check(ring, given)

        def done(error: BaseException | None) -> None:
            check.is_done, check.error = True, error
            for ask_again in check.waiting:
                try:
                    ask_again()
                except Exception:
                    _log.exception("failed to go on with a request whose credentials were checked")
            del self._checks[ring, given]

        try:
            self._offload(check.run, done)
        except BaseException:
            del self._checks[ring, given]
            raise
        return check
