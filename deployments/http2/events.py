# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a connection reports about the bytes it was given."""

from typing import Generic, TypeVar

from deployments.http2.streams import Stream

Head = TypeVar("Head")


class RequestReceived(Generic[Head]):
    """A request's headers are complete; ``ended`` when no body follows."""

    __slots__ = ("ended", "head", "stream")

    def __init__(self, stream: Stream, head: Head, ended: bool) -> None:
        self.stream = stream
        self.head = head
        self.ended = ended


class DataReceived:
    """A part of a request's body: ``data`` may be empty when ``ended``.

    Parts follow the reads, not the frames. A memoryview is on the bytes given to the connection.
    """

    __slots__ = ("data", "ended", "stream")

    def __init__(self, stream: Stream, data: bytes | memoryview, ended: bool) -> None:
        self.stream = stream
        self.data = data
        self.ended = ended


class StreamReset:
    """The stream is over: the peer reset it, or broke its rules and we did."""

    __slots__ = ("code", "stream")

    def __init__(self, stream: Stream, code: int) -> None:
        self.stream = stream
        self.code = code


Event = RequestReceived[Head] | DataReceived | StreamReset
