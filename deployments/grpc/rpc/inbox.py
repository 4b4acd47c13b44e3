# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The way of a call's request messages from the parts of its body to the service, in order.

Needed for whatever is not one small message in one part. While a large message is decompressed on
a thread, what comes behind it waits here. All that is held counts against the memory budget. What
the budget has no room for is refused message by message, the newest first, in its place among the
others; the call says whether it can go on without one.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from deployments.grpc.rpc.inflation import PIECE_BYTES, Inflation, MessageError
from deployments.grpc.rpc.messages import FIRST_BYTES, MessageAssembler
from deployments.grpc.rpc.status import INTERNAL, RESOURCE_EXHAUSTED
from deployments.http2.limits import Http2Limits
from deployments.supervision.memory_account import MemoryAccount

_log = logging.getLogger(__name__)

# What a message costs beyond its bytes while it waits.
_OVERHEAD_BYTES: Final = 128

Message = bytes | memoryview


class Refusal:
    """The place of a message for which there was no memory.

    Args:
        first: The message's first bytes.
        details: Why it is refused.
    """

    __slots__ = ("details", "first")

    def __init__(self, first: Message, details: str) -> None:
        self.first = bytes(first[:FIRST_BYTES])
        self.details = details


# Runs the first argument on a thread, then the second on the loop with the error, if there was one.
Offload = Callable[[Callable[[], None], Callable[[BaseException | None], None]], None]


class InboxHost(Protocol):
    """What an inbox needs of its connection."""

    limits: Http2Limits
    received: MemoryAccount
    offload: Offload


class Recipient(Protocol):
    """The call, as an inbox sees it."""

    done: bool

    def deliver(self, message: Message) -> None:
        """Give the service a message."""

    def refuse(self, first: Message, details: str) -> None:
        """Refuse a message for want of memory.

        Args:
            first: Its first bytes, as far as they are known.
            details: Why.
        """

    def deliver_end(self) -> None:
        """Tell the service that no further message comes."""

    def abort(self, status: int, details: str) -> None:
        """End the call because of its messages."""


