# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A client with one ModelStreamInfer, over the transport without sockets."""

import struct
from collections.abc import Iterable

from tritonclient.grpc import service_pb2

from deployments.grpc.kserve.service import STREAM_PATH, GrpcService
from deployments.supervision.memory_budget import MemoryBudget
from tests.support.grpc_plane import FakePlane, fake_plane
from tests.support.grpc_service import counted
from tests.support.http2_peer import Client, data_frame, grpc_message, headers_frame, request

MB = 1 << 20
STREAM = request(path=STREAM_PATH)
Headers = Iterable[tuple[bytes, bytes]]
_PREFIX = struct.Struct(">BI")


def held_message(model: str = "held", request_id: str = "", size: int = 0) -> bytes:
    asked = counted(model, 1, request_id)
    asked.parameters["padding"].string_param = "x" * size
    return bytes(asked.SerializeToString())


class Streaming:
    """A client with one stream, what it has sent and what it was answered."""

    def __init__(self, budget: MemoryBudget, headers: Headers = STREAM) -> None:
        self.plane: FakePlane = fake_plane()
        self.client = Client(budget=budget)
        self.client.grpc.service = GrpcService(self.plane)  # type: ignore[arg-type]
        self.headers = headers
        self.trailers: dict[bytes, bytes] = {}
        self._body = b""

    def begin(self) -> None:
        self.client.send(headers_frame(1, self.headers))

    def send(self, body: bytes, *, end: bool = False, piece_bytes: int = 1 << 14) -> None:
        for at in range(0, len(body), piece_bytes):
            is_last = end and at + piece_bytes >= len(body)
            self.client.send(data_frame(1, body[at : at + piece_bytes], end=is_last))

    def ask(self, request_id: str, size: int = 0, model: str = "held") -> None:
        self.send(grpc_message(held_message(model, request_id, size)))

    def answers(self) -> list[tuple[str, str]]:
        """Id and error of each answer since the last look."""
        trailers, body = self.client.answer(1)
        self.trailers |= trailers
        self._body += body
        found = []
        while len(self._body) >= _PREFIX.size:
            _, size = _PREFIX.unpack_from(self._body)
            end = _PREFIX.size + size
            answer = service_pb2.ModelStreamInferResponse.FromString(self._body[_PREFIX.size : end])
            self._body = self._body[end:]
            found.append((answer.infer_response.id, answer.error_message))
        return found


def opened(limit_bytes: int, headers: Headers = STREAM) -> Streaming:
    """A stream that has begun, with a memory budget of its own."""
    streaming = Streaming(MemoryBudget(limit_bytes), headers)
    streaming.begin()
    return streaming
