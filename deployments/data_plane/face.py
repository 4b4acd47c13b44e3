# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What transports see of the data plane; `deployments.data_plane.data_plane.DataPlane` has it."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest
from deployments.contracts.control import RepositoryControl, RolloutControl
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.data_plane.call import Headers, Stage
from deployments.settings.server_settings import LogSettings, Region, TraceSettings
from deployments.tracing.tracer import Arrival, Tracer


class PlaneModel(Protocol):
    """A ready version of a model; see `deployments.routing.served_model.ServedModel`."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def version(self) -> int: ...  # noqa: D102
    @property
    def config(self) -> ModelConfig: ...  # noqa: D102
    @property
    def labels(self) -> Mapping[str, tuple[str, ...]]: ...  # noqa: D102


class SlabSource(Protocol):
    """Where large request bodies are received into; see `deployments.slabs.pool.SlabPool`."""

    def allocate(self, size_bytes: int, align_at: int = 0) -> memoryview | None:
        """Return memory of that size; None when there is none."""


class PlaneSettings(Protocol):
    """Log and trace settings and regions; see `deployments.data_plane.settings_plane`."""

    @property
    def log(self) -> LogSettings: ...  # noqa: D102

    async def change_log(self, values: Mapping[str, Any]) -> LogSettings: ...  # noqa: D102
    def trace(self, model: str) -> TraceSettings: ...  # noqa: D102
    async def change_trace(self, model: str, values: Mapping[str, Any]) -> TraceSettings: ...  # noqa: D102
    def regions(self, name: str = "", *, is_cuda: bool = False) -> list[Region]: ...  # noqa: D102
    def require_client_memory(self) -> None: ...  # noqa: D102
    async def register_system(self, name: str, key: str, offset: int, size_bytes: int) -> None: ...  # noqa: D102
    async def register_cuda(  # noqa: D102
        self, name: str, handle: bytes, device_id: int, size_bytes: int
    ) -> None: ...
    async def unregister(self, name: str = "", *, is_cuda: bool = False) -> None: ...  # noqa: D102


class Plane(Protocol):
    """What every transport asks; each method is described where it is implemented."""

    @property
    def has_started(self) -> bool: ...  # noqa: D102
    @property
    def draining(self) -> bool: ...  # noqa: D102
    @property
    def exiting(self) -> bool: ...  # noqa: D102
    @property
    def repository(self) -> RepositoryControl: ...  # noqa: D102
    @property
    def rollouts(self) -> RolloutControl: ...  # noqa: D102
    @property
    def settings(self) -> PlaneSettings: ...  # noqa: D102
    @property
    def slabs(self) -> SlabSource: ...  # noqa: D102
    @property
    def tracer(self) -> Tracer: ...  # noqa: D102

    def server_live(self) -> bool: ...  # noqa: D102
    def server_ready(self) -> bool: ...  # noqa: D102
    def server_metadata(self) -> dict[str, Any]: ...  # noqa: D102
    def resolve(self, name: str, version: str = "") -> PlaneModel: ...  # noqa: D102
    def ready_models(self) -> Sequence[PlaneModel]: ...  # noqa: D102
    def first_use(self, name: str) -> Awaitable[None] | None: ...  # noqa: D102
    def is_unread(self, name: str) -> bool: ...  # noqa: D102
    def model_ready(self, name: str, version: str = "") -> bool: ...  # noqa: D102
    def says_ready(self, name: str, version: str = "") -> Awaitable[bool]: ...  # noqa: D102
    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]: ...  # noqa: D102
    def model_config(self, name: str, version: str = "") -> ModelConfig: ...  # noqa: D102
    def model_config_json(self, name: str, version: str = "") -> bytes: ...  # noqa: D102

    async def statistics(self, name: str = "", version: str = "") -> dict[str, Any]: ...  # noqa: D102
    async def metrics_text(self) -> bytes: ...  # noqa: D102
    async def recent_metrics_text(self) -> bytes: ...  # noqa: D102

    def infer(
        self,
        model: Any,
        request: InferenceRequest,
        sink: ResponseSink,
        headers: Headers = (),
        tenant: str = "",
        arrival: Arrival | None = None,
        stages: Sequence[Stage] = (),
    ) -> Inflight:
        """Check a request and send it on; everything that follows reaches the sink.

        Args:
            model: What `resolve` returned.
            request: The request.
            sink: Its sink.
            headers: Of HTTP, or metadata of gRPC; rollouts look at them.
            tenant: Of the caller; empty for none.
            arrival: How it came; None unless `tracer` is on.
            stages: Those of the caller.

        Raises:
            InvalidArgumentError: The request does not fit the model; the sink hears nothing.
        """
