# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Files that answer nothing: what else goes on meanwhile. On threads, so in real time."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from backends.api.errors import InternalError
from cluster.controller import repository_threads
from cluster.controller.repository_source import RepositorySource
from cluster.controller.repository_threads import RepositoryThreads
from cluster.controller.repository_watch import RepositoryWatch
from cluster.controller.store import GcsStore
from cluster.models.override import NO_OVERRIDE
from cluster.repository.filesystem import DirectoryEntry
from cluster.repository.repository import ModelRepository
from cluster.repository.stores.local import LocalFileSystem
from tests.support.controller_fakes import FakeHost, write_model
from tests.support.fake_ray import FakeRay
from tests.unit.cluster.controller.test_repository_source import source_of

# As many as a machine of four cores has by default.
LOOP_THREADS = 8
SOON_S = 5.0
A_MOMENT_S = 1.0


def write_fifo(folder: Path, name: str) -> Path:
    """Write a model whose config answers nothing to who reads it."""
    write_model(folder, name)
    path = folder / name / "config.pbtxt"
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


async def begin(source: RepositorySource, name: str) -> asyncio.Task[object]:
    task = asyncio.create_task(source.read(name, NO_OVERRIDE, NO_OVERRIDE))
    await asyncio.sleep(0.01)
    return task  # type: ignore[return-value]  # what it is read as does not matter


@asynccontextmanager
async def hanging(*fifos: Path) -> AsyncIterator[None]:
    """Have the threads end that read FIFOs, whatever becomes of the test."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(LOOP_THREADS))
    is_over = threading.Event()

    def feed() -> None:
        while not is_over.wait(0.01):
            for path in fifos:
                try:
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                except OSError:
                    continue

    feeder = threading.Thread(target=feed)
    try:
        yield
    finally:
        feeder.start()
        await asyncio.sleep(0.5)
        is_over.set()
        feeder.join()


async def test_files_that_hang_take_no_thread_from_what_asks_the_gcs(
    fake: FakeRay, tmp_path: Path
) -> None:
    fake.rows[b"k"] = b"v"
    names = [f"f{number}" for number in range(2 * LOOP_THREADS)]
    fifos = [write_fifo(tmp_path, name) for name in names]
    source = await source_of(tmp_path, FakeHost())
    async with hanging(*fifos):
        loads = [await begin(source, name) for name in names]
        async with asyncio.timeout(SOON_S):
            assert await GcsStore().get(b"k") == b"v"
        for load in loads:
            load.cancel()
        await asyncio.wait(loads)


async def test_loads_of_one_model_that_hangs_keep_one_thread_however_often_they_are_cancelled(
    tmp_path: Path,
) -> None:
    fifo = write_fifo(tmp_path, "hangs")
    write_model(tmp_path, "other")
    source = await source_of(tmp_path, FakeHost())
    async with hanging(fifo):
        for _ in range(2 * LOOP_THREADS):
            load = await begin(source, "hangs")
            load.cancel()
            await asyncio.wait({load})
        async with asyncio.timeout(SOON_S):
            found = await source.read("other", NO_OVERRIDE, NO_OVERRIDE)
        assert found.config.name == "other"


class HangingFiles(LocalFileSystem):
    """A file system that answers nothing while it is away."""

    def __init__(self) -> None:
        self.is_here = threading.Event()
        self.is_here.set()

    def entries(self, path: str) -> tuple[DirectoryEntry, ...]:
        self.is_here.wait()
        return super().entries(path)

    def directories(self, path: str) -> tuple[str, ...]:
        self.is_here.wait()
        return super().directories(path)

    def is_directory(self, path: str) -> bool:
        self.is_here.wait()
        return super().is_directory(path)


class Scene:
    """Two repositories, of which ``far`` may go away."""

    def __init__(self, folder: Path) -> None:
        write_model(folder / "far", "a")
        write_model(folder / "near", "b")
        self.far, self.near = str(folder / "far"), str(folder / "near")
        self.files = HangingFiles()
        kinds = {self.far: self.files, self.near: LocalFileSystem()}
        self.repository = ModelRepository(
            [self.far, self.near], open_location=lambda path: (kinds[path], path)
        )
        self.watch = RepositoryWatch()
        self.threads = RepositoryThreads(self.repository, self.watch)

    async def come_back(self) -> None:
        self.files.is_here.set()
        await asyncio.wait(self.threads._of[self.far].under_way.values(), timeout=SOON_S)

    async def read(self, name: str) -> str:
        async with asyncio.timeout(SOON_S):
            reading = await self.threads.begin_read(name, self.repository.open_directory, name)
            return (await reading).name


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(repository_threads, "LIST_WITHIN_S", A_MOMENT_S)
    monkeypatch.setattr(repository_threads, "ANSWER_WITHIN_S", A_MOMENT_S)
    monkeypatch.setattr(repository_threads, "_PROBED_S", 0.0)
    scene = Scene(tmp_path)
    yield scene
    scene.files.is_here.set()


async def test_a_repository_that_hangs_is_one_that_cannot_be_listed_with_the_models_it_had(
    scene: Scene,
) -> None:
    await scene.threads.scan()
    scene.files.is_here.clear()
    for _ in range(20):
        found = await scene.threads.scan()
        assert found.errors == {scene.far: "the model repository does not answer"}
        assert (set(found.directories), found.stale) == ({"a", "b"}, {scene.far})
    await scene.come_back()
    assert (await scene.threads.scan()).errors == {}


@pytest.mark.parametrize("is_listed", [True, False])
async def test_a_repository_that_hangs_holds_up_no_model_of_another(
    scene: Scene, is_listed: bool
) -> None:
    if is_listed:
        scene.watch.saw(await scene.threads.scan())
    scene.files.is_here.clear()
    for _ in range(20):
        with pytest.raises(InternalError, match=f"does not answer: {scene.far}"):
            await scene.read("a")
    assert await scene.read("b") == "b"
    await scene.come_back()
    assert await scene.read("a") == "a"
