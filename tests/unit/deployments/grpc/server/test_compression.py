# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``--grpc-infer-response-compression-level`` on the wire of either transport."""

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from deployments.grpc.kserve.service import INFER_PATH, INFERENCE_PATHS, STREAM_PATH, GrpcService
from deployments.grpc.rpc.compression import ResponseCompression
from deployments.grpc.rpc.inflation import DECOMPRESSORS
from deployments.grpc.server.http2_server import Http2Server
from deployments.http2 import frames
from tests.support.grpc_plane import fake_plane
from tests.support.grpc_service import grpcio_server
from tests.support.http2_peer import (
    START,
    Peer,
    data_frame,
    grpc_message,
    headers_frame,
    request,
)

METADATA_PATH = b"/inference.GRPCInferenceService/ModelConfig"
ZEROS = np.zeros(1000, np.float32)


def infer_request() -> bytes:
    message = service_pb2.ModelInferRequest(model_name="large")
    message.inputs.add(name="IN", datatype="FP32", shape=[1000])
    message.raw_input_contents.append(ZEROS.tobytes())
    return message.SerializeToString()


@contextlib.asynccontextmanager
async def connected(kind: str, level: str) -> AsyncIterator[Peer]:
    service = GrpcService(fake_plane())
    compression = ResponseCompression(level, INFERENCE_PATHS) if level != "none" else None
    server = (
        Http2Server(service, compression=compression)
        if kind == "own"
        else grpcio_server(service, compression=level)
    )
    port = await server.start("127.0.0.1", 0)
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port))
    try:
        peer.writer.write(START)
        yield peer
    finally:
        peer.writer.close()
        server.close()
        await server.wait_drained(5)


async def first_message(peer: Peer, path: bytes, message: bytes, accepted: bytes) -> bytes:
    """Flag, length and content of the first message of an answer."""
    headers = request(path=path, grpc_accept_encoding=accepted)
    peer.writer.write(headers_frame(1, headers) + data_frame(1, grpc_message(message), end=True))
    body = b""
    while len(body) < 5 or len(body) < 5 + int.from_bytes(body[1:5], "big"):
        body += (await peer.frame(frames.DATA)).payload
    return body[: 5 + int.from_bytes(body[1:5], "big")]


@pytest.mark.parametrize("kind", ["own", "grpcio"])
@pytest.mark.parametrize(
    ("level", "accepted", "encoding"),
    [
        ("none", b"gzip,deflate", None),
        ("low", b"gzip,deflate", b"gzip"),
        ("medium", b"gzip,deflate", b"deflate"),
        ("high", b"gzip,deflate", b"deflate"),
        ("high", b"gzip", b"gzip"),
        ("high", b"identity", None),
    ],
)
async def test_inference_responses_are_compressed_as_the_client_accepts(
    kind: str, level: str, accepted: bytes, encoding: bytes | None
) -> None:
    for path in (INFER_PATH, STREAM_PATH):
        async with connected(kind, level) as peer:
            framed = await first_message(peer, path, infer_request(), accepted)
            content = framed[5:]
            assert framed[0] == (encoding is not None)
            if encoding is not None:
                content = zlib.decompress(content, DECOMPRESSORS[encoding])
            answer = (
                service_pb2.ModelInferResponse.FromString(content)
                if path == INFER_PATH
                else service_pb2.ModelStreamInferResponse.FromString(content).infer_response
            )
            assert answer.raw_output_contents[0] == ZEROS.tobytes()


@pytest.mark.parametrize("kind", ["own", "grpcio"])
async def test_other_responses_are_not_compressed(kind: str) -> None:
    message = service_pb2.ModelConfigRequest(name="simple").SerializeToString()
    async with connected(kind, "high") as peer:
        framed = await first_message(peer, METADATA_PATH, message, b"gzip,deflate")
        assert framed[0] == 0
        assert service_pb2.ModelConfigResponse.FromString(framed[5:]).config.name == "simple"
