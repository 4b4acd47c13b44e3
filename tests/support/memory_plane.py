# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the planes of both ports' tests share: models in memory, and what else a port asks for."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from backends.api.errors import InvalidArgumentError, NotFoundError, TritonError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest, ParameterValue
from backends.config.pbtxt import to_json
from deployments.contracts.control import RolloutAction
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.data_plane.call import Call, Stage
from deployments.data_plane.data_plane import _tensor_metadata
from deployments.data_plane.settings_plane import SettingsPlane
from deployments.routing.request_check import RequestChecker
from deployments.settings.server_settings import ServerSettings, SettingsChange, changed
from deployments.shared_memory.cuda import CudaMaps
from deployments.shared_memory.objects import RegionMemory
from deployments.shared_memory.regions import locate_regions, look_at_inputs
from deployments.tracing.tracer import Arrival, Tracer


class MemoryControl:
    """Changes settings as the controller does."""

    def __init__(self) -> None:
        self.settings = ServerSettings()

    async def change_settings(self, change: SettingsChange) -> ServerSettings:
        self.settings = changed(self.settings, change)
        return self.settings


def settings_plane(
    control: MemoryControl,
    knows_model: Callable[[str], object],
    *,
    allow_client_memory: bool = False,
    cuda: CudaMaps | None = None,
) -> SettingsPlane:
    return SettingsPlane(
        lambda: control.settings,
        control,
        knows_model,
        allow_client_memory=allow_client_memory,
        cuda=cuda,
    )


@dataclass
class FakeModel:
    """A model; its plane says how it executes."""

    config: ModelConfig
    execute: Any
    version: int = 1
    labels: dict[str, Any] = field(default_factory=dict)
    says_ready: bool = True

    @property
    def name(self) -> str:
        return self.config.name


class Repository:
    """Remembers what it was asked.

    Attributes:
        rows: The index.
        there: The instances; None for a server that has no such route.
        untold: What asking for them fails with.
        happened: The events; None for a server that has no such route.
        failures: What loads of models fail with.
    """

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.rows: list[dict[str, str]] = [{"name": "simple", "version": "1", "state": "READY"}]
        self.there: list[dict[str, Any]] | None = [
            {"model": "simple", "version": "1", "name": "simple/1#0", "state": "live"}
        ]
        self.untold: TritonError | None = None
        self.happened: list[dict[str, Any]] | None = [
            {"id": 1, "event": "ready", "model": "simple"}
        ]
        self.failures: dict[str, str] = {}

    async def index(self, *, ready_only: bool) -> list[dict[str, str]]:
        self.calls.append(("index", ready_only))
        return self.rows

    async def instances(self) -> list[dict[str, Any]]:
        if self.untold is not None:
            raise self.untold
        if self.there is None:
            raise NotFoundError("Not Found")
        return self.there

    async def events(self, *, since: int) -> list[dict[str, Any]]:
        if self.happened is None:
            raise NotFoundError("Not Found")
        return [row for row in self.happened if row["id"] > since]

    async def load(self, model_name: str, parameters: dict[str, ParameterValue | bytes]) -> None:
        self.calls.append(("load", model_name, parameters))
        if model_name in self.failures:
            raise InvalidArgumentError(self.failures[model_name])

    async def unload(self, model_name: str, *, unload_dependents: bool) -> None:
        self.calls.append(("unload", model_name, unload_dependents))


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
        models: By name.
        unread: Models that are loaded by their first use.
        used: Those that were.
        load_error: What that fails with.
        unknown: The error of a model that there is none of.
        repository: What is asked of the controller.
    """

    def __init__(self) -> None:
        self.has_started = True
        self.draining = self.exiting = False
        self.models: dict[str, FakeModel] = {}
        self.unread: dict[str, FakeModel] = {}
        self.used: list[str] = []
        self.load_error: Exception | None = None
        self.unknown: type[TritonError] = NotFoundError
        self.repository = Repository()
        self.rollouts = FakeRollouts()
        self.headers: Any = ()
        self.tracer = Tracer()
        self.control = MemoryControl()
        self.settings = settings_plane(self.control, self.resolve)
        self.memory = RegionMemory()

    def ready_models(self) -> list[Any]:
        return [model for _, model in sorted(self.models.items())]

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

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        config = self.resolve(name, version).config
        return {
            "name": name,
            "versions": ["1"],
            "platform": config.platform,
            "inputs": [_tensor_metadata(config, each) for each in config.input],
            "outputs": [_tensor_metadata(config, each) for each in config.output],
        }

    def model_config(self, name: str, version: str = "") -> Any:
        return self.resolve(name, version).config

    def model_config_json(self, name: str, version: str = "") -> bytes:
        config = self.resolve(name, version).config
        if config.message:
            return to_json(config)
        return json.dumps({"name": name, "max_batch_size": config.max_batch_size}).encode()

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
