# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The planes that protocol tests run on answer as the data plane does."""

import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest

from backends.api.errors import InvalidArgumentError, NotFoundError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest, InferenceResponse, tensor_from_numpy
from deployments.contracts.routing_table import Model, ModelReadyState, ModelVersion, RoutingTable
from deployments.data_plane.data_plane import DataPlane
from deployments.data_plane.face import Plane
from deployments.lane.server import ServerRequest
from tests.support import grpc_plane, http_plane
from tests.support.cluster_of_instances import Instance, Routed
from tests.support.lane_rig import Sink
from tests.support.memory_plane import Repository


def _add(request: ServerRequest) -> None:
    outputs = [
        tensor_from_numpy(name, np.zeros((1, 16), np.int32)) for name in ("OUTPUT0", "OUTPUT1")
    ]
    request.respond(InferenceResponse("simple", "1", request.request.id, outputs), final=True)


def _config() -> ModelConfig:
    return http_plane.simple_config()


@pytest.fixture(params=["data plane", "of HTTP tests", "of gRPC tests"])
async def plane(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    if request.param == "of HTTP tests":
        yield http_plane.FakePlane()
        return
    if request.param == "of gRPC tests":
        yield grpc_plane.fake_plane()
        return
    async with Routed() as here:
        instance = await Instance(_add).start()
        # Stopped together with the router.
        here.instances.append(instance)
        instances = (instance.endpoint,)
        version = ModelVersion(1, ModelReadyState.READY, config=_config(), instances=instances)
        models = {"simple": Model("simple", (version,))}
        here.router.update(RoutingTable(2**62, models, initialised=True))
        yield DataPlane("triton", here.router, here.slabs, Repository())


def _request(**fields: Any) -> InferenceRequest:
    inputs = [tensor_from_numpy(name, np.zeros((1, 16), np.int32)) for name in ("INPUT0", "INPUT1")]
    return InferenceRequest("simple", inputs=inputs, **fields)


async def test_a_running_plane_is_live_and_ready(plane: Any) -> None:
    assert plane.server_live()
    assert plane.server_ready()
    assert {"name", "version", "extensions"} == set(plane.server_metadata())


async def test_a_ready_version_is_resolved_by_name_and_number(plane: Any) -> None:
    for version in ("", "1"):
        model = plane.resolve("simple", version)
        assert model.name == "simple"
        assert model.config.max_batch_size == 8
        assert plane.model_ready("simple", version)


@pytest.mark.parametrize(("name", "version"), [("unknown", ""), ("simple", "9")])
async def test_what_is_not_there_is_not_found(plane: Any, name: str, version: str) -> None:
    with pytest.raises(NotFoundError, match=f"^Request for unknown model: '{name}'"):
        plane.resolve(name, version)


async def test_an_inference_has_one_final_response(plane: Any) -> None:
    sink = Sink()
    plane.infer(plane.resolve("simple"), _request(id="seven"), sink)
    await sink.ended
    assert sink.error is None
    (response,) = sink.responses
    assert response is not None
    assert (response.model_name, response.id) == ("simple", "seven")
    assert {each.name for each in response.outputs} == {"OUTPUT0", "OUTPUT1"}


async def test_a_request_that_does_not_fit_is_raised_and_not_told_to_the_sink(plane: Any) -> None:
    sink, asked = Sink(), _request()
    asked.inputs.pop()
    with pytest.raises(InvalidArgumentError, match="expected 2 inputs but got 1 inputs"):
        plane.infer(plane.resolve("simple"), asked, sink)
    assert not sink.ended.done()


def _parameters(method: Callable[..., object]) -> list[tuple[str, Any, Any]]:
    found = list(inspect.signature(method).parameters.values())[1:]
    return [(each.name, each.kind, each.default) for each in found]


@pytest.mark.parametrize("fake", [http_plane.FakePlane, grpc_plane.FakePlane])
def test_a_fake_has_no_method_the_data_plane_lacks_or_calls_otherwise(fake: type) -> None:
    helpers = {"add", "wait_pending", "wait_cancelled", "wait_arrived", "next_job"}
    for name, method in inspect.getmembers(fake, inspect.isfunction):
        if name.startswith("_") or name in helpers:
            continue
        real = getattr(Plane, name)
        assert _parameters(method) == _parameters(real), name
        assert inspect.iscoroutinefunction(method) == inspect.iscoroutinefunction(real), name
