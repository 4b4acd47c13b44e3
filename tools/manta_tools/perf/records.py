# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request as the load generator knows it, and who is told how it goes on."""

from typing import Any, Protocol


class Contents(Protocol):
    """Keeps the responses of a request."""

    def append(self, raw: bytes) -> None:
        """Take a response with content, as it came: an event's data, a body or a message."""


class Request:
    """A request under way, and after its end the record of it; all times in nanoseconds.

    Attributes:
        payload: What the sender sends, made by its encoder.
        intended_ns: When it was to be sent; latencies count from here, so that a request which a
            busy client sends late has waited since then.
        start_ns: When it was sent.
        end_ns: When its last response had come; 0 before.
        responses_ns: When each response with content came.
        error: Why it failed; empty when it did not.
        send_ns: What sending took.
        receive_ns: What receiving took, from the first byte of the response.
        sequence_id: 0 when it is of no sequence.
        is_sequence_end: Whether it is the last of its sequence.
        is_counted: Whether it is part of the load; not when it only ends a sequence early.
        is_delayed: Whether it was sent later than intended by more than a millisecond.
        slot: Which of the concurrent requests, or of the live sequences, it is.
        data: Stream and step of its data.
        contents: Keeps what comes back; None where nobody reads it.
    """

    __slots__ = (
        "contents",
        "data",
        "end_ns",
        "error",
        "intended_ns",
        "is_counted",
        "is_delayed",
        "is_sequence_end",
        "payload",
        "receive_ns",
        "responses_ns",
        "send_ns",
        "sequence_id",
        "slot",
        "start_ns",
    )

    def __init__(
        self,
        payload: Any = None,
        *,
        sequence_id: int = 0,
        is_sequence_end: bool = False,
        slot: int = 0,
        data: tuple[int, int] = (0, 0),
    ) -> None:
        self.payload = payload
        self.intended_ns = self.start_ns = self.end_ns = 0
        self.responses_ns: list[int] = []
        self.error = ""
        self.send_ns = self.receive_ns = 0
        self.sequence_id = sequence_id
        self.is_sequence_end = is_sequence_end
        self.is_counted, self.is_delayed = True, False
        self.slot = slot
        self.data = data
        self.contents: Contents | None = None

    @property
    def latency_ns(self) -> int:
        """From the intended start to the last response."""
        return self.end_ns - self.intended_ns


class Listener(Protocol):
    """Who is told about requests; called from the sender, never from within `Sender.send`."""

    def responded(self, request: Request, now_ns: int) -> None:
        """Take a response with content; also that of a request which has one only."""

    def ended(self, request: Request, now_ns: int) -> None:
        """Take the end of a request; with ``error`` set it failed."""


class Sender(Protocol):
    """Sends requests over a protocol; of any number at once."""

    def send(self, request: Request, listener: Listener) -> None:
        """Send a request; its responses and its end go to the listener."""
