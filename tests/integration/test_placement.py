# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where instances are on a real Ray of three nodes on one machine: two in zone x, one in zone y."""

import asyncio
import contextlib
import json
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from backends.api.errors import UnavailableError
from cluster.actors.controller_client import ControllerClient, connect_controller
from cluster.controller.ownership import Owner
from cluster.options.parsing import parse_options
from cluster.server.start_controller import get_or_create_controller
from deployments.instance.spec import NAMESPACE
from tests.support.model_folders import write_folder
from tests.support.ray_nodes import STORE_BYTES, started_head
from tests.support.server import ROOT

CONFIG = """
backend: "identity"
input [{ name: "IN" data_type: TYPE_FP32 dims: [1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [1] }]
"""
NODES = ({"zone": "x"}, {"zone": "x", "disk": "nvme"}, {"zone": "y"})
ON_NVME = {"placement.labels": '{"disk": "nvme"}'}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        arguments = {"num_cpus": 2, "object_store_memory": STORE_BYTES}
        started = started_head(**arguments, labels=NODES[0])
        for labels in NODES[1:]:
            started.add_node(**arguments, labels=labels)
        started.wait_for_nodes()
        yield started
        ray.shutdown()
        started.shutdown()


@pytest.fixture(scope="module")
def controller(cluster: Cluster, folder: Path) -> Any:
    ray.init(address=cluster.address, namespace=NAMESPACE, log_to_driver=False)
    arguments = [f"--model-repository={folder}", "--exit-timeout-secs=5"]
    options = parse_options([*arguments, "--model-control-mode=explicit"], {}, Path.read_text)
    handle = get_or_create_controller(options, Owner("test"))
    ray.get(handle.start.remote(), timeout=120)
    return handle


@pytest.fixture
def client(controller: Any) -> ControllerClient:
    return connect_controller()


def write_model(folder: Path, name: str, count: int = 1, **parameters: object) -> None:
    rows = "".join(
        f"parameters {{ key: {json.dumps(key)} value {{ string_value: {json.dumps(str(text))} }} }}"
        for key, text in parameters.items()
    )
    group = f"instance_group {{ kind: KIND_CPU count: {count} }}"
    write_folder(folder, name, f"{CONFIG}{group}{rows}")


def labels_of_nodes() -> dict[str, dict[str, str]]:
    return {node["NodeID"]: node["Labels"] for node in ray.nodes() if node["Alive"]}


async def nodes_of(client: ControllerClient, model: str) -> list[dict[str, str]]:
    """Return the labels of the node of each live instance."""
    (row,) = await client.explain(model)
    labels = labels_of_nodes()
    return [labels[each["node"]["id"]] for each in row["instances"] if "node" in each]


async def until(holds: Callable[[], Awaitable[bool]], within_s: float = 60) -> None:
    async with asyncio.timeout(within_s):
        while not await holds():  # noqa: ASYNC110 - another process makes it hold
            await asyncio.sleep(0.2)


async def load(client: ControllerClient, model: str) -> None:
    """Load a model; wait for room that Ray gives back only after what had it has gone."""
    with contextlib.suppress(UnavailableError):
        await client.load(model, {})

    async def is_live() -> bool:
        (row,) = await client.explain(model)
        return all(each["state"] == "live" for each in row["instances"])

    await until(is_live)


async def reason_of(client: ControllerClient, model: str) -> str:
    (row,) = await client.explain(model)
    return str(row["reason"])


async def test_instances_of_a_version_are_spread_over_zones_and_nodes(
    client: ControllerClient, folder: Path
) -> None:
    write_model(folder, "spread", 4, **{"placement.spread_over": "zone"})
    await load(client, "spread")
    found = await nodes_of(client, "spread")
    assert Counter(labels["zone"] for labels in found) == {"x": 2, "y": 2}
    assert Counter(labels.get("disk", "") for labels in found) == {"": 3, "nvme": 1}
    await client.unload("spread", unload_dependents=False)


async def test_instances_that_pack_are_on_one_node(client: ControllerClient, folder: Path) -> None:
    write_model(folder, "packed", 4, **{"placement.strategy": "pack"})
    await load(client, "packed")
    assert len({str(labels) for labels in await nodes_of(client, "packed")}) == 1
    await client.unload("packed", unload_dependents=False)


async def test_pinned_instances_are_on_their_node(client: ControllerClient, folder: Path) -> None:
    (pinned,) = (node for node, labels in labels_of_nodes().items() if labels["zone"] == "y")
    write_model(folder, "pinned", 2, **{"placement.nodes": pinned})
    await load(client, "pinned")
    assert [labels["zone"] for labels in await nodes_of(client, "pinned")] == ["y", "y"]
    await client.unload("pinned", unload_dependents=False)


async def test_a_gang_has_its_group_as_long_as_it_lives(
    client: ControllerClient, controller: Any, folder: Path
) -> None:
    bundles = {
        "placement.bundles": '[{"CPU": 1}, {"CPU": 1}]',
        "placement.bundle_strategy": "STRICT_SPREAD",
    }
    write_model(folder, "gang", 1, **bundles)
    await load(client, "gang")

    def groups() -> list[dict[str, Any]]:
        table = ray.util.placement_group_table().values()
        return [group for group in table if group["state"] != "REMOVED"]

    (group,) = groups()
    assert group["name"].startswith("manta:gang/1#0@")
    assert len(set(group["bundles_to_node_id"].values())) == 2

    pid = await controller.__ray_call__.remote(lambda _: os.getpid())
    os.kill(pid, signal.SIGKILL)

    async def is_back() -> bool:
        try:
            (row,) = await connect_controller().explain("gang")
        except Exception:
            return False
        return [each["state"] for each in row["instances"]] == ["live"]

    await until(is_back)
    assert [each["placement_group_id"] for each in groups()] == [group["placement_group_id"]]
    await connect_controller().unload("gang", unload_dependents=False)

    async def is_gone() -> bool:
        return not groups()

    await until(is_gone)


async def test_an_instance_of_a_high_priority_has_an_idle_one_make_room(
    client: ControllerClient, folder: Path
) -> None:
    write_model(folder, "low", 1, ray_num_cpus=2, **ON_NVME)
    write_model(folder, "high", 1, ray_num_cpus=2, **ON_NVME, **{"placement.priority": 5})
    await load(client, "low")
    with pytest.raises(UnavailableError, match="pending"):
        await client.load("high", {})
    (row,) = await client.explain("high")
    (waiting,) = row["instances"]
    assert any("of a lower priority would make room" in step for step in waiting["unblock"])

    async def has_room() -> bool:
        return [labels.get("disk") for labels in await nodes_of(client, "high")] == ["nvme"]

    await until(has_room)

    async def waits() -> bool:
        return "waiting for resources" in await reason_of(client, "low")

    await until(waits)
    await client.unload("high", unload_dependents=False)

    async def is_back() -> bool:
        return len(await nodes_of(client, "low")) == 1

    await until(is_back)
    await client.unload("low", unload_dependents=False)


async def test_labels_that_no_node_has_are_demand_until_one_has_them(
    client: ControllerClient, cluster: Cluster, folder: Path
) -> None:
    write_model(folder, "late", 1, **{"placement.labels": '{"zone": "z"}'})
    with pytest.raises(UnavailableError, match="waiting for a node with the labels zone=z"):
        await client.load("late", {})
    cluster.add_node(num_cpus=2, object_store_memory=STORE_BYTES, labels={"zone": "z"})

    async def is_there() -> bool:
        return [labels["zone"] for labels in await nodes_of(client, "late")] == ["z"]

    await until(is_there)
