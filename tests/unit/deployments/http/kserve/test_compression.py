# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Large bodies are compressed and decompressed beside the event loop, within limits."""

import asyncio
import gzip
import json
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deployments.http.codec.content_coding import SMALL_BYTES
from deployments.http.server.host import REQUEST_OVERHEAD_BYTES
from deployments.supervision.memory_budget import MemoryBudget
from tests.support.http_plane import request, running
from tests.support.lane_rig import until

INFER = "/v2/models/id_fp32/infer"
LIVE = request("GET", "/v2/health/live")
LIMIT_BYTES = 1 << 26


def infer_body(count: int) -> tuple[bytes, int]:
    header = {
        "inputs": [
            {
                "name": "INPUT0",
                "datatype": "FP32",
                "shape": [1, count],
                "parameters": {"binary_data_size": 4 * count},
            }
        ],
        "parameters": {"binary_data_output": True},
    }
    text = json.dumps(header).encode()
    return text + bytes(4 * count), len(text)


def compressed_request(count: int, *headers: str) -> bytes:
    body, length = infer_body(count)
    given = ("Content-Encoding: gzip", f"Inference-Header-Content-Length: {length}", *headers)
    return request("POST", INFER, gzip.compress(body), given)


class SlowThreads(ThreadPoolExecutor):
    """Threads that work on when the test says so."""

    def __init__(self) -> None:
        super().__init__(1)
        self.opened = threading.Event()
        self.entered = threading.Event()

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Any:
        def late() -> Any:
            self.entered.set()
            assert self.opened.wait(60)
            return work(*args, **kwargs)

        return super().submit(late)


@pytest.fixture
def threads() -> Iterator[SlowThreads]:
    with SlowThreads() as threads:
        yield threads
        threads.opened.set()


async def test_other_connections_are_answered_while_a_bomb_is_decompressed(
    threads: SlowThreads,
) -> None:
    async with running(threads=threads) as here:
        client, other = await here.connect(), await here.connect()
        bomb = zlib.compress(bytes(LIMIT_BYTES + 1))
        await client.send(request("POST", INFER, bomb, ("Content-Encoding: deflate",)))
        await until(threads.entered.is_set)
        for _ in range(10):
            assert (await other.call(LIVE)).status == 200
        held_bytes = LIMIT_BYTES + len(bomb) + REQUEST_OVERHEAD_BYTES
        assert here.server.budget.used_bytes == held_bytes
        threads.opened.set()
        answer = await client.answer()
        assert answer.status == 400
        assert answer.error.startswith("Decompressed data size exceeds the maximum allowed value")
        assert here.server.budget.used_bytes == 0


async def test_large_compressed_request_is_answered() -> None:
    async with running() as here:
        client = await here.connect()
        for count in (100, SMALL_BYTES, 4 * SMALL_BYTES):
            answer = await client.call(compressed_request(count))
            assert answer.status == 200
            length = int(answer.headers["inference-header-content-length"])
            assert len(answer.body) == length + 4 * count
        assert here.server.budget.used_bytes == 0


async def test_large_answer_is_compressed_while_others_are_answered(
    threads: SlowThreads,
) -> None:
    async with running(threads=threads) as here:
        client, other = await here.connect(), await here.connect()
        body, length = infer_body(SMALL_BYTES)
        headers = (f"Inference-Header-Content-Length: {length}", "Accept-Encoding: gzip")
        await client.send(request("POST", INFER, body, headers))
        await until(threads.entered.is_set)
        assert (await other.call(LIVE)).status == 200
        threads.opened.set()
        answer = await client.answer()
        assert answer.headers["content-encoding"] == "gzip"
        plain = gzip.decompress(answer.body)
        assert plain.endswith(bytes(4 * SMALL_BYTES))
        assert here.server.budget.used_bytes == 0


async def test_damaged_large_body_is_refused() -> None:
    async with running() as here:
        client = await here.connect()
        sent = request("POST", INFER, b"x" * (SMALL_BYTES + 1), ("Content-Encoding: gzip",))
        answer = await client.call(sent)
        assert answer.status == 400
        assert "inconsistent stream state" in answer.error
        assert here.server.budget.used_bytes == 0


async def test_body_whose_result_may_not_fit_is_unavailable() -> None:
    async with running(budget=MemoryBudget(1 << 20)) as here:
        client = await here.connect()
        answer = await client.call(compressed_request(SMALL_BYTES))
        assert (answer.status, answer.headers["connection"]) == (503, "close")
        assert "the server has no memory left for a request body that may" in answer.error
        assert here.server.budget.used_bytes == 0


async def test_peer_that_goes_during_decompression_leaves_nothing_behind(
    threads: SlowThreads,
) -> None:
    async with running(threads=threads) as here:
        client = await here.connect()
        await client.send(compressed_request(SMALL_BYTES))
        await until(threads.entered.is_set)
        await client.close()
        await until(lambda: not here.server.connection_count)
        threads.opened.set()
        await until(lambda: not here.server.budget.used_bytes)
        await asyncio.sleep(0)
        assert here.plane.requests == []
