# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Drives the rollouts: takes what users want, looks at the evidence, changes weights.

Theory of operation. A rollout is one record, changed by users and, once a second, by its own rules
(`cluster.rollout.steps`, pure). Whatever changes it is written to the controller's durable state
and given to the model's record, so that a table with the new weights goes to the routers, and is
logged. A controller that was restarted goes on with the record as it was written; what routers
have told since the last step and was lost is counted anew, so a step may last longer then.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from backends.api.errors import NotFoundError
from backends.api.model_identifier import shown
from cluster.models.states import ModelRecord
from cluster.rollout.evidence import Evidence
from deployments.contracts.control import RolloutAction
from deployments.rollouts.encoding import decode_traffic, encode_traffic
from deployments.rollouts.spec import Arm, Traffic

_log = logging.getLogger(__name__)

PERIOD_S: Final = 1.0


class DrivenModels(Protocol):
    """What is asked of the models; `cluster.models.lifecycle.ModelLifecycle` has it.

    Attributes:
        records: By key.
    """

    records: dict[str, ModelRecord]

    def direct(self, name: str, traffic: bytes) -> None:
        """Note in a model's record which version answers requests that name none."""


class Rollouts:
    """The rollouts of the server.

    Args:
        models: The models.
        saved: By key: the rollouts, encoded; kept up to date here.
        changed: Called once ``saved`` is to be written.
        clock_s: Wall clock, seconds: it goes on while no controller runs.
    """

    def __init__(
        self,
        models: DrivenModels,
        saved: dict[str, bytes],
        changed: Callable[[], None],
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self._models = models
        self._saved = saved
        self._changed = changed
        self._clock_s = clock_s
        self._evidence = Evidence()
        for key, data in saved.items():
            self._evidence.begin(key)
            models.direct(key, data)

    def take(self, report: bytes) -> None:
        """Take what a router tells of the arms."""
        self._evidence.take(report)

    def ask(self, key: str, action: RolloutAction, document: Mapping[str, Any]) -> dict[str, Any]:
        """Do something about a rollout; see `RolloutControl.rollout`."""
        if action is RolloutAction.SET:
            arms = tuple(
                Arm(each["name"], each["version"], each["weight"] * 100)
                for each in document["arms"]
            )
            self._put(key, encode_traffic(Traffic(1, key, arms)))
        return self.status(key)

    def _put(self, key: str, data: bytes) -> None:
        self._evidence.begin(key)
        self._saved[key] = data
        self._models.direct(key, data)
        self._changed()

    def status(self, key: str) -> dict[str, Any]:
        """Return what is to be told of a rollout.

        Raises:
            NotFoundError: The model has none.
        """
        if key not in self._saved:
            raise NotFoundError(f"model '{shown(key)}' has no rollout")
        traffic = decode_traffic(self._saved[key])
        return {
            "model": key,
            "arms": [
                {"name": arm.name, "version": arm.version, "weight": arm.weight}
                | self._counts(key, arm.version)
                for arm in traffic.arms
            ],
        }

    def _counts(self, key: str, version: int) -> dict[str, Any]:
        total = self._evidence.total(key, version)
        return {"requests": total.requests, "errors": total.errors}

    def statuses(self) -> list[dict[str, Any]]:
        """Return the `status` of all rollouts."""
        return [self.status(key) for key in self._saved]

    async def run(self) -> None:
        """Look at the rollouts for ever."""
        while True:
            await asyncio.sleep(PERIOD_S)
            self.tick()

    def tick(self) -> None:
        """Look at each rollout once."""
