# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Tells a node that is cut off from a process on it that hangs."""

import asyncio


async def is_cut_off(address: tuple[str, int], timeout_s: float) -> bool:
    """Whether nothing answers at an address where a process listens, not even its node's kernel.

    A kernel takes connections, or refuses them, whatever its processes do.

    Args:
        address: Host and port; port 0 is of nobody, who is not cut off.
        timeout_s: How long it has.
    """
    host, port = address
    if not port:
        return False
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return False
    except OSError:
        return True
    writer.close()
    return False
