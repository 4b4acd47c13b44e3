# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which outputs a request gets, and in which shape."""

import asyncio

import numpy as np
import pytest

from backends.api.backend import ExecuteBatch
from backends.api.model_config import (
    DynamicBatching,
    ModelConfig,
    ModelInput,
    ModelOutput,
)
from backends.api.request import InferenceResponse, tensor_as_numpy, tensor_from_numpy
from tests.support.lane_requests import (
    BATCHING,
    PLAIN,
    RecordedRequest,
    ScriptedModel,
    held,
    lane_request,
    outcome,
    running,
)


async def test_outputs_nobody_asked_for_are_left_out():
    def script(batch: ExecuteBatch) -> None:
        outputs = [tensor_from_numpy(name, np.zeros((1, 1), np.int8)) for name in ("A", "B", "C")]
        batch.requests[0].respond(InferenceResponse("", "", "", outputs))

    async with running(PLAIN, ScriptedModel(script)) as executor:
        request = lane_request(outputs=["C", "A"])
        executor.received([request])
        response = await outcome(request)
    assert isinstance(response, InferenceResponse)
    assert [output.name for output in response.outputs] == ["A", "C"]


async def test_requests_of_one_batch_each_get_the_outputs_they_asked_for():
    def script(batch: ExecuteBatch) -> None:
        for number, request in enumerate(batch.requests):
            made = np.full((1, 1), number, np.int8)
            outputs = [tensor_from_numpy(name, made) for name in "AB"]
            request.respond(InferenceResponse("", "", "", outputs))

    model = ScriptedModel(script, held=True)
    async with running(BATCHING, model) as executor:
        await held(executor, model)
        asked = [["A"], ["A"], ["B"], ["A", "B"], ["B", "A"]]
        requests = [lane_request(outputs=names) for names in asked]
        executor.received(requests)
        model.gate.set()
        responses = [await outcome(request) for request in requests]
    assert model.sizes == [1, 5]
    for number, (names, response) in enumerate(zip(asked, responses, strict=True)):
        assert isinstance(response, InferenceResponse)
        assert [output.name for output in response.outputs] == sorted(names)
        assert {bytes(output.data) for output in response.outputs} == {bytes([number])}


async def test_requests_of_different_lengths_share_a_batch_and_get_their_own_length_back():
    config = ModelConfig(
        "m",
        max_batch_size=8,
        dynamic_batching=DynamicBatching(),
        input=(ModelInput("IN", "FP32", (-1,)),),
        output=(ModelOutput("OUT", "FP32", (-1,)),),
        parameters={"shape_buckets.IN": "4,8", "unpad.OUT": "IN"},
    )
    shapes: list[tuple[int, ...]] = []

    def script(batch: ExecuteBatch) -> None:
        for request in batch.requests:
            (tensor,) = request.request.inputs
            shapes.append(tensor.shape)
            out = tensor_from_numpy("OUT", tensor_as_numpy(tensor) + 1)
            request.respond(InferenceResponse("", "", "", [out]))

    def of(length: int) -> RecordedRequest:
        tensor = tensor_from_numpy("IN", np.full((1, length), length, np.float32))
        return lane_request(inputs=[tensor])

    model = ScriptedModel(script, held=True)
    async with running(config, model) as executor:
        first = of(4)
        executor.received([first])
        await asyncio.to_thread(model.entered.wait, 30)
        requests = [of(length) for length in (1, 3, 4, 5)]
        executor.received(requests)
        model.gate.set()
        responses = [await outcome(request) for request in requests]
    assert model.sizes == [1, 3, 1]
    assert shapes == [(1, 4)] * 4 + [(1, 8)]
    for length, response in zip((1, 3, 4, 5), responses, strict=True):
        assert isinstance(response, InferenceResponse)
        (made,) = (tensor_as_numpy(output) for output in response.outputs)
        assert made.tolist() == [[length + 1.0] * length]


@pytest.mark.parametrize(
    ("dims", "reshape", "given_shape", "expected"),
    [
        ((1,), (), (2,), (2, 1)),
        ((-1, 1), (-1,), (2, 5), (2, 5, 1)),
        ((6,), (2, 3), (2, 2, 3), (2, 6)),
    ],
    ids=["scalar", "variable", "fixed"],
)
async def test_outputs_get_the_shape_the_config_promises(dims, reshape, given_shape, expected):
    def script(batch: ExecuteBatch) -> None:
        tensor = tensor_from_numpy("OUT", np.zeros(given_shape, np.float32))
        batch.requests[0].respond(InferenceResponse("", "", "", [tensor]))

    output = ModelOutput("OUT", "FP32", dims, reshape)
    config = ModelConfig("m", max_batch_size=8, output=(output,))
    async with running(config, ScriptedModel(script)) as executor:
        request = lane_request(2)
        executor.received([request])
        response = await outcome(request)
    assert isinstance(response, InferenceResponse)
    assert response.outputs[0].shape == expected
