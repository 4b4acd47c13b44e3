# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""gRPC requests as bytes, good and bad, and the answers to them."""

import random
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2
from tritonclient.utils import serialize_byte_tensor

from tests.support.clients import LEFT, RIGHT
from tests.support.grpc_infer_requests import set_parameter
from tests.support.surface_models import VALUES

DAMAGED = 150
SERVICE = "/inference.GRPCInferenceService/"
TIMEOUT_S = 20.0
_STREAM = "ModelStreamInfer"
# Answers with a map of several entries, whose order protobuf draws anew in each process: two plain
# servers differ as much. The messages are compared, all else to the byte.
_MAPS = {
    "TraceSetting": service_pb2.TraceSettingResponse,
    "LogSettings": service_pb2.LogSettingsResponse,
}
_MAPS_OF = {
    "ensemble": service_pb2.ModelInferResponse,
    "ensemble, streamed": service_pb2.ModelStreamInferResponse,
}
# Requests of other calls; what has times or pids in its answer is left out.
_CONTROL = {
    "ServerLive": ({},),
    "ServerReady": ({},),
    "ServerMetadata": ({},),
    "ModelReady": ({"name": "add_sub"}, {"name": "none"}, {"name": "add_sub", "version": "9"}),
    "ModelMetadata": ({"name": "each_datatype"}, {"name": "none"}, {}),
    "ModelConfig": ({"name": "reshaped"}, {"name": "pipeline"}, {"name": "none"}),
    "RepositoryIndex": ({}, {"ready": True}),
    "SystemSharedMemoryStatus": ({}, {"name": "none"}),
    "TraceSetting": ({}, {"model_name": "add_sub"}),
    "LogSettings": ({},),
}


def grpc_requests() -> Iterator[tuple[str, str, bytes]]:
    """Yield what each request is, its call, and its message."""
    for call, requests in _CONTROL.items():
        kind = getattr(service_pb2, f"{call}Request")
        for each in requests:
            yield f"{call} {each}", call, kind(**each).SerializeToString()
        yield f"{call}, damaged", call, b"\x0a\xff"
    yield "a call that is not there", "NoSuchCall", b""
    good = []
    for what, message in _infers():
        sent = message.SerializeToString()
        yield what, "ModelInfer", sent
        yield f"{what}, streamed", _STREAM, sent
        if what not in _MAPS_OF:
            good.append(sent)
    rng = random.Random(10)
    for index in range(DAMAGED):
        yield f"damaged {index}", "ModelInfer", _damaged(rng.choice(good), rng)


def _infers() -> Iterator[tuple[str, service_pb2.ModelInferRequest]]:
    for name, array in VALUES.items():
        raw = serialize_byte_tensor(array).item() if name == "BYTES" else array.tobytes()
        yield f"{name}", _infer("each_datatype", {f"IN_{name}": (name, array.shape, raw)})
        yield f"{name} cut", _infer("each_datatype", {f"IN_{name}": (name, array.shape, raw[1:])})
    add_sub = {
        "INPUT0": ("INT32", LEFT.shape, LEFT.tobytes()),
        "INPUT1": ("INT32", RIGHT.shape, RIGHT.tobytes()),
    }
    parameters: dict[str, Any] = {"a": 1, "b": "x", "c": True, "d": 1.5, "none": None}
    # Models are shown parameters in the order of the map: one at a time.
    one = {"IN": ("INT32", (1,), np.int32(1).tobytes())}
    for key in ("a", "b", "c", "d"):
        yield f"echo {key}", _infer("echo_parameters", one, {key: parameters[key]})
    yield "add_sub", _infer("add_sub", add_sub)
    yield "version", _infer("add_sub", add_sub, version="2")
    yield "parameters", _infer("add_sub", add_sub, parameters)
    yield "echo of a sequence", _infer("echo_parameters", one, {"sequence_id": 5})
    four = np.array([[1, 4.5, -2, 1e-3]], np.float32)
    yield "labelled", _infer("labelled", {"VALUES": ("FP32", four.shape, four.tobytes())})
    yield "ensemble", _infer("pipeline", {"IN": ("FP32", (4,), four.tobytes())})


def _infer(
    model: str,
    inputs: dict[str, tuple[str, Any, bytes]],
    parameters: dict[str, Any] | None = None,
    version: str = "",
) -> service_pb2.ModelInferRequest:
    message = service_pb2.ModelInferRequest(model_name=model, model_version=version, id="the id")
    for key, value in (parameters or {}).items():
        set_parameter(message.parameters[key], value)
    for name, (datatype, shape, raw) in inputs.items():
        message.inputs.add(name=name, datatype=datatype, shape=shape)
        message.raw_input_contents.append(raw)
    return message


def _damaged(message: bytes, rng: random.Random) -> bytes:
    changed = bytearray(message)
    for _ in range(rng.randrange(1, 4)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.2 else changed)


def answer(channel: grpc.Channel, what: str, call: str, sent: bytes) -> bytes:
    """Send a message; return messages, status and metadata of the answer."""
    metadata = (("x-mine", "forwarded"),)
    open_call = channel.stream_stream(SERVICE + call)
    replies = open_call(iter([sent]), timeout=TIMEOUT_S, metadata=metadata)
    messages: list[bytes] = []
    try:
        messages.extend(replies)
    except grpc.RpcError as error:
        messages.append(f"{error.code()}: {error.details()}".encode())
    kind = _MAPS.get(call) or _MAPS_OF.get(what)
    if kind is not None and replies.code() is grpc.StatusCode.OK:
        messages = [kind.FromString(m).SerializeToString(deterministic=True) for m in messages]
    parts = [replies.initial_metadata(), replies.code(), replies.trailing_metadata()]
    return b"\n".join([*messages, *(repr(each).encode() for each in parts)])
