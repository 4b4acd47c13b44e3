# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The rollout of one model as a router follows it: the choice of versions, and what they count."""

import random
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from backends.api.request import InferenceRequest
from deployments.contracts.arm_report import ArmReport
from deployments.contracts.sinks import ResponseSink
from deployments.rollouts.choice import SPACE, Chooser
from deployments.rollouts.encoding import decode_traffic
from deployments.rollouts.spec import Shadow as ShadowSpec
from deployments.rollouts.spec import Source, Traffic
from deployments.routing.arm_count import ArmCount
from deployments.tracing.passing_sink import ObservedSink

Headers = Iterable[tuple[bytes, bytes]]

_NO_HEADERS: Final[dict[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Shadow:
    """What a request is compared with.

    Attributes:
        key: The model's key.
        spec: What is asked for.
        counts: Of the version that has the copy.
    """

    key: str
    spec: ShadowSpec
    counts: ArmReport


class ModelRollout:
    """The rollout of one model.

    Args:
        key: The model's key.
        traffic: See `Model.traffic`.
        usable: Versions that take requests.

    Attributes:
        stable: The version that answers questions about the model, and takes what no other can.
    """

    def __init__(self, key: str, traffic: bytes, usable: Collection[int]) -> None:
        self._key = key
        self._counts: dict[int, ArmReport] = {}
        self._take(traffic)
        # Ingresses begin at random places.
        phase = random.randrange(SPACE)  # noqa: S311 - shares load
        self._chooser = Chooser(self._traffic, usable, phase)

    def follow(self, traffic: bytes, usable: Collection[int]) -> None:
        """Take the rollout, and the versions that take requests, as they are now; counts go on."""
        if traffic != self._encoded:
            self._take(traffic)
        self._chooser.take(self._traffic, usable)

    def _take(self, traffic: bytes) -> None:
        self._encoded = traffic
        self._traffic = decode_traffic(traffic)
        self._header_names = _header_names(self._traffic)
        spec = self._traffic.shadow
        self._shadow = None if spec is None else Shadow(self._key, spec, self.counts(spec.version))
        self.stable = self._traffic.arms[0].version

    def version_for(
        self, request: InferenceRequest, headers: Headers = (), tenant: str = ""
    ) -> int:
        """Return the version that answers a request."""
        names = self._header_names
        found = _found(names, headers) if names else _NO_HEADERS
        return self._chooser.choose(
            found, request.parameters, tenant, request.correlation_id, request.flags
        ).version

    def arm_of(self, version: int) -> str:
        """Return the name of the arm that is a version; empty when none is."""
        return next((arm.name for arm in self._traffic.arms if arm.version == version), "")

    def shadow_for(self, request: InferenceRequest, version: int) -> Shadow | None:
        """Return what a request is compared with that a version answers; None for nothing.

        Sequences are not copied, whose state the shadow has not, nor what lies in the memory of
        clients, who may change it once they have their answer.
        """
        shadow = self._shadow
        if shadow is None or shadow.spec.version == version:
            return None
        if request.correlation_id or request.regions is not None or not self._chooser.mirrors():
            return None
        return shadow

    def counts(self, version: int) -> ArmReport:
        """Return what a version has counted since `take_counts`."""
        found = self._counts.get(version)
        if found is None:
            found = self._counts[version] = ArmReport(self._key, version)
        return found

    def counted(self, version: int, sink: ResponseSink) -> ResponseSink:
        """Return the sink of a request that a model makes, counted for the version it goes to."""
        return ObservedSink(sink, [ArmCount(self.counts(version))])

    def take_counts(self) -> list[ArmReport]:
        """Return what versions have counted since the last call, and count anew."""
        return [counts.taken() for counts in self._counts.values() if not counts.is_empty]


def _header_names(traffic: Traffic) -> frozenset[str]:
    """Return the headers that a rule or the sticky key looks at, in lower case."""
    conditions = [each for rule in traffic.rules for each in rule.conditions]
    names = {each.name for each in conditions if each.source is Source.HEADER}
    if traffic.sticky is not None and traffic.sticky.source is Source.HEADER:
        names.add(traffic.sticky.name)
    return frozenset(names)


def _found(names: frozenset[str], headers: Headers) -> dict[str, str]:
    """Return the headers of some names; of one given twice the first."""
    found: dict[str, str] = {}
    for name, value in headers:
        text = name.decode("latin-1").lower()
        if text in names and text not in found:
            found[text] = value.decode("latin-1")
    return found
