# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the HTTP ingress asks of the data plane."""

from typing import Any, Protocol

from backends.api.request import InferenceRequest
from deployments.contracts.control import RepositoryControl
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.data_plane.settings_plane import SettingsPlane
from deployments.tracing.tracer import Tracer


class SlabAllocator(Protocol):
    """Where large bodies are received."""

    def allocate(self, size_bytes: int, align_at: int = 0) -> memoryview | None:
        """Return writable memory, or None when there is none left."""


class Plane(Protocol):
    """What the HTTP ingress asks of the data plane."""

    draining: bool
    exiting: bool

    @property
    def slabs(self) -> SlabAllocator:
        """Slabs for large bodies."""

    @property
    def repository(self) -> RepositoryControl:
        """The controller's repository control."""

    @property
    def tracer(self) -> Tracer:
        """Traces requests."""

    @property
    def settings(self) -> SettingsPlane:
        """Log and trace settings and shared-memory regions."""

    def server_live(self) -> bool:
        """Whether the server runs."""

    def server_ready(self) -> bool:
        """Whether the server can take requests."""

    def server_metadata(self) -> dict[str, Any]:
        """Return name, version and extensions."""

    def resolve(self, name: str, version: str = "") -> Any:
        """Return the `ServedModel` a request means."""

    def model_ready(self, name: str, version: str = "") -> bool:
        """Whether a model can take requests."""

    async def says_ready(self, model: Any) -> bool:
        """Whether a model that can take requests says so itself, if it has an opinion."""

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        """Return a model's metadata."""

    def model_config_json(self, name: str, version: str = "") -> bytes:
        """Return a model's config."""

    async def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        """Return statistics."""

    async def metrics_text(self) -> bytes:
        """Return the metrics page."""

    async def recent_metrics_text(self) -> bytes:
        """Return the metrics page as it was at most a second ago."""

    def infer(self, model: Any, request: InferenceRequest, sink: ResponseSink) -> Inflight:
        """Run a request."""
