# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The life of a model version: a table of transitions and the records it moves.

Pure: no clock, no loop, no actors. A record is immutable; `VersionRecord.after` is the only way to
the next one, and a pair (state, event) that is not in the table is a programming error.

A reload does not leave READY: the next generation loads beside the serving one and takes over when
all of its instances are ready, so LOADING is seen only where nothing serves.

Triton: core/src/model_repository_manager/model_lifecycle.cc @73aad7c
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

from backends.api.errors import InvalidArgumentError, TritonError
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import name_of, shown
from deployments.contracts.routing_table import (
    UNLOADED_REASON,
    InstanceEndpoint,
    Model,
    ModelReadyState,
    ModelVersion,
)


class LifecycleEvent(StrEnum):
    """What can happen to a model version."""

    LOAD = "LOAD"
    LOADED = "LOADED"
    LOAD_FAILED = "LOAD_FAILED"
    RELOADED = "RELOADED"
    INSTANCES_LOST = "INSTANCES_LOST"
    RECOVERED = "RECOVERED"
    RESTED = "RESTED"
    WOKEN = "WOKEN"
    UNLOAD = "UNLOAD"
    UNLOADED = "UNLOADED"


DORMANT_REASON = "dormant"

_STATE = ModelReadyState
_EVENT = LifecycleEvent

TRANSITIONS: dict[ModelReadyState, dict[LifecycleEvent, ModelReadyState]] = {
    _STATE.UNKNOWN: {
        _EVENT.LOAD: _STATE.LOADING,
    },
    _STATE.LOADING: {
        _EVENT.LOADED: _STATE.READY,
        _EVENT.LOAD_FAILED: _STATE.UNAVAILABLE,
        _EVENT.UNLOAD: _STATE.UNLOADING,
    },
    _STATE.READY: {
        _EVENT.RELOADED: _STATE.READY,
        _EVENT.RESTED: _STATE.READY,
        _EVENT.WOKEN: _STATE.READY,
        _EVENT.INSTANCES_LOST: _STATE.UNAVAILABLE,
        _EVENT.UNLOAD: _STATE.UNLOADING,
    },
    _STATE.UNLOADING: {
        _EVENT.LOAD: _STATE.LOADING,
        _EVENT.UNLOADED: _STATE.UNAVAILABLE,
    },
    _STATE.UNAVAILABLE: {
        _EVENT.LOAD: _STATE.LOADING,
        _EVENT.RELOADED: _STATE.READY,
        _EVENT.RECOVERED: _STATE.READY,
        _EVENT.UNLOAD: _STATE.UNLOADING,
    },
}


