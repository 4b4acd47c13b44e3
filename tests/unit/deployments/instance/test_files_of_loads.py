# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Files that came with a load, as processes on other nodes find them."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from backends.api.errors import (
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
)
from backends.api.model_config import ModelConfig
from deployments.instance.model_files import with_local_files
from deployments.instance.node_files import NodeFiles, PeerAddress
from deployments.instance.spec import InstanceSpec
from deployments.model_files.cache import NodeCache
from deployments.model_files.contracts import FileSource, ModelFiles
from deployments.model_files.loaded import is_of_load, list_folder, location_of, origin_of
from deployments.model_files.registry import MemoryRegistry
from tests.support.file_sources import content_of, random_bytes, write

# Nodes ask each other for files from 64 KiB on; smaller ones come from the first.
CONTENTS = {"1/model.py": b"x = 1", "1/deep/weights": random_bytes(200_000), "1/empty": b""}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the controller has written on node n1."""
    write(tmp_path / "manta-model-a", CONTENTS)
    return tmp_path / "manta-model-a"


class Nodes:
    """Nodes by name, which find each other as those of a cluster do."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self._root = root
        self._stack = stack
        self._registry = MemoryRegistry()
        self.by_name: dict[str, NodeFiles] = {}

    def start(self, name: str, max_bytes: int = 0) -> NodeFiles:
        node = NodeFiles(
            str(self._root / name),
            max_bytes,
            b"the secret of the cluster",
            PeerAddress("127.0.0.1"),
            self._registry,
            _no_store,
            name,
            lambda location: self.by_name[origin_of(location)[0]].offer(location),
        )
        self.by_name[name] = node
        self._stack.callback(node.close)
        return node

    def content(self, name: str, files: ModelFiles) -> dict[str, bytes]:
        with NodeCache(self._root / name) as cache:
            directory = cache.find(files)
            assert directory is not None
            return content_of(directory)


def _no_store(location: str) -> FileSource:
    raise AssertionError(f"no store has {location}")


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield Nodes(tmp_path, stack)


def files_in(folder: Path) -> ModelFiles:
    return list_folder(location_of("n1", str(folder)))


def spec(files: ModelFiles, model_dir: str, root: Path) -> InstanceSpec:
    return InstanceSpec(
        generation=1,
        version=1,
        model_dir=model_dir,
        name="m/1#0@1",
        model_name="m",
        index=0,
        instance_name="m_0",
        config=ModelConfig("m"),
        auto_complete=False,
        files=files,
        model_cache_directory=str(root),
    )


def never(_spec: InstanceSpec) -> None:
    raise AssertionError("there is nothing to fetch")


def fetching(node: NodeFiles, files: ModelFiles) -> Callable[[InstanceSpec], None]:
    return lambda _spec: node.ensure("m", files)


def test_a_location_names_node_and_folder():
    location = location_of("n1", "/tmp/manta-model-a")
    assert location == "load://n1/tmp/manta-model-a"
    assert origin_of(location) == ("n1", Path("/tmp/manta-model-a"))
    assert is_of_load(location)
    assert not is_of_load("s3://bucket/load://")


def test_an_instance_on_another_node_finds_the_files(folder: Path, nodes: Nodes, tmp_path: Path):
    files = files_in(folder)
    nodes.start("n1")
    other = nodes.start("n2")
    recipe = spec(files, "/nowhere", tmp_path / "n2")
    local = with_local_files(recipe, fetching(other, files))
    assert Path(local.model_dir).is_relative_to(tmp_path / "n2")
    assert content_of(Path(local.model_dir)) == CONTENTS


def test_where_the_folder_is_nothing_is_fetched(folder: Path, nodes: Nodes, tmp_path: Path):
    own = spec(files_in(folder), str(folder), tmp_path / "n1")
    assert with_local_files(own, never) is own
    repository = replace(own, files=None, model_dir="/models/m")
    assert with_local_files(repository, never) is repository
    assert not (tmp_path / "n1").exists()


