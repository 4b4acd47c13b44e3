# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One place in a pool: creates its instance actor, watches it, replaces it and ends it.

A place is one task that lives through create, describe, watch, and again from the start when the
actor is lost:

- The death watch is a call that never returns (`cluster.instances.loss`).
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
from cluster.instances.host import ActorLostError, EnvironmentFailedError, InstanceHost
from cluster.instances.live import LiveInstance
from cluster.instances.loss import KILL_AGAIN_S, Watched, cause_of, is_killed, kill_until_dead
from cluster.instances.placer import Placer
from cluster.instances.prober import Prober
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
# Room there is, and no process: after so many looks somebody should look at Ray's own logs.
_LOOKS_IN_VAIN = 6
# How many of its looks ask at once how often the process has died, and how seldom later ones do.
_FREQUENT_LOOKS = 4
_MOST_LOOKS_BETWEEN = 16
_STATISTICS_TIMEOUT_S = 2.0
_UNSTARTED = (
    "waiting for its process, which Ray has not started although a node has room for it; it may be"
    " making an environment, or else raylet.out among Ray's logs of that node says why not"
)
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
        placer: Gives it its node and device.
        renumber: Returns a recipe under a name that nothing ever had.
        live: An actor that is alive already; None to create one.

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
        placer: Placer,
        renumber: Callable[[InstanceSpec], InstanceSpec],
        live: LiveInstance | None = None,
    ) -> None:
        self.spec = spec
        self.description = None if live is None else live.description
        self.reason = ""
        self.load_error: TritonError | None = None
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_change = on_change
        self._host = host
        self._prober = prober
        self._placer = placer
        self._renumber = renumber
        self._handle = None if live is None else live.handle
        # With the device that its actor has.
        self._placed = spec
        self._creation: asyncio.Future[Any] | None = None
        self._restarts = Restarts()
        self._deaths = 0
        self._is_hung = False
        # Why its actor was ended that had never answered.
        self._gave_up = ""
        self._starts_with_layer = 0
        if live is not None:
            placer.loaded(live.description)
        self._supervisor = Supervisor(f"instance {spec.name}")
        self._task = self._supervisor.spawn("its life", self._live())

    @property
    def status(self) -> InstanceStatus:
        """The instance as it is now."""
        there, deaths = self.description, self._deaths
        if there is None:
            is_failing = self._restarts.count > 0
            return InstanceStatus(
                self._placed, reason=self.reason, is_failing=is_failing, restarts=deaths
            )
        return InstanceStatus(there.spec, there.endpoint.node_id, pid=there.pid, restarts=deaths)

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
        # A hung or dying actor must not hold up the others: whatever happens, it is killed.
        self._is_hung = True
        has_drained = await self._ask("drain", timeout_s + 1, timeout_s)
        if has_drained is None:
            return None
        self._is_hung = not has_drained
        return await self.statistics()

    async def statistics(self) -> Snapshot | None:
        """Return what a live actor has counted; None when it does not say."""
        snapshot: Snapshot | None = await self._ask("statistics", _STATISTICS_TIMEOUT_S)
        return snapshot

    async def _ask(self, method: str, timeout_s: float, *arguments: object) -> Any:
        """Call a live actor; None when it does not answer, or there is none."""
        if self.description is not None:
            with contextlib.suppress(ActorLostError, TritonError, TimeoutError):
                async with asyncio.timeout(timeout_s):
                    return await self._host.call(self._handle, method, *arguments)
        return None

    async def end(self, timeout_s: float) -> None:
        """Shut the actor down, or kill it when that takes too long.

        A kill that is not known to have happened is repeated after this has returned.
        """
        self.stop_watching()
        handle = await self._found()
        # A model that still executes could not be finalized either.
        if not self._is_hung:
            await self._ask("shutdown", timeout_s + 1)
        if handle is None or await is_killed(self._host, handle, self.spec):
            self._placer.release(self.spec.name)
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
            self._placer.release(spec.name)

        self._supervisor.spawn("its kill", kill())

    async def _live(self) -> None:
        """Bring the actor up if need be and watch it, until its first load has failed."""
        goes_on = True
        while goes_on:
            try:
                there = self.description or await self._bring_up()
                if isinstance(there, Exception):
                    goes_on = await self._may_retry(there)
                else:
                    self.settle()
                    await self._watch(there)
            except Exception as fault:
                # A recipe that cannot be pickled, say: no reason for a load to wait for ever.
                _log.exception("instance %s", self.spec.name)
                goes_on = await self._take_fault(fault)

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

    async def _bring_up(self) -> InstanceDescription | Exception:
        """Create the actor unless there is one, and wait for it to load."""
        try:
            if self._handle is None:
                spec = await self._placer.wait_assigned(self.spec, self._wait_for)
                self._placed, self._gave_up = spec, ""
                # Shielded and kept, so that closing the pool meanwhile still finds the actor.
                self._creation = asyncio.ensure_future(self._host.create(spec))
                self._handle = await asyncio.shield(self._creation)
            description = await self._describe()
            if await self._placer.devices.is_misplaced(description):
                await self._discard()
                return await self._bring_up()
            self._placer.loaded(description)
        except ImportedAlreadyError as error:
            return await self._start_with_layer(error)
        except (ActorLostError, TritonError, ValueError) as error:
            # ValueError: the name is held by an actor that nobody knows of.
            is_given_up = self._gave_up and isinstance(error, ActorLostError)
            return ActorLostError(self._gave_up) if is_given_up else error
        self.description, self.load_error, self.reason = description, None, ""
        self._starts_with_layer = 0
        self._on_change()
        return description

    async def _start_with_layer(
        self, error: ImportedAlreadyError
    ) -> InstanceDescription | Exception:
        """Bring an actor up whose process has its model's packages from the beginning."""
        requirements = self.spec.requirements
        if requirements is None or self._starts_with_layer == _MOST_STARTS_WITH_LAYER:
            return error
        self._starts_with_layer += 1
        await self._discard()
        command = layer_command(requirements.key)
        self.spec = replace(self.spec, runtime_env={"py_executable": command})
        return await self._bring_up()

    def _wait_for(self, what: str) -> None:
        self.reason = f"instance {self.spec.name} is {what}"
        self._placer.waits(self.spec, what)
        self.settle()
        self._on_change()

    async def _may_retry(self, error: Exception) -> bool:
        """Clean up after a failed attempt and wait before the next; a first load has no next."""
        if not self.settled.done():
            error = _load_error(self.spec.name, error)
        is_news = self._restarts.failed()
        is_taken = isinstance(error, ValueError)
        is_for_ray = isinstance(error, ActorLostError) and self._restarts.is_left_to_ray
        # Ray may have given it up, too.
        if not is_for_ray or await self._host.look_up(self.spec.name) is None:
            await self._discard()
        if isinstance(error, TritonError) and not self.settled.done():
            self.settle(error)
            return False
        self.load_error = error if isinstance(error, TritonError) else None
        if not is_taken:
            self.reason = f"instance {self.spec.name} is restarting: {cause_of(error)}"
        # Ray answers a call of an actor that it is about to restart with the end of its process.
        if is_news or not is_for_ray:
            _log.warning("%s", self.reason)
        self._on_change()
        await asyncio.sleep(self._restarts.delay_s)
        return True

    async def _describe(self) -> InstanceDescription:
        placement = self._supervisor.spawn("report of its placement", self._report_placement())
        try:
            description: InstanceDescription = await self._host.call(self._handle, "describe")
            return description
        finally:
            placement.cancel()

    async def _report_placement(self) -> None:
        """Say what an actor without a process waits for; a process answers `health` at once."""
        placed = self._supervisor.spawn("its first answer", self._answers(self._handle))
        timeout_s, was_blocked = _PLACEMENT_GRACE_S, False
        restarts: list[int] = []
        looks, asks_next = 0, 1
        while not (await asyncio.wait({placed}, timeout=timeout_s))[0]:
            timeout_s = _PLACEMENT_POLL_S
            looks += 1
            # Looks at the nodes are shared, these questions are not: thousands may wait for room.
            if looks == asks_next:
                asks_next += 1 if looks < _FREQUENT_LOOKS else min(looks, _MOST_LOOKS_BETWEEN)
                restarts.append(await self._host.restarts(self._handle))
                if await self._keeps_dying(restarts[-1] - restarts[0]):
                    return
            blocked = blocked_by(self._placed, await self._host.resources())
            if blocked:
                was_blocked = True
                self._wait_for(blocked)
            elif looks == _LOOKS_IN_VAIN:
                self.reason = f"instance {self.spec.name} is {_UNSTARTED}"
                _log.warning("%s", self.reason)
                self._on_change()
        # Why one is started again is worth more than that it loads.
        if was_blocked or looks >= _LOOKS_IN_VAIN:
            self._placer.has_room(self.spec.name)
            self.reason = f"instance {self.spec.name} is loading"
            self._on_change()

    async def _keeps_dying(self, deaths: int) -> bool:
        """End an actor whose process dies before it answers: Ray would restart it for ever."""
        if deaths <= _MOST_SILENT_DEATHS:
            return False
        self._gave_up = f"its process has died {deaths} times before it answered; see its log"
        await kill_until_dead(self._host, self._handle, self.spec)
        return True

    async def _watch(self, there: InstanceDescription) -> None:
        """Return when the actor's process has ended, or was ended, and may be started again."""
        loop = asyncio.get_running_loop()
        self._restarts.started(loop.time())
        watched = Watched(self._host, self._handle, there.endpoint)
        death = await watched.wait_lost(self._prober, self._supervisor)
        self.description = None
        self._deaths += 1
        hung = f"showed no progress for {self._prober.timeout_s:g} s; it is replaced"
        self.reason = f"instance {self.spec.name} {death or hung}"
        _log.warning("%s", self.reason)
        # Routers hear of it first: what they still send there waits for nothing.
        self._on_change()
        self._restarts.died(loop.time())
        if not death or not self._restarts.is_left_to_ray:
            await self._discard()
            await asyncio.sleep(self._restarts.delay_s)

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
        self._kill_on(handle, self.spec)
        before, self.spec = self.spec.name, self._renumber(self.spec)
        self._placed = self.spec
        _log.warning("instance %s would not die; %s takes its place", before, self.spec.name)

    async def _answers(self, handle: Any) -> None:
        # That an actor is lost is for `describe` to tell.
        with contextlib.suppress(ActorLostError, TritonError):
            await self._host.call(handle, "health")


def _load_error(name: str, error: Exception) -> Exception:
    """Return the error of a first load that an attempt's makes."""
    if isinstance(error, EnvironmentFailedError):
        return InternalError(f"instance {name} was not started: {error}")
    if isinstance(error, ActorLostError):
        return InternalError(f"instance {name} died loading: {error}")
    if isinstance(error, ValueError):
        return InvalidArgumentError(f"instance {name} cannot be placed: {error}")
    return error
