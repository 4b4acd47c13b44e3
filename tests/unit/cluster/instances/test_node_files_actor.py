# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the actor that fetches files of a node tells its controller, and when it is needed."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.actors.controller_client import CONTROLLER_NAME
from cluster.actors.file_registry import FileRegistry, Rows
from cluster.actors.lane_secret import LANE_SECRET_KEY
from cluster.instances.node_files import (
    NodeFilesActor,
    NodeFilesSettings,
    Wanted,
    _announce,
    _Reports,
)
from cluster.repository.stores.local import LocalStore
from deployments.model_files.contracts import ModelFile, ModelFiles
from deployments.model_files.loaded import location_of
from deployments.model_files.prefetch import Outcome
from tests.support.fake_ray import FakeRay

FILES = ModelFiles("s3://bucket/m", (ModelFile("1/weights", 7, "s"),))
WANTED = Wanted("m", "key", 1, FILES, "{}")


class Controller:
    """Notes what it is told of downloads."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def report_download(self, *report: object) -> None:
        self.told.append(report)


@pytest.fixture
def served(fake: FakeRay, tmp_path: Path) -> Iterator[NodeFilesActor]:
    """The real actor, whose cache is in a folder of the test."""
    fake.rows[LANE_SECRET_KEY] = b"s" * 32
    actor = NodeFilesActor(NodeFilesSettings(str(tmp_path / "cache"), 0, "WARNING"))
    yield actor
    actor._files.close()


@pytest.fixture
def wanted(tmp_path: Path) -> Wanted:
    """Files of a model in a folder that stands for a store."""
    directory = tmp_path / "store" / "m"
    (directory / "1").mkdir(parents=True)
    (directory / "1" / "weights").write_bytes(b"weights" * 1000)
    found = LocalStore(str(directory)).find()
    files = tuple(ModelFile(file.path, file.size_bytes, file.stamp) for file in found)
    return Wanted("m", "key", 1, ModelFiles(f"file://{directory}", files), "{}")


def test_the_controller_hears_how_far_a_download_is_and_of_its_end(fake: FakeRay) -> None:
    fake.have(CONTROLLER_NAME, controller := Controller())
    with _Reports(WANTED, fake.node_id) as reports:
        reports.tell(3, 7)
    rows = [("key", 1, fake.node_id, 3, 7), ("key", 1, fake.node_id, 0, 0)]
    assert controller.told == rows


def test_a_controller_that_is_away_for_a_while_hears_of_the_rest_of_a_download(
    fake: FakeRay,
) -> None:
    controller = Controller()
    with _Reports(WANTED, fake.node_id) as reports:
        reports.tell(1, 7)
        fake.have(CONTROLLER_NAME, controller)
        reports.tell(3, 7)
    assert [report[-2:] for report in controller.told] == [(3, 7), (0, 0)]


def test_a_controller_that_has_heard_of_no_download_hears_of_no_end(fake: FakeRay) -> None:
    fake.have(CONTROLLER_NAME, controller := Controller())
    with _Reports(WANTED, fake.node_id):
        pass
    assert not controller.told


def test_files_are_fetched_also_while_the_controller_is_away(
    served: NodeFilesActor, wanted: Wanted
) -> None:
    served.ensure(wanted)
    assert served.view([wanted.files.key()], 1.0).held == (wanted.files.key(),)


def test_an_actor_that_prefetches_or_offers_is_needed_unless_its_node_leaves(
    served: NodeFilesActor, wanted: Wanted
) -> None:
    with served._prefetches:
        assert served.unused_s(is_leaving=False) == 0.0
        assert served.unused_s(is_leaving=True) > 0.0
    assert served.unused_s(is_leaving=False) > 0.0
    assert served.prefetch("m", wanted.files, 1.0).outcome is Outcome.THERE


def test_what_a_node_offers_keeps_its_actor_until_it_is_withdrawn(
    fake: FakeRay, served: NodeFilesActor, tmp_path: Path
) -> None:
    folder = tmp_path / "load"
    folder.mkdir()
    (folder / "weights").write_bytes(b"weights")
    location = location_of(fake.node_id, str(folder))
    assert served.offer(location)
    assert served.unused_s(is_leaving=False) == 0.0
    served.withdraw([location])
    assert served.unused_s(is_leaving=False) == 0.0
    served.withdraw([])
    assert served.unused_s(is_leaving=False) > 0.0


def test_what_an_ended_node_has_left_in_the_registry_goes_when_a_node_starts(
    fake: FakeRay, served: NodeFilesActor
) -> None:
    registry = FileRegistry(Rows())
    with socket.create_server(("127.0.0.1", 0)) as ended:
        gone = f"127.0.0.1:{ended.getsockname()[1]}"
    with socket.create_server(("127.0.0.1", 0)) as living:
        there = f"127.0.0.1:{living.getsockname()[1]}"
        for node in (gone, there):
            registry.announce("both", node, "digest")
        registry.claim("its own", gone)
        _announce(registry, served._files)
    assert registry.contents() == {there: ["both"]}
    assert not registry.told("its own")
