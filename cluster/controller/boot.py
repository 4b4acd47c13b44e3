# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a controller comes to serve: from what is alive, what it must know again, and the options.

Routers have the table of the controller before until this one has adopted what is alive. Adopting
that fails is tried again, and in the end by another process.

A controller often starts because the head has just come back, which is when Ray's calls fail. An
actor whose constructor raises is dead for good, and one that goes on without having recovered hands
out a table without models. A process that ends is started again by Ray.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from backends.api.errors import TritonError, UnavailableError
from cluster.controller.durable_state import DurableState
from cluster.controller.host import ControllerHost, Process
from cluster.controller.recovery import Recovered, adopt_live_instances
from cluster.controller.repository_source import RepositorySource
from cluster.controller.routing_publisher import RoutingPublisher
from cluster.controller.started_with import StartedWith, started_with, wanted_now
from cluster.instances.live import LiveInstance
from cluster.models.lifecycle import ModelLifecycle
from cluster.options.parsing import ServerOptions
from cluster.options.secret_values import SECRETS_KEY, with_secrets

T = TypeVar("T")

_log = logging.getLogger(__name__)

# What routers get to take a new table; they do within milliseconds or are gone.
ROUTERS_TIMEOUT_S: Final = 1.0
# How long a restarted controller keeps its table to itself while it puts models back in service.
_HOLD_S: Final = 10.0
# Modes in which the repositories alone say what models are.
_FROM_REPOSITORIES: Final = ("none", "poll")
# For how long attempts are made after the first failure.
TRY_FOR_S: Final = 60.0
_FIRST_DELAY_S: Final = 0.5
_LONGEST_DELAY_S: Final = 8.0


async def try_again(what: str, attempt: Callable[[], Awaitable[T]]) -> T:
    """Make attempts, at growing intervals, until one succeeds.

    An attempt that waits is not broken off: a call of a GCS that is away returns when it is back.

    Args:
        what: What is tried, for the log.
        attempt: Makes one; it must not matter that an earlier one has failed half way.

    Raises:
        Exception: As the last attempt, `TRY_FOR_S` after the first one failed.
    """
    loop = asyncio.get_running_loop()
    until_s: float | None = None
    delay_s = _FIRST_DELAY_S
    while True:
        try:
            return await attempt()
        except Exception as error:
            now_s = loop.time()
            until_s = now_s + TRY_FOR_S if until_s is None else until_s
            if now_s >= until_s:
                raise
            _log.warning("%s failed and is tried again in %g s: %r", what, delay_s, error)
        await asyncio.sleep(delay_s)
        delay_s = min(2 * delay_s, _LONGEST_DELAY_S)


async def try_or_restart(
    what: str, attempt: Callable[[], Awaitable[T]], restart_process: Callable[[], None]
) -> T:
    """`try_again`, and in place of raising end the process, which Ray starts again.

    Args:
        what: What is tried, for the log.
        attempt: As of `try_again`.
        restart_process: Ends the process; see `Process.restart_process`.
    """
    try:
        return await try_again(what, attempt)
    except Exception:
        _log.exception("%s failed for %g s; the process ends, to be started again", what, TRY_FOR_S)
    restart_process()
    # Nothing is left to do until the process has ended.
    end: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    return await end


async def read_state(
    process: Process, options: ServerOptions, owner: str, *, has_secrets: bool, resumes: bool
) -> tuple[ServerOptions, DurableState]:
    """Return the options with the secret ones, and what a controller before has left.

    Args:
        process: The controller's process.
        options: The server's options.
        owner: Token of the server's owner.
        has_secrets: Whether the cluster's store has values of secret options.
        resumes: Whether the controller goes on where another one has ended, as a restarted one
            does.

    Raises:
        Exception: What calls of the GCS raise, which leaves nothing that a second call minds.
    """
    if has_secrets:
        row = await process.store.get(SECRETS_KEY)
        if row is None:
            _log.error(
                "the values of secret options are gone: the server has ended; this process ends too"
            )
            process.end_process()
            await asyncio.get_running_loop().create_future()
        options = with_secrets(options, row)
    if process.was_restarted or resumes:
        state = await DurableState.restore(process.store, process.step_down)
    else:
        state = await DurableState.create(process.store, process.step_down, owner)
    state.saved.owner = owner
    if options.model_control_mode in _FROM_REPOSITORIES:
        state.forget_overrides()
    return options, state


