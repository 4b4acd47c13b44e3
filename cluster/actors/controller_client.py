# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The controller as other processes see it: found by name, waited for while it restarts."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError

from backends.api.errors import UnavailableError
from backends.api.request import ParameterValue
from cluster.actors.calls import call, cause_of
from deployments.contracts.routing_table import RoutingTable
from deployments.instance.spec import NAMESPACE
from deployments.settings.server_settings import ServerSettings, SettingsChange

CONTROLLER_NAME = "model-controller"

_log = logging.getLogger(__name__)

# A killed controller is back after its process started and it has found its instances.
_RESTART_TIMEOUT_S = 15.0
_RETRY_S = 0.25
_LONG_POLL_S = 30.0
# On top of the long poll: a controller that says nothing for so long is taken for hung.
_SILENCE_S = 10.0


class ControllerClient:
    """Implements `deployments.contracts.sinks.RepositoryControl` over the controller's handle.

    Calls that meet a dead controller are repeated until it is back; all of them may be repeated.
    """

    def __init__(self) -> None:
        self._handle: Any = None
        self._router_id = secrets.token_hex(8)

    async def index(self, *, ready_only: bool) -> list[dict[str, str]]:
        """Return the repository index.

        Raises:
            TritonError: A repository cannot be listed; UNAVAILABLE when there is no controller.
        """
        rows: list[dict[str, str]] = await self._call("index", ready_only)
        return rows

    async def load(self, model_name: str, parameters: dict[str, ParameterValue | bytes]) -> None:
        """Load or reload a model and wait until that is done.

        Raises:
            TritonError: As Triton's repository API would.
        """
        await self._call("load", model_name, parameters)

    async def unload(self, model_name: str, *, unload_dependents: bool) -> None:
        """Unload all versions of a model and wait until that is done.

        Raises:
            TritonError: As Triton's repository API would.
        """
        await self._call("unload", model_name, unload_dependents)

    async def change_settings(self, change: SettingsChange) -> ServerSettings:
        """Make a change and wait until the ingresses have heard of it.

        Raises:
            TritonError: The change is refused.
        """
        settings: ServerSettings = await self._call("change_settings", change)
        return settings

    async def status(self) -> list[dict[str, str]]:
        """Return one row per model version; see `ModelController.status`."""
        rows: list[dict[str, str]] = await self._call("status")
        return rows

    async def lane_secret(self) -> bytes:
        """Return the key of the lanes' handshake. Never to be logged."""
        secret: bytes = await self._call("lane_secret")
        return secret

    async def router_reports(self) -> list[bytes]:
        """Return what the other routers have counted until now.

        Raises:
            UnavailableError: There is no controller.
        """
        reports: list[bytes] = await self._call("router_reports", self._router_id)
        return reports

    async def report_wedged(self, name: str, incarnation: str, reason: str) -> None:
        """Have an instance looked at that does not answer any more, and replaced if it is wedged.

        Raises:
            UnavailableError: There is no controller.
        """
        await self._call("report_wedged", name, incarnation, reason)

    async def watch_routing_table(
        self, update: Callable[[RoutingTable], None], report: Callable[[], bytes] = bytes
    ) -> None:
        """Call ``update`` with each newer table, for ever.

        Args:
            update: Takes a table.
            report: Makes the report for the others' `router_reports`.

        While the controller is gone nothing is called: the last table stays good.
        """
        known_version = 0
        while True:
            try:
                async with asyncio.timeout(_LONG_POLL_S + _SILENCE_S):
                    handle = await self._controller()
                    table = await call(
                        handle.routing_table.remote(
                            known_version, _LONG_POLL_S, self._router_id, report()
                        )
                    )
            except (RayError, ValueError, TimeoutError) as error:
                _log.warning("the model controller cannot be reached: %s", cause_of(error))
                self._handle = None
                await asyncio.sleep(_RETRY_S)
                continue
            if table is not None:
                known_version = table.version
                update(table)

    async def _call(self, method: str, *arguments: object) -> Any:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + _RESTART_TIMEOUT_S
        while True:
            try:
                handle = await self._controller()
                return await call(getattr(handle, method).remote(*arguments))
            except (RayError, ValueError) as error:
                self._handle = None
                if loop.time() >= deadline_s:
                    raise UnavailableError(
                        f"the model controller cannot be reached: {cause_of(error)}; requests are"
                        " still served, try again when it has restarted"
                    ) from error
                await asyncio.sleep(_RETRY_S)

    async def _controller(self) -> Any:
        if self._handle is None:
            # Looked up by name on a thread: the call blocks while the head is away.
            self._handle = await asyncio.to_thread(
                ray.get_actor, CONTROLLER_NAME, namespace=NAMESPACE
            )
        return self._handle


def connect_controller() -> ControllerClient:
    """Make a client; it finds the controller with its first call."""
    return ControllerClient()
