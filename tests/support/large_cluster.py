# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Clusters of any size as data: nodes with eight GPUs, and models with two instances for each."""

import asyncio
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from typing import TypeVar

from backends.api.model_config import (
    DynamicBatching,
    InstanceGroup,
    ModelConfig,
    ModelInput,
    ModelOutput,
)
from cluster.devices.inventory import Gpu, Inventory, MigDevice
from cluster.models.states import LifecycleEvent, ModelRecord, VersionRecord
from cluster.placement.demand import ClusterResources, NodeResources
from cluster.placement.leases import Lease
from cluster.placement.planner import PoolRequest
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.spec import DeviceAssignment
from tests.support.virtual_time import VirtualTimeLoop

T = TypeVar("T")

GB = 1 << 30
AUTOSCALING = {
    "autoscaling.min_instances": "1",
    "autoscaling.max_instances": "16",
    "autoscaling.target_ongoing_requests": "4",
}


@dataclass(frozen=True, slots=True)
class Size:
    """How large a cluster is.

    Attributes:
        nodes: Nodes.
        gpus_per_node: GPUs of each.
        models_per_node: Models, by node.
        instances: Of each model.
    """

    nodes: int
    gpus_per_node: int = 8
    models_per_node: int = 20
    instances: int = 2

    @property
    def models(self) -> int:
        return self.nodes * self.models_per_node

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


@cache
def node_id(node: int) -> str:
    """Return an id as long as those of Ray, and as random."""
    return _random_hex(f"node {node}", 28)


def _random_hex(what: str, size_bytes: int) -> str:
    return blake2b(what.encode(), digest_size=size_bytes).hexdigest()


def model_name(model: int) -> str:
    return f"text_classifier_{model:06d}"


def node_of(size: Size, model: int, instance: int) -> int:
    """Return where an instance is: a model's instances are on different nodes."""
    return (model + instance * 7919) % size.nodes


def config(size: Size, model: int, parameters: Mapping[str, str] = AUTOSCALING) -> ModelConfig:
    device = model // size.nodes % size.gpus_per_node
    return ModelConfig(
        model_name(model),
        backend="onnxruntime",
        max_batch_size=32,
        input=(ModelInput("input_ids", "INT64", (-1,)), ModelInput("mask", "INT64", (-1,))),
        output=(ModelOutput("logits", "FP32", (1000,)),),
        dynamic_batching=DynamicBatching((8, 16), 500),
        instance_group=(InstanceGroup("gpu", "KIND_GPU", size.instances, (device,)),),
        parameters=dict(parameters),
    )


def request(version: int = 1) -> PoolRequest:
    return PoolRequest(
        generation=1, version=version, model_dir="/models/m/1", options_digest="d" * 64
    )


def mig_parts(node: int, index: int) -> tuple[MigDevice, ...]:
    return tuple(
        MigDevice(f"MIG-{node:08x}-{index:04x}-{part:04x}", "1g.10gb", 10 * GB, 0)
        for part in range(7)
    )


def gpus(size: Size, node: int, *, is_mig: bool = False) -> Iterator[Gpu]:
    for at in range(size.gpus_per_node):
        yield Gpu(
            at,
            at,
            f"GPU-{node:08x}-{at:04x}",
            "H100",
            80 * GB,
            20 * GB,
            (9, 0),
            is_mig=is_mig,
            mig_devices=mig_parts(node, at) if is_mig else (),
        )


def resources(size: Size) -> tuple[NodeResources, ...]:
    """Return what Ray says of the nodes."""
    found = []
    for node in range(size.nodes):
        total = {"CPU": 64.0, "GPU": float(size.gpus_per_node), f"node:10.0.{node}.1": 1.0}
        found.append(NodeResources(node_id(node), total, dict(total)))
    return tuple(found)


def inventories(size: Size, *, is_mig: bool = False) -> dict[str, Inventory]:
    """Return what the nodes say of their GPUs."""
    return {
        node_id(node): Inventory(tuple(gpus(size, node, is_mig=is_mig)))
        for node in range(size.nodes)
    }


