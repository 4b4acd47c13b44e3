# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a router reaches an instance's sockets."""

import asyncio
import socket
import ssl

from deployments.contracts.routing_table import InstanceEndpoint


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
        transport, _ = await loop.create_unix_connection(lambda: end, sock=sock)
    except BaseException:
        sock.close()
        raise
    if transport.is_closing() and type(transport).__module__.startswith("uvloop"):
        # Lost before uvloop took the socket: libuv has closed the descriptor, or will.
        sock.detach()
