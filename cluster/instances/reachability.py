# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a process that listens is there, as the kernel of its node tells."""

import asyncio

from cluster.instances.host import Knock


async def knock(address: tuple[str, int], timeout_s: float) -> Knock:
    """See `InstanceHost.knock`."""
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
