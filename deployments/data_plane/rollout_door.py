# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where requests of clients meet rollouts: each gets its version, once, for all that it will call.

Theory of operation. A request that names no version of a model with a rollout gets the version that
the rollout chooses by the request's own traits. A request that may go on to other models, because
it is for an ensemble or for a backend whose models call models, is pinned: it carries the version
of each model with a rollout, chosen here, where headers and tenant are known. So steps and calls of
one request, in whichever process, are answered by one set of versions.

Without rollouts nothing of this is asked.
"""

from collections.abc import Iterable
from typing import Final

from backends.api.request import InferenceRequest, InferenceResponse
from deployments.contracts.sinks import ResponseSink
from deployments.routing.arm_sink import ArmSink
from deployments.routing.arms import Arms
from deployments.routing.mirror import Mirror
from deployments.routing.served_model import ServedModel
from deployments.routing.shadow import Shadow

Headers = Iterable[tuple[bytes, bytes]]

# Backends whose models never call another.
_CALLS_NOBODY: Final = frozenset(
    ("onnxruntime", "tensorrt", "pytorch", "tensorflow", "openvino", "identity", "fil")
)


class RolloutDoor:
    """Lets requests in while the table has rollouts.

    Args:
        arms: The rollouts of the router.
    """

    def __init__(self, arms: Arms) -> None:
        self._arms = arms

    def enter(
        self,
        model: ServedModel,
        request: InferenceRequest,
        sink: ResponseSink,
        headers: Headers,
        tenant: str = "",
    ) -> tuple[ServedModel, ResponseSink]:
        """Choose what answers a request, and pin what it may call.

        Args:
            model: What was found for its model and version.
            request: The request; its version and its pins are set.
            sink: Takes its outcome.
            headers: Headers of HTTP or metadata of gRPC.
            tenant: Of the caller; empty for none.

        Returns:
            The version, and the sink that counts for it.

        Raises:
            TritonError: The version takes no requests any more.
        """
        rollout = model.rollout
        if model.ensemble is not None or model.config.backend not in _CALLS_NOBODY:
            self._pin(model, request, headers, tenant)
        if rollout is None:
            return model, sink
        pins = request.pins
        version = rollout.version_for(request, headers, tenant) if not pins else pins[model.key]
        chosen = self._arms.version(model, version)
        request.model_version = chosen.version
        request.wants_times = True
        answered = None
        shadow = rollout.shadow_for(request, chosen.version)
        if shadow is not None and not chosen.config.decoupled:
            answered = _Offer(self._arms.mirror, shadow, request)
        return chosen, ArmSink(sink, rollout.counts(chosen.version), answered)

    def _pin(
        self, model: ServedModel, request: InferenceRequest, headers: Headers, tenant: str
    ) -> None:
        pins = request.pins = {
            key: each.version_for(request, headers, tenant)
            for key, each in self._arms.rollouts.items()
        }
        if model.rollout is None and model.key in pins:
            # The client has named the version of this one.
            pins[model.key] = model.version


class _Offer:
    """Hands a request to the mirror once it was answered."""

    __slots__ = ("_mirror", "_request", "_shadow")

    def __init__(self, mirror: Mirror, shadow: Shadow, request: InferenceRequest) -> None:
        self._mirror = mirror
        self._shadow = shadow
        self._request = request

    def __call__(self, response: InferenceResponse) -> None:
        self._mirror.offer(self._shadow, self._request, response)
