# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""ModelInferRequest messages, and what the decoder makes of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tritonclient.grpc import service_pb2

from backends.api.errors import TritonError
from backends.api.request import InferenceRequest
from deployments.grpc.codec.request import RequestDecoder

RAW = b"\x01\x00\x00\x00"


def set_parameter(target: Any, value: object) -> None:
    if isinstance(value, tuple):
        setattr(target, *value)
    elif isinstance(value, bool):
        target.bool_param = value
    elif isinstance(value, int):
        target.int64_param = value
    elif isinstance(value, float):
        target.double_param = value
    elif isinstance(value, str):
        target.string_param = value
    else:
        target.SetInParent()


def message(
    parameters: Mapping[str, object] | None = None,
    inputs: Sequence[Mapping[str, Any]] = ({},),
    raw: Sequence[bytes] = (RAW,),
    outputs: Sequence[Mapping[str, object]] = (),
) -> Any:
    request = service_pb2.ModelInferRequest(
        model_name="simple", model_version="7", id="the id", raw_input_contents=list(raw)
    )
    for key, value in (parameters or {}).items():
        set_parameter(request.parameters[key], value)
    for index, each in enumerate(inputs):
        tensor = request.inputs.add(
            name=f"INPUT{index}", datatype=each.get("datatype", "INT32"), shape=[1]
        )
        for name, values in each.get("contents", {}).items():
            tensor.contents.SetInParent()
            getattr(tensor.contents, name).extend(values)
        for key, value in each.get("parameters", {}).items():
            set_parameter(tensor.parameters[key], value)
    for parameters_of_output in outputs:
        output = request.outputs.add(name=f"OUTPUT{len(request.outputs)}")
        for key, value in parameters_of_output.items():
            set_parameter(output.parameters[key], value)
    return request


def build(request: Any, decoder: RequestDecoder | None = None) -> InferenceRequest:
    return (decoder or RequestDecoder()).decode(request.SerializeToString()).build(1)


def refusal(request: Any) -> str:
    with pytest.raises(TritonError) as caught:
        build(request)
    return caught.value.message
