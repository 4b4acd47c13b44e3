# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One gRPC call on an HTTP/2 stream: the transport's end that a service answers to."""

import logging
import struct
from typing import Final, Protocol

from deployments.grpc.rpc.deadlines import Deadlines
from deployments.grpc.rpc.inbox import Inbox, InboxHost
from deployments.grpc.rpc.inflation import MessageError
from deployments.grpc.rpc.messages import LARGE_MESSAGE_BYTES, PREFIX_BYTES, MessageAssembler
from deployments.grpc.rpc.request_head import RequestHead
from deployments.grpc.rpc.service import RpcCall, RpcService, message_bytes
from deployments.grpc.rpc.status import (
    DEADLINE_EXCEEDED,
    INTERNAL,
    RESOURCE_EXHAUSTED,
    RESPONSE_HEADERS,
    TRAILERS_OK,
    trailers,
    trailers_only,
)
from deployments.http2 import frames
from deployments.http2.connection import Http2Connection
from deployments.http2.errors import ErrorCode
from deployments.http2.frames import Buffer
from deployments.http2.outbound import LARGE_BYTES
from deployments.http2.streams import Stream
from deployments.supervision.memory_budget import MemoryBudget

_log = logging.getLogger(__name__)

# A HEADERS frame with the response headers, then the header of a DATA frame and of its message.
_HEAD: Final = struct.Struct(f">IBI{len(RESPONSE_HEADERS)}sIBIBI")
_HEAD_WORD: Final = len(RESPONSE_HEADERS) << 8 | frames.HEADERS
_MESSAGE: Final = struct.Struct(">IBIBI")
_PREFIX: Final = struct.Struct(">BI")
_TAIL: Final = struct.Struct(f">IBI{len(TRAILERS_OK)}s")
_TAIL_WORD: Final = len(TRAILERS_OK) << 8 | frames.HEADERS
_END_FLAGS: Final = frames.END_STREAM | frames.END_HEADERS
_MAX_MESSAGE_BYTES: Final = (1 << 32) - 1
# What a message costs beyond its bytes while it waits for a model: its request, tensors and sink.
MESSAGE_OVERHEAD_BYTES: Final = 1024


class CallHost(InboxHost, Protocol):
    """What a call needs of its connection."""

    h2: Http2Connection[RequestHead]
    budget: MemoryBudget
    service: RpcService
    deadlines: Deadlines

    def wake(self) -> None:
        """Tell the owner of the socket that there is output."""


