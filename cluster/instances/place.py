# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One place in a pool: creates its instance actor, watches it, replaces it and ends it.

A place is one task that lives through create, describe, watch, and again from the start when the
actor is lost:

- A `wait_closed` call that never returns is the death watch: it fails the moment Ray knows.
- An actor that lives and gets nowhere (`cluster.instances.prober`) is killed and created anew.
- Ray restarts a crashed actor under its name; then `describe` answers again, with a new endpoint.
- An actor Ray has given up on, or that keeps dying, is created anew, with a growing delay between
  attempts (`cluster.instances.restarts`).
- A kill counts once the actor's name is free; until then the actor has its device. One that would
  not die keeps its name, and the place goes on under another.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from backends.api.errors import (
    ImportedAlreadyError,
    InternalError,
    InvalidArgumentError,
    TritonError,
)
from backends.environments.launcher import layer_command
from cluster.instances.host import (
    ActorLostError,
    ActorUnreachableError,
    EnvironmentFailedError,
    InstanceHost,
)
from cluster.instances.kills import KILL_AGAIN_S, is_killed, kill_until_dead
from cluster.instances.placer import Placer
from cluster.instances.prober import Prober
from cluster.instances.reachability import Knock
from cluster.instances.restarts import Restarts
from cluster.placement.explanation import InstanceStatus
from cluster.placement.node_choice import blocked_by
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.spec import InstanceDescription, InstanceSpec
from deployments.metrics.counters import Snapshot
from deployments.supervision.supervisor import Supervisor

_log = logging.getLogger(__name__)

# An actor start takes tenths of a second; one still silent after this may be waiting for room.
_PLACEMENT_GRACE_S = 3.0
_PLACEMENT_POLL_S = 5.0
# How many of its looks ask at once how often the process has died, and how seldom later ones do.
_FREQUENT_LOOKS = 4
_MOST_LOOKS_BETWEEN = 16
_STATISTICS_TIMEOUT_S = 2.0
# How long a connection may take to a process that Ray could not reach, and until the next try.
_KNOCK_S = 2.0
_UNREACHABLE_S = 1.0
# One death may be of the machine's making.
_MOST_SILENT_DEATHS = 2
# How often an actor is killed before its place goes on without its name.
_MOST_KILLS = 3
# On one node the first finds what it starts with; the next may be on others.
_MOST_STARTS_WITH_LAYER = 3


