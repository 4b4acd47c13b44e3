# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What both ends of a lane have in common: handshake, set-up and coalesced writes.

Theory of operation. A connection goes through four phases: *handshake* (nobody is trusted),
*set-up* (each side tells how its slabs are found and learns whether the other could map them),
*open*, and *lost*, from which nothing leads back. After the handshake the peer is trusted to be one
of ours, yet everything it sends is checked, for a peer may be of another build or half dead: the
first bad frame closes the lane with a logged reason.

Routers' ends live on asyncio, instances' ends on a `Reactor`; `deployments.reactor.transport` says
what a lane asks of either. Frames queue in a list that is joined into one write at the end of the
loop tick; during ``data_received`` that is at its end, so answers to what was read leave without
another trip through the loop. Tails are handed to the transport as they are, never joined, with
what is before them: one system call writes all. The buffers of a request or response must not
change until it has been written.
"""

import asyncio
import copy
import logging
import secrets
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, cast

from mypy_extensions import mypyc_attr

from backends.api.request import InferenceRequest, InferenceResponse, Tensor
from deployments.contracts.protocols import Versions
from deployments.lane.frames import (
    FLAG_EXTENTS,
    INFER,
    PREFIX,
    SETUP,
    Frame,
    FrameError,
    FrameReader,
)
from deployments.lane.handshake import NONCE_BYTES, Handshake, HandshakeError
from deployments.lane.keepalive import keepalive_options
from deployments.lane.messages import LaneLimits, Setup, UnsendableError, decode_setup, encode
from deployments.lane.slab_exchange import SlabExchange
from deployments.reactor.transport import Cancellable, LaneLoop, LaneTransport
from deployments.slabs.extents import Detached
from deployments.slabs.pool import SlabPool

logger = logging.getLogger(__name__)

_pack: Final = PREFIX.pack

# Makes the handshake of its side from the cluster's lane secret, a nonce and what the end speaks.
MakeHandshake = Callable[[bytes, bytes, Versions], Handshake]

# What a peer that does not read gets before a closed lane is cut off.
_LINGER_S: Final = 5.0
# Strangers who have connected and proved nothing yet; a cluster's routers need one slot each for
# a millisecond.
MAX_UNPROVED_COUNT = 256


class LaneRole(Protocol):
    """What an end of a lane does with its connection: the router's end or the instance's.

    The connection calls these; one that raises loses the lane.
    """

    def describe(self) -> str:
        """Return what the lane is called in the log."""

    def connected(self, *, is_proved: bool) -> None:
        """Learn that there is a peer; and once more when it has proved to know the secret."""

    def take_setup(self, setup: Setup) -> None:
        """Take a message of the set-up; the last one is answered by `LaneConnection.set_up_done`.

        Raises:
            FrameError: It is not what was expected.
        """

    def take_frames(self, frames: list[Frame]) -> None:
        """Take what one read has brought behind the set-up, one frame at least.

        Raises:
            FrameError: A frame is out of place.
        """

    def lost(self, reason: str) -> None:
        """Learn of the end; called once, last."""


@mypyc_attr(allow_interpreted_subclasses=True)
class LaneConnection(asyncio.Protocol):
    """One end of a lane; what it carries is its role's.

    Args:
        role: What is told of all that happens.
        loop: What it lives on.
        handshake: Makes the handshake of its side.
        secret: The cluster's lane secret.
        slabs: The slabs of this process.
        limits: Bounds of the lane.
        offers_slabs: Whether the peer may be on this node.

    Attributes:
        slabs: What both ends lend each other.
        control: What to do with frames of kinds that the role does not look for itself.
        version: Of the protocol, that both ends speak; 0 before the handshake.
        is_connected: Whether there ever was a peer.
        is_set_up: Whether both ends know what the other can.
        is_lost: Whether the lane has ended.
        lost_reason: Why; empty before.
        settled: Done once both ends are set up or the lane is lost; None while nobody waits.
        is_writable: False while more bytes wait to be sent than is sensible.
        was_single: Whether the last write was of one request: then nothing is likely to join the
            next.
        silent_periods: How many periods of a router's check have passed since the last bytes.
    """

    transport: LaneTransport

    def __init__(
        self,
        role: LaneRole,
        loop: LaneLoop,
        handshake: MakeHandshake,
        secret: bytes,
        slabs: SlabPool,
        limits: LaneLimits,
        *,
        offers_slabs: bool,
    ) -> None:
        self._role = role
        self._take_frames = role.take_frames
        self._loop = loop
        self._limits = limits
        # phases
        nonce = secrets.token_bytes(NONCE_BYTES)
        self._handshake: Handshake | None = handshake(secret, nonce, limits.versions)
        self.version = 0
        self.is_set_up = False
        self.is_lost = False
        self.lost_reason = ""
        self.is_connected = False
        self.settled: asyncio.Future[None] | None = None
        self._timer: Cancellable | None = None
        # writing
        self._out: list[bytes] = []
        self._is_flush_due = False
        self._is_overrun = False
        self.was_single = False
        self.is_writable = True
        # reading
        self.silent_periods = 0
        self._reader = FrameReader(limits.max_message_bytes, limits.max_tail_bytes)
        # slabs
        self.slabs = SlabExchange(loop, slabs, limits, self.send, offers_slabs=offers_slabs)
        self._detach = self.slabs.sender.detach
        self.control: dict[int, Callable[[Frame], None]] = dict(self.slabs.control)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport | LaneTransport) -> None:
        """Start the handshake."""
        self.transport = transport = cast("LaneTransport", transport)
        self.is_connected = True
        transport.set_write_buffer_limits(high=self._limits.high_water_bytes)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            for level, option, value in keepalive_options(self._limits.peer_timeout_s):
                sock.setsockopt(level, option, value)
        timeout_s = self._limits.handshake_timeout_s
        self._timer = self._loop.call_later(timeout_s, self._on_timeout)
        self.slabs.open()
        if self._handshake is not None and (opening := self._handshake.open()):
            transport.write(opening)
        self._role.connected(is_proved=False)

    def data_received(self, data: bytes) -> None:
        """Take what was read: all its frames at once."""
        if self.is_lost:
            return
        self.silent_periods = 0
        self._is_flush_due = True
        try:
            if self._handshake is not None:
                data = self._shake_hands(self._handshake, data)
            if data:
                frames = self._reader.feed(data)
                if not self.is_set_up:
                    frames = self._take_setup(frames)
                if frames:
                    self._take_frames(frames)
        except (FrameError, HandshakeError, ValueError) as error:
            # msgspec's errors are ValueErrors too.
            self.break_off(str(error))
        except Exception:
            logger.exception("%s: fault while reading", self._role.describe())
            self.break_off("internal fault")
        else:
            self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back everything the connection held."""
        self.lose(str(exc) if exc else "the peer closed it")

    def pause_writing(self) -> None:
        """Note that the peer is slower than we are."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """Note that the peer has caught up."""
        self.is_writable = True

    # Phases

    def _shake_hands(self, handshake: Handshake, data: bytes) -> bytes:
        reply = handshake.feed(data)
        if reply:
            self.transport.write(reply)
        if not handshake.is_done:
            return b""
        self._handshake = None
        self.version = handshake.version
        self._role.connected(is_proved=True)
        return handshake.rest

    def _on_timeout(self) -> None:
        self.break_off(f"no handshake within {self._limits.handshake_timeout_s} s")

    def _take_setup(self, frames: list[Frame]) -> list[Frame]:
        """Handle the frames of the set-up and return those behind them."""
        for index, frame in enumerate(frames):
            if self.is_set_up or self.is_lost:
                return frames[index:]
            if frame.kind != SETUP:
                raise FrameError(f"frame of kind {frame.kind} before the set-up")
            self._role.take_setup(decode_setup(frame.message))
        return []

    def set_up_done(self) -> None:
        """Note that the set-up is complete: what comes next is for the role."""
        self.is_set_up = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._settle()

    def _settle(self) -> None:
        if self.settled is not None and not self.settled.done():
            self.settled.set_result(None)

    def break_off(self, reason: str) -> None:
        """Close at once because the peer cannot be trusted or waited for any more."""
        if not self.is_lost:
            logger.warning("%s closed: %s", self._role.describe(), reason)
            self.lose(reason)
        self.transport.abort()

    def close(self, reason: str) -> None:
        """Close after what has queued is written, if the peer takes it in time."""
        if self.is_lost:
            return
        self.flush()
        self.lose(reason)
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._loop.call_later(_LINGER_S, self.transport.abort)

    def lose(self, reason: str) -> None:
        """Give back everything and tell the role; the transport stays as it is."""
        if self.is_lost:
            return
        self.is_lost = True
        self.lost_reason = reason
        self._out.clear()
        if self._timer is not None:
            self._timer.cancel()
        self.slabs.close()
        self._settle()
        self._role.lost(reason)

    # Writing

    def send(
        self,
        kind: int,
        frame_id: int,
        message: bytes = b"",
        flags: int = 0,
        tail_bytes: int = 0,
    ) -> None:
        """Queue a frame; all that is queued in one tick of the loop is one write."""
        self._out.append(_pack(kind, flags, frame_id, len(message), tail_bytes))
        self._out.append(message)
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self.flush)

    def prepare(
        self, message: InferenceRequest | InferenceResponse, tensors: list[Tensor]
    ) -> tuple[bytes, Detached | None]:
        """Encode a message, having put its large tensors elsewhere.

        Raises:
            UnsendableError: Its values or its size do not fit a frame.
        """
        detached: Detached | None = None
        threshold_bytes = self._limits.threshold_bytes
        try:
            for tensor in tensors:
                if tensor.data.nbytes >= threshold_bytes:
                    detached = self._detach(tensors)
                    message = _with_tensors(message, detached.tensors)
                    break
            encoded = encode(message)
        except Exception as error:
            # Whatever a strange parameter provokes: it costs one request, not the lane.
            if detached is not None:
                self.slabs.sender.undo(detached)
            raise UnsendableError(str(error)) from error
        tail_bytes = 0 if detached is None else detached.tail_bytes
        limits = self._limits
        if len(encoded) > limits.max_message_bytes or tail_bytes > limits.max_tail_bytes:
            if detached is not None:
                self.slabs.sender.undo(detached)
            raise UnsendableError(
                f"{len(encoded)} bytes of headers and tensors below {threshold_bytes} bytes each, "
                f"and {tail_bytes} bytes of larger tensors; a lane carries at most "
                f"{limits.max_message_bytes} and {limits.max_tail_bytes}"
            )
        return encoded, detached

    def send_prepared(
        self, kind: int, frame_id: int, prepared: tuple[bytes, Detached | None], flags: int = 0
    ) -> None:
        """Queue what `prepare` has made; a tail goes out at once, behind what is queued."""
        message, detached = prepared
        if detached is None:
            self.send(kind, frame_id, message, flags)
            return
        self.slabs.announce(detached)
        flags |= FLAG_EXTENTS
        self.send(kind, frame_id, message, flags, detached.tail_bytes)
        if detached.tail:
            self.flush(detached.tail)

    def flush(self, tail: Sequence[bytes | memoryview] = ()) -> None:
        """Write what has queued, and a tail behind it; nothing when the lane is about to be lost.

        Args:
            tail: Buffers that are not joined; the last frame queued is theirs.
        """
        self._is_flush_due = False
        if self.is_lost or self._is_overrun:
            self._out.clear()
            return
        if not self._out:
            return
        if not self.is_writable:
            unsent_bytes = self.transport.get_write_buffer_size()
            if unsent_bytes > self._limits.max_unsent_bytes:
                self._is_overrun = True
                reason = f"the peer leaves {unsent_bytes} bytes unread"
                # Not now: whoever is sending does not expect to lose the lane in the middle of it.
                self._loop.call_soon(self.break_off, reason)
                return
        out = self._out
        self.was_single = len(out) == 2 and out[0][0] == INFER  # noqa: PLR2004 - prefix, message
        data = b"".join(out)
        out.clear()
        if tail:
            self.transport.writelines([data, *tail])
        else:
            self.transport.write(data)

    def admit(self, peers: "Iterable[LaneConnection]") -> None:
        """Give a stranger the time of a handshake, unless too many of its server's are at it."""
        if unproved_count(peers) > MAX_UNPROVED_COUNT:
            self.break_off("too many connections that have not proved themselves")

    def take_control(self, frame: Frame) -> None:
        """Take a frame that the role has no other use for.

        Raises:
            FrameError: Nobody has.
        """
        handle = self.control.get(frame.kind)
        if handle is None:
            raise FrameError(f"frame of kind {frame.kind} out of place")
        handle(frame)


def unproved_count(connections: Iterable[LaneConnection]) -> int:
    """Return how many of a server's peers have not proved that they know the secret."""
    return sum(not each.version for each in connections)


def _with_tensors(
    message: InferenceRequest | InferenceResponse, tensors: list[Tensor]
) -> InferenceRequest | InferenceResponse:
    """Return a shallow copy; the caller's message may have to go over another lane."""
    changed = copy.copy(message)
    if isinstance(changed, InferenceRequest):
        changed.inputs = tensors
    else:
        changed.outputs = tensors
    return changed