def cluster(size: Size, *, is_mig: bool = False) -> ClusterResources:
    return ClusterResources(resources(size), inventories(size, is_mig=is_mig))


def leases(size: Size) -> dict[str, Lease]:
    """Return who has which GPU, where all models run."""
    found = {}
    for model in range(size.models):
        at = model // size.nodes % size.gpus_per_node
        for instance in range(size.instances):
            node = node_of(size, model, instance)
            device = DeviceAssignment(node_id(node), f"GPU-{node:08x}-{at:04x}", at)
            found[f"{model_name(model)}/1#{instance}@1"] = Lease(device, model_name(model), GB, GB)
    return found


def mig_leases(size: Size) -> dict[str, Lease]:
    """Return who has which MIG device, where one on the last node is left."""
    found = {}
    for node in range(size.nodes):
        for at in range(size.gpus_per_node):
            for part in mig_parts(node, at):
                device = DeviceAssignment(node_id(node), part.uuid, at, is_exclusive=True)
                found[f"{part.uuid}/1#0@1"] = Lease(device, part.uuid)
    found.popitem()
    return found


def endpoint(size: Size, model: int, instance: int) -> InstanceEndpoint:
    node = node_of(size, model, instance)
    incarnation = _random_hex(f"{model} {instance}", 16)
    return InstanceEndpoint(
        f"{model_name(model)}/1#{instance}",
        incarnation,
        node_id(node),
        f"\0manta/{incarnation}",
        (f"10.{node >> 16}.{node >> 8 & 255}.{node & 255}", 20000 + model % 40000),
    )


def record(size: Size, model: int, *, instances: int | None = None) -> ModelRecord:
    """Return the record of a model that is in service."""
    count = size.instances if instances is None else instances
    version = VersionRecord(1).after(LifecycleEvent.LOAD).after(LifecycleEvent.LOADED)
    version = version.serving(config(size, model), 1_000_000_000, _random_hex(f"{model}", 32))
    version = replace(version, instances=tuple(endpoint(size, model, at) for at in range(count)))
    return ModelRecord(model_name(model), is_known=True).with_version(version)


def records(size: Size) -> dict[str, ModelRecord]:
    """Return the records of all models, all of which are in service."""
    return dict(_records(size))


@cache
def _records(size: Size) -> Mapping[str, ModelRecord]:
    return {model_name(model): record(size, model) for model in range(size.models)}


def restarted(known: ModelRecord, instance: int) -> ModelRecord:
    """Return a record of which one instance has another process."""
    version = known.versions[1]
    endpoints = list(version.instances)
    old = endpoints[instance]
    incarnation = _random_hex(old.incarnation, 16)
    uds = f"\0manta/{incarnation}"
    endpoints[instance] = replace(old, incarnation=incarnation, uds=uds)
    return known.with_version(replace(version, instances=tuple(endpoints)))


# An event in a cluster of any size: how it is prepared, and what its message takes.

# Where it sends a message it returns how many bytes that has.
Event = Callable[[], object]
Loop = asyncio.AbstractEventLoop
Prepare = Callable[[Size, Loop], Event]


class _Loop(VirtualTimeLoop):
    """Its clock jumps; what blocks is done at once, on threads whose time is not the loop's."""

    def run_in_executor(
        self, executor: object, func: Callable[..., T], *args: object
    ) -> "asyncio.Future[T]":
        done: list[asyncio.Future[T]] = []
        begin = super().run_in_executor
        thread = threading.Thread(target=lambda: done.append(begin(executor, func, *args)))
        thread.start()
        thread.join()
        return done[0]


@contextmanager
def prepared(prepare: Prepare, size: Size) -> Iterator[Callable[[], int]]:
    """Prepare a cluster for as long as its event is measured."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        event = prepare(size, runner.get_loop())
        yield lambda: sent if isinstance(sent := event(), int) else 0


def size_of(message: object) -> int:
    """Return what a message has as Ray sends it."""
    return len(pickle.dumps(message, protocol=5))
