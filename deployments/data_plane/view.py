# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The data plane as one caller may see it.

Theory of operation. With an access policy each caller has a plane of its own under the routes
(ADR 17). Each method checks the role it needs, for the model it is about, before it looks anything
up: a refusal says the same whether there is such a model. What tells of all models tells of those
that the caller may ask for one by one.

A policy names models by their names. A request may name one by its key; no name has a slash, so
what follows a key's last slash is the name, and a rule cannot be got around by asking for the key.

A model's own calls, and the steps of an ensemble, never come here: they are the model's doing.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import name_of
from backends.api.request import InferenceRequest, InferenceResponse, Tensor
from deployments.access.contracts import Rights, Role
from deployments.contracts.control import RepositoryControl, RolloutControl
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.data_plane.call import Call, Headers, Stage
from deployments.data_plane.face import Plane, PlaneModel, PlaneSettings, SlabSource
from deployments.data_plane.policy_tenants import PolicyTenants
from deployments.data_plane.rollouts_view import CallerRollouts
from deployments.data_plane.settings_view import CallerSettings
from deployments.data_plane.view_checks import EVERY_MODEL, Checks, NoteAsked, note_nothing
from deployments.tenants.desk import Admission
from deployments.tracing.passing_sink import Observer
from deployments.tracing.tracer import Arrival, Tracer

_ANY_MODEL: Final = ""
# Names that are remembered as granted, and of what length.
_NAMES_KEPT: Final = 256
_NAME_KEPT_CHARS: Final = 256


