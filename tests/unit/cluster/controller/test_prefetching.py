# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The controller has nodes fetch files of dormant models in stores while nothing starts."""

import asyncio
from pathlib import Path
from typing import Any

from backends.api.errors import UnavailableError
from cluster.controller.controller import ModelController
from cluster.repository.stores.opening import open_store
from cluster.residency.prefetch import FIRST_INTERVAL_S, VIEW_AGE_S
from deployments.model_files.prefetch import Outcome
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.controller_fakes import FakeHost, controller_of
from tests.support.logged import logged_by

CONFIG = """
name: "%s" backend: "identity" version_policy { all {} }
input { name: "X" data_type: TYPE_FP32 dims: [1] }
output { name: "Y" data_type: TYPE_FP32 dims: [1] }
instance_group { kind: KIND_CPU count: 1 }
"""
POLL_S = 15
# Enough looks for all models of a test.
LOOKS_S = 30


class Served:
    """A controller on demand over a store with some models."""

    def __init__(self, folder: Path, *models: str) -> None:
        self.location = f"memory://{folder.name}/models"
        self.store: Any = open_store(self.location)
        self.host = FakeHost()
        for name in models:
            self.put(name)

    def put(self, name: str, config: str = "") -> None:
        self.store.write(f"{name}/config.pbtxt", (CONFIG % name + config).encode())
        self.store.write(f"{name}/1/data", name.encode())

    async def start(self, fraction: float = 0.5, **options: Any) -> ModelController:
        given = {"model_control_mode": "ondemand", "repository_poll_secs": POLL_S, **options}
        actor = await controller_of(
            self.location, self.host, prefetch_cache_fraction=fraction, **given
        )
        await actor.start()
        return actor

    @property
    def fetched(self) -> list[str]:
        """Names of models, with the nodes that were asked to fetch them."""
        return [f"{name}@{node}" for node, name, _ in self.host.prefetches]


@in_virtual_time
async def test_files_of_models_never_used_are_fetched_to_all_nodes(folder: Path) -> None:
    served = Served(folder, "a", "b")
    served.host.node_names = ("n", "o")
    await served.start()
    await asyncio.sleep(LOOKS_S)
    assert served.fetched == ["a@n", "a@o", "b@n", "b@o"]


@in_virtual_time
async def test_without_the_flag_nothing_is_fetched(folder: Path) -> None:
    served = Served(folder, "a")
    await served.start(0.0)
    await asyncio.sleep(LOOKS_S)
    assert served.fetched == []


@in_virtual_time
async def test_what_a_first_load_wants_is_what_was_fetched(folder: Path) -> None:
    served = Served(folder)
    served.put("a", 'model_repository_agents { agents { name: "checksum" } }')
    controller = await served.start()
    await asyncio.sleep(LOOKS_S)
    assert await controller.wake("a", 1) is None
    (spec,) = served.host.specs
    ((_, _, files),) = served.host.prefetches
    assert spec.files == files
    # Agents hear of loads only.
    assert [action for _, action in served.host.told] == ["LOAD_COMPLETE"]


@in_virtual_time
async def test_nothing_is_fetched_while_a_model_is_woken(folder: Path) -> None:
    served = Served(folder, "a", "b")
    served.host.instances.blocked.add("b/1#0")
    controller = await served.start()
    waking = asyncio.create_task(controller.wake("b", 1))
    await asyncio.sleep(LOOKS_S)
    assert served.fetched == []
    served.host.instances.unblock()
    await waking
    await asyncio.sleep(LOOKS_S)
    assert served.fetched == ["a@n"]


@in_virtual_time
async def test_a_prefetch_stops_when_another_model_is_woken_and_goes_on_after(
    folder: Path,
) -> None:
    served = Served(folder, "a", "b")
    controller = await served.start()
    served.host.hold_prefetches()
    await asyncio.sleep(LOOKS_S)
    assert await controller.wake("b", 1) is None
    await asyncio.sleep(LOOKS_S)
    assert served.fetched == ["a@n", "a@n"]
    assert served.host.outcomes[0] is Outcome.STOPPED


