# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a command beside a server sees of its cluster, whole or in part."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from backends.api.errors import UnavailableError
from cluster.actors import seen_cluster
from cluster.actors.controller_client import CONTROLLER_NAME
from cluster.actors.seen_cluster import see_cluster
from cluster.options.parsing import from_mapping
from tests.support.fake_ray import FakeRay

OPTIONS = from_mapping({"model_repository": "/m"})


class Controller:
    def server_options(self) -> Any:
        return OPTIONS


@pytest.fixture(autouse=True)
def _own_node(fake: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = SimpleNamespace(node=SimpleNamespace(address_info={"webui_url": "127.0.0.1:8265"}))
    monkeypatch.setattr(seen_cluster, "global_worker", worker)
    # It asks over gRPC, without Ray.
    monkeypatch.setattr(seen_cluster, "asks_for_token", lambda address: address.endswith(":1"))


def test_a_cluster_with_a_server_is_seen_with_its_options(fake: FakeRay) -> None:
    fake.add_node("bb22", {"CPU": 4.0})
    fake.have(CONTROLLER_NAME, Controller())
    seen = see_cluster("auto")
    assert (seen.node_count, seen.node_address) == (2, "10.0.0.0")
    assert (seen.dashboard, seen.options) == ("127.0.0.1:8265", OPTIONS)


def test_secrets_of_the_server_are_not_printed(fake: FakeRay) -> None:
    fake.have(CONTROLLER_NAME, Controller())
    assert "/m" not in repr(see_cluster("auto"))


def test_a_node_that_has_left_is_not_counted(fake: FakeRay) -> None:
    fake.add_node("bb22", {"CPU": 4.0})
    fake.remove_node("bb22")
    assert see_cluster("auto").node_count == 1


def test_a_driver_on_no_node_of_the_cluster_has_the_address_of_its_machine(fake: FakeRay) -> None:
    fake.add_node("bb22", {"CPU": 4.0})
    fake.remove_node(fake.node_id)
    assert see_cluster("auto").node_address == "127.0.0.1"


def test_a_cluster_without_a_server_has_no_options(fake: FakeRay) -> None:
    assert see_cluster("auto").options is None


def test_a_controller_that_died_leaves_the_rest_to_be_seen(fake: FakeRay) -> None:
    actor = fake.have(CONTROLLER_NAME, Controller())
    fake.held = {"server_options"}
    fake.meanwhile = [actor.die]
    seen = see_cluster("auto")
    assert (seen.node_count, seen.options) == (1, None)


def test_a_controller_that_hangs_is_waited_for_in_bounds(fake: FakeRay) -> None:
    fake.have(CONTROLLER_NAME, Controller())
    fake.held = {"server_options"}
    assert see_cluster("auto").options is None
    assert 0 < fake.now_s < 60


def test_whether_a_token_is_asked_for_is_learned_at_the_address_of_the_head(fake: FakeRay) -> None:
    assert see_cluster("auto").asks_for_token is False
    fake.gcs_address = "127.0.0.1:1"
    assert see_cluster("auto").asks_for_token is True


def test_a_process_without_a_node_of_its_own_has_no_dashboard(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen_cluster, "global_worker", SimpleNamespace(node=None))
    assert see_cluster("auto").dashboard == ""


def test_a_cluster_that_is_not_there_is_unavailable(fake: FakeRay) -> None:
    fake.is_away = True
    with pytest.raises(UnavailableError, match="no Ray cluster at 'auto'"):
        see_cluster("auto")


def test_a_cluster_that_goes_away_is_left_all_the_same(
    fake: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def goes_away(address: str) -> Iterator[None]:
        with joins(address):
            fake.is_away = True
            yield

    joins = seen_cluster.connected
    monkeypatch.setattr(seen_cluster, "connected", goes_away)
    with pytest.raises(Exception, match="failed to connect to GCS"):
        see_cluster("auto")
    assert not fake.is_initialized
