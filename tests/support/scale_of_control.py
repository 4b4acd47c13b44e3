# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What happens in a cluster of any size, one event at a time, with the code that decides it.

Each function prepares a cluster and returns what is to be measured: a call for one event, which
returns the bytes that leave the process, if any. There is no Ray, no network and no clock.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Any, Final, cast

from backends.api.model_config import InstanceGroup, ModelConfig
from cluster.autoscaling.autoscaler import Autoscaler
from cluster.autoscaling.counts import InstanceCounts
from cluster.instances.device_leases import DeviceLeases, DeviceRules
from cluster.models.evacuation import Evacuation
from cluster.models.operated_model import OperatedModel
from cluster.models.records import Records
from cluster.models.states import index_rows, status_rows
from cluster.placement.demand import ClusterResources
from cluster.placement.devices import Admission, assign_device
from cluster.placement.leases import Leases
from cluster.placement.node_devices import NodeDevices
from cluster.placement.planner import instances_by_node, plan_pool
from cluster.placement.preemption import Devices, Occupant, to_displace
from cluster.residency.policy import ResidencyLimits, Resident, to_rest
from deployments.contracts.load_report import VersionLoad, encode_loads
from tests.support import large_cluster as made
from tests.support.large_cluster import GB, Event, Loop, Prepare, Size

_MIG: Final = {"ray_resources": '{"mig_1g.10gb": 1}'}
# A router that gets 1,000 requests a second, most of them for popular models, meets so many.
VERSIONS_PER_REPORT: Final = 300
_MS: Final = 1_000_000


# Placement


def plan(size: Size, loop: Loop) -> Event:
    """A pool is planned, by a look at the cluster that nobody has used yet."""
    resources, devices, config = made.resources(size), made.inventories(size), made.config(size, 1)
    return lambda: plan_pool(
        config, made.request(), ClusterResources(resources, devices).supported(6.0)
    )


def assign_gpu(size: Size, loop: Loop) -> Event:
    """An instance gets a GPU, where all models run, from what Ray and the nodes say."""
    resources, devices = made.resources(size), made.inventories(size)

    async def read(node_id: str) -> Any:
        return devices[node_id]

    reports = NodeDevices(read)
    found = DeviceLeases(lambda: reports.look(ClusterResources(resources)), reports)
    found.rules = DeviceRules(6.0, {0: 0.95})
    cast("Leases", found.leases).update(made.leases(size))
    there = made.cluster(size)
    numbers = iter(range(1, size.models))

    async def assign() -> None:
        spec = plan_pool(made.config(size, next(numbers)), made.request(2), there)[0]
        await found.wait_assigned(spec, lambda _: None)
        found.release(spec.name)

    # From here on the nodes' reports are known.
    loop.run_until_complete(assign())
    return lambda: loop.run_until_complete(assign())


def _mig_event(size: Size, leases: Leases) -> Event:
    there = made.cluster(size, is_mig=True)
    spec = plan_pool(made.config(size, 1, _MIG), made.request(), there)[0]
    return lambda: assign_device(spec, there, leases, Admission())


def assign_mig(size: Size, loop: Loop) -> Event:
    """An instance gets the last MIG device of 56 on each node that nobody has."""
    return _mig_event(size, Leases(made.mig_leases(size)))


def assign_idle_mig(size: Size, loop: Loop) -> Event:
    """An instance gets a MIG device where nobody has any."""
    return _mig_event(size, Leases())


def displace(size: Size, loop: Loop) -> Event:
    """It is found who makes room for one that waits, with 8 idle instances on each node."""
    resources = [replace(each, available={"CPU": 0.0}) for each in made.resources(size)]
    there = ClusterResources(tuple(resources))
    wants = {"ray_num_cpus": "12", "placement.priority": "9"}
    (claim,) = plan_pool(_on_cpu("claim", wants), made.request(), there)
    idle = []
    for at, node in enumerate(resources):
        for index in range(8):
            name, priority = f"n{at:04}_{index}", {"placement.priority": str(index % 3)}
            config = _on_cpu(name, {"ray_num_cpus": "8", **priority})
            (spec,) = plan_pool(config, made.request(), there)
            idle.append(Occupant(spec, node.node_id, index % 3))
    return lambda: to_displace(claim, there, idle, Devices())


def _on_cpu(name: str, parameters: dict[str, str]) -> ModelConfig:
    group = InstanceGroup("g", "KIND_CPU", 1)
    return ModelConfig(name, instance_group=(group,), parameters=parameters)


def resize(size: Size, loop: Loop) -> Event:
    """It is decided which instances of a version rather stay."""
    records = _records(size)
    return lambda: instances_by_node(records.all_endpoints())


class _NothingServes:
    candidate = None
    pools = MappingProxyType[int, object]({})


