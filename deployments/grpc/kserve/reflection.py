# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""grpc.reflection.v1.ServerReflection, and v1alpha for older tools."""

from typing import Final

from backends.api.errors import GRPC_STATUS, TritonError
from deployments.grpc.rpc.service import RpcReply

REFLECTION_PATHS: Final = frozenset(
    f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo".encode()
    for version in ("v1", "v1alpha")
)


class ReflectionCall:
    """One ServerReflectionInfo stream: an answer to each request, in order.

    Args:
        reply: Where the answers go.
    """

    __slots__ = ("_reply",)

    def __init__(self, reply: RpcReply) -> None:
        self._reply = reply

    def message(self, data: bytes | memoryview) -> None:
        """Answer a request."""
        # Few servers are ever asked, and the descriptors take time to import.
        from deployments.grpc.codec import reflection as grpc_reflection  # noqa: PLC0415

        try:
            self._reply.send(grpc_reflection.answer(data))
            self._reply.let_go(len(data))
        except TritonError as error:
            self._reply.finish(GRPC_STATUS[error.code], error.message)

    def refuse_message(self, first: bytes | memoryview, details: str) -> bool:
        """End with the refusal."""
        del first, details
        return False

    def half_closed(self) -> None:
        """End the stream."""
        self._reply.finish()

    def cancelled(self) -> None:
        """Nothing is under way."""
