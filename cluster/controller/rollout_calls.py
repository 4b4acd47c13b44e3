# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What ingresses and routers ask of the controller about rollouts."""

from dataclasses import dataclass
from typing import Any

from backends.api.errors import InvalidArgumentError, NotFoundError
from backends.api.model_identifier import name_of, shown
from cluster.controller.boot import ROUTERS_TIMEOUT_S, Boot
from cluster.rollout.driver import Rollouts
from deployments.contracts.control import RolloutAction


@dataclass(slots=True, eq=False)
class RolloutCalls:
    """A part of `cluster.controller.controller.ModelController`."""

    boot: Boot
    rollouts: Rollouts

    async def report_arms(self, router_id: str, report: bytes) -> None:
        """Take what a router tells of the arms; see `deployments.contracts.arm_report`."""
        del router_id
        self.rollouts.take(report)

    async def rollout(
        self, name: str, action: RolloutAction, document: dict[str, Any]
    ) -> dict[str, Any]:
        """Do something about the rollout of a model; see `RolloutControl.rollout`.

        An empty name gets all rollouts, as ``rollouts``.

        Raises:
            TritonError: As there.
        """
        await self.boot.recovered.wait()
        if action is RolloutAction.GET:
            if not name:
                return {"rollouts": self.rollouts.statuses()}
            return self.rollouts.status(self._key_of(name))
        self.boot.require_control(
            "rollouts can be changed where models can be loaded and unloaded: start the server"
            " with --model-control-mode=explicit (or ondemand)"
        )
        status = self.rollouts.ask(self._key_of(name), action, document)
        await self.boot.state.save()
        await self.boot.publisher.wait_known(ROUTERS_TIMEOUT_S)
        return status

    def _key_of(self, name: str) -> str:
        records = self.boot.lifecycle.records
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
