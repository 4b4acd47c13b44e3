# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A replica that could not start, fails, or ends."""

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.server import ingress_entry
from cluster.server.ingress_entry import Ingress
from deployments import ingress

LOG: list[str] = []
ROOT = str(Path(ingress_entry.__file__).parents[2])


class Served:
    """The ingress of a release."""

    async def __init__(self, name: str) -> None:  # type: ignore[misc]  # as Serve's replicas are
        if name == "broken":
            raise OSError("the port is in use")
        self.name = name

    async def check_health(self) -> None:
        if self.name == "ill":
            raise RuntimeError("the ingress asks to be replaced")

    async def drain(self) -> None:
        LOG.append(f"drained {self.name}")


# Python would call the last method again, and await nothing.
OWN = {name: value for name, value in vars(Ingress).items() if name in ("__init__", "check_health")}


class Replica:
    """Makes and ends a replica as Serve does, which awaits both."""

    def __init__(self) -> None:
        self.made: Any = type("Ingress", (), OWN)
        self.made = self.made.__new__(self.made)

    async def start(self, name: str, root: str = ROOT) -> None:
        await self.made.__init__(root, pickle.dumps((name,)))

    async def end(self) -> None:
        await Ingress.__del__(self.made)


@pytest.fixture
def replica(monkeypatch: pytest.MonkeyPatch) -> Replica:
    LOG.clear()
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(ingress, "Ingress", Served)
    return Replica()


async def test_a_replica_that_ends_drains_its_ingress(replica: Replica) -> None:
    await replica.start("front")
    await replica.made.check_health()
    await replica.end()
    assert LOG == ["drained front"]


async def test_a_replica_that_could_not_start_has_nothing_to_drain(replica: Replica) -> None:
    with pytest.raises(OSError, match="in use"):
        await replica.start("broken")
    await replica.end()
    assert not LOG


async def test_an_ingress_that_asks_to_be_replaced_fails_the_check_of_its_replica(
    replica: Replica,
) -> None:
    await replica.start("ill")
    with pytest.raises(RuntimeError, match="asks to be replaced"):
        await replica.made.check_health()


async def test_the_folder_of_another_release_comes_first_where_it_is_there(
    replica: Replica, tmp_path: Path
) -> None:
    before = list(sys.path)
    await replica.start("front", ROOT)
    await replica.start("front", str(tmp_path))
    assert sys.path == before
    (tmp_path / "cluster").mkdir()
    await replica.start("front", str(tmp_path))
    assert sys.path == [str(tmp_path), *before]
