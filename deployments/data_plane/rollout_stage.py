# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The stage of rollouts: each request gets its version, once, for all that it will call.

Theory of operation. A request that names no version of a model with a rollout gets the version that
the rollout chooses by the request's own traits. A request that may go on to other models, because
it is for an ensemble or for a backend whose models call models, is pinned: it carries the version
of each model with a rollout, chosen here, where headers and tenant are known. So steps and calls of
one request, in whichever process, are answered by one set of versions.

Without rollouts nothing of this is asked.
"""

from typing import Final

from backends.api.errors import TritonError
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.contracts.sinks import ResponseSink
from deployments.data_plane.call import Call
from deployments.routing.arm_count import ArmCount
from deployments.routing.mirror import Mirror
from deployments.routing.model_rollout import Shadow
from deployments.routing.served_model import ServedModel
from deployments.routing.served_models import ServedModels
from deployments.tracing.passing_sink import Observer, PassingSink

# Backends whose models never call another.
_CALLS_NOBODY: Final = frozenset(
    ("onnxruntime", "tensorrt", "pytorch", "tensorflow", "openvino", "identity", "fil")
)


class RolloutStage:
    """Chooses versions while the table has rollouts.

    Args:
        models: The router's versions and rollouts.
        mirror: Copies requests to shadows.
    """

    def __init__(self, models: ServedModels, mirror: Mirror) -> None:
        self._models = models
        self._mirror = mirror

    def begin(self, call: Call) -> Observer | None:
        """Choose what answers a request, and pin what it may call.

        Raises:
            TritonError: The version takes no requests any more.
        """
        model: ServedModel = call.model
        rollout, request = model.rollout, call.request
        if model.ensemble is not None or model.config.backend not in _CALLS_NOBODY:
            self._pin(model, call)
        if rollout is None:
            return None
        pins = request.pins
        if pins:
            version = pins[model.key]
        else:
            version = rollout.version_for(request, call.headers, call.tenant)
        chosen = self._models.version(model, version)
        call.model = chosen
        call.arm = rollout.arm_of(chosen.version)
        request.model_version = chosen.version
        request.wants_times = True
        shadow = rollout.shadow_for(request, chosen.version)
        if shadow is not None and not chosen.config.decoupled:
            call.sink = _MirroredSink(call.sink, self._mirror, shadow, request)
        return ArmCount(rollout.counts(chosen.version))

    def _pin(self, model: ServedModel, call: Call) -> None:
        pins = call.request.pins = {
            key: each.version_for(call.request, call.headers, call.tenant)
            for key, each in self._models.rollouts.items()
        }
        if model.rollout is None and model.key in pins:
            # The client has named the version of this one.
            pins[model.key] = model.version


class _MirroredSink(PassingSink):
    """Hands a request to the mirror once its port has had the answer, if there was only one."""

    __slots__ = ("_has_more", "_mirror", "_request", "_shadow")

    def __init__(
        self, sink: ResponseSink, mirror: Mirror, shadow: Shadow, request: InferenceRequest
    ) -> None:
        super().__init__(sink)
        self._mirror = mirror
        self._shadow = shadow
        self._request = request
        self._has_more = False

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Pass a response on."""
        if response is None or not final or self._has_more:
            # More than one: a stream, which nobody compares.
            self._has_more = True
            self.sink.respond(response, final=final)
            return
        # Codecs may put other outputs in the place of those.
        answer = InferenceResponse(
            response.model_name, response.model_version, response.id, response.outputs
        )
        self.sink.respond(response, final=True)
        self._mirror.offer(self._shadow, self._request, answer)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Pass an error on."""
        self._has_more = True
        self.sink.fail(error, final=final)
