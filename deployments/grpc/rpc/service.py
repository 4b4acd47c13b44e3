# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a gRPC transport and a gRPC service ask of each other, call by call."""

from collections.abc import Sequence
from typing import Protocol

from deployments.http2.frames import Buffer

Metadata = Sequence[tuple[bytes, bytes]]


def message_bytes(message: bytes | Sequence[Buffer]) -> int:
    """Return the size of a response message."""
    if isinstance(message, bytes):
        return len(message)
    return sum([each.nbytes if isinstance(each, memoryview) else len(each) for each in message])


class RpcReply(Protocol):
    """The transport's end of one call; used on the loop's thread only.

    A message is bytes, or a list of buffers that are to be sent one behind the other as one
    message; in either case without gRPC's five-byte frame. After `RpcCall.cancelled` all methods
    do nothing.

    Attributes:
        timeout_ns: Within which the client wants the answer, from when it asked; 0 for any time.
    """

    timeout_ns: int

    def send(self, message: bytes | list[Buffer]) -> None:
        """Send one response message; exactly one in a unary call that succeeds."""

    def finish(self, status: int = 0, details: str = "", retry_s: float = 0.0) -> None:
        """Send the trailers: the call ends here. Called exactly once, unless `complete` was.

        Args:
            status: Number of the gRPC status.
            details: What the client is told.
            retry_s: After how many seconds trying again is worth while; 0.0 says nothing.
        """

    def complete(self, message: bytes | list[Buffer]) -> None:
        """`send` and `finish` with status OK in one write."""

    def hold(self, count_bytes: int) -> None:
        """Count an answer that cannot be sent yet among what the call holds of the memory budget.

        Args:
            count_bytes: Its size.
        """

    def let_go(self, count_bytes: int) -> None:
        """Count no more a message that the call has been given, or an answer that `hold` counted.

        Only for calls of several messages: what is left at the end of a call is given back with it.

        Args:
            count_bytes: Its size.
        """


class RpcCall(Protocol):
    """The service's end of one call, driven by the transport.

    Once the reply has been finished, the transport may stop calling; calls that come late do
    nothing.
    """

    def message(self, data: bytes | memoryview) -> None:
        """Take a request message; a unary call gets exactly one. ``data`` stays unchanged."""

    def refuse_message(self, first: bytes | memoryview, details: str) -> bool:
        """Take note that there is no memory for a message, in its place among the others.

        Args:
            first: Its first bytes, as far as they are known; may change after the call.
            details: What the client is to be told, with the status RESOURCE_EXHAUSTED.

        Returns:
            Whether the client is told by an answer, and the call goes on; otherwise it ends.
        """

    def half_closed(self) -> None:
        """The client sends no further message."""

    def cancelled(self) -> None:
        """The client reset the call or disconnected, or the deadline passed."""


class RpcService(Protocol):
    """The RPCs, by path."""

    def start(self, path: bytes, metadata: Metadata, reply: RpcReply) -> RpcCall | None:
        """Begin a call.

        Args:
            path: The ``:path`` header, for example ``/inference.GRPCInferenceService/ModelInfer``.
            metadata: Request headers without pseudo headers, names in lower case.
            reply: Where the answer goes; it may be finished before `start` returns.

        Returns:
            The call to drive, or None when there is no such method: the transport answers
            UNIMPLEMENTED.
        """

    def allocate(self, path: bytes, size_bytes: int, first: memoryview) -> memoryview | None:
        """Return memory for a large message, so that its tensors need not be copied again, or None.

        Args:
            path: The RPC.
            size_bytes: Size of the message.
            first: What of it has come. The first tensor is aligned if its beginning is there.
        """
