# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The gauges of a server's metrics page, once or over a while."""

import asyncio
import time

from backends.api.errors import UnavailableError
from manta_tools.perf.clients.http_client import HttpClient
from manta_tools.perf.measuring.server_metrics import Gauges, read_gauges, together


async def gauges_over(address: str, duration_s: float, interval_s: float) -> Gauges | None:
    """Return what a server's gauges say over a while, together; None where it has no such page.

    A server that tells of no GPU is looked at once: of nothing else the gauges are used.

    Args:
        address: host:port of its metrics.
        duration_s: How long.
        interval_s: Between two readings.
    """
    host, _, port = address.removeprefix("http://").rpartition(":")
    if not port.isdecimal():
        return None
    client = HttpClient((host.strip("[]"), int(port)), time.monotonic_ns)
    try:
        await client.open(1)
        pages = [read_gauges(await client.page("/metrics"))]
        readings = round(duration_s / interval_s) if _has_gpus(pages[0]) else 0
        for _ in range(readings):
            await asyncio.sleep(interval_s)
            pages.append(read_gauges(await client.page("/metrics")))
        return together(pages)
    except (UnavailableError, ValueError):
        return None
    finally:
        await client.close()


def _has_gpus(page: Gauges) -> bool:
    return any((page.gpu_utilization, page.gpu_power_w, page.gpu_memory_used_bytes))
