# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The rollout of one model as a router follows it: the choice of versions, and what they count."""

import random
from collections.abc import Iterable

from backends.api.request import InferenceRequest
from deployments.contracts.arm_report import ArmReport
from deployments.rollouts.comparing import Tolerance
from deployments.rollouts.interim import Traffic, decode_traffic, version_of
from deployments.routing.shadow import Shadow

Headers = Iterable[tuple[bytes, bytes]]


class ModelRollout:
    """The rollout of one model.

    Args:
        key: The model's key.
        traffic: See `Model.traffic`.

    Attributes:
        stable: The version that answers questions about the model, and takes what no other can.
    """

    def __init__(self, key: str, traffic: bytes) -> None:
        self._key = key
        self._encoded = b""
        self._traffic = Traffic()
        self._counts: dict[int, ArmReport] = {}
        self.stable = 0
        self.follow(traffic)

    def follow(self, traffic: bytes) -> None:
        """Take the rollout as it is now; counts go on."""
        if traffic != self._encoded:
            self._encoded = traffic
            self._traffic = decode_traffic(traffic)
            self.stable = self._traffic.stable

    def version_for(
        self, request: InferenceRequest, headers: Headers = (), tenant: str = ""
    ) -> int:
        """Return the version that answers a request."""
        return version_of(self._traffic, request, random.random())

    def shadow_for(self, request: InferenceRequest, version: int) -> Shadow | None:
        """Return what a request is compared with that a version answers; None for nothing."""
        traffic = self._traffic
        if not traffic.shadow or traffic.shadow == version:
            return None
        if request.correlation_id or request.regions is not None:
            return None
        if traffic.shadow_fraction < 1 and random.random() >= traffic.shadow_fraction:
            return None
        return Shadow(self._key, traffic.shadow, Tolerance(), self.counts(traffic.shadow))

    def counts(self, version: int) -> ArmReport:
        """Return what a version has counted since `take_counts`."""
        found = self._counts.get(version)
        if found is None:
            found = self._counts[version] = ArmReport(self._key, version)
        return found

    def take_counts(self) -> list[ArmReport]:
        """Return what versions have counted since the last call, and count anew."""
        taken = []
        for counts in self._counts.values():
            if not counts.is_empty:
                taken.append(counts.taken())
        return taken