@dataclass(slots=True)
class Boot:
    """The start of a controller, which is also its recovery.

    Attributes:
        then: What of the options of the controller before has gone into the state; None for a
            first one.
        recovered: Set once live instances are adopted and loads may begin.
        ended: Set once the start is over.
        error: Why the start-up models could not be loaded at all; None when they could.
        is_ending: Whether the server has begun to end.
    """

    options: ServerOptions
    host: ControllerHost
    state: DurableState
    source: RepositorySource
    lifecycle: ModelLifecycle
    publisher: RoutingPublisher
    then: StartedWith | None = None
    recovered: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    error: TritonError | None = None
    is_ending: bool = False

    @property
    def is_explicit(self) -> bool:
        """Whether clients say which models are wanted."""
        return self.options.model_control_mode == "explicit"

    @property
    def is_on_demand(self) -> bool:
        """Whether models are loaded by their first use."""
        return self.options.model_control_mode == "ondemand"

    def require_control(self, refusal: str) -> None:
        """Refuse what clients ask about models where they may not.

        Args:
            refusal: Why they may not in other modes.

        Raises:
            UnavailableError: The server ends, or has another mode.
        """
        if self.is_ending:
            raise UnavailableError("Server exiting")
        if not (self.is_explicit or self.is_on_demand):
            raise UnavailableError(refusal)

    async def run(self) -> None:
        """Adopt, hand out the table, load, and note that the server is initialised."""
        found = await try_or_restart(
            "adoption of live instances", self._adopt, self.host.process.restart_process
        )
        try:
            await self._load(found)
        except Exception:
            # A controller that cannot start models must still answer, if only with reasons.
            _log.exception("start of the models")
        self.recovered.set()
        self.publisher.release()
        self.publisher.mark_initialised()
        self.state.saved.is_initialised = True
        self.state.schedule()
        self.ended.set()

    async def _adopt(self) -> Recovered:
        found = await adopt_live_instances(
            self.host.actors, self.source, self.lifecycle, self.state.has_files_of
        )
        count = found.count - len(found.outdated)
        _log.log(logging.INFO if count else logging.DEBUG, "%d live instances adopted", count)
        return found

    async def _load(self, found: Recovered) -> None:
        saved = self.state.saved
        if saved.is_initialised:
            self.publisher.mark_initialised()
        for name, versions in saved.unloaded.items():
            self.lifecycle.restore_unloaded(name, versions)
        loads = asyncio.create_task(try_again("start of the models", self._load_what_is_there))
        try:
            # Routers go on with their last table until this one is as complete.
            is_restart = bool(found.count) or saved.is_initialised
            await asyncio.wait({loads}, timeout=_HOLD_S if is_restart else 0)
            self.publisher.release()
            self.recovered.set()
            ending = asyncio.create_task(self._end_others(found))
            try:
                await loads
            finally:
                await ending
        finally:
            loads.cancel()

    async def _end_others(self, found: Recovered) -> None:
        async def retire_late() -> None:
            await self._retire(await found.late())

        await asyncio.gather(self._retire(found.outdated), retire_late())

    async def _retire(self, outdated: Sequence[LiveInstance]) -> None:
        if not outdated:
            return
        try:
            await self.publisher.wait_known(ROUTERS_TIMEOUT_S)
            await self.host.actors.retire_instances(outdated, float(self.options.exit_timeout_secs))
        except Exception:
            # What serves is there; these hold no more than their room.
            _log.exception("end of instances of earlier generations")

    async def _load_what_is_there(self) -> None:
        try:
            await self._load_wanted()
        except TritonError as error:
            _log.error("start of the models: %s", error.message)
            self.error = error

    async def _load_wanted(self) -> None:
        saved = self.state.saved
        # Models whose files came with their load; listings do not tell of them.
        has_files, listed = self.state.has_files_of, await self._wanted()
        wanted = saved.wanted if self.is_on_demand else []
        given = [name for name in wanted if name not in listed or has_files(name)]
        names = list(dict.fromkeys((*listed, *given)))
        saved.wanted = list(names) if self.is_explicit else given
        saved.asked = [name for name in saved.asked if name in saved.wanted]
        saved.started_with = now = started_with(self.options)
        self.state.schedule()
        # Files given with a load are as they were: what is alive with them needs no reload, unless
        # other options make other instances.
        is_same = self.then is None or self.then.instances == now.instances
        is_as_given = {
            name
            for name, record in self.lifecycle.records.items()
            if is_same and record.ready_versions and self.state.has_files_of(name)
        }
        others = [name for name in names if name not in is_as_given]
        if self.is_on_demand:
            self.lifecycle.dormancy.know([name for name in names if name not in given])
            # Those with instances alive: what they have too few or too many of is settled.
            records = self.lifecycle.records
            others = [n for n in others if n in given or records[n].ready_versions]
        await self.lifecycle.load_all(others, self.state.overrides)
        adopted_in_vain = [
            name
            for name, record in self.lifecycle.records.items()
            if name not in names and record.ready_versions and not self._is_composing(name)
        ]
        if not (self.is_explicit and self.state.saved.is_initialised):
            # What an error hides is not gone; a poll looks again.
            adopted_in_vain = self.source.watch.gone(adopted_in_vain)
        await self.lifecycle.unload_all(adopted_in_vain)

    def _is_composing(self, name: str) -> bool:
        records = self.lifecycle.records.values()
        return any(name in record.composing and record.ready_versions for record in records)

    async def _wanted(self) -> list[str]:
        """Return the models that shall be loaded."""
        if self.state.saved.is_initialised and self.is_explicit:
            return await self._wanted_still()
        # Also where nothing is to be loaded: a repository that is not there stops the start.
        names, duplicates = await self.source.list_names()
        if self.is_explicit and "*" not in self.options.load_model:
            return await self._keys_named(self.options.load_model)
        return sorted(set(names) - set(duplicates))

    async def _wanted_still(self) -> list[str]:
        """Return what clients have loaded, and what ``--load-model`` names that it did not name."""
        saved, then = self.state.saved, self.then
        named = self.options.load_model
        if then is None or then.load_model == tuple(named):
            return list(saved.wanted)
        named_then = await self._keys_named(then.load_model)
        return wanted_now(saved.wanted, saved.asked, named_then, await self._keys_named(named))

    async def _keys_named(self, load_model: Sequence[str]) -> list[str]:
        if "*" in load_model:
            names, duplicates = await self.source.list_names()
            return sorted(set(names) - set(duplicates))
        named = [await self.source.keys_named(name) for name in load_model]
        return list(dict.fromkeys(key for keys in named for key in keys))
