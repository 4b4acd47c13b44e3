# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""manta.v1.Rollouts on both transports."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from backends.api.errors import NotFoundError
from deployments.contracts.control import RolloutAction
from deployments.grpc.codec import rollouts as codec
from deployments.grpc.kserve.rollouts import ROLLOUT_PATHS
from deployments.grpc.kserve.service import GrpcService, category_of
from deployments.grpc.server.http2_server import Http2Server
from tests.support.grpc_plane import fake_plane
from tests.support.grpc_service import grpcio_server

Served = tuple[str, Any]


@pytest.fixture(params=[grpcio_server, Http2Server])
async def served(request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    plane = fake_plane()
    server = request.param(GrpcService(plane))
    yield f"127.0.0.1:{await server.start('127.0.0.1', 0)}", plane
    server.close()
    await server.wait_drained(5)


async def ask(address: str, rpc: str, name: str, document: dict[str, Any]) -> dict[str, Any]:
    request = codec.message("RolloutRequest")(model_name=name)
    request.rollout.update(document)
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary(f"/manta.v1.Rollouts/{rpc}")
        answer = codec.message("RolloutResponse").FromString(
            await call(request.SerializeToString())
        )
    return dict(answer.rollout)


async def test_a_rollout_is_set_with_the_document_of_http(served: Served) -> None:
    address, plane = served
    document = {"kind": "ab", "arms": [{"name": "a", "version": 1, "weight": 99.5}]}
    assert await ask(address, "SetRollout", "m", document) == {
        "model": "m",
        "phase": "progressing",
    }
    assert plane.rollouts.asked == [("m", RolloutAction.SET, document)]
    assert isinstance(plane.rollouts.asked[0][2]["arms"][0]["version"], int)


@pytest.mark.parametrize(
    ("rpc", "action"),
    [
        ("GetRollout", RolloutAction.GET),
        ("EndRollout", RolloutAction.END),
        ("PromoteRollout", RolloutAction.PROMOTE),
        ("PauseRollout", RolloutAction.PAUSE),
        ("ResumeRollout", RolloutAction.RESUME),
        ("RollBackRollout", RolloutAction.ROLLBACK),
    ],
)
async def test_each_rpc_asks_for_its_action(
    served: Served, rpc: str, action: RolloutAction
) -> None:
    address, plane = served
    await ask(address, rpc, "m", {})
    assert plane.rollouts.asked == [("m", action, {})]


async def test_what_is_refused_has_its_status(served: Served) -> None:
    address, plane = served
    plane.rollouts.error = NotFoundError("model 'm' has no rollout")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(address, "GetRollout", "m", {})
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert caught.value.details() == "model 'm' has no rollout"


async def test_a_malformed_message_is_refused(served: Served) -> None:
    address, plane = served
    async with grpc.aio.insecure_channel(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await channel.unary_unary("/manta.v1.Rollouts/GetRollout")(b"\x0a\xff")
    assert plane.rollouts.asked == []


def test_rollouts_belong_to_the_model_repository() -> None:
    assert {category_of(path) for path in ROLLOUT_PATHS} == {"model-repository"}
    assert {path.rpartition(b"/")[2].decode() for path in ROLLOUT_PATHS} == set(codec.RPCS)
