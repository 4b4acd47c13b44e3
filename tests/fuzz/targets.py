# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed: each target takes any bytes and raises only if there is a bug.

The same targets run under hypothesis in every test run (``tests/unit/test_fuzz.py``) and under
atheris, guided by coverage, with ``make fuzz``. The first byte of a stream's input is the size of
the pieces it comes in; the rest begins as one of the seeds.
"""

import contextlib
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from backends.api.bytes_tensor import deserialize_bytes, serialize_bytes
from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig, ModelInput
from backends.config.pbtxt import from_json, parse_pbtxt, to_json
from backends.config.validation.model import validate_before_auto_complete, validate_tensors
from deployments.grpc.codec.request import RequestDecoder
from deployments.http.codec.generate import decode_generate
from deployments.http.codec.infer_request import InferDecoder
from deployments.http.server.server import HttpServer
from deployments.http2 import frames
from deployments.lane.frames import INFER, PREFIX, FrameError, FrameReader
from deployments.lane.messages import decode_call, decode_request, decode_response, decode_setup
from tests.fuzz.access import credential_seeds, feed_credentials, feed_policy, policy_seeds
from tests.fuzz.pool_lanes import feed_pool, pool_seed
from tests.fuzz.ticket_lanes import feed_holder, feed_router, holder_seeds, router_seeds
from tests.support.abuse import HTTP1_CUT_OFF, HTTP2_BORNE, HTTP2_CUT_OFF, START, call, head
from tests.support.grpc_messages import add_sub_request, framed, words_request
from tests.support.http2_peer import Client
from tests.unit.deployments.http.server.test_head import MESSAGES, Application, served

# A call of a target that takes longer than this hangs, whatever it is given.
HANG_S: Final = 20
_MAX_SEED_BYTES: Final = 10_000


@dataclass(frozen=True)
class Target:
    """A parser of foreign bytes.

    Attributes:
        run: Parses.
        seeds: Inputs that reach deep into it.
    """

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


class _Served:
    name = "simple"
    version = 1
    labels: dict[str, tuple[str, ...]] = {}
    config = ModelConfig(
        "simple",
        max_batch_size=8,
        input=(ModelInput("INPUT0", "INT32", (16,)), ModelInput("INPUT1", "BYTES", (-1,))),
    )


def _pieces(data: bytes) -> Iterator[bytes]:
    size, stream = data[:1], data[1:]
    step = size[0] or len(stream) or 1 if size else 1
    return (stream[at : at + step] for at in range(0, len(stream), step))


_SERVER: Final = HttpServer(Application())


def _http_request(data: bytes) -> None:
    served(list(_pieces(data)), _SERVER)


def _http2(data: bytes) -> None:
    client = Client(start=False)
    for piece in _pieces(data):
        client.send(piece)
        client.now_ns += 1_000_000
        while client.h2.out.pending:
            client.raw()
    held = client.grpc.received.held_bytes
    assert 0 <= held <= len(data), held
    client.grpc.lost()
    assert client.budget.used_bytes == 0
    assert client.h2.out.queued_bytes >= 0
    for each in client.service.calls:
        assert each.half_closed_count + each.cancelled_count <= 2


def _infer_body(data: bytes) -> None:
    """A JSON header with binary tensors behind it; the first two bytes are the header's size."""
    size = int.from_bytes(data[:2], "big")
    decoder = InferDecoder()
    for length in (size, None):
        for _ in range(2):  # the second time the header is known
            try:
                decoder.decode(memoryview(data[2:]), length, _Served())
            except TritonError as error:
                error.as_string()


def _generate(data: bytes) -> None:
    try:
        decode_generate(data, _Served(), 1 << 26)
    except TritonError as error:
        error.as_string()


def _bytes_tensor(data: bytes) -> None:
    try:
        elements = deserialize_bytes(memoryview(data))
    except ValueError:  # which its callers turn into their errors
        return
    assert serialize_bytes(elements) == data


def _grpc_request(data: bytes) -> None:
    decoder = RequestDecoder()
    for _ in range(2):
        try:
            decoder.decode(data).build(1)
        except TritonError as error:
            error.as_string()


def _lane(data: bytes) -> None:
    reader = FrameReader(max_message_bytes=1 << 16, max_tail_bytes=1 << 16)
    decoders = (decode_setup, decode_call, decode_request, decode_response)
    with contextlib.suppress(FrameError):
        for piece in _pieces(data):
            for frame in reader.feed(piece):
                with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                    decoders[frame.kind % len(decoders)](frame.message)


def _pool_lane(data: bytes) -> None:
    feed_pool(_pieces(data))


