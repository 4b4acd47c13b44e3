# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What both ends of a lane have in common: handshake, set-up, coalesced writes and slabs.

Theory of operation. A connection goes through four phases: *handshake* (nobody is trusted),
*set-up* (each side tells how its slabs are found and learns whether the other could map them),
*open*, and *lost*, from which nothing leads back. After the handshake the peer is trusted to be one
of ours, yet everything it sends is checked, for a peer may be of another build or half dead: the
first bad frame closes the lane with a logged reason.

Routers' ends live on asyncio, instances' ends on a `Reactor`; `deployments.reactor.transport` says
what a lane asks of either. Frames queue in a list that is joined into one write at the end of the
loop tick; during ``data_received`` that is at its end, so answers to what was read leave without
another trip through the loop. Tails are handed to the transport as they are, never joined. The
buffers of a request or response must not change until it has been written.
"""

import asyncio
import contextlib
import copy
import logging
import os
import socket
import struct
from collections.abc import Callable
from typing import Final, cast

from backends.api.request import InferenceRequest, InferenceResponse, Tensor
from deployments.lane.frames import (
    FLAG_EXTENTS,
    GOAWAY,
    INFER,
    NO_SLABS,
    PREFIX,
    RELEASE,
    SETUP,
    SLAB,
    SLAB_GONE,
    Frame,
    FrameError,
    FrameReader,
)
from deployments.lane.handshake import Handshake, HandshakeError
from deployments.lane.messages import LaneLimits, Setup, UnsendableError, decode_setup, encode
from deployments.reactor.transport import Cancellable, LaneLoop, LaneTransport
from deployments.slabs.extents import Detached, ExtentSender
from deployments.slabs.pool import SlabPool, SlabReader, can_read_probe

logger = logging.getLogger(__name__)

_pack: Final = PREFIX.pack
_SLAB_FIELDS: Final = struct.Struct("<IQ")
_RELEASE_FIELDS: Final = struct.Struct("<IQ")

# What a peer that does not read gets before a closed lane is cut off.
_LINGER_S: Final = 5.0

# A dead node is noticed in about 25 s; Ray itself needs 30 s and more.
_KEEPALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 25_000),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


class LaneConnection(asyncio.Protocol):
    """One end of a lane; `LaneClient` and the server's lanes fill in what differs."""

    _transport: LaneTransport

    def __init__(
        self,
        loop: LaneLoop,
        handshake: Handshake,
        slabs: SlabPool,
        limits: LaneLimits,
        *,
        offers_slabs: bool,
    ) -> None:
        self._loop = loop
        self._limits = limits
        # phases
        self._handshake: Handshake | None = handshake
        self._is_set_up = False
        self._is_lost = False
        self._is_connected = False
        self._timer: Cancellable | None = None
        # writing
        self._out: list[bytes] = []
        self._is_flush_due = False
        self._is_overrun = False
        # Whether the last write was of one request: then nothing is likely to join the next.
        self._was_single = False
        self.is_writable = True
        # reading; how many periods of `LaneClient.is_unresponsive` have passed since the last bytes
        self._silent_periods = 0
        self._reader = FrameReader(limits.max_message_bytes, limits.max_tail_bytes)
        # slabs
        self._slabs = slabs
        self._offers_slabs = offers_slabs
        self._peer_pid = 0
        self._extents = ExtentSender(slabs, limits.threshold_bytes)
        self._slab_reader = SlabReader(self._wake_release)
        self._is_release_due = False
        self._control: dict[int, Callable[[Frame], None]] = {
            SLAB: self._on_slab,
            SLAB_GONE: self._on_slab_gone,
            NO_SLABS: self._on_no_slabs,
            RELEASE: self._on_release,
            GOAWAY: self._on_goaway,
        }

    # Filled in by the two roles.

    def _describe(self) -> str:
        raise NotImplementedError

    def _take_frames(self, frames: list[Frame]) -> None:
        raise NotImplementedError

    def _on_authenticated(self) -> None:
        raise NotImplementedError

    def _on_setup(self, setup: Setup) -> None:
        raise NotImplementedError

    def _on_goaway(self, frame: Frame) -> None:
        raise FrameError(f"frame of kind {frame.kind} from a client")

    def _on_lost(self, reason: str) -> None:
        raise NotImplementedError

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport | LaneTransport) -> None:
        """Start the handshake."""
        self._transport = transport = cast("LaneTransport", transport)
        self._is_connected = True
        transport.set_write_buffer_limits(high=self._limits.high_water_bytes)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            for level, option, value in _KEEPALIVE:
                sock.setsockopt(level, option, value)
        timeout_s = self._limits.handshake_timeout_s
        self._timer = self._loop.call_later(timeout_s, self._on_timeout)
        self._slabs.watch(self._slab_retired)
        if self._handshake is not None and (opening := self._handshake.open()):
            transport.write(opening)

    def data_received(self, data: bytes) -> None:
        """Take what was read: all its frames at once."""
        if self._is_lost:
            return
        self._silent_periods = 0
        self._is_flush_due = True
        try:
            if self._handshake is not None:
                data = self._shake_hands(self._handshake, data)
            if data:
                self._take_frames(self._reader.feed(data))
        except (FrameError, HandshakeError, ValueError) as error:
            # msgspec's errors are ValueErrors too.
            self._break(str(error))
        except Exception:
            logger.exception("%s: fault while reading", self._describe())
            self._break("internal fault")
        else:
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back everything the connection held."""
        self._lose(str(exc) if exc else "the peer closed it")

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
            self._transport.write(reply)
        if not handshake.is_done:
            return b""
        self._handshake = None
        self._on_authenticated()
        return handshake.rest

    def _on_timeout(self) -> None:
        self._break(f"no handshake within {self._limits.handshake_timeout_s} s")

    def _take_setup(self, frames: list[Frame]) -> list[Frame]:
        """Handle the frames of the set-up and return those behind them."""
        for index, frame in enumerate(frames):
            if self._is_set_up or self._is_lost:
                return frames[index:]
            if frame.kind != SETUP:
                raise FrameError(f"frame of kind {frame.kind} before the set-up")
            self._on_setup(decode_setup(frame.message))
        return []

    def _own_setup(self, incarnation: str = "") -> Setup:
        if not self._offers_slabs:
            return Setup(incarnation=incarnation)
        return Setup(
            pid=os.getpid(),
            probe_fd=self._slabs.probe_fd,
            probe_token=self._slabs.probe_token,
            incarnation=incarnation,
        )

    def _maps_slabs_of(self, setup: Setup) -> bool:
        if not (self._offers_slabs and setup.pid > 0):
            return False
        if not can_read_probe(setup.pid, setup.probe_fd, setup.probe_token):
            return False
        self._peer_pid = setup.pid
        return True

    def _set_up_done(self) -> None:
        self._is_set_up = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _break(self, reason: str) -> None:
        """Close at once because the peer cannot be trusted or waited for any more."""
        if not self._is_lost:
            logger.warning("%s closed: %s", self._describe(), reason)
            self._lose(reason)
        self._transport.abort()

    def _close(self, reason: str) -> None:
        """Close after what has queued is written, if the peer takes it in time."""
        if self._is_lost:
            return
        self._flush()
        self._lose(reason)
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(_LINGER_S, self._transport.abort)

    def _lose(self, reason: str) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._out.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._slabs.unwatch(self._slab_retired)
        self._extents.close()
        self._slab_reader.close()
        self._on_lost(reason)

    # Writing

    def _send(
        self,
        kind: int,
        frame_id: int,
        message: bytes = b"",
        flags: int = 0,
        tail_bytes: int = 0,
    ) -> None:
        self._out.append(_pack(kind, flags, frame_id, len(message), tail_bytes))
        self._out.append(message)
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _prepare(
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
                    detached = self._extents.detach(tensors)
                    message = _with_tensors(message, detached.tensors)
                    break
            encoded = encode(message)
        except Exception as error:
            # Whatever a strange parameter provokes: it costs one request, not the lane.
            if detached is not None:
                self._extents.undo(detached)
            raise UnsendableError(str(error)) from error
        tail_bytes = 0 if detached is None else detached.tail_bytes
        limits = self._limits
        if len(encoded) > limits.max_message_bytes or tail_bytes > limits.max_tail_bytes:
            if detached is not None:
                self._extents.undo(detached)
            raise UnsendableError(
                f"{len(encoded)} bytes of headers and tensors below {threshold_bytes} bytes each, "
                f"and {tail_bytes} bytes of larger tensors; a lane carries at most "
                f"{limits.max_message_bytes} and {limits.max_tail_bytes}"
            )
        return encoded, detached

    def _send_prepared(
        self, kind: int, frame_id: int, prepared: tuple[bytes, Detached | None], flags: int = 0
    ) -> None:
        message, detached = prepared
        if detached is None:
            self._send(kind, frame_id, message, flags)
            return
        for slab in detached.new_slabs:
            self._send(SLAB, slab.id, _SLAB_FIELDS.pack(slab.fd, slab.size_bytes))
        flags |= FLAG_EXTENTS
        self._send(kind, frame_id, message, flags, detached.tail_bytes)
        if detached.tail and self._flush():
            for part in detached.tail:
                self._transport.write(part)

    def _flush(self) -> bool:
        """Write what has queued; False when the lane is lost or about to be."""
        self._is_flush_due = False
        if self._is_lost or self._is_overrun:
            self._out.clear()
            return False
        if not self._out:
            return True
        if not self.is_writable:
            unsent_bytes = self._transport.get_write_buffer_size()
            if unsent_bytes > self._limits.max_unsent_bytes:
                self._is_overrun = True
                reason = f"the peer leaves {unsent_bytes} bytes unread"
                # Not now: whoever is sending does not expect to lose the lane in the middle of it.
                self._loop.call_soon(self._break, reason)
                return False
        out = self._out
        self._was_single = len(out) == 2 and out[0][0] == INFER  # noqa: PLR2004 - prefix, message
        data = b"".join(out)
        out.clear()
        self._transport.write(data)
        return True

    # Slabs

    def _wake_release(self) -> None:
        # Runs on any thread, in weak-reference callbacks.
        if self._is_release_due:
            return
        self._is_release_due = True
        with contextlib.suppress(RuntimeError):  # the loop is closed, and the lane with it
            self._loop.call_soon_threadsafe(self._send_releases)

    def _send_releases(self) -> None:
        # Before taking them: a release that comes in between wakes us again.
        self._is_release_due = False
        released = self._slab_reader.take_released()
        if released and not self._is_lost:
            self._send(RELEASE, 0, b"".join([_RELEASE_FIELDS.pack(*key) for key in released]))

    def _on_release(self, frame: Frame) -> None:
        if len(frame.message) % _RELEASE_FIELDS.size:
            raise FrameError(f"release of {len(frame.message)} bytes")
        for key in _RELEASE_FIELDS.iter_unpack(frame.message):
            self._extents.released(key)

    def _on_slab(self, frame: Frame) -> None:
        if not self._peer_pid or len(frame.message) != _SLAB_FIELDS.size:
            raise FrameError("slab announced out of place")
        fd, size_bytes = _SLAB_FIELDS.unpack(frame.message)
        if not self._slab_reader.announce(frame.request_id, self._peer_pid, fd, size_bytes):
            self._send(NO_SLABS, 0)

    def _on_slab_gone(self, frame: Frame) -> None:
        self._slab_reader.forget(frame.request_id)

    def _on_no_slabs(self, _: Frame) -> None:
        logger.warning("%s: the peer cannot map slabs, tensors travel in tails", self._describe())
        self._extents.uses_slabs = False

    def _slab_retired(self, slab_id: int) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._send_slab_gone, slab_id)

    def _send_slab_gone(self, slab_id: int) -> None:
        if not self._is_lost and self._extents.retired(slab_id):
            self._send(SLAB_GONE, slab_id)

    def _take_control(self, frame: Frame) -> None:
        handle = self._control.get(frame.kind)
        if handle is None:
            raise FrameError(f"frame of kind {frame.kind} out of place")
        handle(frame)


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
