# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The request that a connection receives, and the ways in which it is refused.

A request that cannot be understood is refused with a reason, behind the answers to those before it;
nothing that follows it is read as a request (RFC 9112 sections 6.3 and 11.2). One that its server's
gate does not let in is refused at its head.
"""

from typing import Final

from deployments.http.server.answer_queue import AnswerQueue
from deployments.http.server.entrance import Entrance
from deployments.http.server.exchange import HttpExchange
from deployments.http.server.head import HttpHead
from deployments.http.server.host import (
    TOO_MANY_CHUNKS,
    ConnectionHost,
    claim_body,
    over_budget,
)

LARGE_BODY_BYTES: Final = 1 << 16

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

    def _enters(self, entrance: Entrance, exchange: HttpExchange) -> bool:
        """Ask the gate about a request whose head is complete; False when it is refused.

        A small body is received all the same, and dropped, so that the connection can go on.
        """
        refused = entrance.refusal(exchange.head, self._host.tick)
        if refused is None:
            self._application = entrance.application or self._host.application
            return True
        head = exchange.head
        is_framed = not (head.transfer_encoding or head.expect) and exchange.keep_alive
        if is_framed and head.body_bytes <= LARGE_BODY_BYTES:
            exchange.fail(refused)
        else:
            self._cut_short(exchange)
            exchange.fail(refused)
        return False

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
        if budget.try_take(size):
            exchange.held_bytes = size
            return True
        exchange.fail_text(503, over_budget(budget, f"a request body of {size} bytes"))
        return False

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
