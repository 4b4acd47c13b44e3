# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps a guard up to date: its files are looked at every few seconds, issuers' keys are fetched.

What is wrong is logged once and counted, and what was taken before goes on.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from backends.api.errors import TritonError
from deployments.access.guard import PolicyGuard
from deployments.access.policy import Issuer
from deployments.access.policy_files import LoadedPolicy, Stamp, load_policy, stamp_of
from deployments.access.signing_key_fetch import fetch_signing_keys
from deployments.access.signing_keys import SigningKeys
from deployments.supervision.supervisor import Supervisor

_log = logging.getLogger(__name__)

INTERVAL_S: Final = 2.0
_LONGEST_REST_S: Final = 60.0


class PolicyWatch:
    """Looks at the files of a guard's policy, and fetches what it names.

    Args:
        guard: What is kept up to date.
        now_s: A monotonic clock; that of the running loop unless given.
        fetch: Fetches an issuer's keys; called on a thread.
    """

    def __init__(
        self,
        guard: PolicyGuard,
        now_s: Callable[[], float] | None = None,
        fetch: Callable[[Issuer], SigningKeys] = fetch_signing_keys,
    ) -> None:
        self._guard = guard
        self._now_s = now_s or asyncio.get_running_loop().time
        self._fetch = fetch
        # Of the files as they were last looked at; before the first look nobody knows.
        self._stamp: Stamp | None = None
        # Why the files could not be taken; empty when they were.
        self._problem = ""
        self._fetched_s: dict[str, float] = {}
        self._has_failed: set[str] = set()
        # Issuers that have signed with keys which are not known.
        self._asked: set[str] = set()
        self._wake = asyncio.Event()
        guard.on_unknown_key = self._note_unknown_key

    def start(self, tasks: Supervisor) -> None:
        """Begin; ends when the tasks are closed."""
        tasks.keep("access policy", self._follow_files)
        tasks.keep("signing keys", self._follow_keys)

    async def look_at_files(self) -> bool:
        """Read the policy's files if they have changed; whether a new policy was taken."""
        guard = self._guard
        stamp = await asyncio.to_thread(stamp_of, guard.loaded.paths)
        # What could not be taken may lack a file that nobody has looked at yet.
        if stamp == self._stamp and not self._problem:
            return False
        is_known, self._stamp = stamp == self._stamp, stamp
        try:
            loaded = await asyncio.to_thread(load_policy, guard.loaded.path)
        except TritonError as error:
            self._refuse(error.message, is_known=is_known)
            return False
        self._problem = ""
        if _is_same(loaded, guard.loaded):
            return False
        # What it names may be other files; those are looked at once more.
        if loaded.paths != guard.loaded.paths:
            self._stamp = None
        guard.take(loaded)
        guard.counters.reloads["taken"] += 1
        self._wake.set()
        _log.info("access policy '%s' was read again: revision %d", loaded.path, guard.revision)
        return True

    def _refuse(self, problem: str, *, is_known: bool) -> None:
        """Say what is wrong, unless that was said."""
        if is_known and problem == self._problem:
            return
        self._problem = problem
        self._guard.counters.reloads["refused"] += 1
        _log.error("%s; the policy of before goes on", problem)

    async def fetch_keys(self) -> None:
        """Fetch the keys of all issuers for whom it is time."""
        now_s = self._now_s()
        due = [each for each in self._guard.fetched_issuers if now_s >= self._due_s(each)]
        await asyncio.gather(*(self._fetch_of(issuer) for issuer in due))

    async def _follow_files(self) -> None:
        while True:
            await self.look_at_files()
            await asyncio.sleep(INTERVAL_S)

    async def _follow_keys(self) -> None:
        while True:
            self._wake.clear()
            await self.fetch_keys()
            due_s = [self._due_s(each) for each in self._guard.fetched_issuers]
            rest_s = min((each - self._now_s() for each in due_s), default=_LONGEST_REST_S)
            try:
                async with asyncio.timeout(max(0.1, min(rest_s, _LONGEST_REST_S))):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _due_s(self, issuer: Issuer) -> float:
        name = issuer.issuer
        last_s = self._fetched_s.get(name)
        if last_s is None:
            return 0.0
        is_soon = name in self._asked or name in self._has_failed
        return last_s + (issuer.least_refresh_s if is_soon else issuer.refresh_s)

    async def _fetch_of(self, issuer: Issuer) -> None:
        name = issuer.issuer
        self._fetched_s[name] = self._now_s()
        self._asked.discard(name)
        try:
            keys = await asyncio.to_thread(self._fetch, issuer)
        except TritonError as error:
            self._guard.counters.key_fetches["failed"] += 1
            if name not in self._has_failed:
                _log.error("keys of issuer '%s' are not renewed: %s", name, error.message)
            self._has_failed.add(name)
            return
        self._has_failed.discard(name)
        self._guard.counters.key_fetches["fetched"] += 1
        if issuer in self._guard.fetched_issuers:
            self._guard.take_signing_keys(name, keys)

    def _note_unknown_key(self, issuer: str) -> None:
        self._asked.add(issuer)
        self._wake.set()


def _is_same(one: LoadedPolicy, other: LoadedPolicy) -> bool:
    """Whether two policies say the same."""
    return (one.policy, one.paths, one.keys.keys, one.signing_keys) == (
        other.policy,
        other.paths,
        other.keys.keys,
        other.signing_keys,
    )
