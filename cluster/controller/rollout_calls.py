# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What ingresses and routers ask of the controller about rollouts."""

from typing import Any

from backends.api.errors import InvalidArgumentError, NotFoundError, UnavailableError
from backends.api.model_identifier import name_of, shown
from cluster.controller.boot import Boot
from cluster.controller.durable_state import DurableState
from cluster.controller.routing_publisher import RoutingPublisher
from cluster.models.lifecycle import ModelLifecycle
from cluster.rollout.driver import Rollouts
from deployments.contracts.control import RolloutAction

# What routers get to take a new table; they do within milliseconds or are gone.
_ROUTERS_TIMEOUT_S = 1.0


class RolloutCalls:
    """A part of `cluster.controller.controller.ModelController`."""

    _boot: Boot
    _state: DurableState
    _lifecycle: ModelLifecycle
    _publisher: RoutingPublisher
    _rollouts: Rollouts
    _is_explicit: bool
    _is_on_demand: bool
    _shutting_down: bool

    async def report_arms(self, router_id: str, report: bytes) -> None:
        """Take what a router tells of the arms of rollouts.

        Args:
            router_id: The router.
            report: See `deployments.contracts.arm_report`.
        """
        del router_id
        self._rollouts.take(report)

    async def rollout(
        self, name: str, action: RolloutAction, document: dict[str, Any]
    ) -> dict[str, Any]:
        """Do something about the rollout of a model; see `RolloutControl.rollout`.

        An empty name gets all rollouts, as ``rollouts``.

        Raises:
            TritonError: As there.
        """
        await self._boot.recovered.wait()
        if action is RolloutAction.GET:
            return self._rollouts.status(self._key_of(name)) if name else self._all()
        self._require_control()
        status = self._rollouts.ask(self._key_of(name), action, document)
        await self._state.save()
        await self._publisher.wait_known(_ROUTERS_TIMEOUT_S)
        return status

    def _all(self) -> dict[str, Any]:
        return {"rollouts": self._rollouts.statuses()}

    def _require_control(self) -> None:
        if self._shutting_down:
            raise UnavailableError("Server exiting")
        if not (self._is_explicit or self._is_on_demand):
            raise UnavailableError(
                "rollouts can be changed where models can be loaded and unloaded: start the server"
                " with --model-control-mode=explicit (or ondemand)"
            )

    def _key_of(self, name: str) -> str:
        records = self._lifecycle.records
        if name in records:
            return name
        keys = [key for key, record in records.items() if name_of(key) == name and record.versions]
        if len(keys) > 1:
            raise InvalidArgumentError(
                f"{len(keys)} repositories have a model '{shown(name)}'; a rollout needs the key"
                " of one of them"
            )
        if not keys:
            raise NotFoundError(f"there is no model '{shown(name)}'; load it first")
        return keys[0]