def _config(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for parse in (lambda: parse_pbtxt(text, "config.pbtxt"), lambda: from_json(data)):
        try:
            config = parse()
            validate_before_auto_complete(config)
            validate_tensors(config)
            to_json(config)
        except TritonError as error:
            error.as_string()


def _infer_seeds() -> Iterator[bytes]:
    inputs = [
        {"name": "INPUT0", "datatype": "INT32", "shape": [1, 16], "data": list(range(16))},
        {"name": "INPUT1", "datatype": "BYTES", "shape": [1, 2], "data": ["a", "b"]},
    ]
    outputs = [{"name": "OUT", "parameters": {"classification": 2, "binary_data": True}}]
    parameters = {"sequence_id": 7, "sequence_start": True, "timeout": 3, "x": 1.5}
    document = {"id": "a", "inputs": inputs, "outputs": outputs, "parameters": parameters}
    yield b"\0\0" + json.dumps(document).encode()
    tail = struct.pack("<16i", *range(16)) + serialize_bytes([b"a", b"bc"])
    for each, size in zip(inputs, (64, 11), strict=True):
        del each["data"]
        each["parameters"] = {"binary_data_size": size}
    text = json.dumps(document).encode()
    yield len(text).to_bytes(2, "big") + text + tail


def _grpc_seeds() -> Iterator[bytes]:
    yield words_request("a b").SerializeToString()
    request = add_sub_request()
    request.id = "id"
    request.parameters["sequence_id"].int64_param = 9
    request.parameters["priority"].uint64_param = 1
    request.inputs[0].parameters["shared_memory_region"].string_param = "r"
    request.inputs[0].parameters["shared_memory_byte_size"].int64_param = 64
    request.outputs.add(name="OUTPUT0").parameters["classification"].int64_param = 3
    yield request.SerializeToString()


def _lane_seed() -> bytes:
    message = msgspec.msgpack.encode(["m", "7", [["X", "INT32", [1], None]], {"a": 1}])
    return b"".join(
        PREFIX.pack(kind, 1, kind, len(message), 9) + message + b"123456789"
        for kind in range(INFER, INFER + 6)
    )


_CONFIG: Final = b"""
name: "m" backend: "python" max_batch_size: 8
input [ { name: "A" data_type: TYPE_INT32 dims: [ -1, 2 ] reshape: { shape: [ 2 ] } } ]
output [ { name: "B" data_type: TYPE_FP32 dims: [ 16 ] label_filename: "l.txt" } ]
instance_group [ { kind: KIND_GPU count: 2 gpus: [ 0 ] } ]
dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 100
  priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 1 value {} } }
parameters { key: "x" value: { string_value: "y" } }
version_policy: { specific { versions: [ 1, 2 ] } }
"""


def _stream_seeds(seeds: Iterator[bytes]) -> tuple[bytes, ...]:
    """In pieces of one byte, of ten, and whole."""
    return tuple(
        size + seed[:_MAX_SEED_BYTES] for seed in seeds for size in (b"\x01", b"\x0a", b"\0")
    )


def _http2_seeds() -> Iterator[bytes]:
    for sent, _ in HTTP2_CUT_OFF.values():
        yield START + sent
    for sent in HTTP2_BORNE.values():
        yield START + sent
    message = add_sub_request().SerializeToString()
    yield START + call(1, message) + frames.window_update(0, 99) + call(3, message)
    body = framed(message)
    yield (
        START
        + head(1)
        + b"".join(frames.frame(frames.DATA, at == 99, 1, body[at : at + 1]) for at in range(100))
    )


TARGETS: Final[dict[str, Target]] = {
    "access_policy": Target(feed_policy, tuple(policy_seeds())),
    "credentials": Target(feed_credentials, tuple(credential_seeds())),
    "http_request": Target(
        _http_request, _stream_seeds(iter((*MESSAGES, *HTTP1_CUT_OFF.values())))
    ),
    "http2": Target(_http2, _stream_seeds(_http2_seeds())),
    "infer_body": Target(_infer_body, tuple(_infer_seeds())),
    "generate": Target(_generate, (b'{"INPUT0": [1, 2], "INPUT1": "x", "parameters": {"a": 1}}',)),
    "bytes_tensor": Target(_bytes_tensor, (serialize_bytes([b"a", b"", b"x" * 300]),)),
    "grpc_request": Target(_grpc_request, tuple(_grpc_seeds())),
    "lane": Target(_lane, _stream_seeds(iter((_lane_seed(),)))),
    "pool_lane": Target(_pool_lane, _stream_seeds(iter((pool_seed(),)))),
    "tickets": Target(lambda data: feed_holder(_pieces(data)), _stream_seeds(router_seeds())),
    "grants": Target(lambda data: feed_router(_pieces(data)), _stream_seeds(holder_seeds())),
    "config": Target(_config, (_CONFIG, to_json(parse_pbtxt(_CONFIG.decode(), "config.pbtxt")))),
}
