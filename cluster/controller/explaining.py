# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Answers which instances there are, and why they are where they are, or what they wait for."""

from collections.abc import Iterator, Mapping
from typing import Any

from backends.api.errors import NotFoundError
from backends.api.model_identifier import name_of, shown
from cluster.controller.host import Nodes
from cluster.instances.placer import Placer
from cluster.models.lifecycle import ModelLifecycle
from cluster.placement.demand import ClusterResources
from cluster.placement.explanation import (
    InstanceStatus,
    Situation,
    explain_instance,
    node_name,
)
from cluster.placement.preemption import Devices, Occupant, priority_of

Row = dict[str, Any]


async def explain(name: str, nodes: Nodes, placer: Placer, lifecycle: ModelLifecycle) -> list[Row]:
    """Return one row for each version of a model, with its instances.

    Raises:
        NotFoundError: There is no such model.
    """
    keys = [key for key in sorted(lifecycle.records) if name_of(key) == name]
    if not keys:
        raise NotFoundError(
            f"model '{name}' is not known to the controller; the repository index has all that are"
        )
    cluster = await nodes.read_cluster()
    occupants = list(_occupants(lifecycle))
    leases = placer.devices.leases
    rows: list[Row] = []
    for key in keys:
        record = lifecycle.records[key]
        if not record.versions:
            rows.append({"model": shown(key), "reason": record.failure, "instances": []})
        for number, version in sorted(record.versions.items()):
            statuses = list(_statuses(key, number, placer, lifecycle))
            devices = {
                each.spec.name: Devices(leases, placer.devices.admission(each.spec))
                for each in statuses
            }
            now = Situation(cluster, occupants, devices)
            rows.append(
                {
                    "model": shown(key),
                    "version": number,
                    "state": version.state.value,
                    "reason": version.reason or ("dormant" if version.is_dormant else ""),
                    "instances": [explain_instance(each, now) for each in statuses],
                }
            )
    return rows


async def instances(nodes: Nodes, placer: Placer, lifecycle: ModelLifecycle) -> list[Row]:
    """Return one row for each instance of all models, those that wait or leave included."""
    cluster = await nodes.read_cluster()
    return [
        _instance(key, number, each, cluster)
        for key, record in sorted(lifecycle.records.items())
        for number in sorted(record.versions)
        for each in _statuses(key, number, placer, lifecycle)
    ]


def _instance(key: str, version: int, status: InstanceStatus, cluster: ClusterResources) -> Row:
    device = status.spec.device
    return {
        "model": name_of(key),
        "version": str(version),
        "name": status.spec.title,
        "state": status.state,
        "reason": status.reason,
        "node": node_name(status.node_id, cluster) if status.node_id else "",
        "node_id": status.node_id,
        "device": status.spec.kind if device is None else f"GPU {device.index} ({device.uuid})",
        "pid": status.pid or None,
        "restarts": status.restarts,
    }


def _statuses(
    key: str, version: int, placer: Placer, lifecycle: ModelLifecycle
) -> Iterator[InstanceStatus]:
    pool = lifecycle.pool_of(key, version)
    told: Mapping[str, InstanceStatus] = (
        {} if pool is None else {each.spec.name: each for each in pool.places}
    )
    yield from told.values()
    # Those of a first load are not in service yet.
    for name, waiting in placer.waiting.items():
        spec = waiting.spec
        if name not in told and (spec.model_key, spec.version) == (key, version):
            yield InstanceStatus(spec, reason=f"instance {name} is {waiting.reason}")


def _occupants(lifecycle: ModelLifecycle) -> Iterator[Occupant]:
    for _, _, pool in lifecycle.pools():
        for each in pool.places:
            if each.node_id:
                yield Occupant(each.spec, each.node_id, priority_of(each.spec))
