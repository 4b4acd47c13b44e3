# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Listening sockets that go from one replica to the next, over real sockets."""

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing

import pytest
import uvloop

from deployments.lane.handshake import NONCE_BYTES, ClientHandshake, ServerHandshake
from deployments.supervision.handover import Address, Bequest, Inheritance, inherit

KEY = bytes(range(32))
HTTP: Address = ("127.0.0.1", 8000)
Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    def run_on_loop(main: Callable[[], Awaitable[None]]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(20):
                await main()

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(limited())

    return run_on_loop


@pytest.fixture
def prefix() -> str:
    return f"manta-test-{secrets.token_hex(8)}"


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


def _bequest(
    prefix: str, sockets: Mapping[str, tuple[Address, socket.socket]], build: str = "old"
) -> Bequest:
    def proof() -> ServerHandshake:
        return ServerHandshake(KEY, secrets.token_bytes(NONCE_BYTES))

    bequest = Bequest(prefix, build, proof, lambda: sockets)
    assert bequest.open()
    return bequest


async def _inherit(
    prefix: str,
    build: str = "new",
    addresses: Mapping[str, Address] | None = None,
    key: bytes = KEY,
) -> Inheritance:
    return await inherit(
        prefix,
        build,
        {"http": HTTP} if addresses is None else addresses,
        lambda: ClientHandshake(key, secrets.token_bytes(NONCE_BYTES)),
    )


def test_successor_accepts_what_has_connected_before(run: Run, prefix: str, listening) -> None:
    async def main() -> None:
        bequest = _bequest(prefix, {"http": (HTTP, listening)})
        with socket.create_connection(listening.getsockname()) as client:
            inherited = await _inherit(prefix)
            taken = inherited.sockets.pop("http")
            inherited.serves(["http"])
            assert await bequest.wait_taken(5)
            assert await bequest.end() == {"http"}
            listening.close()
            with closing(taken):
                assert not taken.get_inheritable()
                accepted, address = taken.accept()
                accepted.close()
                assert address == client.getsockname()
        inherited.close()

    run(main)


@pytest.mark.parametrize("has_started", [False, True])
def test_successor_is_as_healthy_as_its_predecessor(
    run: Run, prefix: str, listening, has_started: bool
) -> None:
    async def main() -> None:
        bequest = Bequest(
            prefix,
            "old",
            lambda: ServerHandshake(KEY, secrets.token_bytes(NONCE_BYTES)),
            lambda: {"http": (HTTP, listening)},
            lambda: has_started,
        )
        assert bequest.open()
        inherited = await _inherit(prefix)
        assert inherited.has_started is has_started
        inherited.close()
        await bequest.end()

    run(main)


def test_first_replica_of_a_node_inherits_nothing(run: Run, prefix: str) -> None:
    async def main() -> None:
        inherited = await _inherit(prefix)
        assert not inherited.has_predecessor
        assert not inherited.has_peers
        assert not inherited.sockets
        inherited.serves([])

    run(main)


def test_sockets_go_to_one_successor_only(run: Run, prefix: str, listening) -> None:
    async def main() -> None:
        bequest = _bequest(prefix, {"http": (HTTP, listening)})
        first, second = await _inherit(prefix), await _inherit(prefix)
        assert first.has_predecessor
        assert not second.has_predecessor
        assert second.has_peers
        first.close()
        await bequest.end()

    run(main)


def test_each_of_two_successors_finds_a_predecessor(run: Run, prefix: str, listening) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            old = [_bequest(prefix, {"http": (HTTP, each)}) for each in (listening, other)]
            new = await asyncio.gather(_inherit(prefix), _inherit(prefix))
            found = {each.sockets["http"].getsockname() for each in new}
            assert found == {listening.getsockname(), other.getsockname()}
            for each in new:
                each.close()
            for bequest in old:
                await bequest.end()

    run(main)


def test_sockets_of_a_successor_that_dies_go_to_the_next(run: Run, prefix: str, listening) -> None:
    async def main() -> None:
        bequest = _bequest(prefix, {"http": (HTTP, listening)})
        inherited = await _inherit(prefix)
        assert inherited.has_predecessor
        for _ in range(2):
            inherited.close()
            # The predecessor hears of the end a turn of its loop later.
            while not (inherited := await _inherit(prefix)).has_predecessor:
                pass
        inherited.serves(["http"])
        assert await bequest.wait_taken(5)
        inherited.close()
        while await bequest.wait_taken(0.001):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        assert await bequest.end() is None

    run(main)


def test_replica_of_the_same_build_is_no_successor(run: Run, prefix: str, listening) -> None:
    async def main() -> None:
        bequest = _bequest(prefix, {"http": (HTTP, listening)})
        inherited = await _inherit(prefix, build="old")
        assert not inherited.has_predecessor
        assert inherited.has_peers
        assert await bequest.end() is None

    run(main)


def test_socket_of_another_address_is_kept(run: Run, prefix: str, listening) -> None:
    async def main() -> None:
        bequest = _bequest(prefix, {"http": (HTTP, listening), "grpc": (HTTP, listening)})
        inherited = await _inherit(
            prefix, addresses={"http": ("127.0.0.1", 8001), "grpc": HTTP, "metrics": HTTP}
        )
        assert list(inherited.sockets) == ["grpc"]
        inherited.serves([])
        assert await bequest.wait_taken(5)
        assert await bequest.end() == frozenset()
        inherited.close()

    run(main)


def test_stranger_without_the_key_gets_nothing(run: Run, prefix: str, listening) -> None:
    async def main() -> None:
        bequest = _bequest(prefix, {"http": (HTTP, listening)})
        inherited = await _inherit(prefix, key=bytes(32))
        assert not inherited.has_predecessor
        assert await bequest.end() is None

    run(main)


def test_ended_replica_is_not_found(run: Run, prefix: str, listening) -> None:
    async def main() -> None:
        bequest = _bequest(prefix, {"http": (HTTP, listening)})
        assert await bequest.end() is None
        assert not (await _inherit(prefix)).has_peers

    run(main)


def test_successor_that_does_not_serve_yet_is_none(run: Run, prefix: str, listening) -> None:
    async def main() -> None:
        bequest = _bequest(prefix, {"http": (HTTP, listening)})
        inherited = await _inherit(prefix)
        assert inherited.has_predecessor
        assert not await bequest.wait_taken(0)
        assert await bequest.end() is None
        # It has the socket all the same, and serves it.
        inherited.serves(["http"])
        inherited.close()

    run(main)
