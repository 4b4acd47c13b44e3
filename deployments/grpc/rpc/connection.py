# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""gRPC on one HTTP/2 connection: the events of the connection drive the calls of a service.

Pure as the layer below: the owner of the socket gives reads and the time, is woken when there is
output outside of a read, and takes it.
"""

import logging
from collections.abc import Callable, Iterable

from deployments.grpc.rpc.call import GrpcCall
from deployments.grpc.rpc.compressing_call import CompressingCall
from deployments.grpc.rpc.compression import ResponseCompression
from deployments.grpc.rpc.deadlines import Deadlines
from deployments.grpc.rpc.inbox import Offload
from deployments.grpc.rpc.messages import LARGE_MESSAGE_BYTES
from deployments.grpc.rpc.request_head import HeadParser, RequestHead
from deployments.grpc.rpc.service import RpcService
from deployments.grpc.rpc.status import INTERNAL, UNIMPLEMENTED, trailers_only
from deployments.http2.connection import Http2Connection
from deployments.http2.events import DataReceived, RequestReceived
from deployments.http2.limits import Http2Limits
from deployments.http2.streams import CLOSED, Stream
from deployments.supervision.memory_account import MemoryAccount
from deployments.supervision.memory_budget import MemoryBudget

_log = logging.getLogger(__name__)

_UNKNOWN_METHOD = trailers_only(UNIMPLEMENTED, "")


class GrpcConnection:
    """The calls of one connection.

    Args:
        service: Gets the calls.
        limits: All bounds.
        deadlines: Shared by the connections of a server.
        on_output: Called when output is there that no `receive` is going to return with.
        now_ns: The clock.
        compression: What responses are compressed with.
        budget: What messages take their memory from until they are answered or sent.
        offload: Runs what takes long on a thread.

    Attributes:
        budget: The same.
        h2: The HTTP/2 layer.
        received: What incomplete messages have of the budget.
        service: Gets the calls.
    """

    __slots__ = (
        "_on_output",
        "_receiving",
        "budget",
        "deadlines",
        "h2",
        "limits",
        "offload",
        "received",
        "service",
    )

    def __init__(
        self,
        service: RpcService,
        limits: Http2Limits,
        deadlines: Deadlines,
        on_output: Callable[[], None],
        now_ns: int,
        compression: ResponseCompression | None = None,
        *,
        budget: MemoryBudget,
        offload: Offload,
    ) -> None:
        self.h2: Http2Connection[RequestHead] = Http2Connection(
            limits, HeadParser(limits.max_header_list_bytes, compression), now_ns, budget
        )
        self.limits = limits
        self.deadlines = deadlines
        self.service = service
        self._on_output = on_output
        self._receiving = False
        self.budget = budget
        self.received = MemoryAccount(budget)
        self.offload = offload

    @property
    def inflight_count(self) -> int:
        """Calls whose answer is not completely sent."""
        return len(self.h2.streams)

    def receive(self, data: bytes | memoryview, now_ns: int) -> None:
        """Take a read. Calls of the service are made from here; output is to be taken after."""
        self._receiving = True
        try:
            events = self.h2.receive(data, now_ns)
            if self.h2.lifecycle.terminated is not None:
                # A stream that was reset in this very read is among the open ones no more.
                self._cancel(event.stream for event in events)
                self.lost()
                return
            for event in events:
                stream = event.stream
                if isinstance(event, RequestReceived):
                    self._start(stream, event.head, event.ended, now_ns)
                elif isinstance(stream.owner, GrpcCall):
                    if isinstance(event, DataReceived):
                        stream.owner.receive(event.data, event.ended)
                    else:
                        stream.owner.cancel()
            # Nothing of the read is kept until the next one.
            events.clear()
        finally:
            self._receiving = False

    def room(self) -> memoryview | None:
        """Return where the next read should go: it is part of a message that has its place."""
        stream = self.h2.cut_stream
        size = self.h2.cut_bytes
        if stream is None or size < LARGE_MESSAGE_BYTES or not isinstance(stream.owner, GrpcCall):
            return None
        return stream.owner.room(size)

    def lost(self) -> None:
        """Cancel all calls: the connection is gone."""
        self._cancel(list(self.h2.streams.values()))
        self.h2.abandon()

    def _cancel(self, streams: Iterable[Stream]) -> None:
        for stream in streams:
            if isinstance(stream.owner, GrpcCall):
                stream.owner.cancel()

    def wake(self) -> None:
        """Tell the owner of the socket that there is output."""
        if not self._receiving:
            self._on_output()

    def _start(self, stream: Stream, head: RequestHead, ended: bool, now_ns: int) -> None:
        if stream.state == CLOSED:
            # Reset by the client within the same read: there is nobody to answer.
            return
        if head.refusal is not None:
            self.h2.out.end(stream, head.refusal)
            return
        call = (
            GrpcCall(self, stream, head.path)
            if head.coding is None
            else CompressingCall(self, stream, head.path, head.coding)
        )
        if head.timeout_ns is not None:
            call.timeout_ns = head.timeout_ns
        try:
            rpc = self.service.start(head.path, head.metadata, call)
        except Exception:
            _log.exception("gRPC service failed to start a call")
            call.finish(INTERNAL, "Internal error")
            return
        if rpc is None:
            if not call.done:
                self.h2.out.end(stream, _UNKNOWN_METHOD)
            return
        stream.owner = call
        call.attach(rpc, head.encoding)
        if head.body_bytes >= 0:
            call.expect(head.body_bytes)
        if head.timeout_ns is not None and not call.done:
            if head.timeout_ns <= 0:
                call.expire()
            else:
                call.watch()
                self.deadlines.add(now_ns + head.timeout_ns, call)
        if ended:
            call.receive(b"", ended=True)