def drain(size: Size, loop: Loop) -> Event:
    """A node drains: the versions with instances there are found, and each has a plan."""
    records = _records(size)
    there = made.cluster(size)

    begun: list[asyncio.Task[None]] = []

    def followed(work: asyncio.Task[None]) -> asyncio.Task[None]:
        begun.append(work)
        return work

    # Nothing is in the version's pool, so that no move goes on.
    model = OperatedModel(cast("Any", _NothingServes()), followed)
    nodes = iter(range(size.nodes))

    async def look() -> None:
        evacuation = Evacuation(records, lambda _: model, followed)
        evacuation.look({made.node_id(next(nodes))})
        await asyncio.gather(*begun)

    def event() -> None:
        begun.clear()
        loop.run_until_complete(look())
        for at in range(len(begun)):
            plan_pool(made.config(size, at), made.request(), there)

    return event


# Load


def _records(size: Size) -> Records:
    records = Records(lambda _: None)
    for record in made.records(size).values():
        records.note(record)
    return records


class _Models:
    """The models, as the autoscaler knows them; what it wants done is done at once."""

    def __init__(self, size: Size) -> None:
        self._records = _records(size)
        self.records = self._records.by_name
        self.desire = self._records.desire

    async def resize(self, name: str, version: int, count: int) -> bool:
        return True

    def pool_of(self, name: str, version: int) -> None:
        return None


def report_of(size: Size, router: int) -> bytes:
    """Return what one router tells after a second: a Zipf-like choice of versions."""
    random = Random(router)
    models = {int(size.models ** random.random()) - 1 for _ in range(2 * VERSIONS_PER_REPORT)}
    chosen = sorted(models)[:VERSIONS_PER_REPORT]
    return encode_loads(
        [VersionLoad(made.model_name(each), 1, random.random(), 3.0) for each in chosen]
    )


def _autoscaler(size: Size, loop: Loop) -> Autoscaler:
    def spawn(_: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return loop.create_task(work)

    seconds = iter(range(1_000_000))
    return Autoscaler(
        cast("Any", _Models(size)),
        InstanceCounts(),
        spawn,
        lambda *_: True,
        lambda: float(next(seconds) // 64),
    )


def take_report(size: Size, loop: Loop) -> Event:
    """The autoscaler takes what one router tells."""
    scaler = _autoscaler(size, loop)
    reports = [report_of(size, router) for router in range(64)]
    numbers = iter(range(1_000_000))

    def event() -> int:
        router = next(numbers) % len(reports)
        scaler.take(f"{router}", reports[router])
        return len(reports[router])

    return event


def _looking(size: Size, loop: Loop) -> Autoscaler:
    """Return an autoscaler that has looked once, and has the reports of a router on each node."""
    scaler = _autoscaler(size, loop)
    for router in range(size.nodes):
        scaler.take(f"{router}", report_of(size, router))
    for _ in scaler.look():
        pass
    loop.run_until_complete(asyncio.sleep(0))
    return scaler


def autoscale(size: Size, loop: Loop) -> Event:
    """The autoscaler looks at all versions once, in parts; all of them autoscale."""
    scaler = _looking(size, loop)
    return lambda: list(scaler.look())


def autoscale_part(size: Size, loop: Loop) -> Event:
    """One part of that, in which the controller does nothing else."""
    scaler = _looking(size, loop)
    return lambda: next(scaler.look(), None)


def _residents(size: Size) -> list[Resident]:
    return [
        Resident(
            (made.model_name(model), 1),
            float(model),
            sizes_bytes={
                made.node_id(made.node_of(size, model, at)): GB for at in range(size.instances)
            },
        )
        for model in Random(1).sample(range(size.models), size.models)
    ]


def _rest_event(size: Size, full: Iterable[int]) -> Event:
    residents = _residents(size)
    there = size.models_per_node * size.instances
    nodes_bytes = {made.node_id(node): 2 * there * GB for node in range(size.nodes)}
    nodes_bytes |= {made.node_id(node): there * GB for node in full}
    return lambda: to_rest(residents, nodes_bytes, ResidencyLimits(), 1e9)


def rest_one_node(size: Size, loop: Loop) -> Event:
    """One node is full: versions come to rest."""
    return _rest_event(size, [0])


def rest_all_nodes(size: Size, loop: Loop) -> Event:
    """All nodes are full at once: versions come to rest."""
    return _rest_event(size, range(size.nodes))


# Lists


def index(size: Size, loop: Loop) -> Event:
    """A client asks for the index of the repository."""
    records = made.records(size)
    return lambda: index_rows(records, list(records), (), ready_only=False)


def status(size: Size, loop: Loop) -> Event:
    """The status of all models is asked for."""
    records = made.records(size)
    return lambda: status_rows(records)


EVENTS: Final[tuple[Prepare, ...]] = (
    plan,
    assign_gpu,
    assign_mig,
    assign_idle_mig,
    displace,
    resize,
    drain,
    take_report,
    autoscale,
    autoscale_part,
    rest_one_node,
    rest_all_nodes,
    index,
    status,
)
