# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Inference requests as messages of gRPC.

Protobuf takes two messages one after the other for one that has the fields of both, so what differs
from request to request is appended to what was encoded once.
"""

from typing import Any, Final

from tritonclient.grpc import service_pb2

from manta_tools.perf.clients.payload import (
    Form,
    Parameter,
    Payload,
    Places,
    sequence_parameters,
)
from manta_tools.perf.data.rows import Row
from manta_tools.perf.data.sequences import SequencePart

_EMPTY_FINAL: Final = "triton_enable_empty_final_response"


class GrpcEncoder:
    """Encodes requests; those of sequences have the message of their row in common."""

    def __init__(self, form: Form, *, asks_for_final: bool) -> None:
        """Make an encoder.

        Args:
            form: How.
            asks_for_final: Whether the server is to say which response is the last, if need be
                with one that has no content.
        """
        self._form, self._asks_for_final = form, asks_for_final
        self._rows: dict[int, tuple[Row, bytes]] = {}

    def encode(self, row: Row, places: Places, part: SequencePart | None) -> Payload:
        """Encode a request."""
        known = self._rows.get(id(row))
        if known is None:
            # With the row, so that its id stays its own.
            known = self._rows[id(row)] = (row, self._message(row, places))
        wire = known[1]
        if part is not None:
            wire += parameters_message(sequence_parameters(part))
        return Payload(wire, row.expected)

    def _message(self, row: Row, places: Places) -> bytes:
        form = self._form
        message = service_pb2.ModelInferRequest(
            model_name=form.model.name, model_version=form.model.version
        )
        for name, content in row.inputs.items():
            tensor = message.inputs.add(
                name=name, datatype=content.datatype, shape=list(content.shape)
            )
            if name in places.inputs:
                _set_parameters(tensor, places.inputs[name].parameters())
            else:
                message.raw_input_contents.append(content.raw)
        for each in form.model.outputs:
            output = message.outputs.add(name=each.name)
            if each.name in places.outputs:
                _set_parameters(output, places.outputs[each.name].parameters())
        _set_parameters(message, {each.name: each.value for each in form.parameters})
        if self._asks_for_final:
            _set_parameters(message, {_EMPTY_FINAL: True})
        encoded: bytes = message.SerializeToString()
        return encoded


def parameters_message(parameters: dict[str, Parameter]) -> bytes:
    """Return parameters of a request, to be appended to its message."""
    message = service_pb2.ModelInferRequest()
    _set_parameters(message, parameters)
    encoded: bytes = message.SerializeToString()
    return encoded


def id_message(request_id: str) -> bytes:
    """Return a request's id, to be appended to its message."""
    encoded: bytes = service_pb2.ModelInferRequest(id=request_id).SerializeToString()
    return encoded


def outputs_of(response: Any) -> dict[str, bytes]:
    """Return the bytes of a response's outputs, by name; what lies in shared memory is left out."""
    raws = iter(response.raw_output_contents)
    return {
        output.name: next(raws, b"")
        for output in response.outputs
        if "shared_memory_region" not in output.parameters
    }


def _set_parameters(target: Any, parameters: dict[str, Parameter]) -> None:
    for name, value in parameters.items():
        parameter = target.parameters[name]
        if isinstance(value, bool):
            parameter.bool_param = value
        elif isinstance(value, int):
            parameter.int64_param = value
        else:
            parameter.string_param = value
