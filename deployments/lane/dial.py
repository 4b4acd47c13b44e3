# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a router opens a lane: it connects its end, and waits until both ends know each other."""

import asyncio
import socket
import ssl
from collections.abc import Coroutine
from typing import Any

from backends.api.errors import UnavailableError
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.lane.connection import LaneConnection


async def open_end(
    end: LaneConnection, dialling: Coroutine[Any, Any, object], timeout_s: float, peer: str
) -> None:
    """Connect one end of a lane by ``dialling``; returns once it is set up.

    Raises:
        UnavailableError: The other end cannot be reached, or is not the one expected.
    """
    try:
        async with asyncio.timeout(timeout_s):
            await _set_up(end, dialling)
    except BaseException as error:
        if end.is_connected:
            end.lose("given up")
            end.transport.abort()
        if not isinstance(error, OSError | TimeoutError):
            raise
        reason = str(error) or f"no answer within {timeout_s} s"
        raise UnavailableError(f"no lane to {peer}: {reason}") from error


async def _set_up(end: LaneConnection, dialling: Coroutine[Any, Any, object]) -> None:
    end.settled = settled = asyncio.get_running_loop().create_future()
    await dialling
    await settled
    if end.is_lost:
        raise ConnectionError(end.lost_reason)


async def dial(
    endpoint: InstanceEndpoint,
    end: asyncio.Protocol,
    *,
    same_node: bool,
    tls: ssl.SSLContext | None,
) -> None:
    """Connect one end of a lane with an instance.

    Args:
        endpoint: The instance; its Unix socket is used on the same node, TCP otherwise.
        end: What the transport talks to.
        same_node: Whether the instance is on this node.
        tls: Context of TCP; None leaves it in clear text.

    Raises:
        OSError: Nobody listens there, or its certificate is not accepted.
    """
    loop = asyncio.get_running_loop()
    if not same_node:
        host, port = endpoint.tcp
        await loop.create_connection(lambda: end, host, port, ssl=tls)
        return
    # Connected here because uvloop cannot connect to abstract paths.
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        await loop.sock_connect(sock, endpoint.uds)
    except BaseException:
        sock.close()
        raise
    await take_unix(sock, end)


async def take_unix(sock: socket.socket, end: asyncio.Protocol) -> None:
    """Have one end of a lane talk over a connected Unix socket, which is the lane's from now on."""
    try:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_unix_connection(lambda: end, sock=sock)
    except BaseException:
        sock.close()
        raise
    if transport.is_closing() and type(transport).__module__.startswith("uvloop"):
        # Lost before uvloop took the socket: libuv has closed the descriptor, or will.
        sock.detach()
