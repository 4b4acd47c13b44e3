# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster of several nodes of Ray, each with a cache of its own, that serves a large model."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import tritonclient.http as triton_http
from ray._raylet import GcsClient
from ray.cluster_utils import Cluster
from ray.experimental.internal_kv import _initialize_internal_kv, _internal_kv_reset

from cluster.actors.file_registry import Rows
from cluster.repository.stores.contracts import Store
from tests.stores.test_servers import CODE, CONFIG, ask
from tests.support.file_sources import random_bytes
from tests.support.gates import takes_minutes
from tests.support.object_stores import Emulator
from tests.support.server import RunningServer, titled, until
from tests.support.store_faults import require_whole

pytestmark = [
    takes_minutes,
    # Of aiohttp, of what a test writes.
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),
]

NODES = 4
# Of several files: the emulator reads all of one for each part of it.
_FILE_BYTES = 20 << 20
_STORE_BYTES = 100 << 20


@dataclass(frozen=True)
class Nodes:
    """The cluster, and the folders in which its nodes' caches are."""

    cluster: Cluster
    folder: Path

    def caches(self) -> list[Path]:
        return [*self.folder.glob("node-*/manta-model-cache-*")]

    def fetchers(self) -> list[psutil.Process]:
        """Return the processes that fetch files of models."""
        raylets = [each for each in psutil.Process().children() if each.name() == "raylet"]
        workers = [worker for each in raylets for worker in each.children(recursive=True)]
        return titled(workers, "ray::NodeFilesActor")


@pytest.fixture(scope="module")
def nodes(
    emulators: dict[str, Emulator], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nodes]:
    """Nodes that share nothing: caches lie in the system's folder for temporary files."""
    root = tmp_path_factory.mktemp("nodes")
    started = Cluster()
    for number in range(NODES):
        folder = root / f"node-{number}"
        folder.mkdir()
        started.add_node(
            num_cpus=2,
            dashboard_port=None,
            resources={"slot": 1},
            object_store_memory=_STORE_BYTES,
            env_vars={"TMPDIR": str(folder), **emulators["s3"].environ},
        )
    _initialize_internal_kv(GcsClient(address=started.address))
    yield Nodes(started, root)
    _internal_kv_reset()
    started.shutdown()


@pytest.fixture
def emulator(emulators: dict[str, Emulator]) -> Iterator[Emulator]:
    running = emulators["s3"]
    running.proxy.heal()
    yield running
    running.opened.close()


def put(store: Store, files: int, seed: int) -> None:
    for number in range(files):
        store.write(f"large/1/{number}.bin", random_bytes(_FILE_BYTES, seed + number))
    store.write("large/1/weights.txt", b"1")
    store.write("large/1/model.py", CODE.encode())


def put_config(store: Store, instances: int) -> None:
    """Have as many instances as this, of which each node takes one."""
    store.write(
        "large/config.pbtxt",
        f"""{CONFIG}
        instance_group {{ count: {instances} kind: KIND_CPU }}
        parameters {{ key: "ray_resources" value: {{ string_value: "{{\\"slot\\": 1}}" }} }}
        """.encode(),
    )


def serve(nodes: Nodes, emulator: Emulator, directory: str) -> RunningServer:
    return RunningServer(
        emulator.location(directory),  # type: ignore[arg-type]
        f"--ray-address={nodes.cluster.address}",
        "--model-control-mode=explicit",
        "--load-model=large",
        environment=dict(os.environ) | dict(emulator.environ),
    )


def large_contents(cache: Path) -> int:
    return [blob.stat().st_size for blob in (cache / "blobs").iterdir()].count(_FILE_BYTES)


def require_on_all(nodes: Nodes, files: int) -> None:
    caches = nodes.caches()
    assert len(caches) == NODES
    for cache in caches:
        require_whole(cache)
        assert large_contents(cache) >= files


def is_complete(client: triton_http.InferenceServerClient) -> bool:
    """Whether all instances of the model are there; it is ready with the first."""
    (row,) = client.get_model_repository_index()
    return (row.get("state"), row.get("reason", "")) == ("READY", "")


def test_the_nodes_of_a_cluster_cost_the_store_about_one_download(
    emulator: Emulator, store: Store, directory: str, nodes: Nodes
) -> None:
    put(store, 10, seed=0)
    put_config(store, NODES)
    emulator.proxy.heal()
    server = serve(nodes, emulator, directory)
    with triton_http.InferenceServerClient(server.http, network_timeout=120.0) as client:
        until(lambda: is_complete(client))
        assert ask(client, "large") == 2
    assert emulator.proxy.sent_bytes <= 1.2 * 10 * _FILE_BYTES
    require_on_all(nodes, 10)
    assert server.terminate() == 0


def test_a_nodes_process_that_was_killed_comes_back_with_what_its_cache_has(
    emulator: Emulator, store: Store, directory: str, nodes: Nodes
) -> None:
    put(store, 2, seed=100)
    put_config(store, 1)
    server = serve(nodes, emulator, directory)
    with triton_http.InferenceServerClient(server.http, network_timeout=300.0) as client:
        before = holders()
        # Those of the server before have been told to end.
        until(lambda: len(nodes.fetchers()) == 1)
        server.kill(*nodes.fetchers())
        # By two names each, all large contents of that node's cache, which has the most.
        most = 2 * max(large_contents(cache) for cache in nodes.caches())
        until(lambda: most in {rows for each, rows in holders().items() if each not in before})
        emulator.proxy.heal()
        put_config(store, NODES)
        client.load_model("large")
        until(lambda: is_complete(client))
        assert ask(client, "large") == 2
    assert emulator.proxy.sent_bytes < _FILE_BYTES / 10
    require_on_all(nodes, 2)
    assert server.terminate() == 0


def holders() -> dict[str, int]:
    """Return how many contents each process of a node is known to have."""
    found: dict[str, int] = {}
    for key in Rows().keys(b"model-files/"):
        _, is_holder, address = key.decode().partition("/holder/")
        if is_holder:
            found[address] = found.get(address, 0) + 1
    return found