@in_virtual_time
async def test_a_prefetch_goes_on_when_its_own_model_is_woken(folder: Path) -> None:
    served = Served(folder, "a")
    controller = await served.start()
    served.host.hold_prefetches()
    await asyncio.sleep(LOOKS_S)
    assert await controller.wake("a", 1) is None
    served.host.release_prefetches()
    await asyncio.sleep(LOOKS_S)
    assert served.host.outcomes == [Outcome.THERE]


@in_virtual_time
async def test_new_files_are_fetched_and_models_that_left_are_not(folder: Path) -> None:
    served = Served(folder, "a", "b")
    served.host.fail["prefetch"] = UnavailableError("away")
    await served.start()
    await asyncio.sleep(LOOKS_S)
    served.store.write("b/2/data", b"two")
    for path in ("a/config.pbtxt", "a/1/data"):
        served.store.remove(path)
    await asyncio.sleep(2 * FIRST_INTERVAL_S)
    assert served.fetched == ["a@n", "b@n", "b@n"]
    assert "2/data" in {file.path for file in served.host.prefetches[-1][-1].files}


@in_virtual_time
async def test_nodes_that_are_emptied_fetch_nothing(folder: Path) -> None:
    served = Served(folder, "a")
    served.host.node_names = ("n", "o")
    served.host.placer.kept_free = frozenset({"n"})
    await served.start()
    await asyncio.sleep(LOOKS_S)
    assert served.fetched == ["a@o"]


@in_virtual_time
async def test_a_dormant_version_is_fetched_again_when_its_files_have_left(folder: Path) -> None:
    served = Served(folder, "a", "b")
    controller = await served.start()
    for name in ("a", "b"):
        assert await controller.wake(name, 1) is None
    await asyncio.sleep(LOOKS_S)
    assert served.fetched == []
    for name in ("a", "b"):
        assert controller._lifecycle.dormancy.rest(name, 1)
        await asyncio.sleep(LOOKS_S)
    assert served.fetched == ["a@n", "b@n"]
    served.host.held.clear()
    await asyncio.sleep(2 * VIEW_AGE_S)
    # That used last comes first.
    assert served.fetched == ["a@n", "b@n", "b@n", "a@n"]


@in_virtual_time
async def test_a_failure_is_logged_once_with_its_cause_and_tried_again(folder: Path) -> None:
    served = Served(folder, "a")
    served.put("b", "this is no config")
    with logged_by("cluster.controller") as lines:
        await served.start()
        await asyncio.sleep(10 * FIRST_INTERVAL_S)
        assert served.fetched == ["a@n"]
        served.put("b")
        await asyncio.sleep(10 * FIRST_INTERVAL_S)
    assert served.fetched == ["a@n", "b@n"]
    (line,) = lines
    assert line.startswith("files of model 'b' are not fetched beforehand, it is tried again: ")
    assert "config.pbtxt" in line


@in_virtual_time
async def test_models_of_directories_are_not_read(folder: Path) -> None:
    (folder / "models/a/1").mkdir(parents=True)
    (folder / "models/a/config.pbtxt").write_text(CONFIG % "a")
    served = Served(folder)
    await served.start(model_repository=str(folder / "models"))
    await asyncio.sleep(LOOKS_S)
    assert served.fetched == []


@in_virtual_time
async def test_a_cluster_that_cannot_be_read_is_asked_again(folder: Path) -> None:
    served = Served(folder, "a")
    await served.start()
    read, host = served.host.read_cluster, served.host

    async def fail() -> Any:
        host.read_cluster = read  # type: ignore[method-assign]
        raise RuntimeError("no head")

    host.read_cluster = fail  # type: ignore[method-assign]
    await asyncio.sleep(2 * LOOKS_S)
    assert served.fetched == ["a@n"]