class CallerPlane:
    """Implements `deployments.data_plane.face.Plane` for one caller.

    Every method raises PermissionDeniedError where the caller lacks the role that the method
    needs, or UnauthenticatedError where that caller is nobody in particular.

    Args:
        plane: The plane of the process.
        rights: What the caller may do.
        tenants: Bounds what tenants may have; None where nothing does.
        note: Called with what was asked, the model and the outcome; writes the audit log.
        now_s: The monotonic clock.

    Attributes:
        rights: The same.
    """

    def __init__(
        self,
        plane: Plane,
        rights: Rights,
        tenants: PolicyTenants | None = None,
        *,
        note: NoteAsked = note_nothing,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rights = rights
        self._plane = plane
        self._checks = checks = Checks(rights, note)
        self._tenants = tenants
        self._tenant = rights.caller.tenant
        self._now_s = now_s
        self._stages: list[Stage] = [self._allow]
        if tenants is not None:
            self._stages.append(self._count)
        # What was granted once is, as rights do not change.
        self._inferable: set[str] = set()
        self._repository = CallerRepository(plane.repository, checks)
        self._settings = CallerSettings(plane.settings, checks)
        self._rollouts = CallerRollouts(plane.rollouts, checks)

    # What carries requests and shows nothing

    @property
    def exiting(self) -> bool:
        """Whether requests are refused; open to all, since every route says so."""
        return self._plane.exiting

    @property
    def slabs(self) -> SlabSource:
        """Where large bodies are received into, once their heads were let in."""
        return self._plane.slabs

    @property
    def tracer(self) -> Tracer:
        """Traces requests."""
        return self._plane.tracer

    # Health

    @property
    def has_started(self) -> bool:
        """Whether the start-up models were attempted."""
        self._checks.require(Role.HEALTH, _ANY_MODEL, "health")
        return self._plane.has_started

    @property
    def draining(self) -> bool:
        """Whether readiness is withdrawn."""
        self._checks.require(Role.HEALTH, _ANY_MODEL, "health")
        return self._plane.draining

    def server_live(self) -> bool:
        """Whether the server runs."""
        self._checks.require(Role.HEALTH, _ANY_MODEL, "live")
        return self._plane.server_live()

    def server_ready(self) -> bool:
        """Whether the server can take requests."""
        self._checks.require(Role.HEALTH, _ANY_MODEL, "ready")
        return self._plane.server_ready()

    def model_ready(self, name: str, version: str = "") -> bool:
        """Whether a version is ready."""
        self._checks.require(Role.HEALTH, name, "model ready")
        return self._plane.model_ready(name, version)

    def says_ready(self, name: str, version: str = "") -> Awaitable[bool]:
        """Whether every instance of a ready model says so."""
        self._checks.require(Role.HEALTH, name, "model ready")
        return self._plane.says_ready(name, version)

    def is_unread(self, name: str) -> bool:
        """Whether a model is there to be loaded by its first use."""
        self._checks.require(Role.HEALTH, name, "model ready")
        return self._plane.is_unread(name)

    # Metadata

    def server_metadata(self) -> dict[str, Any]:
        """Return name, version and extensions."""
        self._checks.require(Role.METADATA, _ANY_MODEL, "server metadata")
        return self._plane.server_metadata()

    def model_metadata(self, name: str, version: str = "") -> dict[str, Any]:
        """Return Triton's metadata JSON of a model."""
        self._checks.require(Role.METADATA, name, "metadata")
        return self._plane.model_metadata(name, version)

    def model_config(self, name: str, version: str = "") -> ModelConfig:
        """Return a model's config."""
        self._checks.require(Role.METADATA, name, "config")
        return self._plane.model_config(name, version)

    def model_config_json(self, name: str, version: str = "") -> bytes:
        """Return a model's config as Triton renders it."""
        self._checks.require(Role.METADATA, name, "config")
        return self._plane.model_config_json(name, version)

    def ready_models(self) -> list[PlaneModel]:
        """Return the ready models that the caller may ask about."""
        self._checks.require(Role.METADATA, _ANY_MODEL, "models")
        ready = self._plane.ready_models()
        return [model for model in ready if self._may(Role.METADATA, model.name)]

    # Numbers

    async def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        """Return the statistics JSON of a model, or of those that the caller may ask for."""
        self._checks.require(Role.STATISTICS, name, "statistics")
        found = await self._plane.statistics(name, version)
        if name:
            return found
        rows = [row for row in found["model_stats"] if self._may(Role.STATISTICS, row["name"])]
        return {**found, "model_stats": rows}

    async def metrics_text(self) -> bytes:
        """Return this node's metrics."""
        self._checks.require(Role.METRICS, _ANY_MODEL, "metrics")
        return await self._plane.metrics_text()

    async def recent_metrics_text(self) -> bytes:
        """Return this node's metrics, or nothing for a caller that may not see them.

        They come with answers that the caller may have; those do not fail for want of them.
        """
        if not self._may(Role.METRICS, _ANY_MODEL):
            return b""
        return await self._plane.recent_metrics_text()

    # Inference

    def resolve(self, name: str, version: str = "") -> PlaneModel:
        """Return the ready version that an inference request means."""
        if name not in self._inferable:
            self._checks.require(Role.INFER, name, "infer")
            if len(self._inferable) < _NAMES_KEPT and len(name) <= _NAME_KEPT_CHARS:
                self._inferable.add(name)
        model = self._plane.resolve(name, version)
        if model.name != name and model.name != name_of(name):
            # No lookup gives another model than was asked for; if one ever does, it is checked.
            self._checks.require(Role.INFER, model.name, "infer")
        return model

    def first_use(self, name: str) -> Awaitable[None] | None:
        """Return what loads a model by its first use; None for a model that the caller may not use.

        Whoever calls it has had a refusal already, if there was one.
        """
        if not (self._may(Role.INFER, name) or self._may(Role.METADATA, name)):
            return None
        return self._plane.first_use(name)

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
        """Send on a request to what `resolve` returned, by way of the caller's stages.

        Raises:
            PermissionDeniedError: It lies in shared memory, and the caller lacks the role for that.
            ResourceExhaustedError: The tenant has what it may have.
            TritonError: As the plane of the process.
        """
        del tenant, stages  # The caller's own count.
        own = self._tenant
        return self._plane.infer(model, request, sink, headers, own, arrival, self._stages)

    def _allow(self, call: Call) -> Observer | None:
        """Require the role for shared memory where a request needs it; `resolve` asked the rest."""
        if call.request.regions is not None:
            self._checks.require(Role.SHARED_MEMORY, _ANY_MODEL, "infer")
        self._checks.note("infer", call.model.name, "allowed")
        return None

    def _count(self, call: Call) -> Observer | None:
        """Count a request for the caller's tenant, if that may have one more."""
        if self._tenants is None:
            return None
        key = getattr(call.model, "key", call.model.name)
        size_bytes = sum(_size_bytes(each) for each in call.request.inputs)
        admission = self._tenants.admit(self._tenant, key, size_bytes, self._now_s())
        admission.mark(call.request)
        return _Counted(admission)

    # What is changed

    @property
    def repository(self) -> RepositoryControl:
        """The model repository."""
        return self._repository

    @property
    def rollouts(self) -> RolloutControl:
        """The rollouts of models."""
        return self._rollouts

    @property
    def settings(self) -> PlaneSettings:
        """Log and trace settings, and shared memory."""
        return self._settings

    def _may(self, role: Role, name: str) -> bool:
        return self._checks.may(role, name)


class CallerRepository:
    """The model repository as one caller may see it.

    Args:
        repository: That of the process.
        checks: Of the caller.
    """

    def __init__(self, repository: RepositoryControl, checks: Checks) -> None:
        self._repository = repository
        self._checks = checks

    async def index(self, *, ready_only: bool) -> list[dict[str, str]]:
        """Return the index of the models that the caller may change or ask about."""
        checks = self._checks
        if not checks.may(Role.METADATA, _ANY_MODEL):
            checks.require(Role.CONTROL, _ANY_MODEL, "index")
        rows = await self._repository.index(ready_only=ready_only)
        return [
            row
            for row in rows
            if checks.may(Role.CONTROL, row["name"]) or checks.may(Role.METADATA, row["name"])
        ]

    async def instances(self) -> list[dict[str, Any]]:
        """Return the instances of the models that the caller may ask about."""
        self._checks.require(Role.METADATA, _ANY_MODEL, "instances")
        rows = await self._repository.instances()
        return [row for row in rows if self._checks.may(Role.METADATA, row["model"])]

    async def events(self, *, since: int) -> list[dict[str, Any]]:
        """Return the events of the models that the caller may ask about, and of the server."""
        self._checks.require(Role.METADATA, _ANY_MODEL, "events")
        rows = await self._repository.events(since=since)
        may = self._checks.may
        return [row for row in rows if not row["model"] or may(Role.METADATA, row["model"])]

    async def load(self, model_name: str, parameters: dict[str, Any]) -> None:
        """Load or reload a model."""
        self._checks.require(Role.CONTROL, model_name, "load", is_noted=True)
        await self._repository.load(model_name, parameters)

    async def unload(self, model_name: str, *, unload_dependents: bool) -> None:
        """Unload a model; with its dependents, whichever they are, only who may unload all."""
        self._checks.require(Role.CONTROL, model_name, "unload", is_noted=not unload_dependents)
        if unload_dependents:
            self._checks.require(Role.CONTROL, EVERY_MODEL, "unload", is_noted=True)
        await self._repository.unload(model_name, unload_dependents=unload_dependents)


def _size_bytes(tensor: Tensor) -> int:
    """Return the size of an input, wherever it lies."""
    return tensor.data.nbytes if tensor.extent is None else tensor.extent.size_bytes


class _Counted(Observer):
    """Counts a request out of its tenant's, with what its responses tell."""

    __slots__ = ("_compute_ns", "_queue_ns", "_release")

    def __init__(self, release: Admission) -> None:
        self._release = release
        self._compute_ns = self._queue_ns = 0

    def responded(self, response: InferenceResponse, *, final: bool) -> None:
        self._compute_ns += response.share_ns
        self._queue_ns += max(response.queue_ns, 0)

    def ended(self, error: TritonError | None, *, is_refusal: bool) -> None:
        self._release(self._compute_ns, self._queue_ns)
