# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The controller as other processes see it: found by name, waited for while it restarts."""

import asyncio
import logging
import random
import secrets
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import ray
from ray.exceptions import RayError

from backends.api.errors import TritonError, UnavailableError, UnsupportedError
from cluster.actors.calls import call, cause_of
from cluster.threads import GCS
from deployments.contracts.control import ControllerLink
from deployments.contracts.routing_table import PollAnswer, RoutingTable
from deployments.instance.spec import NAMESPACE

P = ParamSpec("P")
T = TypeVar("T")

CONTROLLER_NAME = "model-controller"

_log = logging.getLogger(__name__)

# A killed controller is back after its process started and it has found its instances.
_RESTART_TIMEOUT_S = 15.0
_RETRY_S = 0.25
_LONG_POLL_S = 30.0
# Polls that began together, as after a restart of the controller, end apart.
_LONG_POLL_SPREAD = 0.2
# On top of the long poll: a controller that says nothing for so long is taken for hung.
_SILENCE_S = 10.0
# A call that takes longer than this is followed by questions whether the controller is there.
_ASK_EVERY_S = 5.0


def _asked(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], *, by_router: bool = False
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method that calls the controller's of the same name, by position.

    Args:
        method: Of `ControllerLink`.
        by_router: Whether the controller's has the router that asks before all else.
    """

    @wraps(method)
    async def ask(client: "ControllerClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        router = (client._router_id,) if by_router else ()  # noqa: SLF001 - a method of it
        answer: T = await client._call(method.__name__, *router, *args, *kwargs.values())  # noqa: SLF001
        return answer

    return ask


class ControllerClient:
    """Implements `deployments.contracts.control.ControllerLink` over the controller's handle.

    Calls that meet a dead controller are repeated until it is back; all of them may be repeated. A
    call may take as long as a load does, while the controller answers others: without the GCS Ray
    does not tell that a node is gone, and calls of an actor on it would never end.

    Args:
        find: Returns the controller's handle; called on a thread. Raises ValueError when there is
            no controller.
    """

    def __init__(self, find: Callable[[], Any] | None = None) -> None:
        self._find = find or _find_controller
        self._handle: Any = None
        self._lookup: asyncio.Future[Any] | None = None
        self._router_id = secrets.token_hex(8)

    index = _asked(ControllerLink.index)
    load = _asked(ControllerLink.load)
    unload = _asked(ControllerLink.unload)
    change_settings = _asked(ControllerLink.change_settings)
    lane_secret = _asked(ControllerLink.lane_secret)
    rollout = _asked(ControllerLink.rollout)
    report_wedged = _asked(ControllerLink.report_wedged)
    router_reports = _asked(ControllerLink.router_reports, by_router=True)
    report_load = _asked(ControllerLink.report_load, by_router=True)
    renew_tenants = _asked(ControllerLink.renew_tenants, by_router=True)
    report_arms = _asked(ControllerLink.report_arms, by_router=True)

    async def status(self) -> list[dict[str, str]]:
        """Return one row per model version; see `ModelController.status`."""
        answer: list[dict[str, str]] = await self._call("status")
        return answer

    async def explain(self, model_name: str) -> list[dict[str, Any]]:
        """Return why a model's instances are where they are; see `ModelController.explain`.

        Raises:
            NotFoundError: There is no such model.
        """
        answer: list[dict[str, Any]] = await self._call("explain", model_name)
        return answer

    async def instances(self) -> list[dict[str, Any]]:
        """Return a row for each instance; see `RepositoryControl.instances`.

        Raises:
            UnavailableError: There is no controller.
            UnsupportedError: It is of a release that does not tell.
        """
        return await self._listed("instances")

    async def events(self, *, since: int) -> list[dict[str, Any]]:
        """Return the latest events; see `RepositoryControl.events`; raises as `instances`."""
        return await self._listed("events", since)

    async def _listed(self, what: str, *arguments: object) -> list[dict[str, Any]]:
        try:
            rows: list[dict[str, Any]] = await self._call(what, *arguments)
        except AttributeError:
            raise UnsupportedError(
                f"the model controller is of a release that does not list {what}; finish the"
                " upgrade"
            ) from None
        return rows

    async def wake(
        self, model_key: str, version: int, *, is_nested: bool = False
    ) -> TritonError | None:
        """See `ControllerLink`."""
        # A controller of an older build knows two arguments.
        nested = (True,) if is_nested else ()
        error: TritonError | None = await self._call("wake", model_key, version, *nested)
        return error

    async def watch_routing_table(
        self, update: Callable[[RoutingTable], None], report: Callable[[], bytes] = bytes
    ) -> None:
        """Call ``update`` with each newer table, for ever.

        Args:
            update: Takes a table; models that have not changed are the same objects as before.
            report: Makes the report for the others' `router_reports`.

        While the controller is gone nothing is called: the last table stays good. What ``update``
        raises ends the watch.
        """
        table, reported, text = RoutingTable(), 0, b""
        while True:
            try:
                answer = await self._poll(table.version, reported, text)
            except (RayError, TritonError, ValueError, TimeoutError) as error:
                _log.warning("the model controller cannot be reached: %s", cause_of(error))
                self._handle = None
                await asyncio.sleep(_RETRY_S)
                continue
            if answer.changes is not None:
                table = table.after(answer.changes)
                update(table)
            is_asked = answer.report_number != reported
            reported, text = answer.report_number, report() if is_asked else b""

    async def _poll(self, known_version: int, reported: int, report: bytes) -> PollAnswer:
        timeout_s = _LONG_POLL_S * random.uniform(1 - _LONG_POLL_SPREAD, 1 + _LONG_POLL_SPREAD)  # noqa: S311 - spreads load
        async with asyncio.timeout(timeout_s + _SILENCE_S):
            handle = await self._controller()
            answer: PollAnswer = await call(
                handle.routing_table.remote(
                    known_version, timeout_s, self._router_id, reported, report
                )
            )
            return answer

    async def _call(self, method: str, *arguments: object) -> Any:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + _RESTART_TIMEOUT_S
        while True:
            try:
                async with asyncio.timeout_at(deadline_s + _SILENCE_S):
                    handle = await self._controller()
                return await _answer(handle, call(getattr(handle, method).remote(*arguments)))
            except (RayError, ValueError, TimeoutError) as error:
                self._handle = None
                if loop.time() >= deadline_s:
                    raise UnavailableError(
                        f"the model controller cannot be reached: {cause_of(error)}; requests are"
                        " still served, try again when it has restarted"
                    ) from error
                await asyncio.sleep(_RETRY_S)

    async def _controller(self) -> Any:
        if self._handle is None:
            # Looked up on a thread: the call blocks while the GCS is away. All who wait share it.
            if self._lookup is None:
                self._lookup = GCS.run(self._find)
            lookup = self._lookup
            try:
                self._handle = await asyncio.shield(lookup)
            finally:
                if lookup.done() and self._lookup is lookup:
                    self._lookup = None
        return self._handle


async def _answer(handle: Any, calling: Coroutine[Any, Any, T]) -> T:
    """Await a call of a controller for as long as that answers.

    Raises:
        TimeoutError: It does not.
        RayError: It is gone.
    """
    task = asyncio.ensure_future(calling)
    try:
        while not (await asyncio.wait({task}, timeout=_ASK_EVERY_S))[0]:
            try:
                async with asyncio.timeout(_SILENCE_S):
                    await handle.owner.remote()
            except TimeoutError:
                raise TimeoutError(f"it does not answer within {_SILENCE_S:g} s") from None
        return task.result()
    finally:
        task.cancel()


def _find_controller() -> Any:
    return ray.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)


def connect_controller() -> ControllerClient:
    """Make a client; it finds the controller with its first call."""
    return ControllerClient()
