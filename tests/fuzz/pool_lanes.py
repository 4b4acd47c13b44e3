# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an instance does with frames about its pool, whatever bytes are in them."""

import contextlib
from collections.abc import Callable, Iterable

import msgspec

from deployments.instance.assembly import Assembly
from deployments.lane.batches import Adopted, BatchPart, Forget, Holder
from deployments.lane.connection import LaneConnection
from deployments.lane.frames import ADOPT, BATCH, DECLINE, FORGET, PREFIX, Frame, FrameError
from deployments.lane.frames import FrameReader as Reader
from deployments.lane.messages import DEFAULT_LIMITS, encode
from deployments.lane.server_pool import Holding, PoolServer


class _Connection(LaneConnection):
    """Takes what is sent."""

    def __init__(self) -> None:
        self.control: dict[int, Callable[[Frame], None]] = {}

    def send(self, kind: int, frame_id: int, message: bytes = b"") -> None:
        """Take a frame."""


class _Handler:
    """Puts batches together, of requests that do not come."""

    def __init__(self) -> None:
        self.assembly: Assembly[object] = Assembly()

    def adopt(self, lane: object, message: Holder) -> Adopted:
        return Adopted()

    def received_part(self, part: BatchPart, requests: list[object]) -> None:
        self.assembly.add(part, requests, 0)

    def forget(self, message: Forget) -> None:
        self.assembly.forget(message)

    def asked(self) -> None:
        pass

    def declined(self) -> None:
        pass

    def holder_lost(self) -> None:
        pass


def feed_pool(pieces: Iterable[bytes]) -> None:
    """Have an instance take frames that a router is said to have sent."""
    reader = Reader(max_message_bytes=1 << 16, max_tail_bytes=1 << 16)
    connection = _Connection()
    end = PoolServer(connection, _Handler(), Holding(), DEFAULT_LIMITS)
    with contextlib.suppress(FrameError):
        for piece in pieces:
            for frame in reader.feed(piece):
                handle = connection.control.get(frame.kind)
                if handle is not None:
                    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                        handle(frame)
                elif end.is_collecting:
                    # A request that was answered as it came.
                    end.came()
    end.lost()


def pool_seed() -> bytes:
    """Return frames of all kinds that an instance takes."""
    messages = [
        (ADOPT, encode(Holder(1, "h", 2))),
        (BATCH, encode(BatchPart(1, 1, 1, 2, [3], [4], [5]))),
        (DECLINE, b""),
        (FORGET, encode(Forget(1, 1, 1))),
    ]
    return b"".join(PREFIX.pack(kind, 0, 0, len(each), 0) + each for kind, each in messages)