def test_no_byte_of_them_counts_as_a_stores(folder: Path, nodes: Nodes):
    first, second = nodes.start("n1"), nodes.start("n2")
    files = files_in(folder)
    second.ensure("m", files)
    assert first.statistics().from_store_bytes == second.statistics().from_store_bytes == 0
    assert second.statistics().from_peers_bytes == files.size_bytes


def test_files_stay_for_other_nodes_until_they_are_withdrawn(
    folder: Path, nodes: Nodes, tmp_path: Path
):
    files = files_in(folder)
    first = nodes.start("n1", max_bytes=300_000)
    first.offer(files.location)
    # As what cleans folders of temporary files does.
    shutil.rmtree(folder)
    write(tmp_path / "manta-model-b", {"1/weights": random_bytes(200_000, 2)})
    other = location_of("n1", str(tmp_path / "manta-model-b"))
    with pytest.raises(ResourceExhaustedError):
        first.offer(other)
    nodes.start("n2").ensure("m", files)
    assert nodes.content("n2", files) == CONTENTS
    first.withdraw(all_but=[other])
    first.offer(other)


def test_what_is_withdrawn_is_kept_where_another_load_has_it_too(folder: Path, nodes: Nodes):
    first = nodes.start("n1")
    location = location_of("n1", str(folder))
    assert first.offer(location) == first.offer(location)
    first.withdraw(all_but=[location])
    shutil.rmtree(folder)
    first.offer(location)
    first.withdraw(all_but=[])
    with pytest.raises(UnavailableError, match="load the model with its files again"):
        first.offer(location)


def test_a_process_that_was_started_anew_gives_them_again(folder: Path, nodes: Nodes):
    files = files_in(folder)
    nodes.start("n1").ensure("m", files)
    nodes.by_name["n1"].close()
    nodes.start("n1")
    nodes.start("n2").ensure("m", files)
    assert nodes.content("n2", files) == CONTENTS


def test_a_process_that_ends_between_files_is_asked_anew(folder: Path, nodes: Nodes):
    files = files_in(folder)
    nodes.start("n1")
    second = nodes.start("n2")
    source = second._open(files.location)
    nodes.by_name["n1"].close()
    nodes.start("n1")
    assert source.read(files.files[-1], 0, 5) == b"x = 1"


def test_files_that_are_gone_are_said_with_what_to_do(folder: Path, nodes: Nodes):
    files = files_in(folder)
    nodes.start("n1")
    shutil.rmtree(folder)
    with pytest.raises(UnavailableError, match="load the model with its files again"):
        nodes.start("n2").ensure("m", files)


def test_what_a_node_gives_must_have_the_digest_that_the_controller_told(
    folder: Path, nodes: Nodes
):
    files = files_in(folder)
    (folder / "1" / "model.py").write_bytes(b"x = 2")
    nodes.start("n1")
    with pytest.raises(UnavailableError, match=r"does not have '1/model.py'"):
        nodes.start("n2").ensure("m", files)


def test_a_file_that_leads_out_of_its_directory_is_refused(folder: Path, nodes: Nodes):
    files = files_in(folder)
    files = replace(files, files=(replace(files.files[0], path="../x"),))
    nodes.start("n1")
    with pytest.raises(InvalidArgumentError, match=r"'../x' .* cannot be a model's"):
        nodes.start("n2").ensure("m", files)


def test_equal_files_of_two_loads_are_kept_once(folder: Path, nodes: Nodes, tmp_path: Path):
    shutil.copytree(folder, tmp_path / "manta-model-b")
    nodes.start("n1")
    second = nodes.start("n2")
    found = [files_in(folder), files_in(tmp_path / "manta-model-b")]
    for files in found:
        second.ensure("m", files)
    with NodeCache(tmp_path / "n2") as cache:
        weights = [Path(str(cache.find(files)), "1", "deep", "weights") for files in found]
        assert weights[0].samefile(weights[1])
