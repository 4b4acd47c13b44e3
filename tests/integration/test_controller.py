# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The controller and its instances on a real Ray, without an ingress."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from backends.api.errors import InternalError, InvalidArgumentError, UnavailableError
from cluster.actors.controller_client import (
    CONTROLLER_NAME,
    ControllerClient,
    connect_controller,
)
from cluster.controller.ownership import Owner
from cluster.options.parsing import ServerOptions, parse_options
from cluster.server.start_controller import (
    create_another,
    find_controller,
    get_or_create_controller,
    has_left_state,
    kill_controller,
)
from cluster.server.watches import MISSING_S, ControllerWatch
from deployments.contracts.routing_table import ModelReadyState, RoutingTable
from deployments.instance.spec import NAMESPACE

TENSORS = """
input [{ name: "IN" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [-1] }]
"""
EXPLICIT = ("--model-control-mode=explicit", "--load-model=chain", "--load-model=pair")
STEP = 'input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" }'


def write_model(repository: Path, name: str, config: str, version: int = 1) -> None:
    (repository / name / str(version)).mkdir(parents=True, exist_ok=True)
    (repository / name / "config.pbtxt").write_text(config + TENSORS)


def identity(batch: int = 8, count: int = 1) -> str:
    group = f"instance_group [{{ kind: KIND_CPU count: {count} }}]"
    return f'backend: "identity" max_batch_size: {batch} {group}'


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        namespace=NAMESPACE,
        object_store_memory=100 * 1024 * 1024,
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models")
    write_model(path, "one", identity())
    write_model(path, "pair", identity(count=2))
    step = f'step [{{ model_name: "one" model_version: -1 {STEP} }}]'
    write_model(
        path, "chain", f'platform: "ensemble" max_batch_size: 8 ensemble_scheduling {{ {step} }}'
    )
    write_model(path, "no_backend", 'backend: "nonesuch"')
    write_model(
        path,
        "wants_gpus",
        identity() + ' parameters { key: "ray_num_gpus" value: { string_value: "8" } }',
    )
    return path


def options(repository: Path, *more: str) -> ServerOptions:
    arguments = [f"--model-repository={repository}", "--exit-timeout-secs=5", *more]
    return parse_options(arguments, {}, Path.read_text)


@pytest.fixture(scope="module")
def controller(repository: Path) -> Any:
    handle = get_or_create_controller(options(repository, *EXPLICIT))
    rows = ray.get(handle.start.remote(), timeout=60)
    assert [(row["name"], row["state"]) for row in rows] == [
        ("chain", "READY"),
        ("one", "READY"),
        ("pair", "READY"),
    ], rows
    return handle


