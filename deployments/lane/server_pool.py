# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an instance hears and says over a lane about its pool: batches, and who forms them.

The requests of a part follow its BATCH frame directly, so a lane has at most one part that has
come by half.
"""

import logging
from typing import Final, Protocol

import msgspec

from backends.api.errors import InternalError
from deployments.lane.batches import (
    Adopted,
    BatchPart,
    Done,
    Forget,
    Holder,
    decode_batch_part,
    decode_forget,
    decode_holder,
    without,
)
from deployments.lane.connection import LaneConnection
from deployments.lane.frames import (
    ADOPT,
    ADOPTED,
    ASK,
    BATCH,
    DECLINE,
    DONE,
    FORGET,
    GRANTED,
    HOLDER,
    Frame,
    FrameError,
)
from deployments.lane.messages import LaneLimits, encode
from deployments.lane.server_request import ServerRequest

logger = logging.getLogger(__name__)

_NOBODY: Final = encode(Holder(0))
_MAX_NUMBER: Final = (1 << 63) - 1


class PoolHandler(Protocol):
    """What an instance does for its pool. Called on the reactor's thread."""

    def adopt(self, lane: "PoolServer", message: Holder) -> Adopted:
        """Execute batches only from now on, and tell this holder of them."""

    def received_part(self, part: BatchPart, requests: list[ServerRequest]) -> None:
        """Take a part of a batch, with those of its requests that are not answered yet.

        Raises:
            FrameError: It is no part of a batch of this model.
        """

    def forget(self, message: Forget) -> None:
        """Learn that requests of a batch will not come."""

    def asked(self) -> None:
        """Learn that the holder wants the instance to get its grant."""

    def declined(self) -> None:
        """Learn that the holder has nothing to execute any more."""

    def holder_lost(self) -> None:
        """Learn that the holder's lane is gone."""


class Holding:
    """Who holds the queue of the instance's pool, as all lanes of a server know it.

    Attributes:
        epoch: Of the newest holder; 0 while the instance is on its own.
        end: That holder's lane; None once it is lost.
        connections: Those of the server, also those that have proved nothing yet.
        message: What each new lane is told; empty while the instance is on its own.
    """

    __slots__ = ("connections", "end", "epoch", "message")

    def __init__(self) -> None:
        self.epoch = 0
        self.end: PoolServer | None = None
        self.connections: set[LaneConnection] = set()
        self.message = b""

    def tell(self, kind: int, message: bytes = b"") -> None:
        """Send a frame to all routers."""
        for connection in self.connections:
            if connection.is_set_up:
                connection.send(kind, 0, message)


