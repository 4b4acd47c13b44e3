# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Versions without an instance: put to rest, and woken by their next request.

A dormant version stays READY. Its config, labels, files and counters are kept; its instances drain
and end. Waking starts one instance, with which requests run; the others that the config asks for
follow.

Rules, each of which a test holds:

- Of all that ask to wake a version at once one does it, and the outcome is everybody's.
- To rest needs nobody's patience: the version is dormant at once, while instances drain. Waking it
  then starts new ones beside them.
- A version does not come to rest while another operation on it is under way
  (`cluster.models.operation`).
- An unload ends a waking; a load that begins meanwhile has its turn after it. A load leaves a
  dormant version as it is when nothing has changed, and else puts live instances in its place.
- A wake that fails, or is ended, ends what it has started; instances that still drain drain on.
- A version that could not be woken is tried again by the next request, not sooner than after an
  interval that grows; who asks sooner gets the last error.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from backends.api.errors import TritonError, UnavailableError
from backends.api.model_identifier import shown
from cluster.models import in_service
from cluster.models.operated_model import OperatedModel
from cluster.models.operation import Kind, Operation
from cluster.models.records import Records
from cluster.models.wake_room import WakeRoom

_log = logging.getLogger(__name__)

_FIRST_INTERVAL_S: Final = 1.0
_MOST_INTERVAL_S: Final = 60.0

# The version of a model of which nothing is known.
_ANY: Final = -1
_NS_PER_S: Final = 1e9

_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Failure:
    """A version that could not be woken: why, how long it is left alone, and until when."""

    error: TritonError
    interval_s: float
    until_s: float


@dataclass(slots=True, eq=False)
class Dormancy:
    """Puts versions to rest and wakes them.

    Attributes:
        room: How many wakes may begin.
        load: Loads a model that was never loaded.
    """

    records: Records
    room: WakeRoom
    model_of: Callable[[str], OperatedModel]
    load: Callable[[str], Awaitable[None]]
    _waking: dict[_Key, asyncio.Task[None]] = field(default_factory=dict)
    _failures: dict[_Key, _Failure] = field(default_factory=dict)

    @property
    def waking_count(self) -> int:
        """How many versions are being woken, or models loaded by their first use."""
        return len(self._waking)

    @property
    def waking_names(self) -> frozenset[str]:
        """Keys of the models of which versions are being woken."""
        return frozenset(name for name, _ in self._waking)

    def know(self, names: Iterable[str]) -> None:
        """Have models load with their first use."""
        for name in names:
            self._failures.pop((name, _ANY), None)
            record = self.records.of(name)
            self.records.put(replace(record, is_known=True, is_on_demand=True))

    def rest(self, name: str, version: int) -> bool:
        """Make a version dormant; its instances finish their requests and end.

        Returns:
            Whether that was done. Not of a version that is not READY, or has no instances of its
            own, as an ensemble; nor while another operation on it is under way, which may be
            cancelled for the next try.
        """
        model = self.model_of(name)
        if not (model.may(Kind.REST, version) and in_service.rest(model.versions, version)):
            return False
        # It has served since.
        self._failures.pop((name, version), None)
        _log.info("'%s' version %d rests until it is used", shown(name), version)
        return True

    async def wake(self, name: str, version: int, *, is_nested: bool = False) -> None:
        """Start an instance of a dormant version, or load a model that loads with its first use.

        A version that is awake, or not there any more, is left alone; so is one for which there was
        no room for too long, see `cluster.models.wake_room`.

        Args:
            name: The model's key.
            version: Version number; of a model that was never loaded any number.
            is_nested: Whether requests wait for it that hold an instance themselves.

        Raises:
            UnavailableError: That failed, with the load's error in the text.
        """
        key = (name, _ANY if self._is_unread(name) else version)
        failure = self._failures.get(key)
        now_s = asyncio.get_running_loop().time()
        if failure is not None and now_s < failure.until_s and key not in self._waking:
            raise _failed(name, failure.error, failure.until_s - now_s)
        task = self._waking.get(key)
        if task is None:
            task = self._waking[key] = asyncio.create_task(self._enter(key, is_nested))
            task.add_done_callback(lambda _: self._waking.pop(key, None))
        elif is_nested:
            self.room.let_in(key)
        await asyncio.wait({task})
        if task.cancelled():
            raise UnavailableError("Server exiting")
        task.result()

    def close(self) -> None:
        """Wake nothing any more."""
        for task in self._waking.values():
            task.cancel()

    async def _enter(self, key: _Key, is_nested: bool) -> None:
        try:
            if await self.room.enter(key, is_urgent=is_nested):
                await self._wake(*key)
            else:
                _log.warning("no room for '%s' version %d for too long", shown(key[0]), key[1])
        finally:
            self.room.leave(key)

    async def _wake(self, name: str, version: int) -> None:
        key, clock = (name, version), asyncio.get_running_loop().time
        began_s = clock()
        try:
            is_woken = await self._start(name, version)
        except TritonError as error:
            before = self._failures.get(key)
            interval_s = _FIRST_INTERVAL_S if before is None else 2 * before.interval_s
            interval_s = min(interval_s, _MOST_INTERVAL_S)
            self._failures[key] = _Failure(error, interval_s, clock() + interval_s)
            raise _failed(name, error, interval_s) from error
        self._failures.pop(key, None)
        if is_woken:
            took_s = clock() - began_s
            record = self.records.of(name)
            count, total_ns = record.cold_start_count + 1, record.cold_start_ns
            total_ns += int(took_s * _NS_PER_S)
            self.records.put(replace(record, cold_start_count=count, cold_start_ns=total_ns))
            _log.info("woke '%s' version %d in %.3f s", shown(name), version, took_s)

    async def _start(self, name: str, version: int) -> bool:
        """Wake a version; return whether it was this that did."""
        if self._is_unread(name):
            await self._load_first(name)
            return True
        model, is_woken = self.model_of(name), False

        async def wake(operation: Operation) -> None:
            nonlocal is_woken
            # What it has waited for may have ended with the version awake.
            if self._is_dormant(name, version):
                await in_service.wake(model.versions, version, operation.block)
                is_woken = True

        while self._is_dormant(name, version):
            operation = await model.run(Kind.WAKE, version, f"wake of '{name}'", wake)
            if operation is not None:
                await operation.wait_ended()
                operation.result()
        return is_woken

    async def _load_first(self, name: str) -> None:
        """Load a model, however long the cluster has no room for it."""
        model = self.model_of(name)
        loading = model.find(Kind.LOAD)
        if loading is None or not loading.is_pending:
            try:
                await self.load(name)
            except TritonError:
                if model.find(Kind.LOAD) is None:
                    raise
        loading = model.find(Kind.LOAD)
        if loading is not None:
            await loading.wait_ended()
            loading.result()

    def _is_unread(self, name: str) -> bool:
        record = self.records.of(name)
        return record.is_on_demand and not record.ready_versions

    def _is_dormant(self, name: str, version: int) -> bool:
        record = self.records.of(name).versions.get(version)
        return record is not None and record.is_ready and record.is_dormant


def _failed(name: str, error: TritonError, interval_s: float) -> UnavailableError:
    text = f"failed to start model '{shown(name)}': {error.as_string()}"
    return UnavailableError(text, retry_after_s=interval_s)
