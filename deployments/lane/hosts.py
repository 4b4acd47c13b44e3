# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Where the instance's end of lanes may live: on an asyncio loop, or on a reactor.

Instances use a reactor, so that the thread that executes also reads and writes. Servers that need
TLS on their lanes need an asyncio loop.
"""

import asyncio
import concurrent.futures
import contextlib
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, Protocol

from deployments.lane.reactor import Reactor
from deployments.lane.sockets import SocketListener

MakeProtocol = Callable[[], asyncio.Protocol]
Answer = asyncio.Task[bytes] | concurrent.futures.Future[bytes]


class Cancellable(Protocol):
    """A timer."""

    def cancel(self) -> None:
        """Do not call."""


class LaneLoop(Protocol):
    """What a connection needs of its loop; asyncio's have it, and reactors."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        """Call on the loop, later."""

    def call_later(
        self, delay: float, callback: Callable[..., object], /, *args: Any
    ) -> Cancellable:
        """Call on the loop after some seconds."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> object:
        """Call on the loop, from any thread."""


class Listener(Protocol):
    """A listening socket."""

    def close(self) -> None:
        """Accept nothing more."""

    async def wait_closed(self) -> None:
        """Wait for what is left."""


class LaneHost(Protocol):
    """A home of lanes."""

    @property
    def loop(self) -> LaneLoop:
        """The loop of new connections."""

    async def listen(
        self, sock: socket.socket, make_protocol: MakeProtocol, tls: ssl.SSLContext | None
    ) -> Listener:
        """Serve a bound or listening socket, which then belongs to the listener."""

    def spawn(self, call: Coroutine[Any, Any, bytes]) -> Answer:
        """Start a control call."""

    def entered(self) -> AbstractContextManager[None]:
        """Hold the connections still while they are used from outside of their loop."""


class AsyncioHost:
    """Lanes on the asyncio loop that runs where they are used."""

    @property
    def loop(self) -> LaneLoop:
        """The running loop."""
        return asyncio.get_running_loop()

    async def listen(
        self, sock: socket.socket, make_protocol: MakeProtocol, tls: ssl.SSLContext | None
    ) -> Listener:
        """Serve a socket."""
        loop = asyncio.get_running_loop()
        if sock.family == socket.AF_UNIX:
            return await loop.create_unix_server(make_protocol, sock=sock, ssl=tls)
        return await loop.create_server(make_protocol, sock=sock, ssl=tls)

    def spawn(self, call: Coroutine[Any, Any, bytes]) -> Answer:
        """Start a control call on the running loop."""
        return asyncio.get_running_loop().create_task(call)

    def entered(self) -> AbstractContextManager[None]:
        """Do nothing: who asks is on the loop."""
        return contextlib.nullcontext()


class ReactorHost:
    """Lanes on a reactor; control calls run on an asyncio loop elsewhere.

    Args:
        reactor: The reactor.
        control_loop: Where control calls run.
    """

    def __init__(self, reactor: Reactor, control_loop: asyncio.AbstractEventLoop) -> None:
        self._reactor = reactor
        self._control_loop = control_loop

    @property
    def loop(self) -> LaneLoop:
        """The reactor."""
        return self._reactor

    async def listen(
        self, sock: socket.socket, make_protocol: MakeProtocol, tls: ssl.SSLContext | None
    ) -> Listener:
        """Serve a socket.

        Raises:
            ValueError: With TLS, which reactors do not speak.
        """
        if tls is not None:
            raise ValueError("lanes on a reactor are in clear text; serve them from asyncio")
        with self._reactor.entered():
            return SocketListener(self._reactor, sock, make_protocol)

    def spawn(self, call: Coroutine[Any, Any, bytes]) -> Answer:
        """Start a control call on the control loop."""
        return asyncio.run_coroutine_threadsafe(call, self._control_loop)

    def entered(self) -> AbstractContextManager[None]:
        """Hold the reactor's lock."""
        return self._reactor.entered()
