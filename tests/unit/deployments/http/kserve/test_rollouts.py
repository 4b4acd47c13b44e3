# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The routes of rollouts."""

import json
from typing import Any

import pytest

from backends.api.errors import NotFoundError
from deployments.contracts.control import RolloutAction
from tests.support.http_plane import request, running

DOCUMENT: dict[str, Any] = {"kind": "ab", "arms": [{"name": "a", "version": 1, "weight": 100}]}


@pytest.mark.parametrize(
    ("method", "path", "action"),
    [
        ("GET", "", RolloutAction.GET),
        ("DELETE", "", RolloutAction.END),
        ("POST", "/promote", RolloutAction.PROMOTE),
        ("POST", "/pause", RolloutAction.PAUSE),
        ("POST", "/resume", RolloutAction.RESUME),
        ("POST", "/rollback", RolloutAction.ROLLBACK),
    ],
)
async def test_each_route_asks_for_its_action(
    method: str, path: str, action: RolloutAction
) -> None:
    async with running() as here:
        client = await here.connect()
        answer = await client.call(request(method, f"/v2/models/a%20b/rollout{path}"))
    assert (answer.status, answer.json) == (200, {"model": "a b", "phase": "progressing"})
    assert here.plane.rollouts.asked == [("a b", action, {})]


@pytest.mark.parametrize("method", ["PUT", "POST"])
async def test_a_rollout_is_set_with_its_document(method: str) -> None:

    async with running() as here:
        client = await here.connect()
        body = json.dumps(DOCUMENT).encode()
        answer = await client.call(request(method, "/v2/models/m/rollout", body))
    assert answer.status == 200
    assert here.plane.rollouts.asked == [("m", RolloutAction.SET, DOCUMENT)]


@pytest.mark.parametrize(("body", "status"), [(b"", 400), (b"[]", 400), (b"{", 500)])
async def test_what_is_no_json_object_is_refused(body: bytes, status: int) -> None:
    async with running() as here:
        client = await here.connect()
        answer = await client.call(request("PUT", "/v2/models/m/rollout", body))
    assert answer.status == status
    assert here.plane.rollouts.asked == []


async def test_a_model_without_a_rollout_is_not_found() -> None:
    async with running() as here:
        here.plane.rollouts.error = NotFoundError("model 'm' has no rollout")
        client = await here.connect()
        answer = await client.call(request("GET", "/v2/models/m/rollout"))
    assert (answer.status, answer.json["error"]) == (404, "model 'm' has no rollout")
