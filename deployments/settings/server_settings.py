# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What clients may change of a running server: log and trace settings, shared-memory regions.

Pure data and the rules of changing it. The controller is the only one that changes it; everybody
else gets it with the routing table.

Triton: server/src/tracer.cc TraceManager::UpdateTraceSetting, shared_memory_manager.cc @e1db8a6
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from backends.api.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from backends.api.evolving import evolves
from deployments.settings.metrics_settings import MetricsSettings

TRITON_MODE: Final = "triton"
HANDLE_BYTES: Final = 64  # of a cudaIpcMemHandle_t
# Every process of the cluster has the names, and the ingress a descriptor of each object.
MAX_REGIONS: Final = 4096
MAX_REGION_NAME_CHARACTERS: Final = 1024


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, and how.

    Attributes:
        file: File logged to; empty for standard error.
        info: Whether INFO is logged.
        warning: Whether WARNING is logged.
        error: Whether ERROR is logged.
        verbose_level: Above 0, DEBUG is logged too.
        format: ``default``, ``ISO8601`` or ``json``.
    """

    file: str = ""
    info: bool = True
    warning: bool = True
    error: bool = True
    verbose_level: int = 0
    format: str = "default"


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """How requests are traced.

    Attributes:
        level: ``TIMESTAMPS`` and ``TENSORS``, in this order; empty is off.
        rate: Every how many requests one is traced.
        count: How many are still to be traced; -1 has no end.
        log_frequency: Traces per file; 0 writes one file at the end.
        file: Where traces go.
        mode: ``triton`` or ``opentelemetry``.
        extra: Settings of the mode, as given at start.
        revision: Grows with every change; sampling starts anew with it.
    """

    level: tuple[str, ...] = ()
    rate: int = 1000
    count: int = -1
    log_frequency: int = 0
    file: str = ""
    mode: str = TRITON_MODE
    extra: tuple[tuple[str, str], ...] = ()
    revision: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TraceOverride:
    """What a model's trace settings say; None follows the server's."""

    level: tuple[str, ...] | None = None
    rate: int | None = None
    count: int | None = None
    log_frequency: int | None = None
    revision: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Region:
    """Memory that a client has registered: a part of a POSIX object, or an allocation of a GPU.

    Attributes:
        name: The client's name for it.
        key: Name of the object, as the client gave it; empty for memory of a GPU.
        offset: First byte of the region in the object.
        size_bytes: Size of the region.
        node_id: Ray node the memory is on.
        source: How processes of the node find the memory; see
            `deployments.shared_memory.system` and `deployments.shared_memory.cuda`.
        device_id: The client's number of the GPU; None for system memory.
    """

    name: str
    key: str
    offset: int
    size_bytes: int
    node_id: str = ""
    source: str = ""
    device_id: int | None = None

    @property
    def is_cuda(self) -> bool:
        """Whether it is memory of a GPU."""
        return self.device_id is not None


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """All of it.

    Attributes:
        log: Log settings.
        trace: The server's trace settings.
        trace_at_start: What a cleared trace setting goes back to.
        trace_overrides: By model.
        regions: By name.
        trace_uses: Traces taken since the last change, by model and ingress replica; the empty name
            is what all models without settings of their own share.
        started_s: When the server started, seconds since the epoch.
        metrics: Settings of metrics.
    """

    log: LogSettings = LogSettings()
    trace: TraceSettings = TraceSettings()
    trace_at_start: TraceSettings = TraceSettings()
    trace_overrides: dict[str, TraceOverride] = field(default_factory=dict)
    regions: dict[str, Region] = field(default_factory=dict)
    trace_uses: dict[str, dict[str, int]] = field(default_factory=dict)
    started_s: float = field(default=0.0, compare=False)
    metrics: MetricsSettings = MetricsSettings()

    def for_instances(self) -> "InstanceSettings":
        """Return what instances have to know."""
        sources = sorted({region.source for region in self.regions.values()})
        return InstanceSettings(self.log, tuple(sources), self.metrics)

    def trace_of(self, model: str) -> TraceSettings:
        """Return a model's trace settings; an empty name means the server's."""
        key = self.trace_key(model)
        trace = self.configured_trace(key)
        uses = self.trace_uses.get(key)
        return trace if not uses else replace(trace, count=_left(trace.count, uses))

    def trace_key(self, model: str) -> str:
        """Return whose trace settings a model has: its own name, or an empty one."""
        override = self.trace_overrides.get(model)
        return model if override is not None and override != TraceOverride() else ""

    def configured_trace(self, key: str) -> TraceSettings:
        """Return the trace settings of a `trace_key` with ``count`` as it was set."""
        return _overridden(self.trace, self.trace_overrides[key]) if key else self.trace


@dataclass(frozen=True, slots=True)
class LogChange:
    """New values of `LogSettings`' attributes."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TraceChange:
    """New values of `TraceOverride`'s attributes; None clears one.

    Attributes:
        model: The model; empty for the server's own settings.
        values: By attribute.
    """

    model: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TraceUse:
    """An ingress replica has taken traces of those a finite count allows.

    Attributes:
        model: Whose settings; empty for the server's.
        replica: The replica.
        used: How many it has taken of this revision.
        revision: `TraceSettings.revision` it took them of; of an older one they do not matter.
    """

    model: str
    replica: str
    used: int
    revision: int