def next_state(state: ModelReadyState, event: LifecycleEvent) -> ModelReadyState:
    """Look the transition up.

    Raises:
        KeyError: The event is illegal in this state.
    """
    return TRANSITIONS[state][event]


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """What the controller knows about one version; its attributes are those of `ModelVersion`."""

    version: int
    state: ModelReadyState = ModelReadyState.UNKNOWN
    reason: str = ""
    config: ModelConfig | None = None
    instances: tuple[InstanceEndpoint, ...] = ()
    load_duration_ns: int = 0
    digest: str = ""
    desired_instances: int | None = None
    leaving: tuple[InstanceEndpoint, ...] = ()
    past: dict[str, bytes] = field(default_factory=dict)
    is_dormant: bool = False
    is_restarting: bool = False

    def after(self, event: LifecycleEvent, reason: str = "") -> "VersionRecord":
        """Return the record the event leads to.

        Raises:
            KeyError: The event is illegal in this state.
        """
        state = next_state(self.state, event)
        is_restarting = event is LifecycleEvent.INSTANCES_LOST
        return replace(self, state=state, reason=reason, is_restarting=is_restarting)

    def serving(self, config: ModelConfig, load_duration_ns: int, digest: str) -> "VersionRecord":
        """Return the record with what a generation was loaded from; the state is left alone."""
        return replace(self, config=config, load_duration_ns=load_duration_ns, digest=digest)

    @property
    def is_ready(self) -> bool:
        """Whether the version takes requests."""
        return self.state is ModelReadyState.READY

    @property
    def is_unloaded(self) -> bool:
        """Whether it was unloaded, rather than failed."""
        return self.state is ModelReadyState.UNAVAILABLE and self.reason == UNLOADED_REASON


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A model and its versions.

    Attributes:
        name: The model's key.
        versions: Records by version number.
        labels: Label lists by output, as read with the config.
        is_explicit: Whether a user asked for the model, rather than an ensemble.
        is_known: Whether a load ever came as far as choosing versions.
        failure: Why the last load came to nothing; empty when it did not.
        composing: Keys of the models an ensemble is made of.

    The others are those of `Model`.
    """

    name: str
    versions: Mapping[int, VersionRecord] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_explicit: bool = False
    is_known: bool = False
    failure: str = ""
    composing: frozenset[str] = frozenset()
    is_on_demand: bool = False
    cold_start_count: int = 0
    cold_start_ns: int = 0
    waits_for: str = ""
    traffic: bytes = b""

    def with_version(self, record: VersionRecord) -> "ModelRecord":
        """Return the record with one version put in or replaced."""
        return replace(self, versions={**self.versions, record.version: record})

    @property
    def ready_versions(self) -> tuple[int, ...]:
        """Versions that take requests, ascending."""
        return tuple(sorted(v for v, record in self.versions.items() if record.is_ready))

    @property
    def unloaded_versions(self) -> tuple[int, ...]:
        """Versions that were in service and are no more."""
        return tuple(v for v, record in self.versions.items() if record.reason == UNLOADED_REASON)

    def routing_model(self) -> Model:
        """Render the record for routers."""
        return Model(
            name=self.name,
            is_on_demand=self.is_on_demand,
            cold_start_count=self.cold_start_count,
            cold_start_ns=self.cold_start_ns,
            waits_for=self.waits_for,
            traffic=self.traffic,
            versions=tuple(
                ModelVersion(
                    labels=dict(self.labels),
                    **{name: getattr(record, name) for name in _VERSION_FIELDS},
                )
                for _, record in sorted(self.versions.items())
            ),
        )


_VERSION_FIELDS = tuple(each.name for each in fields(VersionRecord))


def index_rows(
    records: Mapping[str, ModelRecord],
    repository_keys: Iterable[str],
    duplicates: Iterable[str],
    *,
    ready_only: bool,
) -> list[dict[str, str]]:
    """Render the repository index: the models of the repository, each with its known versions.

    A model that was never loaded has its name only, and one that could not be read the reason, too;
    one without a usable version is left out.

    Triton: core/src/tritonserver.cc TRITONSERVER_ServerModelIndex @73aad7c
    """
    rows: list[dict[str, str]] = []
    twice = set(duplicates)
    for key in sorted(set(repository_keys) | twice):
        name, record = name_of(key), records.get(key)
        if key in twice:
            rows.append(
                {
                    "name": name,
                    "state": ModelReadyState.UNAVAILABLE.value,
                    "reason": "model appears in two or more repositories",
                }
            )
        elif record is not None and _has_row_of_its_own(record):
            rows.append(_unread_row(record))
        elif record is None or not record.is_known:
            rows.append({"name": name})
        else:
            versions = record.versions
            # Mostly one, which is in order.
            order = versions if len(versions) == 1 else sorted(versions)
            rows += [_version_row(name, versions[v]) for v in order]
    if ready_only:
        rows = [row for row in rows if row.get("state") == ModelReadyState.READY.value]
    return rows


# What `value` would look up for each of tens of thousands of rows.
_STATE_TEXTS = {state: state.value for state in ModelReadyState}


def _has_row_of_its_own(record: ModelRecord) -> bool:
    is_unreadable = record.failure and not record.is_known
    return not record.versions and bool(record.is_on_demand or is_unreadable)


def _unread_row(record: ModelRecord) -> dict[str, str]:
    """Return the row of a model without versions: it could not be read, or loads on demand."""
    state = ModelReadyState.UNAVAILABLE if record.failure else ModelReadyState.READY
    reason = record.failure or DORMANT_REASON
    return {"name": name_of(record.name), "state": state.value, "reason": reason}


def _version_row(name: str, record: VersionRecord) -> dict[str, str]:
    row = {"name": name, "version": str(record.version), "state": _STATE_TEXTS[record.state]}
    reason = record.reason or (DORMANT_REASON if record.is_dormant else "")
    if reason:
        row["reason"] = reason
    return row


def versions_failed(model_key: str, errors: Mapping[int, TritonError]) -> InvalidArgumentError:
    """Build the error of a load in which versions failed.

    Triton: core/src/model_repository_manager/model_repository_manager.cc @73aad7c
    """
    states = "".join(
        f"version {version} is at UNAVAILABLE state: {error.as_string()};"
        for version, error in sorted(errors.items())
    )
    return load_failed(model_key, states)


def load_failed(model_key: str, why: str) -> InvalidArgumentError:
    """Build the error of a load that failed as a whole."""
    return InvalidArgumentError(f"load failed for model '{shown(model_key)}': {why}\n")


def no_version(model_key: str) -> InvalidArgumentError:
    """Build the error of a load for which the version policy selects nothing."""
    return load_failed(
        model_key,
        "at least one version must be available under the version policy of model"
        f" '{shown(model_key)}'",
    )


def status_rows(records: Mapping[str, ModelRecord]) -> list[dict[str, str]]:
    """Return name, version, backend, instances, state and reason of each model version."""
    rows: list[dict[str, str]] = []
    for name, record in sorted(records.items()):
        if not record.versions:
            is_waiting = record.is_on_demand and not record.failure
            state, reason = ("READY", DORMANT_REASON) if is_waiting else ("UNAVAILABLE", "")
            rows.append(_row(name, "", "", 0, state, reason or record.failure))
        for version, at in sorted(record.versions.items()):
            backend = (at.config.backend or at.config.platform) if at.config else ""
            reason = at.reason or ("" if at.is_ready else record.failure)
            rows.append(
                _row(name, str(version), backend, len(at.instances), at.state.value, reason)
            )
    return rows


def _row(name: str, *values: object) -> dict[str, str]:
    keys = ("version", "backend", "instances", "state", "reason")
    return {"name": shown(name), **dict(zip(keys, map(str, values), strict=True))}
