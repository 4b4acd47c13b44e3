# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The pipeline of digits_png, written as calls: the requests of a batch go through it together."""

import asyncio

import triton_python_backend_utils as pb_utils


class CallError(Exception):
    """A model that was called answered with an error."""


async def call(model, inputs, outputs):
    """Return the outputs of a model, in the order asked for."""
    request = pb_utils.InferenceRequest(
        model_name=model, inputs=inputs, requested_output_names=outputs
    )
    response = await request.async_exec()
    if response.has_error():
        raise CallError(response.error())
    return [pb_utils.get_output_tensor_by_name(response, name) for name in outputs]


class TritonPythonModel:
    async def execute(self, requests):
        return await asyncio.gather(*(self.answer(request) for request in requests))

    async def answer(self, request):
        png = pb_utils.get_input_tensor_by_name(request, "PNG")
        try:
            pixels = await call("digits_decode", [png], ["X"])
            label, probabilities = await call("digits", pixels, ["label", "probabilities"])
            (name,) = await call("digits_name", [label], ["NAME"])
        except CallError as failed:
            return pb_utils.InferenceResponse([], failed.args[0])
        probabilities = pb_utils.Tensor("PROBABILITIES", probabilities.as_numpy())
        return pb_utils.InferenceResponse([name, probabilities])
