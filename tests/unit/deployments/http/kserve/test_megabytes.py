# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A megabyte of any kind of part is answered, and costs no more than its size.

What the interpreter executes is counted. What runs in C counts as one, so where C code could
multiply without end, or compare all with all, `routing.test_work_of_checks` counts that.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from deployments.http.kserve.servers import make_http_server
from deployments.http.server.connection import HttpConnection
from tests.support.http_plane import FakePlane
from tests.support.instruction_count import instructions
from tests.support.megabytes import JSON_PARTS, OTHER_PARTS
from tests.unit.deployments.http.server.test_head import Transport

MEGABYTE: Final = 1 << 20
# Counting makes all of it slower.
FEW: Final = 16_000
# Most that an error may say, of whatever a client has sent.
MESSAGE_BYTES: Final = 80_000
PARTS: Final[Mapping[str, Callable[[int], bytes]]] = {
    **{name: part.request for name, part in JSON_PARTS.items()},
    **OTHER_PARTS,
}


async def _answered(message: bytes) -> tuple[int, bytes]:
    """Return the status of the first answer, and what follows it."""
    connection, transport = _connected()
    _receive(connection, message)
    async with asyncio.timeout(30):
        # The server has nothing of its own to wait for here.
        while not transport.written:  # noqa: ASYNC110
            await asyncio.sleep(0)
    connection.connection_lost(None)
    head, _, body = transport.written.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), body


def _connected() -> tuple[HttpConnection, Transport]:
    connection, transport = HttpConnection(make_http_server(FakePlane())), Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection, transport


def _receive(connection: HttpConnection, message: bytes) -> None:
    rest = memoryview(message)
    while rest:
        buffer = connection.get_buffer(len(rest))
        size = min(len(rest), len(buffer), 1 << 16)
        buffer[:size] = rest[:size]
        connection.buffer_updated(size)
        rest = rest[size:]


@pytest.mark.parametrize("size", [500, 70_000, MEGABYTE])
@pytest.mark.parametrize("part", PARTS)
async def test_so_many_bytes_of_it_are_answered_and_no_fault(
    part: str, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    status, body = await _answered(PARTS[part](size))
    assert status == 200 or len(body) < MESSAGE_BYTES
    assert b"internal error" not in body
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("part", PARTS)
async def test_twice_as_much_of_it_takes_twice_the_instructions(
    part: str, caplog: pytest.LogCaptureFixture
) -> None:
    once, twice = [await _instructions(PARTS[part](size)) for size in (FEW, 2 * FEW)]
    assert twice <= 2.2 * once + 2_000
    assert "Traceback" not in caplog.text


async def _instructions(message: bytes) -> int:
    connection, _ = _connected()
    count = instructions(lambda: _receive(connection, message))
    connection.connection_lost(None)
    await asyncio.sleep(0)
    return count
