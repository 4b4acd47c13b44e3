# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How the two ends of a lane lend each other slabs: the set-up, announcements and releases."""

import contextlib
import logging
import os
import struct
from collections.abc import Callable
from typing import Final

from deployments.lane.frames import NO_SLABS, RELEASE, SLAB, SLAB_GONE, Frame, FrameError
from deployments.lane.messages import LaneLimits, Setup
from deployments.reactor.transport import LaneLoop
from deployments.slabs.extents import Detached, ExtentSender
from deployments.slabs.pool import SlabPool, SlabReader, can_read_probe

logger = logging.getLogger(__name__)

# Of an announcement: descriptor and size; of a release: slab and number.
_FIELDS: Final = struct.Struct("<IQ")

# Takes a frame's kind, its number and its message.
SendFrame = Callable[[int, int, bytes], None]


class SlabExchange:
    """The slabs of both processes, as one end of a lane knows them.

    Args:
        loop: Runs what comes from other threads.
        slabs: The slabs of this process.
        limits: Bounds of the lane.
        send: Queues a frame.
        offers_slabs: Whether the peer may be on this node.

    Attributes:
        sender: Where large tensors of this end go.
        reader: Where large tensors of the peer are found.
        offers_slabs: Whether the peer may be on this node.
        peer_pid: Process whose slabs can be mapped; 0 when they cannot.
    """

    def __init__(
        self,
        loop: LaneLoop,
        slabs: SlabPool,
        limits: LaneLimits,
        send: SendFrame,
        *,
        offers_slabs: bool,
    ) -> None:
        self._loop = loop
        self._slabs = slabs
        self._send = send
        self.offers_slabs = offers_slabs
        self.peer_pid = 0
        self.sender = ExtentSender(slabs, limits.threshold_bytes)
        self.reader = SlabReader(self._wake_release)
        self._is_release_due = False
        self._is_closed = False
        self.control: dict[int, Callable[[Frame], None]] = {
            SLAB: self._on_slab,
            SLAB_GONE: self._on_slab_gone,
            NO_SLABS: self._on_no_slabs,
            RELEASE: self._on_release,
        }

    def open(self) -> None:
        """Learn of retired slabs from now on."""
        self._slabs.watch(self._slab_retired)

    def close(self) -> None:
        """Take back and give back everything: the peer is gone."""
        self._is_closed = True
        self._slabs.unwatch(self._slab_retired)
        self.sender.close()
        self.reader.close()

    # Set-up

    def own_setup(self, incarnation: str = "") -> Setup:
        """Return what the peer is to know of this end's slabs."""
        if not self.offers_slabs:
            return Setup(incarnation=incarnation)
        return Setup(
            pid=os.getpid(),
            probe_fd=self._slabs.probe_fd,
            probe_token=self._slabs.probe_token,
            incarnation=incarnation,
        )

    def maps_slabs_of(self, setup: Setup) -> bool:
        """Try to read the peer's probe, and remember its process if that works."""
        if not (self.offers_slabs and setup.pid > 0):
            return False
        if not can_read_probe(setup.pid, setup.probe_fd, setup.probe_token):
            return False
        self.peer_pid = setup.pid
        return True

    def peer_maps(self, setup: Setup) -> None:
        """Note whether the peer could read this end's probe."""
        self.sender.uses_slabs = setup.maps_yours and self.offers_slabs

    # Sending

    def announce(self, detached: Detached) -> None:
        """Tell the peer of the slabs that a message is the first to use."""
        for slab in detached.new_slabs:
            self._send(SLAB, slab.id, _FIELDS.pack(slab.fd, slab.size_bytes))

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
        released = self.reader.take_released()
        if released and not self._is_closed:
            self._send(RELEASE, 0, b"".join([_FIELDS.pack(*key) for key in released]))

    def _slab_retired(self, slab_id: int) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._send_slab_gone, slab_id)

    def _send_slab_gone(self, slab_id: int) -> None:
        if not self._is_closed and self.sender.retired(slab_id):
            self._send(SLAB_GONE, slab_id, b"")

    # Receiving

    def _on_release(self, frame: Frame) -> None:
        if len(frame.message) % _FIELDS.size:
            raise FrameError(f"release of {len(frame.message)} bytes")
        for key in _FIELDS.iter_unpack(frame.message):
            self.sender.released(key)

    def _on_slab(self, frame: Frame) -> None:
        if not self.peer_pid or len(frame.message) != _FIELDS.size:
            raise FrameError("slab announced out of place")
        fd, size_bytes = _FIELDS.unpack(frame.message)
        if not self.reader.announce(frame.request_id, self.peer_pid, fd, size_bytes):
            self._send(NO_SLABS, 0, b"")

    def _on_slab_gone(self, frame: Frame) -> None:
        self.reader.forget(frame.request_id)

    def _on_no_slabs(self, _: Frame) -> None:
        logger.warning("the peer of a lane cannot map slabs, tensors travel in tails")
        self.sender.uses_slabs = False