class Tables:
    """The tables a router would see."""

    def __init__(self, client: ControllerClient) -> None:
        self.all: list[RoutingTable] = []
        self._came = asyncio.Event()
        self._task = asyncio.create_task(client.watch_routing_table(self._take))

    def _take(self, table: RoutingTable) -> None:
        self.all.append(table)
        self._came.set()

    async def wait_until(self, holds: Callable[[RoutingTable], bool]) -> RoutingTable:
        async with asyncio.timeout(100):
            while not (self.all and holds(self.all[-1])):
                self._came.clear()
                await self._came.wait()
        return self.all[-1]

    async def close(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


@pytest.fixture
async def tables(controller: Any) -> Any:
    watched = Tables(connect_controller())
    await watched.wait_until(lambda table: table.initialised)
    yield watched
    await watched.close()


def state(table: RoutingTable, name: str) -> ModelReadyState:
    return table.models[name].versions[0].state


def incarnations(table: RoutingTable, name: str) -> set[str]:
    return {endpoint.incarnation for endpoint in table.models[name].versions[0].instances}


def node_of(table: RoutingTable, name: str) -> str:
    return table.models[name].versions[0].instances[0].node_id


async def wait_for(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - Ray tells nobody that an actor's name is free
            await asyncio.sleep(0.05)


def instance_names() -> set[str]:
    actors = ray.util.list_named_actors(all_namespaces=True)
    return {actor["name"] for actor in actors if "@" in actor["name"]}


def names_of(model: str) -> set[str]:
    return {name for name in instance_names() if name.startswith(f"{model}/")}


async def process_of(actor_name: str) -> int:
    handle = ray.get_actor(actor_name, namespace=NAMESPACE)
    pid: int = await handle.__ray_call__.remote(lambda _: os.getpid())
    return pid


async def test_models_are_unloaded_and_loaded_again(tables: Tables) -> None:
    client = connect_controller()
    await client.unload("pair", unload_dependents=False)
    rows = await client.index(ready_only=False)
    assert {"name": "pair", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"} in rows
    assert {"name": "wants_gpus"} in rows
    assert not any(name.startswith("pair/") for name in instance_names())
    await client.load("pair", {})
    table = await tables.wait_until(lambda t: state(t, "pair") is ModelReadyState.READY)
    assert len(incarnations(table, "pair")) == 2


async def test_a_reload_never_shows_routers_a_gap(tables: Tables) -> None:
    client = connect_controller()
    before = incarnations(tables.all[-1], "one")
    config = {
        "backend": "identity",
        "max_batch_size": 16,
        "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]}],
        "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]}],
    }
    await client.load("one", {"config": json.dumps(config)})
    table = await tables.wait_until(lambda t: incarnations(t, "one").isdisjoint(before))
    loaded = table.models["one"].versions[0].config
    assert loaded is not None
    assert loaded.max_batch_size == 16
    # Made of it, and loaded anew with it.
    assert state(tables.all[-1], "chain") is ModelReadyState.READY
    assert all(incarnations(t, "one") and state(t, "one") == "READY" for t in tables.all)


async def test_other_instance_groups_keep_the_instances_that_stay(
    tables: Tables, repository: Path
) -> None:
    client = connect_controller()
    before = incarnations(tables.all[-1], "pair")
    seen = len(tables.all)
    write_model(repository, "pair", identity(count=3))
    await client.load("pair", {})
    grown = await tables.wait_until(lambda t: len(incarnations(t, "pair")) == 3)
    assert before < incarnations(grown, "pair")
    bound = "instance_group [{ kind: KIND_CPU count: 1 }, { kind: KIND_CPU passive: true }]"
    write_model(repository, "pair", f'backend: "identity" max_batch_size: 8 {bound}')
    await client.load("pair", {})
    shrunk = await tables.wait_until(
        lambda t: len(incarnations(t, "pair")) == 1 and not t.models["pair"].versions[0].leaving
    )
    assert incarnations(shrunk, "pair") < before
    assert list(shrunk.models["pair"].versions[0].past) == [node_of(shrunk, "pair")]
    # The passive one is there and takes no requests.
    await wait_for(lambda: len(names_of("pair")) == 2)
    assert all(state(t, "pair") == "READY" and incarnations(t, "pair") for t in tables.all[seen:])
    write_model(repository, "pair", identity(count=2))
    await client.load("pair", {})
    back = await tables.wait_until(lambda t: len(incarnations(t, "pair")) == 2)
    assert incarnations(shrunk, "pair") < incarnations(back, "pair")
    await wait_for(lambda: len(names_of("pair")) == 2)


async def test_failed_loads_say_what_triton_says_and_why(controller: Any) -> None:
    client = connect_controller()
    with pytest.raises(InvalidArgumentError) as failed:
        await client.load("no_backend", {})
    assert failed.value.message.startswith(
        "load failed for model 'no_backend': version 1 is at UNAVAILABLE state: Invalid argument:"
        " unable to find backend library for backend 'nonesuch'"
    )
    with pytest.raises(InternalError) as unknown:
        await client.load("no_such", {})
    assert unknown.value.message.startswith(
        "failed to load 'no_such', failed to poll from model repository: "
    )


async def test_a_model_without_room_is_pending_with_the_reason(controller: Any) -> None:
    client = connect_controller()
    with pytest.raises(UnavailableError, match=r"pending.*needs CPU 0\.001, GPU 8, which no node"):
        await client.load("wants_gpus", {})
    row = next(row for row in await client.status() if row["name"] == "wants_gpus")
    assert row["state"] == "LOADING"
    assert "waiting for resources" in row["reason"]
    await client.unload("wants_gpus", unload_dependents=False)
    assert not any(name.startswith("wants_gpus/") for name in instance_names())


async def test_a_killed_instance_leaves_the_table_and_comes_back(tables: Tables) -> None:
    before = incarnations(tables.all[-1], "pair")
    name = min(name for name in instance_names() if name.startswith("pair/"))
    os.kill(await process_of(name), signal.SIGKILL)
    lost = await tables.wait_until(lambda t: len(incarnations(t, "pair")) == 1)
    assert state(lost, "pair") is ModelReadyState.READY
    back = await tables.wait_until(lambda t: len(incarnations(t, "pair")) == 2)
    assert len(incarnations(back, "pair") & before) == 1


async def test_a_killed_controller_adopts_the_instances_it_finds_and_adds_what_is_missing(
    tables: Tables, repository: Path
) -> None:
    client = connect_controller()
    before, names = tables.all[-1], instance_names()
    write_model(repository, "pair", identity(count=3))
    os.kill(await process_of(CONTROLLER_NAME), signal.SIGKILL)
    table = await tables.wait_until(lambda t: len(incarnations(t, "pair")) == 3)
    assert table.initialised
    for name in ("one", "pair", "chain"):
        assert state(table, name) is ModelReadyState.READY
        assert incarnations(table, name) >= incarnations(before, name)
    assert instance_names() - names == names_of("pair") - names
    assert names < instance_names()
    await client.unload("pair", unload_dependents=False)
    assert {row["name"]: row["state"] for row in await client.index(ready_only=True)} == {
        "chain": "READY",
        "one": "READY",
    }


def serving(table: RoutingTable) -> dict[str, set[str]]:
    return {name: incarnations(table, name) for name in table.models}


class Driver:
    """Implements `WatchedController` without the rest of a server."""

    def __init__(self, given: ServerOptions) -> None:
        self._given = given

    def is_there(self) -> bool:
        return find_controller() is not None

    def is_left(self) -> bool:
        return has_left_state()

    def make_another(self) -> None:
        create_another(self._given, Owner())


async def test_a_controller_that_is_gone_for_good_is_started_again_where_it_has_ended(
    tables: Tables, repository: Path
) -> None:
    before = tables.all[-1]
    given = options(repository, *EXPLICIT)
    said: list[str] = []
    now_s = [0.0]
    watch = ControllerWatch(Driver(given), said.append, lambda: now_s[0])
    await asyncio.to_thread(kill_controller, ray.get_actor(CONTROLLER_NAME, namespace=NAMESPACE))
    for seconds in (0.0, MISSING_S):
        now_s[0] = seconds
        await asyncio.to_thread(watch.look)
    assert len(said) == 1
    table = await tables.wait_until(lambda t: t.version > before.version)
    assert serving(table) == serving(before)


async def test_a_redeploy_with_other_options_keeps_what_clients_have_loaded(
    tables: Tables, repository: Path
) -> None:
    before = tables.all[-1]
    given = options(repository, *EXPLICIT, "--log-verbose=1")
    await asyncio.to_thread(get_or_create_controller, given)
    table = await tables.wait_until(lambda t: t.version > before.version)
    assert serving(table) == serving(before)
    assert table.settings.log.verbose_level == 1


@ray.remote(max_restarts=-1, num_cpus=0)
class EndsOnce:
    """Ends its process in its constructor, as a controller does that cannot read its state."""

    def __init__(self, mark: str) -> None:
        if not Path(mark).exists():
            Path(mark).touch()
            os._exit(1)

    def is_there(self) -> bool:
        return True


async def test_ray_restarts_an_actor_whose_process_has_ended_in_its_constructor(
    tmp_path: Path,
) -> None:
    handle: Any = EndsOnce.remote(str(tmp_path / "mark"))  # type: ignore[attr-defined]
    assert await handle.is_there.remote()
    ray.kill(handle)


async def test_a_controller_with_other_options_takes_over_and_follows_the_files(
    tables: Tables, repository: Path
) -> None:
    """From here on the controller of the module is gone."""
    before = incarnations(tables.all[-1], "one")
    shutil.rmtree(repository / "wants_gpus")
    polling = options(repository, "--model-control-mode=poll", "--repository-poll-secs=1")
    get_or_create_controller(polling)
    write_model(repository, "late", identity())
    table = await tables.wait_until(
        lambda t: "late" in t.models and state(t, "late") is ModelReadyState.READY
    )
    # Loaded with an override before; without one its own config is back.
    assert incarnations(table, "one").isdisjoint(before)
    with pytest.raises(UnavailableError, match="explicit model load / unload is not allowed"):
        await connect_controller().unload("late", unload_dependents=False)
    shutil.rmtree(repository / "late")
    await tables.wait_until(lambda t: t.models["late"].versions[0].reason == "unloaded")


async def test_a_shutdown_ends_instances_and_controller(tables: Tables) -> None:
    handle = ray.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
    await handle.shutdown.remote(5)
    assert not instance_names()
    await tables.wait_until(lambda t: t.exiting)
    with pytest.raises(ray.exceptions.RayActorError):
        await handle.routing_table.remote(2**63, 60)


async def test_a_controller_without_heartbeats_ends_the_server(repository: Path) -> None:
    explicit = options(repository, "--model-control-mode=explicit", "--load-model=one")
    handle = get_or_create_controller(explicit, Owner(lease_s=3))
    starting = asyncio.ensure_future(handle.start.remote())
    while not starting.done():
        await handle.heartbeat.remote()
        await asyncio.wait([starting], timeout=0.1)
    await starting
    assert instance_names()
    with pytest.raises(ray.exceptions.RayActorError):
        await handle.routing_table.remote(2**63, 60)
    assert not instance_names()
    with pytest.raises(ValueError, match=CONTROLLER_NAME):
        ray.get_actor(CONTROLLER_NAME, namespace=NAMESPACE)
