# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The request that a connection receives, and the ways in which it is refused.

A request that cannot be understood is refused with a reason, behind the answers to those before it;
nothing that follows it is read as a request (RFC 9112 sections 6.3 and 11.2). One that its server's
gate does not let in is refused at its head.
"""

from typing import Final

import numpy as np

from backends.api.errors import TritonError
from deployments.access.contracts import PendingError
from deployments.http.server.answer_queue import AnswerQueue
from deployments.http.server.entrance import Entrance
from deployments.http.server.exchange import HttpExchange
from deployments.http.server.head import HttpHead
from deployments.http.server.host import (
    REQUEST_OVERHEAD_BYTES,
    TOO_MANY_CHUNKS,
    ConnectionHost,
    claim_body,
    over_budget,
)
from deployments.http.server.pending_entry import PendingEntry

LARGE_BODY_BYTES: Final = 1 << 16

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
HEAD_TOO_LARGE: Final = (
    "request line and headers, a chunk extension or the trailers exceed the maximum of {} bytes"
)


class RequestState:
    """What a reader knows of the request that it receives.

    Args:
        host: The server.
        answers: The exchanges of the connection.

    Attributes:
        active_tick: When the peer last sent something.
        entrance: Decides about each request; None when the server has no gate.
        exchange: The request that is being received, from its first byte.
        in_head: Whether its headers are not complete.
        head_tick: When it began.
    """

    __slots__ = (
        "_answers",
        "_application",
        "_body_bytes",
        "_chunk_count",
        "_exchanges",
        "_host",
        "_overhead_bytes",
        "_parts",
        "_rest",
        "_target",
        "active_tick",
        "entrance",
        "exchange",
        "head_tick",
        "in_head",
    )

    def __init__(self, host: ConnectionHost, answers: AnswerQueue) -> None:
        # For the life of the server
        self._host = host
        # For the life of the connection
        self._answers = answers
        self._exchanges = answers.exchanges
        self.active_tick = host.tick
        self.entrance: Entrance | None = None
        # What was received and is not looked at yet.
        self._rest = b""
        # For the request that is being received
        self.exchange: HttpExchange | None = None
        self._application = host.application
        self.in_head = False
        self.head_tick = 0
        self._overhead_bytes = 0
        self._target: memoryview | None = None
        self._parts: list[bytes] | None = None
        self._body_bytes = 0
        self._chunk_count = 0

    @property
    def is_receiving(self) -> bool:
        """Whether a request has come in part, or is not looked at yet."""
        return self.exchange is not None or bool(self._rest)

    def restart_timeouts(self, tick: int) -> None:
        """Note that the peer is not slow: it is the server that does not read."""
        self.active_tick = self.head_tick = tick

    def _is_blocked(self) -> bool:
        """Whether what comes next is a request that may not begin yet."""
        return self._answers.is_full and (self.exchange is None or self.in_head)

    def _keep(self, rest: bytes) -> None:
        """Keep what waits for a later turn of the loop, counted as memory."""
        self._host.budget.take(len(rest))
        self._host.budget.give_back(len(self._rest))
        self._rest = rest

    def _enters(self, entrance: Entrance, exchange: HttpExchange) -> bool:
        """Ask the gate about a request whose head is complete; False when it is refused."""
        refused = entrance.refusal(exchange.head, self._host.tick)
        if refused is None:
            self._application = entrance.application or self._host.application
            return True
        if isinstance(refused, PendingError):
            self._enter_later(entrance, exchange, refused)
            return True
        self._turn_away(exchange, refused)
        return False

    def _enter_later(
        self, entrance: Entrance, exchange: HttpExchange, pending: PendingError
    ) -> None:
        """Receive a request whose gate is to be asked again."""
        entry = self._application = PendingEntry()

        def ask_again() -> None:
            if exchange.is_answered:
                return
            refused = entrance.refusal(exchange.head, self._host.tick)
            if refused is None:
                entry.admit(exchange, entrance.application or self._host.application)
            elif isinstance(refused, PendingError):
                refused.when_known(ask_again)
            elif self.exchange is exchange:
                self._turn_away(exchange, refused)
            else:
                exchange.fail(refused)

        pending.when_known(ask_again)

    def _turn_away(self, exchange: HttpExchange, refused: TritonError) -> None:
        """Refuse the request that is being received.

        A small body is received all the same, and dropped, so that the connection can go on.
        """
        head = exchange.head
        is_framed = not (head.transfer_encoding or head.expect) and exchange.keep_alive
        if not is_framed or head.body_bytes > LARGE_BODY_BYTES:
            self._cut_short(exchange)
        exchange.fail(refused)

    def _bound_overhead(self, nbytes: int) -> None:
        """Bound what reads that held nothing else add to a head, a chunk extension or a trailer."""
        self._overhead_bytes = self._overhead_bytes + nbytes if nbytes else 0
        if self._overhead_bytes > self._host.limits.head_bytes:
            self._break_off(431, HEAD_TOO_LARGE.format(self._host.limits.head_bytes))

    def _check_chunks(self, exchange: HttpExchange) -> None:
        if self._chunk_count > self._host.limits.chunk_count:
            self._refuse(exchange, 400, TOO_MANY_CHUNKS.format(self._host.limits.chunk_count))
        elif self._body_bytes > LARGE_BODY_BYTES:
            self._claim_body(exchange, self._body_bytes)

    def _claim_body(self, exchange: HttpExchange, size: int) -> bool:
        status, refusal = claim_body(self._host, self._application, exchange, size)
        if status:
            self._refuse(exchange, status, refusal)
        return not status

    def _holds_body(self, exchange: HttpExchange) -> bool:
        """Take what a complete small body needs from the budget; False when it is refused."""
        size = len(exchange.body)
        budget = self._host.budget
        if budget.try_take(size + REQUEST_OVERHEAD_BYTES):
            exchange.held_bytes = size + REQUEST_OVERHEAD_BYTES
            return True
        exchange.fail_text(503, over_budget(budget, f"a request body of {size} bytes"))
        return False

    def _expect_body(self, exchange: HttpExchange) -> None:
        head = exchange.head
        size = head.body_bytes
        if size > LARGE_BODY_BYTES:
            if not self._claim_body(exchange, size):
                return
            self._target = self._application.allocate(size, max(head.json_bytes, 0))
            if self._target is None:
                # Not a bytearray: that would touch every page on a peer's mere word.
                self._target = np.empty(size, np.uint8).data
        # Behind unanswered requests it would be taken for an answer; the peer then goes on unasked.
        is_first = self._exchanges[0] is exchange
        if head.expect and head.expect.lower() == b"100-continue" and is_first:
            self._answers.write(_CONTINUE)

    def _begin_direct_body(self, size: int, first: memoryview) -> None:
        """Have the rest of a body received to where it stays."""
        if self._target is None:
            self._target = memoryview(bytearray(size))
        self._body_bytes = have = first.nbytes
        self._target[:have] = first

    def _refuse(self, exchange: HttpExchange, status: int, message: str) -> None:
        """Answer a request that is not received to its end, and close behind the answer."""
        self._cut_short(exchange)
        exchange.fail_text(status, message)

    def _cut_short(self, exchange: HttpExchange) -> None:
        """Receive no more of a request, nor any other; its answer is the connection's last."""
        self.exchange = None
        self.in_head = False
        self._target = self._parts = None
        exchange.body = b""
        exchange.keep_alive = False
        self._answers.stop(is_discarding=True)

    def _break_off(self, status: int, reason: str) -> None:
        """Refuse what cannot be read on as requests; what came before is answered."""
        if self._answers.is_stopped:
            return
        self._host.note_closed(reason)
        unfinished = self.exchange
        if unfinished is None:
            unfinished = HttpExchange(self._answers, HttpHead())
        if not self._exchanges or self._exchanges[-1] is not unfinished:
            self._exchanges.append(unfinished)
        self._refuse(unfinished, status, reason)
