# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Little that becomes much: compressed bodies, deep and wide documents, shapes, counts, names."""

import functools
import gzip
import json
import time
import zlib
from collections.abc import Iterator
from typing import Any, Final

import hpack
from tritonclient.grpc import service_pb2

from deployments.http2 import frames
from tests.attack.grpc_wire import ended_calls
from tests.attack.scene import Scene
from tests.attack.tally import ALLOWED_CODES, Tally
from tests.attack.wire import Connection, infer_document, post_json, request
from tests.support import abuse

_INFER: Final = "/v2/models/add_sub/infer"
# Over the 64 MiB of --http-max-input-size, and over gRPC's 256 MiB.
_HTTP_BOMB_BYTES: Final = 80 << 20
_GRPC_BOMB_BYTES: Final = 300 << 20
_PIECE: Final = bytes(1 << 20)
_SLOW_S: Final = 120


def attack_with_bombs(scene: Scene, tally: Tally) -> None:
    """See the module."""
    with Connection(scene.server.http) as connection:
        for what, sent in (*_compressed_bodies(), *_documents(), *_heads()):
            begin_s = time.monotonic()
            answer = connection.ask(sent)
            took_s = time.monotonic() - begin_s
            tally.expect(took_s < _SLOW_S, f"{what}: kept the server busy for {took_s:.0f} s")
            # A connection that closes while a body is still being sent answers nobody.
            tally.check_answer(answer.status or 400, answer.body, what)
            tally.expect(answer.status != 200, f"{what}: taken")
            connection.close()
    for what, sent in _compressed_messages():
        received = abuse.throw(
            scene.server.grpc, abuse.START_WIDE + sent, until=lambda got: bool(ended_calls(got))
        )
        calls = ended_calls(received)
        codes = {each.code for each in calls.values()}
        tally.note(f"code {min(codes, default=-1)}")
        tally.expect(0 not in codes, f"{what}: taken")
        tally.expect(codes <= ALLOWED_CODES | {-1}, f"{what}: {codes}")
    for what, message in _messages():
        sent = abuse.head(1) + _sent(message.SerializeToString(), b"\0")
        received = abuse.throw(
            scene.server.grpc, abuse.START_WIDE + sent, until=lambda got: bool(ended_calls(got))
        )
        codes = {each.code for each in ended_calls(received).values()}
        tally.note(f"code {min(codes, default=-1)}")
        tally.expect(0 not in codes, f"{what}: taken")
        tally.expect(codes <= ALLOWED_CODES | {-1}, f"{what}: {codes}")


@functools.cache
def _bomb(size_bytes: int, window_bits: int) -> bytes:
    stream = zlib.compressobj(1, zlib.DEFLATED, window_bits)
    parts = [stream.compress(_PIECE) for _ in range(size_bytes >> 20)]
    return b"".join([*parts, stream.flush()])


def _compressed_bodies() -> Iterator[tuple[str, bytes]]:
    good = json.dumps(infer_document()).encode()
    bombs = {
        "gzip bomb": (b"gzip", _bomb(_HTTP_BOMB_BYTES, 31)),
        "deflate bomb": (b"deflate", _bomb(_HTTP_BOMB_BYTES, 15)),
        "gzip within gzip": (b"gzip", gzip.compress(gzip.compress(good))),
        "gzip bomb within gzip": (b"gzip", gzip.compress(_bomb(_HTTP_BOMB_BYTES, 31))),
        "gzip twice by name": (b"gzip, gzip", gzip.compress(gzip.compress(good))),
        "gzip cut short": (b"gzip", gzip.compress(good)[:-9]),
        "gzip of nothing": (b"gzip", b""),
        "gzip of another kind": (b"br", good),
        "raw deflate": (b"deflate", zlib.compress(good)[2:-4]),
    }
    for what, (coding, body) in bombs.items():
        yield what, request("POST", _INFER, body, (b"Content-Encoding: " + coding,))


def _documents() -> Iterator[tuple[str, bytes]]:
    good = json.dumps(infer_document())
    texts = {
        "arrays in arrays": "[" * 200_000,
        "objects in objects": '{"a":' * 200_000,
        "closed arrays in arrays": "[" * 50_000 + "]" * 50_000,
        "a number of a million digits": good.replace("16]", "1" * 1_000_000 + "]", 1),
        "an exponent": good.replace("16]", "1e999999999]", 1),
        "a deep shape": good.replace("[1, 16]", "[" * 5000 + "]" * 5000, 1),
        "many dimensions": good.replace("[1, 16]", json.dumps([1] * 200_000), 1),
        "dimensions whose product wraps": good.replace("[1, 16]", "[4294967296, 4294967296]", 1),
        "a dimension of 2^63": good.replace("[1, 16]", "[9223372036854775808]", 1),
        "negative dimensions": good.replace("[1, 16]", "[-1, -16]", 1),
    }
    for what, text in texts.items():
        yield what, request("POST", _INFER, text.encode())
    for what, change in _changes():
        yield what, post_json(_INFER, infer_document() | change)


