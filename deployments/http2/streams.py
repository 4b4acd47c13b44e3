# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One stream and its states (RFC 9113 section 5.1), as a table.

States and inputs are plain numbers because the table is indexed three times per call.
"""

from collections import deque
from typing import Final

IDLE: Final = 0
OPEN: Final = 1
HALF_CLOSED_REMOTE: Final = 2
HALF_CLOSED_LOCAL: Final = 3
CLOSED: Final = 4

RECEIVE_HEADERS: Final = 0
RECEIVE_HEADERS_END: Final = 1
RECEIVE_DATA: Final = 2
RECEIVE_DATA_END: Final = 3
SEND_END: Final = 4
RESET: Final = 5

# What the table gives for an input that a state does not allow.
VIOLATION: Final = -1

# TRANSITIONS[state][input]. A second header block without END_STREAM is malformed: trailers end
# the stream.
TRANSITIONS: Final[tuple[tuple[int, ...], ...]] = (
    # RECEIVE_HEADERS, _HEADERS_END, _DATA, _DATA_END, SEND_END, RESET
    (OPEN, HALF_CLOSED_REMOTE, VIOLATION, VIOLATION, VIOLATION, VIOLATION),
    (VIOLATION, HALF_CLOSED_REMOTE, OPEN, HALF_CLOSED_REMOTE, HALF_CLOSED_LOCAL, CLOSED),
    (VIOLATION, VIOLATION, VIOLATION, VIOLATION, CLOSED, CLOSED),
    (VIOLATION, CLOSED, HALF_CLOSED_LOCAL, CLOSED, VIOLATION, CLOSED),
    (VIOLATION, VIOLATION, VIOLATION, VIOLATION, VIOLATION, CLOSED),
)


class Stream:
    """The transport's state of one call.

    Attributes:
        id: Odd, given by the client.
        state: One of the states above.
        send_window: Bytes the peer lets us send; negative after it lowered its initial window.
        receive_window: Bytes the peer may still send.
        queue: Buffers that wait for a window or the transport; None until one has to.
        queued_bytes: Their size.
        end_block: The trailers' header block, sent after the queue.
        ready: Whether the stream is in the round of those that can send.
        owner: The call, set by the layer above.
    """

    __slots__ = (
        "end_block",
        "id",
        "owner",
        "queue",
        "queued_bytes",
        "ready",
        "receive_window",
        "send_window",
        "state",
    )

    def __init__(self, stream_id: int, state: int, send_window: int, receive_window: int) -> None:
        self.id = stream_id
        self.state = state
        self.send_window = send_window
        self.receive_window = receive_window
        self.queue: deque[memoryview] | None = None
        self.queued_bytes = 0
        self.end_block: bytes | None = None
        self.ready = False
        self.owner: object = None
