# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the data plane asks of the controller: the one call up the layers, handed in."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol

from backends.api.errors import TritonError
from backends.api.request import ParameterValue
from deployments.contracts.routing_table import RoutingTable
from deployments.settings.server_settings import ServerSettings, SettingsChange


class RepositoryControl(Protocol):
    """What an ingress asks of the controller about the model repository."""

    async def index(self, *, ready_only: bool) -> list[dict[str, str]]:
        """Return the index: name and, when known, version, state and reason of each model."""

    async def load(self, model_name: str, parameters: dict[str, ParameterValue | bytes]) -> None:
        """Load or reload a model and wait until that is done.

        Raises:
            TritonError: As Triton's repository API would.
        """

    async def unload(self, model_name: str, *, unload_dependents: bool) -> None:
        """Unload all versions of a model and wait until that is done."""

    async def instances(self) -> list[dict[str, Any]]:
        """Return a row for each instance of the models, JSON.

        Model, version, name, state (live, leaving, starting or waiting), reason, node, node_id,
        device, pid (None while it has no loaded process) and restarts.
        """

    async def events(self, *, since: int) -> list[dict[str, Any]]:
        """Return the latest events of models and instances, oldest first, JSON.

        Id (greater with each), time (seconds since 1970), event, model, version, instance and
        message; what an event is not about is empty. A bounded number is kept, in memory.

        Args:
            since: Id of the last event that is known; 0 for all that are kept.
        """


class RolloutAction(StrEnum):
    """What may be asked about a model's rollout; the words of paths and of the command."""

    GET = "get"
    SET = "set"
    END = "end"
    PROMOTE = "promote"
    PAUSE = "pause"
    RESUME = "resume"
    ROLLBACK = "rollback"


class RolloutControl(Protocol):
    """What an ingress asks of the controller about rollouts."""

    async def rollout(
        self, model_name: str, action: RolloutAction, document: dict[str, Any]
    ) -> dict[str, Any]:
        """Do something about the rollout of a model, once the ingresses know of it.

        Args:
            model_name: The model.
            action: What.
            document: For a rollout that is set: the rollout, as `deployments.rollouts` reads it.

        Returns:
            The rollout as it is now, JSON.

        Raises:
            NotFoundError: There is no such model, or it has no rollout.
            InvalidArgumentError: The rollout cannot be had like that.
            UnavailableError: Models may not be controlled, or there is no controller.
        """


class SettingsControl(Protocol):
    """What an ingress asks of the controller about `ServerSettings`."""

    async def change_settings(self, change: SettingsChange) -> ServerSettings:
        """Make a change and wait until the ingresses have heard of it.

        Raises:
            TritonError: The change is refused.
        """


class ClusterControl(RepositoryControl, SettingsControl, RolloutControl, Protocol):
    """All that an ingress asks of the controller."""

    async def router_reports(self) -> list[bytes]:
        """Return what the other routers have counted until now; see `deployments.routing.reports`.

        Raises:
            TritonError: There is no controller.
        """


class ControllerLink(ClusterControl, Protocol):
    """What a process with a router needs of the controller."""

    async def lane_secret(self) -> bytes:
        """Return the key of the lanes' handshake."""

    async def report_load(self, report: bytes) -> None:
        """Tell what load this process puts on versions that autoscale.

        Args:
            report: See `deployments.contracts.load_report`.

        Raises:
            TritonError: There is no controller.
        """

    async def renew_tenants(self, report: bytes) -> bytes:
        """Have the leases of tenants' cluster-wide limits renewed.

        Args:
            report: See `deployments.tenants.leases`.

        Raises:
            TritonError: There is no controller.
        """

    async def report_arms(self, report: bytes) -> None:
        """Tell how the arms of rollouts have answered in this process since the last report.

        Args:
            report: See `deployments.contracts.arm_report`.

        Raises:
            TritonError: There is no controller.
        """

    async def report_wedged(self, name: str, incarnation: str, reason: str) -> None:
        """Have an instance looked at that does not answer any more, and replaced if it is wedged.

        Args:
            name: The instance's name, as its endpoint has it.
            incarnation: The process that does not answer.
            reason: What was seen.

        Raises:
            TritonError: There is no controller.
        """

    async def wake(
        self, model_key: str, version: int, *, is_nested: bool = False
    ) -> TritonError | None:
        """Have an instance of a dormant version started, and wait until it is.

        Args:
            model_key: The model's key.
            version: Version number.
            is_nested: Whether requests wait for it that hold an instance themselves.

        Returns:
            Why it could not be loaded; None when it is awake, or not dormant any more.

        Raises:
            TritonError: There is no controller.
        """

    async def watch_routing_table(
        self, update: Callable[[RoutingTable], None], report: Callable[[], bytes]
    ) -> None:
        """Call ``update`` with each newer table, for ever, through restarts of the controller."""
