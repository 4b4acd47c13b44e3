# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a lane asks of the loop it lives on and of its socket.

Routers' ends live on asyncio, which fulfils both; instances' ends on `deployments.reactor.reactor`.
"""

from collections.abc import Callable
from typing import Any, Protocol


class Cancellable(Protocol):
    """A callback that waits for its time."""

    def cancel(self) -> None:
        """Have it not happen."""


class LaneLoop(Protocol):
    """Runs callbacks one at a time."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        """Run a callback once the present one has returned."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> object:
        """The same from any thread, also from within a weak reference's callback."""

    def call_later(
        self, delay_s: float, callback: Callable[..., object], /, *args: Any
    ) -> Cancellable:
        """Run a callback after a delay."""


class LaneTransport(Protocol):
    """A connected stream; the subset of `asyncio.Transport` that lanes use."""

    def write(self, data: bytes | memoryview, /) -> None:
        """Send bytes, which must not change until they are sent; never raises."""

    def writelines(self, buffers: list[bytes | memoryview], /) -> None:
        """Send several buffers, one behind the other, as `write` does each."""

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait to be sent."""

    def set_write_buffer_limits(self, high: int | None = None) -> None:
        """Set from how many unsent bytes on the lane's ``pause_writing`` is called."""

    def get_extra_info(self, name: str, /) -> Any:
        """Return the ``socket``."""

    def close(self) -> None:
        """Close once everything is sent."""

    def abort(self) -> None:
        """Close at once."""


class LaneEnd(Protocol):
    """A lane as its transport sees it; the methods of `asyncio.Protocol`."""

    def connection_made(self, transport: Any, /) -> None:
        """Begin."""

    def data_received(self, data: bytes, /) -> None:
        """Take bytes that do not change any more."""

    def connection_lost(self, exc: Exception | None, /) -> None:
        """Learn of the end; called once, last."""

    def pause_writing(self) -> None:
        """Learn that the peer is slow."""

    def resume_writing(self) -> None:
        """Learn that the peer has caught up."""
