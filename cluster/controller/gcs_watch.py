# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the GCS, Ray's control plane on the head node, answers; and what waits for it.

A call of the GCS that is away waits until it is back, for minutes if need be. Instances and
ingresses need none for a request. Loads and unloads do: they wait a while for it to come back, and
then fail with a text that says so.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from backends.api.errors import TritonError, UnavailableError

T = TypeVar("T")

_log = logging.getLogger(__name__)

# How long Ray's processes look for a GCS that is away before they end themselves, and where that is
# set: in the environment of a process before it imports Ray.
RECONNECT_VARIABLE: Final = "RAY_gcs_rpc_server_reconnect_timeout_s"
RECONNECT_DEFAULT_S: Final = 60.0
# What an operator is told to set, and what a joined server has itself.
RECONNECT_S: Final = 600.0
PERIOD_S: Final = 1.0
# No answer for so long: a GCS that is only busy says nothing for as long, too.
AWAY_AFTER_S: Final = 5.0
# How long a client's call waits for the GCS to come back.
PATIENCE_S: Final = 15.0


def reconnect_s(environment: Mapping[str, str]) -> float:
    """Return how long a process looks for a GCS that is away before Ray ends it."""
    return float(environment.get(RECONNECT_VARIABLE, RECONNECT_DEFAULT_S))


class GcsWatch:
    """Asks the GCS again and again; made on the event loop.

    Args:
        ask: Reads a row. It may wait for ever, and raise what Ray raises.
    """

    def __init__(self, ask: Callable[[], Awaitable[None]]) -> None:
        self._ask = ask
        self._clock_s = asyncio.get_running_loop().time
        # Since when it owes an answer; None while it owes none.
        self._asked_s: float | None = None
        self._answered = asyncio.Event()

    @property
    def silence_s(self) -> float:
        """For how long it has owed an answer."""
        return 0.0 if self._asked_s is None else self._clock_s() - self._asked_s

    @property
    def is_away(self) -> bool:
        """Whether it has owed an answer for longer than a busy one does."""
        return self.silence_s > AWAY_AFTER_S

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            if self._asked_s is None:
                self._asked_s = self._clock_s()
            asking = asyncio.ensure_future(self._ask())
            try:
                await self._hear(asking)
            except Exception as error:
                _log.warning("the GCS cannot be asked: %s", error)
            else:
                self._asked_s = None
                self._answered.set()
                self._answered = asyncio.Event()
            finally:
                asking.cancel()
            await asyncio.sleep(PERIOD_S)

    async def through(self, what: str, make: Callable[[], Awaitable[T]]) -> T:
        """Do what needs the GCS: begin when it is there, and wait for it no longer than a client.

        Work that has begun goes on when the wait for it is over.

        Args:
            what: The work, for the error: "load of model 'm'".
            make: Begins it.

        Raises:
            UnavailableError: The GCS is away for longer than `PATIENCE_S`.
            TritonError: As the work raises; UNAVAILABLE while the GCS is away.
        """
        if self.is_away:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._answered.wait()
            except TimeoutError:
                raise self._refusal(f"{what} was not begun") from None
        work = asyncio.ensure_future(make())
        try:
            while not (await asyncio.wait({work}, timeout=PERIOD_S))[0]:
                if self.silence_s > PATIENCE_S:
                    # Whoever began it has gone; what becomes of it is told by the model's state.
                    work.add_done_callback(_take_outcome)
                    raise self._refusal(f"{what} goes on when it is back")
        except asyncio.CancelledError:
            work.cancel()
            raise
        try:
            return work.result()
        except TritonError as error:
            if self.is_away:
                raise self._refusal(f"{what} failed ({error.message})") from error
            raise

    async def _hear(self, asking: "asyncio.Future[None]") -> None:
        told = False
        while not (await asyncio.wait({asking}, timeout=AWAY_AFTER_S))[0]:
            if not told:
                _log.warning(
                    "the GCS of the Ray cluster does not answer: models serve on, and cannot be"
                    " loaded or unloaded until it is back"
                )
                told = True
        asking.result()
        if told:
            _log.warning("the GCS of the Ray cluster is back after %.0f s", self.silence_s)

    def _refusal(self, what: str) -> UnavailableError:
        return UnavailableError(
            f"the head of the Ray cluster (GCS) is silent for {self.silence_s:.0f} s: {what};"
            " models that are loaded are served, try again when the head is back"
        )


def _take_outcome(work: "asyncio.Future[Any]") -> None:
    if not work.cancelled() and work.exception() is not None:
        _log.warning("what went on without the GCS has failed: %s", work.exception())
