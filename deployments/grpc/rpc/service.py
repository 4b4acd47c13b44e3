# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The seam between the transport and a gRPC service.

The same shape as `deployments.grpc.kserve.service`.

Repeated here as protocols so that this package knows nothing of the data plane.
"""

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview
Metadata = Sequence[tuple[bytes, bytes]]


class RpcReply(Protocol):
    """The transport's end of one call; used on the loop's thread only."""

    def send(self, message: bytes | list[Buffer]) -> None:
        """Send one response message."""

    def finish(self, status: int = 0, details: str = "") -> None:
        """Send the trailers: the call ends here."""

    def complete(self, message: bytes | list[Buffer]) -> None:
        """`send` and `finish` with status OK in one write."""


class RpcCall(Protocol):
    """The service's end of one call, driven by the transport."""

    def message(self, data: bytes | memoryview) -> None:
        """Take a request message."""

    def half_closed(self) -> None:
        """The client sends no further message."""

    def cancelled(self) -> None:
        """The client reset the call or disconnected, or the deadline passed."""


class RpcService(Protocol):
    """The RPCs, by path."""

    def start(self, path: bytes, metadata: Metadata, reply: RpcReply) -> RpcCall | None:
        """Begin a call, or return None when there is no such method."""

    def allocate(self, path: bytes, size_bytes: int, first: memoryview) -> memoryview | None:
        """Return memory for a large message that begins with ``first``, or None."""
