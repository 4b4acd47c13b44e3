# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The routing table: what the controller tells routers about models and their instances.

Pure data. A table is immutable and versioned. It travels by difference: a router names the version
it has and gets what has changed since, a `TableChanges`. Routers go on with their last table when
the controller is gone.
"""

import hashlib
import pickle
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Final

from backends.api.errors import (
    InvalidArgumentError,
    NotFoundError,
    TritonError,
    UnavailableError,
)
from backends.api.evolving import evolves
from backends.api.model_config import ModelConfig
from backends.api.model_identifier import name_of, shown
from deployments.settings.server_settings import ServerSettings

UNLOADED_REASON = "unloaded"
# Changes of the table that are larger are compressed.
_COMPRESSED_BYTES: Final = 1 << 14


class ModelReadyState(StrEnum):
    """State of a model version, as the repository index shows it."""

    UNKNOWN = "UNKNOWN"
    READY = "READY"
    UNAVAILABLE = "UNAVAILABLE"
    LOADING = "LOADING"
    UNLOADING = "UNLOADING"


@dataclass(frozen=True, slots=True)
class InstanceEndpoint:
    """Where one model instance listens.

    Attributes:
        name: Instance name, unique in the cluster (``simple/1#0``).
        incarnation: New each time the instance's process starts; a changed one means a new process.
        node_id: Ray node the process is on.
        uds: Path of its Unix socket (abstract when it starts with a NUL).
        tcp: Host and port for routers on other nodes.
        has_readiness: Whether the model itself is asked for its readiness.
    """

    name: str
    incarnation: str
    node_id: str
    uds: str
    tcp: tuple[str, int]
    has_readiness: bool = False


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """One version of a model and its instances.

    Attributes:
        version: Version number.
        state: Where in its life it is.
        reason: Why it is not READY.
        config: The complete config; None until it was first READY.
        labels: Class labels by output name.
        instances: Where requests go.
        load_duration_ns: How long the load took.
        digest: Of the files, config and options it was loaded with; changes with every reload that
            replaced the instances.
        desired_instances: How many instances it shall have; None when it does not autoscale.
        leaving: Instances that finish their last requests; what they count still counts.
        past: By node: encoded counters of instances that have left while others still serve.
        is_dormant: Whether it is READY and has no instance until a request wakes it.
        is_restarting: Whether it is UNAVAILABLE because all its instances were lost, which are
            being started again.
    """

    version: int
    state: ModelReadyState
    reason: str = ""
    config: ModelConfig | None = None
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    instances: tuple[InstanceEndpoint, ...] = ()
    load_duration_ns: int = 0
    digest: str = ""
    desired_instances: int | None = None
    leaving: tuple[InstanceEndpoint, ...] = ()
    past: dict[str, bytes] = field(default_factory=dict)
    is_dormant: bool = False
    is_restarting: bool = False

    @property
    def takes_requests(self) -> bool:
        """Whether requests are taken, to be executed at once or when it has an instance again."""
        is_open = self.state is ModelReadyState.READY or self.is_restarting
        return is_open and self.config is not None

    @property
    def is_unloaded(self) -> bool:
        """Whether it was unloaded, rather than failed."""
        return self.state is ModelReadyState.UNAVAILABLE and self.reason == UNLOADED_REASON

    @property
    def counts_as_ready(self) -> bool:
        """Whether it is as it shall be."""
        return self.state is ModelReadyState.READY or self.is_unloaded


@dataclass(frozen=True, slots=True)
class Model:
    """A model the controller knows.

    Attributes:
        name: Its key; see `backends.api.model_identifier`.
        versions: In ascending order.
        is_on_demand: Whether it is loaded by its first use, so that nothing may be known of it.
        cold_start_count: How often requests had to wait for its load or its waking.
        cold_start_ns: How long these have taken together.
        waits_for: What its start waits for before it begins; mostly empty.
        traffic: Which version answers requests that name none, where that is not the newest: a
            `deployments.rollouts.spec.Traffic`, encoded, so that a router of a release that knows
            none can read the rest; else empty.
    """

    name: str
    versions: tuple[ModelVersion, ...] = ()
    is_on_demand: bool = False
    cold_start_count: int = 0
    cold_start_ns: int = 0
    waits_for: str = ""
    traffic: bytes = b""

    @property
    def is_unread(self) -> bool:
        """Whether it has to be loaded before anything can be said of it."""
        is_ready = any(entry.state is ModelReadyState.READY for entry in self.versions)
        return self.is_on_demand and not is_ready

    @property
    def counts_as_ready(self) -> bool:
        """Whether it is as it shall be: no version has failed, is loading or is to be loaded."""
        if self.is_on_demand:
            return True
        return bool(self.versions) and all(entry.counts_as_ready for entry in self.versions)

    @property
    def is_unloaded(self) -> bool:
        """Whether all its versions were unloaded or are being unloaded."""
        return not self.is_on_demand and all(
            entry.is_unloaded or entry.state is ModelReadyState.UNLOADING for entry in self.versions
        )


@dataclass(frozen=True, slots=True)
class RoutingTable:
    """A snapshot of the cluster.

    Attributes:
        version: Grows with each change (across controller restarts too).
        models: By key.
        initialised: Whether start-up loading is done.
        exiting: Whether the server is shutting down.
        settings: What clients may change of a running server.
        has_namespaces: Whether models of one name may be in several repositories.
        reachable: By repository, without credentials: whether it can be listed.
        before: Version of the table that this one was made of by difference; None for none.
        touched: Keys of all models that differ from that one.
    """

    version: int = 0
    models: dict[str, Model] = field(default_factory=dict)
    initialised: bool = False
    exiting: bool = False
    settings: ServerSettings = ServerSettings()
    has_namespaces: bool = False
    reachable: Mapping[str, bool] = field(default_factory=dict)
    before: int | None = field(default=None, compare=False)
    touched: frozenset[str] = field(default=frozenset(), compare=False)

    def after(self, changes: "TableChanges") -> "RoutingTable":
        """Return the table with changes made; models that have not changed are the same objects."""
        # Copied in one go: a table has tens of thousands of models.
        models = {} if changes.is_whole else self.models.copy()
        for name in changes.removed:
            models.pop(name, None)
        models.update(changes.models)
        return RoutingTable(
            changes.version,
            models,
            changes.initialised,
            changes.exiting,
            self.settings if changes.settings is None else changes.settings,
            changes.has_namespaces,
            changes.reachable,
            None if changes.is_whole else self.version,
            changes.removed.union(changes.models),
        )

    def keys_named(self, name: str) -> list[str]:
        """Return the keys of the models of a name that are loaded, or should be."""
        return [
            key
            for key, model in self.models.items()
            if name_of(key) == name and not model.is_unloaded
        ]

    def keys_by_name(self, names: Collection[str]) -> dict[str, list[str]]:
        """Return what `keys_named` does, for some names at once."""
        found: dict[str, list[str]] = {name: [] for name in names}
        for key, model in self.models.items() if names else ():
            keys = found.get(name_of(key))
            if keys is not None and not model.is_unloaded:
                keys.append(key)
        return found

    def changed_since(self, other: "RoutingTable") -> frozenset[str]:
        """Return the names of models that another table does not have, or has otherwise."""
        before, now = other.models, self.models
        names = self.touched if self.before == other.version else before.keys() | now.keys()
        return frozenset(
            name
            for name in names
            # After a change by difference, what has not changed is the same object.
            if now.get(name) is not before.get(name) and now.get(name) != before.get(name)
        )

    def past(self, name: str, version: int) -> dict[str, bytes]:
        """Return, by node, what instances that have left a version had counted, encoded."""
        model = self.models.get(name)
        entries = model.versions if model else ()
        return next((entry.past for entry in entries if entry.version == version), {})

    def ready(self, name: str, version: int = -1) -> ModelVersion | None:
        """Return a ready version, or None.

        Args:
            name: The model's key.
            version: Version number; negative for the newest ready one.
        """
        model = self.models.get(name)
        for entry in reversed(model.versions if model else ()):
            if entry.state is ModelReadyState.READY and (version < 0 or version == entry.version):
                return entry
        return None

    def served(self, name: str, version: int) -> ModelVersion | None:
        """Return a version that takes requests, or None."""
        model = self.models.get(name)
        entries = model.versions if model else ()
        return next((x for x in entries if x.version == version and x.takes_requests), None)

    def identity(self, name: str, version: int = -1) -> bytes:
        """Return what stands for a version as it is loaded now, its ensemble's models included.

        Args:
            name: The model's key.
            version: Version number; negative for the newest ready one.
        """
        digest = hashlib.blake2b(digest_size=16)
        self._identify(digest, name, version)
        return digest.digest()

    def _identify(self, digest: "hashlib.blake2b", name: str, version: int) -> None:
        entry = self.ready(name, version)
        if entry is None:
            return
        digest.update(repr((name, entry.version, entry.digest)).encode())
        for step in entry.config.ensemble_steps if entry.config else ():
            self._identify(digest, step.model_key, step.model_version)


@dataclass(frozen=True, slots=True)
class TableChanges:
    """What a router has to change in its table.

    Attributes:
        version: The table's version afterwards.
        is_whole: Whether ``models`` are all there are, whatever the router has.
        models: By name: models that are new or have changed.
        removed: Names of models that are gone.
        initialised: As in the table.
        exiting: As in the table.
        settings: The settings; None when they have not changed.
        has_namespaces: As in the table.
        reachable: As in the table.

    They are pickled once, however many routers get them; what is large is compressed then.
    """

    version: int
    is_whole: bool
    models: dict[str, Model]
    removed: frozenset[str]
    initialised: bool
    exiting: bool
    settings: ServerSettings | None
    has_namespaces: bool = False
    reachable: Mapping[str, bool] = field(default_factory=dict)
    # Empty until they are pickled.
    _pickled: list[bytes] = field(default_factory=list, compare=False, repr=False)

    def __reduce__(self) -> tuple[Callable[[bytes], "TableChanges"], tuple[bytes]]:
        if not self._pickled:
            values = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}
            data = pickle.dumps(values, protocol=pickle.HIGHEST_PROTOCOL)
            # Of level 0 is what is small: copied as it is.
            level = 1 if len(data) > _COMPRESSED_BYTES else 0
            self._pickled.append(zlib.compress(data, level))
        return _unpickled_changes, (self._pickled[0],)


_CHANGES: Final = frozenset(each.name for each in fields(TableChanges) if each.compare)


def _unpickled_changes(data: bytes) -> TableChanges:
    values = pickle.loads(zlib.decompress(data))  # noqa: S301 - a part of what Ray has unpickled
    # A controller of another release may say more than is known here.
    return TableChanges(**{name: value for name, value in values.items() if name in _CHANGES})


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """What the controller answers a router that polls.

    Attributes:
        changes: What has changed since the version the router has; None when nothing has.
        report_number: The router's next poll carries a report when this has grown, and the number.
    """

    changes: TableChanges | None
    report_number: int


evolves(InstanceEndpoint, ModelVersion, Model, PollAnswer)


def lookup_error(table: RoutingTable, name: str, version: int = -1) -> TritonError:
    """Build the error of a request for a model that is not ready.

    Args:
        table: Where it was looked for.
        name: Model asked for, by key or by name.
        version: Version asked for; negative for the newest.

    Without a table, of version 0, nothing can be said of any model.

    Triton: core/src/model_repository_manager/model_repository_manager.cc GetModel,
    FindModelIdentifier @73aad7c
    """
    if not table.version:
        return UnavailableError(
            f"whether there is a model '{shown(name)}' is not known yet: this process has not heard"
            " of the controller; the request was not executed, try again"
        )
    if table.has_namespaces and name not in table.models:
        keys = table.keys_named(name)
        if len(keys) != 1:
            return _identifier_error(table, name, len(keys))
        name = keys[0]
    unknown = f"Request for unknown model: '{shown(name)}'"
    model = table.models.get(name)
    if model is None:
        return NotFoundError(f"{unknown} is not found")
    if version < 0:
        return NotFoundError(f"{unknown} has no available versions")
    if all(entry.version != version for entry in model.versions):
        return NotFoundError(f"{unknown} version {version} is not found")
    return UnavailableError(f"{unknown} version {version} is not at ready state")


def _identifier_error(table: RoutingTable, name: str, count: int) -> TritonError:
    """Build the error of a name that several models have, or none."""
    if count:
        return InvalidArgumentError(
            f"There are {count} identifiers of model '{name}' in global map, model namespace must "
            "be provided to resolve ambiguity."
        )
    if any(name_of(key) == name for key in table.models):
        return NotFoundError(f"Identifier of model '{name}' is not found in global map")
    return InvalidArgumentError(f"Request for unknown model: '{shown(name)}' is not found")
