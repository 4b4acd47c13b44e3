# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The records of all models, who hears of their changes, and what pools say for them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from backends.api.model_identifier import name_of
from cluster.instances.pool import InstancePool
from cluster.models.states import LifecycleEvent, ModelRecord, VersionRecord
from deployments.contracts.routing_table import (
    UNLOADED_REASON,
    InstanceEndpoint,
    ModelReadyState,
)


class Records:
    """The records.

    Args:
        on_change: Called with the model's key after each change that routers shall hear of.

    Attributes:
        by_name: The records by the model's key.
    """

    def __init__(self, on_change: Callable[[str], None]) -> None:
        self.by_name: dict[str, ModelRecord] = {}
        self._on_change = on_change

    def of(self, name: str) -> ModelRecord:
        """Return a model's record; one of a model nobody has heard of when there is none."""
        return self.by_name.get(name) or ModelRecord(name)

    def put(self, record: ModelRecord) -> None:
        """Put a record in the place of the one it was made from."""
        self.by_name[record.name] = record
        self._on_change(record.name)

    def note(self, record: ModelRecord) -> None:
        """As `put`, of a change that routers need not hear of."""
        self.by_name[record.name] = record

    def put_version(self, name: str, record: VersionRecord) -> None:
        """Put the record of a version."""
        self.put(self.of(name).with_version(record))

    def desire(self, name: str, version: int, count: int | None) -> None:
        """Note how many instances a version shall have; None: it does not autoscale any more."""
        known = self.of(name).versions.get(version)
        if known is not None and known.desired_instances != count:
            self.put_version(name, replace(known, desired_instances=count))

    def direct(self, name: str, traffic: bytes) -> None:
        """Note which version answers requests that name none; see `Model.traffic`."""
        record = self.of(name)
        if record.traffic != traffic:
            self.put(replace(record, traffic=traffic))

    def event(self, name: str, version: int, event: LifecycleEvent, reason: str = "") -> None:
        """Note what happened to a version.

        Raises:
            KeyError: It is illegal in the version's state.
        """
        record = self.of(name)
        before = record.versions.get(version, VersionRecord(version))
        self.put(record.with_version(before.after(event, reason)))

    def all_endpoints(self) -> Iterator[InstanceEndpoint]:
        """Return where the live instances of all models listen."""
        for record in self.by_name.values():
            for version in record.versions.values():
                yield from version.instances

    def ready_keys(self, name: str) -> tuple[str, ...]:
        """Return the keys of the models of a name that have a ready version."""
        return tuple(
            key
            for key, record in self.by_name.items()
            if name_of(key) == name and record.ready_versions
        )

    def restore_unloaded(self, name: str, versions: Iterable[int]) -> None:
        """Note versions an earlier controller had unloaded."""
        record = replace(self.of(name), is_known=True)
        for version in versions:
            if version not in record.versions:
                unloaded = VersionRecord(version, ModelReadyState.UNAVAILABLE, UNLOADED_REASON)
                record = record.with_version(unloaded)
        self.put(record)

    def reasons(self, name: str) -> str:
        """Return what the versions of a model wait for."""
        versions = self.of(name).versions.values()
        return "; ".join(record.reason for record in versions if record.reason)


def serves(record: VersionRecord, pool: InstancePool) -> bool:
    """Whether a version can serve; an ensemble does without instances, in its caller."""
    config = record.config
    return pool.is_live or (config is not None and config.has_ensemble_scheduling)


def seen(record: VersionRecord, pool: InstancePool) -> VersionRecord:
    """Return the record with what a pool says of its instances."""
    is_serving = serves(record, pool)
    is_dormant = record.is_dormant and not is_serving
    if record.is_ready and not (is_serving or is_dormant):
        record = record.after(LifecycleEvent.INSTANCES_LOST)
    elif record.state is ModelReadyState.UNAVAILABLE and is_serving:
        record = record.after(LifecycleEvent.RECOVERED)
    return replace(
        record,
        reason=pool.reason,
        instances=pool.endpoints,
        leaving=pool.leaving,
        past=dict(pool.past),
        is_dormant=is_dormant,
    )