class Inbox:
    """The messages of one call.

    Args:
        host: The connection.
        assembler: Cuts the body into messages.
        recipient: The call.
    """

    __slots__ = (
        "_assembler",
        "_has_ended",
        "_held_bytes",
        "_host",
        "_inflation",
        "_recipient",
        "_waiting",
        "_waiting_bytes",
    )

    def __init__(self, host: InboxHost, assembler: MessageAssembler, recipient: Recipient) -> None:
        self._host = host
        self._assembler = assembler
        self._recipient = recipient
        self._inflation: Inflation | None = None
        # What came behind a message that is being decompressed.
        self._waiting: deque[Message | Inflation | Refusal] = deque()
        self._waiting_bytes = 0
        self._has_ended = False
        self._held_bytes = 0

    def receive(self, data: Message, *, ended: bool) -> None:
        """Take a part of the body.

        Raises:
            MessageError: A message cannot be taken.
        """
        messages = self._assembler.feed(data) if data else []
        self._has_ended = ended
        for message in messages:
            self._waiting.append(message)
            self._waiting_bytes += _size(message)
        self._deliver()

    def room(self, size: int) -> memoryview | None:
        """Return where to receive up to so many bytes of a large message, if it has a place."""
        return self._assembler.room(size)

    def close(self) -> None:
        """Forget everything; the memory budget gets back what was held."""
        self._waiting.clear()
        self._host.received.let_go(self._held_bytes)
        self._held_bytes = 0

    def _deliver(self) -> None:
        """Deliver what waits, up to a message that has to be decompressed elsewhere."""
        recipient = self._recipient
        if self._inflation is not None:
            self._hold_behind(self._inflation)
            return
        while self._waiting:
            message = self._waiting.popleft()
            self._waiting_bytes -= _size(message)
            if isinstance(message, Inflation):
                if self._inflate(message):
                    return
            elif isinstance(message, Refusal):
                recipient.refuse(message.first, message.details)
            else:
                if self._held_bytes:
                    self._let_go()
                recipient.deliver(message)
            if recipient.done:
                return
        refusal = self._hold(None)
        if refusal:
            recipient.refuse(self._assembler.skip(), refusal)
            if recipient.done:
                return
            self._hold(None)
        if self._has_ended:
            if self._assembler.is_partial:
                raise MessageError(INTERNAL, "The request ends within a message")
            recipient.deliver_end()

    def _hold_behind(self, inflation: Inflation) -> None:
        """Count what has come behind a message on its thread; what has no room there is refused."""
        refusal = self._hold(inflation)
        if refusal and self._assembler.held_bytes:
            self._waiting.append(Refusal(self._assembler.skip(), refusal))
            self._waiting_bytes += _size(self._waiting[-1])
            refusal = self._hold(inflation)
        position = len(self._waiting)
        while refusal:
            position -= 1
            if position < 0:
                raise MessageError(RESOURCE_EXHAUSTED, refusal)
            message = self._waiting[position]
            if not isinstance(message, Refusal):
                first = message.first if isinstance(message, Inflation) else message
                self._waiting[position] = Refusal(first, refusal)
                self._waiting_bytes += _size(self._waiting[position]) - _size(message)
                refusal = self._hold(inflation)

    def _inflate(self, inflation: Inflation) -> bool:
        """Have a piece of a message made on a thread; False when there is no memory for it."""
        refusal = self._hold(inflation)
        if refusal:
            self._inflation = None
            self._recipient.refuse(inflation.first, refusal)
            return False
        self._inflation = inflation
        self._host.offload(lambda: inflation.step(PIECE_BYTES), self._inflated)
        return True

    def _inflated(self, error: BaseException | None) -> None:
        recipient = self._recipient
        if recipient.done:
            return
        if isinstance(error, MessageError):
            recipient.abort(error.status, error.details)
            return
        if error is not None:
            _log.error("a gRPC request message could not be decompressed", exc_info=error)
            recipient.abort(INTERNAL, "Internal error")
            return
        try:
            self._go_on()
        except MessageError as refusal:
            recipient.abort(refusal.status, refusal.details)
        except Exception:
            _log.exception("gRPC service failed on a compressed request message")
            recipient.abort(INTERNAL, "Internal error")

    def _go_on(self) -> None:
        """Deliver the message that was decompressed, or decompress more of it."""
        inflation = self._inflation
        if inflation is None:
            return
        if inflation.message is None:
            if self._inflate(inflation):
                return
        else:
            self._inflation = None
            self._hold(None)
            self._recipient.deliver(inflation.message)
        if not self._recipient.done:
            self._deliver()

    def _let_go(self) -> None:
        """Count no more what is about to be delivered, since the call counts it then."""
        surplus = self._held_bytes - self._assembler.held_bytes - self._waiting_bytes
        if surplus > 0:
            self._host.received.let_go(surplus)
            self._held_bytes -= surplus

    def _hold(self, inflation: Inflation | None) -> str:
        """Make the budget know what is held: parts, messages that wait, and what is inflated.

        Returns:
            Why it cannot be held; empty if it can.
        """
        account = self._host.received
        change = self._assembler.held_bytes + self._waiting_bytes - self._held_bytes
        if inflation is not None:
            # The next piece is made on a thread, which cannot ask.
            change += inflation.held_bytes + PIECE_BYTES
        if change <= 0:
            account.let_go(-change)
        elif not account.try_hold(change):
            return account.explain("an incomplete message")
        self._held_bytes += change
        limit_bytes = self._host.limits.max_partial_bytes
        if account.held_bytes <= limit_bytes:
            return ""
        return (
            f"Incomplete messages of {account.held_bytes} bytes on the connection, the limit is"
            f" {limit_bytes}"
        )


def _size(message: Message | Inflation | Refusal) -> int:
    if isinstance(message, Inflation):
        size = message.held_bytes
    else:
        size = len(message.first if isinstance(message, Refusal) else message)
    return size + _OVERHEAD_BYTES