class PoolServer:
    """The instance's end of a lane, as far as it is about the pool.

    Args:
        connection: Carries the frames.
        handler: What stands behind the lane.
        holding: Who holds the queue.
        limits: Bounds of the lane.

    Attributes:
        is_collecting: Whether the next requests belong to a part.
        requests: Those that have come of it.
    """

    def __init__(
        self,
        connection: LaneConnection,
        handler: PoolHandler,
        holding: Holding,
        limits: LaneLimits,
    ) -> None:
        self._connection = connection
        self._handler = handler
        self._holding = holding
        self._limits = limits
        self.is_collecting = False
        self.requests: list[ServerRequest] = []
        self._part = BatchPart(0, 0, 0)
        self._come_count = 0
        # Places of requests that were answered as they came.
        self._refused: set[int] = set()
        connection.control |= {
            ADOPT: self._on_adopt,
            BATCH: self._on_batch,
            FORGET: self._on_forget,
            ASK: self._on_ask,
            DECLINE: self._on_decline,
        }

    def set_up(self) -> None:
        """Tell a new router who holds the queue."""
        if self._holding.message:
            self._connection.send(HOLDER, 0, self._holding.message)

    def lost(self) -> None:
        """Give up what the lane has brought by half, and the holder if it was this lane's."""
        self.is_collecting = False
        self.requests = []
        holding = self._holding
        if holding.end is self:
            holding.end = None
            self._announce(_NOBODY)
            self._handler.holder_lost()

    def send_done(self, message: Done) -> None:
        """Tell the holder that a batch is executed."""
        self._connection.send(DONE, 0, encode(message))

    def send_granted(self) -> None:
        """Tell the holder that one batch may be executed."""
        self._connection.send(GRANTED, 0)

    # Reading

    def _on_batch(self, frame: Frame) -> None:
        part = decode_batch_part(frame.message)
        _check(part, self._limits.max_inflight_count)
        if self.is_collecting:
            missing_count = self._part.here_count - self._come_count
            raise FrameError(f"a batch while {missing_count} requests of another one are to come")
        self._part = part
        self._come_count = 0
        if part.here_count:
            self.is_collecting = True
        else:
            self._deliver(part, [])

    def came(self) -> None:
        """Count a request of the part, which is in `requests` unless it has been answered."""
        if len(self.requests) + len(self._refused) == self._come_count:
            self._refused.add(self._come_count)
        self._come_count += 1
        if self._come_count < self._part.here_count:
            return
        part, requests, refused = self._part, self.requests, self._refused
        self.is_collecting = False
        self.requests = []
        if refused:
            self._refused = set()
            part = without(part, refused)
        self._deliver(part, requests)

    def _deliver(self, part: BatchPart, requests: list[ServerRequest]) -> None:
        try:
            self._handler.received_part(part, requests)
        except FrameError:
            raise
        except Exception:
            logger.exception("the handler raised on a part of %d requests", len(requests))
            for request in requests:
                if not request.is_finished:
                    request.fail(InternalError("the instance could not take the request"))

    def _on_forget(self, frame: Frame) -> None:
        message = decode_forget(frame.message)
        is_numbered = _is_count(message.epoch) and _is_count(message.number)
        is_part = 0 <= message.party <= self._limits.max_inflight_count and message.count > 0
        if not (is_numbered and is_part):
            raise FrameError(f"{message}, expected numbers that are not negative and a count")
        self._handler.forget(message)

    def _on_ask(self, _: Frame) -> None:
        if self._holding.end is self:
            self._handler.asked()

    def _on_decline(self, _: Frame) -> None:
        if self._holding.end is self:
            self._handler.declined()

    def _on_adopt(self, frame: Frame) -> None:
        message = decode_holder(frame.message)
        if not 0 < message.epoch <= _MAX_NUMBER:
            raise FrameError(f"adoption with epoch {message.epoch}, expected a positive one")
        holding = self._holding
        if message.epoch < holding.epoch:
            self._connection.send(ADOPTED, 0, encode(Adopted(is_refused=True)))
            return
        holding.epoch = message.epoch
        holding.end = self
        # First: requests that are bounced go to the holder.
        self._announce(encode(message))
        adopted = self._handler.adopt(self, message)
        self._connection.send(ADOPTED, 0, encode(adopted))

    def _announce(self, message: bytes) -> None:
        self._holding.message = message
        self._holding.tell(HOLDER, message)


def _is_count(number: int) -> bool:
    return 0 <= number <= _MAX_NUMBER


def _check(part: BatchPart, max_count: int) -> None:
    """Raise FrameError unless a part is one that a router sends."""
    here_count = part.here_count
    times = (*part.queued_ns, *part.waited_ns)
    sequences = part.sequences or ()
    numbers = (part.epoch, part.number, *part.slots, *part.kept, *times, *sequences)
    counts = (here_count, part.total_count, part.unsent_count, len(part.kept), part.party)
    if (
        not all(map(_is_count, numbers))
        or not all(0 <= count <= max_count for count in counts)
        or len(part.slots) not in {0, here_count}
        or not {len(part.queued_ns), len(part.waited_ns)} <= {0, here_count}
    ):
        text = msgspec.json.encode(part)[:200].decode(errors="replace")
        raise FrameError(f"part {text} of a batch; its numbers are out of bounds or do not match")