@dataclass(frozen=True, slots=True)
class RegionAdded:
    """A region was registered."""

    region: Region


@dataclass(frozen=True, slots=True)
class RegionRemoved:
    """Regions of one kind shall be forgotten.

    Attributes:
        name: The region; an empty name means all of the kind, an unknown one is no error.
        is_cuda: Whether memory of a GPU is meant, or system memory.
    """

    name: str
    is_cuda: bool = False


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """What instances are told.

    Attributes:
        log: Log settings.
        region_sources: Objects that registered regions lie in.
        metrics: Settings of metrics.
        version: Of the routing table in which a router first saw them; of two that differ, the
            higher one's hold. Settings that only differ in it are equal.
    """

    log: LogSettings
    region_sources: tuple[str, ...] = ()
    metrics: MetricsSettings = MetricsSettings()
    version: int = field(default=0, compare=False)


evolves(
    LogSettings,
    TraceSettings,
    TraceOverride,
    Region,
    ServerSettings,
    LogChange,
    TraceChange,
    TraceUse,
    RegionAdded,
    RegionRemoved,
    InstanceSettings,
)


SettingsChange = LogChange | TraceChange | TraceUse | RegionAdded | RegionRemoved


def changed(settings: ServerSettings, change: SettingsChange) -> ServerSettings:
    """Return the settings after a change.

    Raises:
        InvalidArgumentError: The change would make trace settings that cannot work.
        AlreadyExistsError: A region of that name is registered.
    """
    return _RULES[type(change)](settings, change)


def _change_log(settings: ServerSettings, change: LogChange) -> ServerSettings:
    return replace(settings, log=replace(settings.log, **change.values))


def _left(count: int, uses: Mapping[str, int]) -> int:
    return count if count < 0 else max(0, count - sum(uses.values()))


def _use_trace(settings: ServerSettings, change: TraceUse) -> ServerSettings:
    key = settings.trace_key(change.model)
    if key != change.model or change.revision != settings.configured_trace(key).revision:
        return settings
    uses = {**settings.trace_uses.get(change.model, {}), change.replica: change.used}
    return replace(settings, trace_uses={**settings.trace_uses, change.model: uses})


