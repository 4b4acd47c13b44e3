# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A gRPC call whose client accepts compressed messages."""

from deployments.grpc.rpc.call import CallHost, GrpcCall
from deployments.grpc.rpc.compression import MessageCoding
from deployments.grpc.rpc.service import message_bytes
from deployments.http2 import frames
from deployments.http2.frames import Buffer
from deployments.http2.streams import Stream


class CompressingCall(GrpcCall):
    """A call whose response messages are compressed.

    Args:
        connection: The connection.
        stream: The stream of the call.
        path: The method.
        coding: How.
    """

    __slots__ = ("_coding",)

    def __init__(
        self, connection: CallHost, stream: Stream, path: bytes, coding: MessageCoding
    ) -> None:
        super().__init__(connection, stream, path)
        self._coding = coding

    def send(self, message: bytes | list[Buffer]) -> None:
        """Send one response message."""
        if not self.done:
            self._send_coded(message)
            self._connection.wake()

    def complete(self, message: bytes | list[Buffer]) -> None:
        """Send the only response message and status OK."""
        if self.done:
            return
        self._give_back()
        if self._send_coded(message):
            self._end_well()

    def _send_coded(self, message: bytes | list[Buffer]) -> bool:
        coding = self._coding
        if not self._started:
            self._started = True
            block = coding.response_headers
            out = self._connection.h2.out
            out.write(frames.frame(frames.HEADERS, frames.END_HEADERS, self.stream.id, block))
        parts = message if isinstance(message, list) else [message]
        coded = coding.encode(parts, message_bytes(parts))
        return self._send(message) if coded is None else self._send(b"".join(coded), flag=1)
