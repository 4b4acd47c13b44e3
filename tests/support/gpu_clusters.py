# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Clusters with GPUs, and what asks for them, as data."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from backends.api.model_config import InstanceGroup, ModelConfig
from cluster.devices.inventory import Gpu, Inventory, MigDevice
from cluster.placement.demand import ClusterResources, NodeResources
from cluster.placement.leases import Lease
from cluster.placement.planner import PoolRequest, plan_pool
from deployments.instance.spec import DeviceAssignment, InstanceSpec

GB = 1 << 30
TOTAL = 80 * GB


def gpu(index: int, node: str = "a", used: int = 0, **fields: Any) -> Gpu:
    made = Gpu(index, index, f"GPU-{node}{index}", "H100", TOTAL, used, (9, 0))
    return replace(made, **fields)


def mig_gpu(index: int, *profiles: str, node: str = "a") -> Gpu:
    parts = tuple(
        MigDevice(f"MIG-{node}{index}{n}", profile, 10 * GB, 0)
        for n, profile in enumerate(profiles)
    )
    return gpu(index, node, is_mig=True, mig_devices=parts)


def cluster(
    nodes: Mapping[str, tuple[Gpu, ...]],
    more: Mapping[str, float] | None = None,
    available: Mapping[str, Mapping[str, float]] | None = None,
) -> ClusterResources:
    """Return nodes with these GPUs; ``more`` are resources that each offers to Ray."""
    rows = []
    for name, gpus in nodes.items():
        total = {"CPU": 8, "GPU": len(gpus), **(more or {})}
        rows.append(NodeResources(name, total, (available or {}).get(name, total)))
    return ClusterResources(tuple(rows), {name: Inventory(gpus) for name, gpus in nodes.items()})


EIGHT = cluster({"a": tuple(gpu(n) for n in range(8))})


def specs_of(
    group: InstanceGroup,
    parameters: Mapping[str, str] | None = None,
    name: str = "m",
    there: ClusterResources = EIGHT,
) -> tuple[InstanceSpec, ...]:
    """Return the instances of a model with one group."""
    config = ModelConfig(name, instance_group=(group,), parameters=dict(parameters or {}))
    request = PoolRequest(
        generation=1, version=1, model_dir="/m", options_digest=f"digest of {name}"
    )
    return plan_pool(config, request, there)


def lease(
    node: str, uuid: str, model: str = "n", *, is_exclusive: bool = False, **bytes_: int
) -> Lease:
    return Lease(DeviceAssignment(node, uuid, 0, is_exclusive=is_exclusive), model, **bytes_)