class GrpcCall:
    """Implements `RpcReply`; drives the service's `RpcCall`.

    Attributes:
        done: The outcome is decided: what comes from either side now is dropped.
        stream: The stream of the call.
        timeout_ns: Within which the client wants the answer; 0 for any time.
    """

    __slots__ = (
        "_connection",
        "_due_bytes",
        "_held_bytes",
        "_inbox",
        "_is_counted",
        "_path",
        "_rpc",
        "_started",
        "_watched",
        "done",
        "stream",
        "timeout_ns",
    )

    def __init__(self, connection: CallHost, stream: Stream, path: bytes) -> None:
        self.stream = stream
        self._path = path
        self.done = False
        self.timeout_ns = 0
        self._connection = connection
        self._rpc: RpcCall | None = None
        self._inbox: Inbox | None = None
        self._started = False
        self._watched = False
        self._is_counted = False
        self._due_bytes = 0
        # What messages that the service has been given, and answers it holds, have of the budget.
        self._held_bytes = 0

    # ---- from the client -----------------------------------------------------------------------

    def attach(self, rpc: RpcCall, encoding: bytes | None) -> None:
        """Begin to drive the service's end; ``encoding`` is that of compressed messages."""
        self._rpc = rpc
        if encoding is not None:
            self._inbox = self._new_inbox(encoding)

    def expect(self, body_bytes: int) -> None:
        """Have a body of another size end the call (RFC 9113 section 8.1.1)."""
        self._is_counted = True
        self._due_bytes = body_bytes

    def watch(self) -> None:
        """Note that the call's deadline is being watched."""
        self._watched = True

    def receive(self, data: bytes | memoryview, ended: bool) -> None:
        """Take a part of the request's body."""
        rpc = self._rpc
        if rpc is None or self.done:
            return
        if self._is_counted:
            self._due_bytes -= len(data)
            if self._due_bytes < 0 or (ended and self._due_bytes):
                self.abort(INTERNAL, "the body has another size than content-length says")
                return
        try:
            if self._inbox is None and self._is_whole(data):
                self.deliver(bytes(data[PREFIX_BYTES:]))
                if ended and not self.done:
                    rpc.half_closed()
            elif data or self._inbox is not None:
                if self._inbox is None:
                    self._inbox = self._new_inbox(None)
                self._inbox.receive(data, ended=ended)
            elif ended:
                rpc.half_closed()
        except MessageError as error:
            self.abort(error.status, error.details)
        except Exception:
            _log.exception("gRPC service failed on a request message")
            self.abort(INTERNAL, "Internal error")

    def room(self, size: int) -> memoryview | None:
        """Return where to receive up to so many bytes of a large message, if it has a place."""
        return None if self._inbox is None else self._inbox.room(size)

    def _is_whole(self, data: bytes | memoryview) -> bool:
        size = len(data) - PREFIX_BYTES
        if not 0 <= size < LARGE_MESSAGE_BYTES:
            return False
        flags, announced = _PREFIX.unpack_from(data)
        return (
            announced == size
            and not flags & 1
            and size <= self._connection.limits.max_receive_message_bytes
        )

    def deliver(self, message: bytes | memoryview) -> None:
        """Give the service a message, for which the budget must have memory."""
        rpc = self._rpc
        if rpc is None:
            return
        connection = self._connection
        count_bytes = len(message) + MESSAGE_OVERHEAD_BYTES
        if connection.budget.try_take(count_bytes):
            self._held_bytes += count_bytes
            rpc.message(message)
        else:
            self.refuse(message, connection.received.explain("a message"))

    def refuse(self, first: bytes | memoryview, details: str) -> None:
        """Refuse a message for want of memory; it costs the call no other one, if that can be."""
        rpc = self._rpc
        has_room = self._connection.budget.has_room_for_refusals
        if rpc is not None and not (has_room and rpc.refuse_message(first, details)):
            self.abort(RESOURCE_EXHAUSTED, details)

    def deliver_end(self) -> None:
        """Tell the service that no further message comes."""
        if self._rpc is not None:
            self._rpc.half_closed()

    def _new_inbox(self, encoding: bytes | None) -> Inbox:
        connection, path = self._connection, self._path
        service = connection.service
        assembler = MessageAssembler(
            connection.limits,
            encoding,
            lambda size, first: service.allocate(path, size, first),
        )
        return Inbox(connection, assembler, self)

    def _give_back(self) -> None:
        held_bytes, self._held_bytes = self._held_bytes, 0
        if held_bytes:
            self._connection.budget.give_back(held_bytes)

    def cancel(self) -> None:
        """Note that the client gave the call up, or that the connection is lost."""
        if not self.done:
            rpc = self._rpc
            self._finished()
            _tell_cancelled(rpc)

    def expire(self) -> None:
        """Note that the deadline passed."""
        if not self.done:
            self.abort(DEADLINE_EXCEEDED, "Deadline Exceeded")

    def abort(self, status: int, details: str) -> None:
        """End the call against the service's will."""
        if not self.done:
            rpc = self._rpc
            self.finish(status, details)
            _tell_cancelled(rpc)

    def _finished(self) -> None:
        self.done = True
        self._rpc = None
        # Cut here, stream and call are freed without the collector.
        self.stream.owner = None
        connection = self._connection
        self._give_back()
        if self._inbox is not None:
            self._inbox.close()
            self._inbox = None
        if self._watched:
            connection.deadlines.forget_one()

    # ---- from the service ----------------------------------------------------------------------

    def hold(self, count_bytes: int) -> None:
        """Count an answer that waits for its turn."""
        if not self.done:
            count_bytes += MESSAGE_OVERHEAD_BYTES
            self._connection.budget.take(count_bytes)
            self._held_bytes += count_bytes

    def let_go(self, count_bytes: int) -> None:
        """Count a message, or an answer, no more."""
        if not self.done:
            count_bytes += MESSAGE_OVERHEAD_BYTES
            self._connection.budget.give_back(count_bytes)
            self._held_bytes -= count_bytes

    def send(self, message: bytes | list[Buffer]) -> None:
        """Send one response message."""
        if self.done:
            return
        self._send(message)
        self._connection.wake()

    def complete(self, message: bytes | list[Buffer]) -> None:
        """Send the only response message and status OK."""
        if self.done:
            return
        # Its request is answered: the answer may need the memory.
        self._give_back()
        stream = self.stream
        out = self._connection.h2.out
        if not self._started and isinstance(message, bytes):
            size = len(message)
            if size < LARGE_BYTES and out.reserve(stream, size + PREFIX_BYTES):
                self._finished()
                out.write(_whole_answer(stream.id, message, size))
                out.ended(stream)
                self._connection.wake()
                return
        if self._send(message):
            self._end_well()

    def _end_well(self) -> None:
        stream = self.stream
        out = self._connection.h2.out
        self._finished()
        if stream.queued_bytes:
            out.end(stream, TRAILERS_OK)
        else:
            out.write(_TAIL.pack(_TAIL_WORD, _END_FLAGS, stream.id, TRAILERS_OK))
            out.ended(stream)
        self._connection.wake()

    def finish(self, status: int = 0, details: str = "", retry_s: float = 0.0) -> None:
        """Send the trailers, or a response of nothing else."""
        if self.done:
            return
        self._finished()
        make = trailers if self._started else trailers_only
        block = make(status, details, retry_s)
        self._connection.h2.out.end(self.stream, block)
        self._connection.wake()

    def _send(self, message: bytes | list[Buffer], flag: int = 0) -> bool:
        """Output or queue a message; False when that ended the call.

        Args:
            message: The message.
            flag: 1 if it is compressed.
        """
        stream = self.stream
        if isinstance(message, list):
            size = message_bytes(message)
            if size < LARGE_BYTES:
                message = b"".join(message)
        else:
            size = len(message)
        if size > _MAX_MESSAGE_BYTES:
            self.abort(RESOURCE_EXHAUSTED, f"Response of {size} bytes, gRPC's limit is 4 GiB")
            return False
        h2 = self._connection.h2
        out = h2.out
        if not out.reserve(stream, size + PREFIX_BYTES):
            return self._queue(message, size, flag)
        word = (size + PREFIX_BYTES) << 8
        if self._started:
            out.write(_MESSAGE.pack(word, 0, stream.id, flag, size))
        else:
            self._started = True
            out.write(
                _HEAD.pack(
                    _HEAD_WORD, frames.END_HEADERS, stream.id, RESPONSE_HEADERS,
                    word, 0, stream.id, flag, size,
                )
            )  # fmt: skip
        if isinstance(message, list):
            out.write_large([memoryview(buffer).cast("B") for buffer in message])
        elif size < LARGE_BYTES:
            out.write(message)
        else:
            out.write_large((message,))
        return True

    def _queue(self, message: bytes | list[Buffer], size: int, flag: int) -> bool:
        """Queue a message until the peer or the transport takes it; False when it never will."""
        out = self._connection.h2.out
        stream = self.stream
        if (
            stream.queued_bytes
            and out.queued_bytes + size > self._connection.limits.max_queued_bytes
        ):
            # The peer does not read what the service goes on producing.
            self._connection.h2.reset(stream, ErrorCode.ENHANCE_YOUR_CALM)
            self.cancel()
            return False
        if not self._started:
            self._started = True
            out.write(frames.frame(frames.HEADERS, frames.END_HEADERS, stream.id, RESPONSE_HEADERS))
        prefix = _PREFIX.pack(flag, size)
        buffers = [prefix, *message] if isinstance(message, list) else (prefix, message)
        if not out.enqueue(stream, buffers):
            self.abort(RESOURCE_EXHAUSTED, out.account.explain("the answer"))
            return False
        return True


def _whole_answer(stream_id: int, message: bytes, size: int) -> bytes:
    """Return the frames of a whole answer: headers, one message, trailers."""
    return b"".join(
        (
            _HEAD.pack(
                _HEAD_WORD, frames.END_HEADERS, stream_id, RESPONSE_HEADERS,
                (size + PREFIX_BYTES) << 8, 0, stream_id, 0, size,
            ),
            message,
            _TAIL.pack(_TAIL_WORD, _END_FLAGS, stream_id, TRAILERS_OK),
        )
    )  # fmt: skip


def _tell_cancelled(rpc: RpcCall | None) -> None:
    if rpc is not None:
        try:
            rpc.cancelled()
        except Exception:
            _log.exception("gRPC service failed on a cancelled call")