class InstancePlace:
    """One place in a pool and the actor that fills it now.

    Args:
        spec: The recipe of its actor.
        on_change: Called on the loop whenever ``description`` or ``reason`` changed.
        host: Where the actor lives.
        prober: Tells when the actor gets nowhere.
        handle: An actor that is alive already; None to create one.
        description: What that actor says of itself.
        devices: Gives it its place; None leaves that to Ray.
        renumber: Returns a recipe under a name that nothing ever had; None keeps to the name.

    Attributes:
        settled: Done once it is live or waits for room; an error when its first load failed.
        reason: What it waits for; empty while it is live.
        load_error: Why the last attempt failed, of one that was settled before.
    """

    def __init__(
        self,
        spec: InstanceSpec,
        on_change: Callable[[], None],
        host: InstanceHost,
        prober: Prober,
        handle: Any = None,
        description: InstanceDescription | None = None,
        devices: Placer | None = None,
        renumber: Callable[[InstanceSpec], InstanceSpec] | None = None,
    ) -> None:
        self.spec = spec
        self.description = description
        self.reason = ""
        self.load_error: TritonError | None = None
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_change = on_change
        self._host = host
        self._prober = prober
        self._devices = devices
        self._renumber = renumber
        self._handle = handle
        # With the device that its actor has.
        self._placed = spec
        self._creation: asyncio.Future[Any] | None = None
        self._restarts = Restarts()
        self._deaths = 0
        self._is_hung = False
        # Why its actor was ended that had never answered.
        self._gave_up = ""
        self._starts_with_layer = 0
        if devices is not None and description is not None:
            devices.loaded(description)
        self._supervisor = Supervisor(f"instance {spec.name}")
        self._task = self._supervisor.spawn("its life", self._live())

    @property
    def status(self) -> InstanceStatus:
        """The instance as it is now."""
        if self.description is None:
            is_failing = self._restarts.count > 0
            return InstanceStatus(
                self._placed, reason=self.reason, is_failing=is_failing, restarts=self._deaths
            )
        there = self.description
        return InstanceStatus(
            there.spec, there.endpoint.node_id, pid=there.pid, restarts=self._deaths
        )

    @property
    def endpoint(self) -> InstanceEndpoint | None:
        """Where the live actor listens; None while there is none."""
        return None if self.description is None else self.description.endpoint

    def settle(self, error: TritonError | None = None) -> None:
        """Tell those who wait for `settled`; a second call does nothing."""
        if self.settled.done():
            return
        if error is None:
            self.settled.set_result(None)
        else:
            self.settled.set_exception(error)

    def stop_watching(self) -> None:
        """Replace the actor no more, whatever becomes of it."""
        self._task.cancel()
        if self.settled.done() and not self.settled.cancelled():
            self.settled.exception()

    async def drain(self, timeout_s: float) -> Snapshot | None:
        """Have a live actor finish its requests and refuse others.

        Returns:
            What it has counted in its life; None when it does not say.
        """
        if self.description is None:
            return None
        # A hung or dying actor must not hold up the others: whatever happens, it is killed.
        self._is_hung = True
        with contextlib.suppress(ActorLostError, TritonError, TimeoutError):
            async with asyncio.timeout(timeout_s + 1):
                self._is_hung = not await self._host.call(self._handle, "drain", timeout_s)
            return await self.statistics()
        return None

    async def statistics(self) -> Snapshot | None:
        """Return what a live actor has counted; None when it does not say."""
        if self.description is None:
            return None
        with contextlib.suppress(ActorLostError, TritonError, TimeoutError):
            async with asyncio.timeout(_STATISTICS_TIMEOUT_S):
                snapshot: Snapshot = await self._host.call(self._handle, "statistics")
                return snapshot
        return None

    async def end(self, timeout_s: float) -> None:
        """Shut the actor down, or kill it when that takes too long.

        A kill that is not known to have happened is repeated after this has returned.
        """
        self.stop_watching()
        handle = await self._found()
        if handle is None:
            self._let_go(self.spec.name)
            return
        # A model that still executes could not be finalized either.
        if self.description is not None and not self._is_hung:
            with contextlib.suppress(ActorLostError, TritonError, TimeoutError):
                async with asyncio.timeout(timeout_s + 1):
                    await self._host.call(handle, "shutdown")
        if await is_killed(self._host, handle, self.spec):
            self._let_go(self.spec.name)
        else:
            self._kill_on(handle, self.spec)

    async def _found(self) -> Any:
        """Return the actor there is or is about to be; None when there is none.

        A creation that failed may have made one all the same.
        """
        if self._handle is None and self._creation is not None:
            # Why it failed is known already, or does not matter any more.
            with contextlib.suppress(Exception):
                self._handle = await self._creation
            if self._handle is None:
                with contextlib.suppress(Exception):
                    self._handle = await self._host.look_up(self.spec.name)
        return self._handle

    def _kill_on(self, handle: Any, spec: InstanceSpec) -> None:
        """Kill an actor until it is dead; as long it has its device, and nobody waits for it."""

        async def kill() -> None:
            await asyncio.sleep(KILL_AGAIN_S)
            await kill_until_dead(self._host, handle, spec)
            self._let_go(spec.name)

        self._supervisor.spawn("its kill", kill())

    def _let_go(self, name: str) -> None:
        if self._devices is not None:
            self._devices.release(name)

    async def _live(self) -> None:
        while True:
            try:
                if not await self._live_once():
                    return
            except Exception as error:
                # A recipe that cannot be pickled, say: no reason for a load to wait for ever.
                _log.exception("instance %s", self.spec.name)
                if not await self._take_fault(error):
                    return

    async def _live_once(self) -> bool:
        """Bring the actor up if need be and watch it; False when its first load has failed."""
        if self.description is None:
            error = await self._bring_up()
            if error is not None:
                return await self._may_retry(error)
            self.settle()
        await self._watch()
        return True

    async def _take_fault(self, error: Exception) -> bool:
        """Note what nobody has foreseen; whether to go on."""
        cause = f"{type(error).__name__}: {error}"
        self.load_error = InternalError(f"instance {self.spec.name} was not started: {cause}")
        self.reason = self.load_error.message
        self.description = None
        self._restarts.failed()
        with contextlib.suppress(Exception):
            await self._discard()
        if not self.settled.done():
            self.settle(self.load_error)
            return False
        self._on_change()
        await asyncio.sleep(self._restarts.delay_s)
        return True

    async def _bring_up(self) -> Exception | None:
        """Create the actor unless there is one, and wait for it to load."""
        try:
            if self._handle is None:
                spec = self._placed = await self._with_device()
                # Shielded and kept, so that closing the pool meanwhile still finds the actor.
                self._creation = asyncio.ensure_future(self._host.create(spec))
                self._handle = await asyncio.shield(self._creation)
                self._gave_up = ""
            description = await self._describe()
            if self._devices is not None:
                if await self._devices.is_misplaced(description):
                    await self._discard()
                    return await self._bring_up()
                self._devices.loaded(description)
            self.description = description
        except ImportedAlreadyError as error:
            return await self._start_with_layer(error)
        except (ActorLostError, TritonError, ValueError) as error:
            # ValueError: the name is held by an actor that nobody knows of.
            return error
        self.load_error = None
        self.reason = ""
        self._starts_with_layer = 0
        self._on_change()
        return None

    async def _start_with_layer(self, error: ImportedAlreadyError) -> Exception | None:
        """Bring an actor up whose process has its model's packages from the beginning."""
        requirements = self.spec.requirements
        if requirements is None or self._starts_with_layer == _MOST_STARTS_WITH_LAYER:
            return error
        self._starts_with_layer += 1
        await self._discard()
        command = layer_command(requirements.key)
        self.spec = replace(self.spec, runtime_env={"py_executable": command})
        return await self._bring_up()

    async def _with_device(self) -> InstanceSpec:
        """Return the recipe with the GPU that the actor shall have, once there is one."""
        if self._devices is None:
            return self.spec
        return await self._devices.wait_assigned(self.spec, self._wait_for)

    def _wait_for(self, what: str) -> None:
        self.reason = f"instance {self.spec.name} is {what}"
        if self._devices is not None:
            self._devices.waits(self.spec, what)
        self.settle()
        self._on_change()

    async def _may_retry(self, error: Exception) -> bool:
        """Clean up after a failed attempt and wait before the next; a first load has no next."""
        if isinstance(error, ActorLostError) and not self.settled.done():
            happened = (
                "was not started" if isinstance(error, EnvironmentFailedError) else "died loading"
            )
            error = InternalError(f"instance {self.spec.name} {happened}: {error}")
        if isinstance(error, ValueError) and not self.settled.done():
            error = InvalidArgumentError(f"instance {self.spec.name} cannot be placed: {error}")
        loaded_badly = isinstance(error, TritonError)
        self._restarts.failed()
        is_taken = isinstance(error, ValueError)
        if loaded_badly or is_taken or not self._restarts.is_left_to_ray or await self._is_gone():
            await self._discard()
        if isinstance(error, TritonError) and not self.settled.done():
            self.settle(error)
            return False
        self.load_error = error if isinstance(error, TritonError) else None
        if not is_taken:
            self.reason = f"instance {self.spec.name} is restarting: {_cause_of(error)}"
        _log.warning("%s", self.reason)
        self._on_change()
        await asyncio.sleep(self._restarts.delay_s)
        return True

    async def _describe(self) -> InstanceDescription:
        placement = self._supervisor.spawn("report of its placement", self._report_placement())
        try:
            description: InstanceDescription = await self._host.call(self._handle, "describe")
        except ActorLostError as error:
            if self._gave_up:
                raise ActorLostError(self._gave_up) from error
            raise
        else:
            return description
        finally:
            placement.cancel()

    async def _report_placement(self) -> None:
        """Say what an actor without a process waits for; a process answers `health` at once."""
        placed = self._supervisor.spawn("its first answer", self._answers(self._handle))
        timeout_s, was_blocked = _PLACEMENT_GRACE_S, False
        counts: list[int] = []
        looks, asks_next = 0, 1
        while not (await asyncio.wait({placed}, timeout=timeout_s))[0]:
            timeout_s = _PLACEMENT_POLL_S
            looks += 1
            # Looks at the nodes are shared, these questions are not: thousands may wait for room.
            if looks == asks_next:
                asks_next += 1 if looks < _FREQUENT_LOOKS else min(looks, _MOST_LOOKS_BETWEEN)
                if await self._keeps_dying(counts):
                    return
            cluster = await self._host.resources()
            blocked = blocked_by(self._placed, cluster)
            if blocked:
                was_blocked = True
                self._wait_for(blocked)
        # Why one is started again is worth more than that it loads.
        if was_blocked:
            if self._devices is not None:
                self._devices.has_room(self.spec.name)
            self.reason = f"instance {self.spec.name} is loading"
            self._on_change()

    async def _keeps_dying(self, counts: list[int]) -> bool:
        """End an actor whose process dies before it answers: Ray would restart it for ever.

        Args:
            counts: How often Ray had restarted it at the looks until now; gets one more.
        """
        counts.append(await self._host.restarts(self._handle))
        deaths = counts[-1] - counts[0]
        if deaths <= _MOST_SILENT_DEATHS:
            return False
        self._gave_up = f"its process has died {deaths} times before it answered; see its log"
        await kill_until_dead(self._host, self._handle, self.spec)
        return True

    async def _watch(self) -> None:
        """Return when the actor's process has ended, or was ended, and may be started again."""
        loop = asyncio.get_running_loop()
        self._restarts.started(loop.time())
        death = await self._wait_lost(self._handle)
        self.description = None
        self._deaths += 1
        self.reason = f"instance {self.spec.name} {death or self._no_progress}"
        _log.warning("%s", self.reason)
        # Routers hear of it first: what they still send there waits for nothing.
        self._on_change()
        self._restarts.died(loop.time())
        if not death or not self._restarts.is_left_to_ray:
            await self._discard()
            await asyncio.sleep(self._restarts.delay_s)

    async def _wait_lost(self, handle: Any) -> str:
        """Return how the actor ended; an empty text when it lives and gets nowhere."""
        incarnation = "" if self.endpoint is None else self.endpoint.incarnation
        wedged = self._prober.watch(
            incarnation, lambda: self._host.call(handle, "progress"), self._is_cut_off
        )
        closed = self._supervisor.spawn("wait for its end", self._wait_closed(handle))
        try:
            await asyncio.wait({closed, wedged}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._prober.forget(incarnation)
            closed.cancel()
        return closed.result() if closed.done() else ""

    async def _wait_closed(self, handle: Any) -> str:
        why = "it closed"
        try:
            while True:
                try:
                    await self._host.call(handle, "wait_closed")
                    break
                except ActorUnreachableError:
                    if not await self._serves_on(handle):
                        raise
        except (ActorLostError, TritonError) as error:
            why = _cause_of(error)
        return f"died: {why}; restarting"

    async def _serves_on(self, handle: Any) -> bool:
        """Whether a process lives that a call did not reach: only the network had failed.

        As patient as the prober, which finds what hangs.
        """
        endpoint = self.endpoint
        while endpoint is not None:
            if await self._host.knock(endpoint.tcp, _KNOCK_S) is Knock.REFUSED:
                return False
            try:
                description: InstanceDescription = await self._host.call(handle, "describe")
            except ActorUnreachableError:
                await asyncio.sleep(_UNREACHABLE_S)
            else:
                return description.endpoint.incarnation == endpoint.incarnation
        return False

    async def _is_cut_off(self, timeout_s: float) -> bool:
        address = ("", 0) if self.endpoint is None else self.endpoint.tcp
        return await self._host.knock(address, timeout_s) is Knock.SILENT

    @property
    def _no_progress(self) -> str:
        return f"showed no progress for {self._prober.timeout_s:g} s; it is replaced"

    async def _discard(self) -> None:
        """End the actor for good; the next attempt creates another."""
        handle = await self._found()
        if handle is not None:
            for _ in range(_MOST_KILLS):
                if await is_killed(self._host, handle, self.spec):
                    break
            else:
                self._leave(handle)
        # Not before: whoever ends the place meanwhile has to end the actor too.
        self._handle = self._creation = None

    def _leave(self, handle: Any) -> None:
        """Go on without an actor that would not die, under another name."""
        if self._renumber is None:
            raise ActorLostError(f"instance {self.spec.name} would not die")
        self._kill_on(handle, self.spec)
        before, self.spec = self.spec.name, self._renumber(self.spec)
        self._placed = self.spec
        _log.warning("instance %s would not die; %s takes its place", before, self.spec.name)

    async def _is_gone(self) -> bool:
        """Whether Ray has given the actor up, rather than being about to restart it."""
        return await self._host.look_up(self.spec.name) is None

    async def _answers(self, handle: Any) -> None:
        # That an actor is lost is for `describe` to tell.
        with contextlib.suppress(ActorLostError, TritonError):
            await self._host.call(handle, "health")


def _cause_of(error: Exception) -> str:
    return error.as_string() if isinstance(error, TritonError) else str(error)
