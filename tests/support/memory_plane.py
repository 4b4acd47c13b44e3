# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the planes of both ports' tests share: models in memory, and what else a port asks for."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from backends.api.errors import NotFoundError, TritonError
from backends.api.request import InferenceRequest
from deployments.contracts.control import RolloutAction
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.data_plane.call import Call, Stage
from deployments.routing.request_check import RequestChecker
from deployments.shared_memory.objects import RegionMemory
from deployments.shared_memory.regions import locate_regions, look_at_inputs
from deployments.tracing.tracer import Arrival, Tracer
from tests.support.settings_control import MemoryControl, settings_plane


class FakeRollouts:
    """Implements `deployments.contracts.control.RolloutControl`.

    Attributes:
        asked: Model, action and document of each call.
        error: Raised by each call, if set.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, RolloutAction, dict[str, Any]]] = []
        self.error: TritonError | None = None

    async def rollout(
        self, model_name: str, action: RolloutAction, document: dict[str, Any]
    ) -> dict[str, Any]:
        """See `RolloutControl.rollout`."""
        self.asked.append((model_name, action, document))
        if self.error is not None:
            raise self.error
        return {"model": model_name, "phase": "progressing"}


class MemoryPlane:
    """The plane; what becomes of a request says ``_begin``, once it has been found good.

    Attributes:
        models: By name; each has ``name``, ``version``, ``config`` and ``says_ready``.
        unread: Models that are loaded by their first use.
        used: Those that were.
        load_error: What that fails with.
        unknown: The error of a model that there is none of.
    """

    def __init__(self) -> None:
        self.has_started = True
        self.draining = self.exiting = False
        self.models: dict[str, Any] = {}
        self.unread: dict[str, Any] = {}
        self.used: list[str] = []
        self.load_error: Exception | None = None
        self.unknown: type[TritonError] = NotFoundError
        self.rollouts = FakeRollouts()
        self.headers: Any = ()
        self.tracer = Tracer()
        self.control = MemoryControl()
        self.settings = settings_plane(self.control, self.resolve)
        self.memory = RegionMemory()

    def server_live(self) -> bool:
        return not self.exiting

    def resolve(self, name: str, version: str = "") -> Any:
        model = self.models.get(name)
        if model is None:
            raise self.unknown(f"Request for unknown model: '{name}' is not found")
        if version and version != str(model.version):
            raise NotFoundError(
                f"Request for unknown model: '{name}' version {version} is not found"
            )
        return model

    def first_use(self, name: str) -> Awaitable[None] | None:
        return self._use(name) if name in self.unread else None

    async def _use(self, name: str) -> None:
        self.used.append(name)
        await asyncio.sleep(0)
        if self.load_error is not None:
            raise self.load_error
        if name in self.unread:
            self.models[name] = self.unread.pop(name)

    def is_unread(self, name: str) -> bool:
        return name in self.unread

    def model_ready(self, name: str, version: str = "") -> bool:
        return self.resolve(name, version) is not None

    def says_ready(self, name: str, version: str = "") -> Awaitable[bool]:
        return asyncio.sleep(0, bool(self.resolve(name, version).says_ready))

    def model_config(self, name: str, version: str = "") -> Any:
        return self.resolve(name, version).config

    def infer(
        self,
        model: Any,
        request: InferenceRequest,
        sink: ResponseSink,
        headers: Any = (),
        tenant: str = "",
        arrival: Arrival | None = None,
        stages: Sequence[Stage] = (),
    ) -> Inflight:
        self.headers, self.arrival = headers, arrival
        return Call(model, request, sink, headers, tenant, arrival).start(stages, self._send)

    def _send(self, model: Any, request: InferenceRequest, sink: ResponseSink) -> Any:
        if request.regions is not None:
            locate_regions(request, self.control.settings.regions)
            look_at_inputs(request, self.memory, runs_here=True)
        RequestChecker(model.config).check(request)
        return self._begin(model, request, sink)

    def _begin(self, model: Any, request: InferenceRequest, sink: ResponseSink) -> Any:
        raise NotImplementedError
