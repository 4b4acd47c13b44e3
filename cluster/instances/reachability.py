# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tells a node that is cut off from a process on it that hangs, and that from one that is gone."""

import asyncio
from enum import Enum


class Knock(Enum):
    """What became of a connection to where a process listens.

    A kernel takes connections, or refuses them, whatever its processes do.
    """

    TAKEN = "the process lives, though it may be stopped"
    REFUSED = "it is gone, its node is not"
    SILENT = "its node is cut off"


async def knock(address: tuple[str, int], timeout_s: float) -> Knock:
    """Open a connection and close it.

    Args:
        address: Host and port; port 0 is of nobody.
        timeout_s: How long it may take.
    """
    host, port = address
    if not port:
        return Knock.REFUSED
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return Knock.REFUSED
    except OSError:
        return Knock.SILENT
    writer.close()
    return Knock.TAKEN