def _changes() -> Iterator[tuple[str, dict[str, Any]]]:
    tensor = infer_document()["inputs"][0]
    yield "many inputs", {"inputs": [tensor | {"name": f"I{n}"} for n in range(5000)]}
    yield "one input many times", {"inputs": [tensor] * 5000}
    yield "many outputs", {"outputs": [{"name": f"O{n}"} for n in range(20_000)]}
    yield "a name of a megabyte", {"inputs": [tensor | {"name": "n" * (1 << 20)}]}
    yield "a datatype of a megabyte", {"inputs": [tensor | {"datatype": "D" * (1 << 20)}]}
    count = {"name": "OUTPUT0", "parameters": {"classification": -1}}
    yield "a classification below 0", {"outputs": [count]}
    size = {"binary_data_size": 2**63 - 1}
    yield "binary data of 8 EiB", {"inputs": [{**tensor, "parameters": size}]}
    extent = {"shared_memory_region": "r" * 100_000, "shared_memory_byte_size": 2**63 - 1}
    yield "a region of 8 EiB", {"inputs": [{**tensor, "parameters": extent}]}


def _heads() -> Iterator[tuple[str, bytes]]:
    yield "many headers", request("GET", "/v2", b"", tuple(b"x%d: y" % n for n in range(20_000)))
    yield "a header of a megabyte", request("GET", "/v2", b"", (b"x: " + b"y" * (1 << 20),))
    yield "a query of a megabyte", request("GET", "/v2?" + "x" * (1 << 20))
    yield "a model name of 7,000 bytes", request("GET", "/v2/models/" + "m" * 7000)
    yield "a version of 6,000 digits", request("GET", "/v2/models/add_sub/versions/" + "9" * 6000)
    yield (
        "a region name of 7,000 bytes",
        post_json(
            f"/v2/systemsharedmemory/region/{'r' * 7000}/register", {"key": "/x", "byte_size": 64}
        ),
    )


def _sent(message: bytes, prefix: bytes) -> bytes:
    body = prefix + len(message).to_bytes(4, "big") + message
    pieces = [body[at : at + 16_384] for at in range(0, len(body), 16_384)]
    return b"".join(
        abuse.data(1, piece, frames.END_STREAM if at == len(pieces) - 1 else 0)
        for at, piece in enumerate(pieces)
    )


def _compressed_messages() -> Iterator[tuple[str, bytes]]:
    for coding, window_bits in ((b"gzip", 31), (b"deflate", 15)):
        headers = (*abuse.GRPC_HEADERS, (b"grpc-encoding", coding))
        encoded = hpack.Encoder().encode([(*each, True) for each in headers], huffman=False)
        head = abuse.head(1, bytes(encoded))
        yield f"{coding.decode()} bomb", head + _sent(_bomb(_GRPC_BOMB_BYTES, window_bits), b"\1")
        nested = gzip.compress(_bomb(_GRPC_BOMB_BYTES, 31))
        yield f"gzip bomb within {coding.decode()}", head + _sent(nested, b"\1")
    yield "compressed without a coding", abuse.head(1) + _sent(gzip.compress(b"x"), b"\1")


def _messages() -> Iterator[tuple[str, service_pb2.ModelInferRequest]]:
    """Yield messages that protobuf takes."""

    def message() -> service_pb2.ModelInferRequest:
        made = service_pb2.ModelInferRequest(model_name="add_sub")
        made.inputs.add(name="INPUT0", datatype="INT32", shape=[1, 16])
        made.inputs.add(name="INPUT1", datatype="INT32", shape=[1, 16])
        return made

    many = message()
    many.inputs[0].shape.extend([1] * 200_000)
    yield "many dimensions", many
    wraps = message()
    wraps.inputs[0].shape[:] = [1 << 32, 1 << 32]
    wraps.raw_input_contents.extend([b"", b""])
    yield "dimensions whose product wraps", wraps
    string = message()
    string.inputs[0].datatype = "BYTES"
    string.raw_input_contents.extend([b"\xff\xff\xff\xff" * 16, bytes(64)])
    yield "elements of 4 GiB", string
    contents = message()
    contents.inputs[0].contents.int_contents.extend(range(100_000))
    contents.inputs[1].contents.fp64_contents.extend([1.0] * 16)
    yield "contents of other types and counts", contents
    both = message()
    both.inputs[0].contents.int_contents.extend(range(16))
    both.raw_input_contents.extend([bytes(64)] * 1000)
    yield "contents and raw contents", both
