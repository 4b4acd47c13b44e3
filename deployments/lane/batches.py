# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What lanes carry for pools: batches that were formed elsewhere, and who forms them.

An instance is on its own, or *adopted*: the queue of its node's pool, in a router of the node, its
*holder*, decides what it executes. An adopted instance takes batches only, and answers a request
that comes by itself with BOUNCE: it is sent again by way of the queue.

A batch may consist of *parts* from several routers, each over its own lane: a BATCH frame, and
behind it the INFER frames of the part. Requests are answered over the lane they came by. When the
batch is executed, which for a decoupled model is before its last responses, the holder gets DONE.

======== ============ ========================= ====================================================
frame    from, to     message                   meaning
======== ============ ========================= ====================================================
ADOPT    holder, inst `Holder`                  I hold your pool's queue from now on
ADOPTED  inst, holder `Adopted`                 so be it; this is how far I am
BATCH    router, inst `BatchPart`               the next INFER frames are a part of a batch
DONE     inst, holder `Done`                    a batch is executed
FORGET   holder, inst `Forget`                  a part of a batch will not come
BOUNCE   inst, router `Bounce`, or none; id of  send it by way of the queue
                      the request
ASK      holder, inst none                      requests wait: get your grant (rate limiter)
GRANTED  inst, holder none                      I may execute one batch
DECLINE  holder, inst none                      nothing waits any more: give your grant back
HOLDER   inst, router `Holder`                  who holds the queue; sent when it changes, and to
                                                each new lane of an adopted instance
======== ============ ========================= ====================================================
"""

from collections.abc import Container, Sequence
from typing import Final, Protocol

import msgspec

from deployments.lane.inflight import LaneInflight


class Adopted(msgspec.Struct, array_like=True):
    """The message of ADOPTED.

    Attributes:
        batch_count: Batches, its own included, that are not executed yet.
        running: By slot, the sequences that it has begun.
        is_limited: Whether it executes under the rate limiter.
        is_refused: Whether a later holder has it.
    """

    batch_count: int = 0
    running: dict[int, int | str] = {}
    is_limited: bool = False
    is_refused: bool = False


class BatchPart(msgspec.Struct, array_like=True):
    """The message of BATCH.

    Attributes:
        epoch: Of the holder that formed the batch.
        number: The batch, in that epoch.
        here_count: INFER frames of this part; they follow on this lane.
        total_count: Requests of all parts, ``kept`` ones not included; 0 where the sender does not
            know, which is not the holder.
        slots: Of sequences, the slot of each request of this part.
        kept: Slots whose request, executed before and kept for it, is executed once more.
        queued_ns: Since when each request of this part waits, on the node's monotonic clock; 0 or
            nothing where that is not known.
        unsent_count: Requests of this part that do not come: no lane can carry them.
        row_count: Where each slot has its row, how many rows the batch has at least.
        waited_ns: How long each request of this part has waited, from a router of another node.
        sequences: Of the holder's part: by slot, the sequences that requests of other parts begin;
            0 for those that they end. None for none.
        party: Which of the batch's other routers sends the part, from 1 on; 0 for the holder, and
            for one of another node that fills a lease.
    """

    epoch: int
    number: int
    here_count: int
    total_count: int = 0
    slots: Sequence[int] = ()
    kept: Sequence[int] = ()
    queued_ns: Sequence[int] = ()
    unsent_count: int = 0
    row_count: int = 0
    waited_ns: Sequence[int] = ()
    sequences: dict[int, int | str] | None = None
    party: int = 0


def without(part: BatchPart, places: Container[int]) -> BatchPart:
    """Return a part without the requests at some places, which it counts as unsent."""

    def left(items: Sequence[int]) -> list[int]:
        return [item for place, item in enumerate(items) if place not in places]

    here_count = len(left(range(part.here_count)))
    return msgspec.structs.replace(
        part,
        here_count=here_count,
        slots=left(part.slots),
        queued_ns=left(part.queued_ns),
        waited_ns=left(part.waited_ns),
        unsent_count=part.unsent_count + part.here_count - here_count,
    )


class Done(msgspec.Struct, array_like=True):
    """The message of DONE.

    Attributes:
        epoch: Of the batch.
        number: The batch.
        execution_ns: How long it was executed.
        rescheduled: Slots whose request is to be executed once more; it is kept for that.
        ended: By slot, the sequences that have ended there because a request of them was cancelled
            before it was executed, or that do not run there. None for none.
    """

    epoch: int
    number: int
    execution_ns: int = 0
    rescheduled: Sequence[int] = ()
    ended: dict[int, int | str] | None = None


class Forget(msgspec.Struct, array_like=True):
    """The message of FORGET.

    Attributes:
        epoch: Of the batch.
        number: The batch.
        count: How many requests will not come, unless the part has come already.
        party: Whose part it is; see `BatchPart`.
    """

    epoch: int
    number: int
    count: int
    party: int = 0


class Bounce(msgspec.Struct, array_like=True):
    """The message of BOUNCE for a request that has waited at the instance."""

    waited_ns: int


class Holder(msgspec.Struct, array_like=True):
    """The message of ADOPT and HOLDER.

    Attributes:
        epoch: When the holder began to hold, in nanoseconds of the node's monotonic clock: of two
            holders the later one is right. 0 when there is none at present, and another one is to
            come.
        host: Where it listens for tickets of other nodes.
        port: Its port; 0 when it does not.
    """

    epoch: int
    host: str = ""
    port: int = 0


decode_adopted: Final = msgspec.msgpack.Decoder(Adopted).decode
decode_batch_part: Final = msgspec.msgpack.Decoder(BatchPart).decode
decode_bounce: Final = msgspec.msgpack.Decoder(Bounce).decode
decode_done: Final = msgspec.msgpack.Decoder(Done).decode
decode_forget: Final = msgspec.msgpack.Decoder(Forget).decode
decode_holder: Final = msgspec.msgpack.Decoder(Holder).decode


class PoolEvents(Protocol):
    """What a router wants to know of one instance of a pool; called by the lane to it."""

    def adopted(self, message: Adopted) -> None:
        """Learn that the instance takes batches from here, or from a later holder."""

    def done(self, message: Done) -> None:
        """Learn that a batch was executed."""

    def granted(self) -> None:
        """Learn that the instance may execute one batch."""

    def draining(self) -> None:
        """Learn that the instance ends once it has executed what lies there soon."""

    def bounced(self, inflight: LaneInflight, waited_ns: int) -> None:
        """Take back a request that has waited so long, to send it by way of the queue."""

    def holder(self, message: Holder) -> None:
        """Learn who holds the queue of the instance's pool."""
