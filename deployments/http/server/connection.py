# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One HTTP/1.1 connection on the event loop: a reader of requests and a queue of answers.

A peer that closes its sending side counts as gone: what is not answered is cancelled.

No timer runs per request: the server sweeps its connections each second and compares ticks.
"""

import asyncio
import select
from typing import cast

from deployments.access.peers import peer_of
from deployments.http.server.answer_queue import AnswerQueue
from deployments.http.server.entrance import Entrance
from deployments.http.server.host import ConnectionHost
from deployments.http.server.request_reader import RequestReader
from deployments.supervision.peer_limit import host_of


class HttpConnection(asyncio.BufferedProtocol):
    """The protocol object of one connection.

    Args:
        host: The server it belongs to.

    Attributes:
        was_idle: Whether it was idle when a drain last looked.
    """

    def __init__(self, host: ConnectionHost) -> None:
        self._host = host
        self._answers = AnswerQueue(host)
        self._answers.reader = self._reader = reader = RequestReader(host, self._answers)
        self._transport: asyncio.Transport | None = None
        self.was_idle = False
        # The transport calls these for each read; passing calls on would cost as much as a read.
        self.get_buffer = reader.get_buffer  # type: ignore[method-assign]
        self.buffer_updated = reader.buffer_updated  # type: ignore[method-assign]

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._answers.opened(self._transport)
        gate = self._host.gate
        if gate is not None:
            self._reader.entrance = Entrance(gate, peer_of(transport, gate.protocol))
        if not self._host.opened(self):
            self._answers.abort()

    def eof_received(self) -> bool:
        """Close: half-closed connections are not kept."""
        return False

    def pause_writing(self) -> None:
        """Stop reading while the peer does not read."""
        self._answers.paused()

    def resume_writing(self) -> None:
        """Read again."""
        self._answers.resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        """End: whatever is not answered is cancelled."""
        self._transport = None
        self._reader.lost()
        self._answers.lost()
        self._host.closed(self)

    # What the server calls

    @property
    def is_idle(self) -> bool:
        """Whether no request is being received or answered, and another one would be."""
        answers = self._answers
        return not (answers.exchanges or self._reader.is_receiving or answers.is_stopped)

    @property
    def peer_host(self) -> str:
        """The peer's address; empty where it has none."""
        transport = self._transport
        return "" if transport is None else host_of(transport.get_extra_info("peername"))

    @property
    def active_tick(self) -> int:
        """When the peer last sent something."""
        return self._reader.active_tick

    @property
    def exchange_count(self) -> int:
        """Requests not yet answered."""
        return len(self._answers.exchanges)

    def sweep(self, tick: int) -> None:
        """Close the connection if its peer has been too slow."""
        reader, limits = self._reader, self._host.limits
        if self._transport is None or self._answers.end_if_late(tick, reader.active_tick):
            return
        silent_s = tick - reader.active_tick
        if self.is_idle:
            if 0 < limits.keep_alive_timeout_s < silent_s:
                self.close_idle()
        elif not self._answers.is_reading:
            # What the peer has sent meanwhile is not known.
            reader.restart_timeouts(tick)
        elif reader.in_head:
            if tick - reader.head_tick > limits.head_timeout_s:
                self._cut_off("a peer takes too long to send a request's headers")
        elif reader.exchange is not None and silent_s > limits.body_idle_timeout_s:
            self._cut_off("a peer takes too long to send a request's body")

    def _cut_off(self, reason: str) -> None:
        self._host.note_closed(reason)
        self._answers.abort()

    def close(self) -> None:
        """Close at once."""
        self._answers.abort()

    def close_idle(self) -> bool:
        """Close an idle connection; False when a request is on its way."""
        if self._transport is None or not self.is_idle or _is_readable(self._transport):
            return False
        self._answers.finish()
        return True


def _is_readable(transport: asyncio.Transport) -> bool:
    """Whether the kernel holds bytes that the loop has not seen yet."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return False
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLIN)
    return bool(poll.poll(0))
