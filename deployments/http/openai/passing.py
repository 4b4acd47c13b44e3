# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Models that speak OpenAI's objects themselves: the body goes in, objects come out.

Such a model says with the parameter ``openai.routes`` which routes it answers. It has the input
``openai_request``, the body as it came, and the output ``openai_response``, one JSON text each.
The request parameter ``openai_route`` tells it the route.
"""

from backends.api import openai_tensors
from backends.api.bytes_tensor import deserialize_bytes, serialize_bytes
from backends.api.errors import InternalError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest, InferenceResponse, Tensor


def routes_of(config: ModelConfig) -> tuple[str, ...]:
    """Return the routes that a model answers itself."""
    given = config.parameters.get(openai_tensors.ROUTES, "")
    return tuple(each for each in map(str.strip, given.split(",")) if each)


def request_of(name: str, version: int, route: str, body: bytes) -> InferenceRequest:
    """Return the request that carries a body to its model.

    Args:
        name: The model.
        version: Its version; -1 lets the version policy choose.
        route: The route that was asked.
        body: As it came.
    """
    return InferenceRequest(
        name,
        version,
        inputs=[bytes_tensor(openai_tensors.REQUEST, (1,), body)],
        outputs=[openai_tensors.RESPONSE],
        parameters={openai_tensors.ROUTE: route},
    )


def bytes_tensor(name: str, shape: tuple[int, ...], element: bytes) -> Tensor:
    """Return a BYTES tensor of one element."""
    return Tensor(name, "BYTES", shape, memoryview(serialize_bytes([element])))


class Passing:
    """The objects of the model, as they come."""

    __slots__ = ("_model_name",)

    def __init__(self, model_name: str) -> None:
        self._model_name = model_name

    def take(self, response: InferenceResponse) -> list[bytes]:
        """Return the objects of a response; one without outputs carries parameters alone.

        Raises:
            InternalError: It has outputs, but not the one of objects.
        """
        if not response.outputs:
            return []
        for output in response.outputs:
            if output.name == openai_tensors.RESPONSE and output.datatype == "BYTES":
                return deserialize_bytes(output.data)
        given = ", ".join(f"'{each.name}' {each.datatype}" for each in response.outputs)
        raise InternalError(
            f"model '{self._model_name}' answered an OpenAI request with {given}; expected output"
            f" '{openai_tensors.RESPONSE}' BYTES"
        )

    def end(self) -> list[bytes]:
        """Return nothing: the model says all."""
        return []