def _with_uses_settled(settings: ServerSettings, model: str) -> ServerSettings:
    """Take what was used off the counts: of a model, or of everything when the name is empty."""
    overrides = dict(settings.trace_overrides)
    for name, override in settings.trace_overrides.items():
        uses = settings.trace_uses.get(name, {})
        if model in {"", name} and override.count is not None:
            overrides[name] = replace(override, count=_left(override.count, uses))
    if model:
        left = {name: uses for name, uses in settings.trace_uses.items() if name != model}
        return replace(settings, trace_overrides=overrides, trace_uses=left)
    trace = replace(
        settings.trace, count=_left(settings.trace.count, settings.trace_uses.get("", {}))
    )
    return replace(settings, trace=trace, trace_overrides=overrides, trace_uses={})


def _change_trace(settings: ServerSettings, change: TraceChange) -> ServerSettings:
    settings = _with_uses_settled(settings, change.model)
    if not change.model:
        start = settings.trace_at_start
        values = {
            key: getattr(start, key) if value is None else value
            for key, value in change.values.items()
        }
        trace = replace(settings.trace, revision=settings.trace.revision + 1, **values)
        _check_trace(trace)
        return replace(settings, trace=trace)
    override = settings.trace_overrides.get(change.model, TraceOverride())
    override = replace(override, revision=override.revision + 1, **change.values)
    _check_trace(_overridden(settings.trace, override))
    return replace(settings, trace_overrides={**settings.trace_overrides, change.model: override})


def _overridden(trace: TraceSettings, override: TraceOverride) -> TraceSettings:
    return TraceSettings(
        trace.level if override.level is None else override.level,
        trace.rate if override.rate is None else override.rate,
        trace.count if override.count is None else override.count,
        trace.log_frequency if override.log_frequency is None else override.log_frequency,
        trace.file,
        trace.mode,
        trace.extra,
        trace.revision + override.revision,
    )


def _check_trace(trace: TraceSettings) -> None:
    if not trace.level:
        return
    reason = ""
    if trace.rate == 0:
        reason = "sample rate must be non-zero"
    elif trace.mode == TRITON_MODE and not trace.file:
        reason = "trace file name is not given"
    elif trace.mode != TRITON_MODE and "TENSORS" in trace.level:
        raise InvalidArgumentError(
            f"Tensor level tracing is not supported by the mode: {trace.mode}"
        )
    if reason:
        raise InvalidArgumentError(f"Attempting to set invalid trace setting :{reason}")


def check_name(settings: ServerSettings, name: str) -> None:
    """Check that a region of a name can be registered; both kinds share the names.

    Raises:
        AlreadyExistsError: There is one of that name.
        InvalidArgumentError: The name is too long.
        ResourceExhaustedError: There are as many as there may be.
    """
    if name in settings.regions:
        raise AlreadyExistsError(f"shared memory region '{name}' already in manager")
    if len(name) > MAX_REGION_NAME_CHARACTERS:
        raise InvalidArgumentError(
            f"shared memory region '{name[:100]}...' has a name of {len(name)} characters, at most"
            f" {MAX_REGION_NAME_CHARACTERS} are allowed"
        )
    if len(settings.regions) >= MAX_REGIONS:
        raise ResourceExhaustedError(
            f"failed to register shared memory region '{name}': {MAX_REGIONS} regions are"
            " registered, as many as there may be; unregister those that are not used"
        )


def _add_region(settings: ServerSettings, change: RegionAdded) -> ServerSettings:
    region = change.region
    check_name(settings, region.name)
    return replace(settings, regions={**settings.regions, region.name: region})


def _remove_region(settings: ServerSettings, change: RegionRemoved) -> ServerSettings:
    left = {
        name: each
        for name, each in settings.regions.items()
        if each.is_cuda != change.is_cuda or change.name not in {"", name}
    }
    return replace(settings, regions=left)


_RULES: Final[Mapping[type, Callable[[ServerSettings, Any], ServerSettings]]] = {
    LogChange: _change_log,
    TraceChange: _change_trace,
    TraceUse: _use_trace,
    RegionAdded: _add_region,
    RegionRemoved: _remove_region,
}
