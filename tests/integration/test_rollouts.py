# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Rollouts on a real server."""

from collections.abc import Iterator

import pytest

from tests.support.rollout_models import RolloutClient, count_versions, write_rollout_models
from tests.support.server import RunningServer

HALVES = {
    "kind": "ab",
    "arms": [
        {"name": "one", "version": 1, "weight": 70},
        {"name": "two", "version": 2, "weight": 30},
    ],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("models")
    write_rollout_models(folder)
    running = RunningServer(folder, "--model-control-mode=explicit", "--load-model=*")
    yield running
    running.terminate()


@pytest.fixture
def client(server: RunningServer) -> RolloutClient:
    return RolloutClient(server.http)


def test_ten_thousand_requests_are_split_by_the_weights(
    server: RunningServer, client: RolloutClient
) -> None:
    assert client.version() == 4
    client.rollout("PUT", document=HALVES)
    counts = count_versions(server.http, 10000)
    assert abs(counts[1] - 7000) <= 150
    assert counts[1] + counts[2] == 10000


def test_an_ensemble_and_a_caller_get_one_version_for_a_request(client: RolloutClient) -> None:
    client.rollout("PUT", document=HALVES)
    seen = set()
    for number in range(40):
        outputs = client.outputs("pair", number)
        assert outputs["FIRST"] == outputs["SECOND"]
        first, second = client.outputs("caller", number)["VERSIONS"]
        assert first == second
        seen.add(first)
    assert seen == {1, 2}
