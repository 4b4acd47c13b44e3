# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Of all free MIG devices the best is found without looking at all of them."""

from dataclasses import replace
from random import Random

import pytest

from backends.api.model_config import InstanceGroup
from cluster.devices.inventory import Gpu, MigDevice
from cluster.placement.demand import Waits
from cluster.placement.devices import Admission, assign_device
from cluster.placement.leases import Leases
from tests.support.gpu_clusters import GB, cluster, lease, mig_gpu, specs_of

ON_FIRST = InstanceGroup("g", "KIND_GPU", 1, gpus=(0,))


def random_gpu(random: Random, node: str, index: int) -> Gpu:
    profiles = random.choices(("1g.10gb", "2g.20gb"), k=random.randint(0, 4))
    gpu = mig_gpu(index, *profiles, node=node)
    parts = [replace(x, used_bytes=random.choice((None, 0, 4 * GB))) for x in gpu.mig_devices]
    return replace(gpu, mig_devices=tuple(parts), is_mig=random.random() < 0.9)


@pytest.mark.parametrize("strategy", ["spread", "pack"])
@pytest.mark.parametrize("seed", range(40))
def test_the_device_chosen_is_the_best_of_all_that_are_free(seed: int, strategy: str) -> None:
    random = Random(seed)
    nodes = {n: tuple(random_gpu(random, n, at) for at in range(3)) for n in "abc"}
    busy = {"b": {"CPU": 0.0}} if random.random() < 0.3 else None
    there = cluster(nodes, available=busy)
    parameters = {"ray_resources": '{"mig_1g.10gb": 1}', "placement.strategy": strategy}
    (spec,) = specs_of(ON_FIRST, parameters, there=there)
    devices = [(n, gpu, x) for n, gpus in nodes.items() for gpu in gpus for x in gpu.mig_devices]
    held = random.sample(devices, len(devices) // 3)
    leases = Leases(
        {
            f"i{at}": lease(n, x.uuid, random.choice(("m", "n")), is_exclusive=True)
            for at, (n, _, x) in enumerate(held)
        }
    )
    needed = random.choice((0, 7 * GB))

    def is_free(gpu: Gpu, device: MigDevice) -> bool:
        has_room = device.used_bytes is None or needed <= 10 * GB - device.used_bytes
        is_held = any(device is each for _, _, each in held)
        return gpu.is_mig and device.profile == "1g.10gb" and has_room and not is_held

    sign = 1 if strategy == "spread" else -1

    def rank(node: str, gpu: Gpu, device: MigDevice) -> tuple[object, ...]:
        alike = sign * leases.instances_by_node("m").get(node, 0)
        free = 0 if device.used_bytes is None else 10 * GB - device.used_bytes
        return busy is not None and node in busy, alike, -sign * free, node, gpu.index, device.uuid

    free = [(n, gpu, x) for n, gpu, x in devices if is_free(gpu, x)]
    outcome = assign_device(spec, there, leases, Admission(needed))
    if free:
        assert not isinstance(outcome, Waits)
        assert outcome.device is not None
        assert outcome.device.uuid == min(free, key=lambda each: rank(*each))[2].uuid
    else:
        assert isinstance(outcome, Waits) or outcome.device is None
