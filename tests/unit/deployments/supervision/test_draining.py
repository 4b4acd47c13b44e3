# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The order in which a replica ends, in virtual time."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from deployments.supervision.draining import DrainTimes, drain
from tests.support.virtual_time import run

TIMES = DrainTimes(successor_s=20, delay_s=5, exit_s=30)


class Server:
    """Writes down what it is told and when."""

    def __init__(self, name: str, note: Callable[[str], None]) -> None:
        self._note = lambda what: note(f"{name} {what}")

    async def start(
        self, host: str, port: int, *, reuse_port: bool, sock: socket.socket | None = None
    ) -> int:
        raise AssertionError

    def listening_socket(self) -> socket.socket | None:
        raise AssertionError

    def begin_drain(self) -> None:
        self._note("begin_drain")

    def turn_newcomers_away(self) -> None:
        self._note("turn_newcomers_away")

    def stop_accepting(self) -> None:
        self._note("stop_accepting")

    def release_listener(self) -> None:
        self._note("release_listener")

    async def wait_drained(self, timeout_s: float) -> bool:
        self._note(f"wait_drained {timeout_s:g}")
        return True

    def close(self) -> None:
        raise AssertionError


class Heirs:
    """A successor that comes after a while and serves some of the protocols."""

    def __init__(self, comes_s: float = 1e9, served: frozenset[str] = frozenset()) -> None:
        self._comes_s = comes_s
        self._served = served

    async def wait_taken(self, timeout_s: float) -> bool:
        await asyncio.sleep(min(timeout_s, self._comes_s))
        return self._comes_s <= timeout_s

    async def end(self) -> frozenset[str] | None:
        is_there = asyncio.get_running_loop().time() >= self._comes_s
        return self._served if is_there else None


def drained(
    heirs: Heirs,
    *,
    is_replaced: bool,
    names: tuple[str, ...] = ("http",),
    times: DrainTimes = TIMES,
) -> list[str]:
    """Return what happened in a drain, each with its second."""
    events: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def note(what: str) -> None:
            events.append(f"{loop.time():g}: {what}")

        async def says() -> bool:
            return is_replaced

        await drain(
            {name: Server(name, note) for name in names},
            heirs,
            times,
            is_replaced=says,
            withdraw=lambda: note("not ready"),
        )

    run(main())
    return events


@pytest.mark.parametrize(("is_replaced", "at_s"), [(False, 0), (True, 20)])
def test_without_a_successor_it_is_not_ready_and_accepts_for_the_delay(
    is_replaced: bool, at_s: int
) -> None:
    assert drained(Heirs(), is_replaced=is_replaced) == [
        f"{at_s}: not ready",
        f"{at_s}: http begin_drain",
        f"{at_s + 5}: http turn_newcomers_away",
        f"{at_s + 5.1}: http stop_accepting",
        f"{at_s + 5.1}: http wait_drained 30",
    ]


def test_without_a_delay_clients_are_asked_to_go_when_nobody_is_connected_any_more() -> None:
    events = drained(Heirs(), is_replaced=False, times=DrainTimes(delay_s=0, exit_s=30))
    assert events == [
        "0: not ready",
        "0: http turn_newcomers_away",
        "0.1: http stop_accepting",
        "0.1: http wait_drained 30",
    ]


def test_with_a_successor_it_leaves_the_accept_queue_at_once_and_stays_ready() -> None:
    assert drained(Heirs(0, frozenset({"http"})), is_replaced=False) == [
        "0: http release_listener",
        "0: http stop_accepting",
        "0: http wait_drained 30",
    ]


def test_a_replica_that_is_replaced_serves_until_its_successor_does() -> None:
    events = drained(Heirs(7, frozenset({"http"})), is_replaced=True)
    assert events[0] == "7: http release_listener"


def test_a_protocol_whose_address_has_changed_stops_by_itself() -> None:
    events = drained(Heirs(0, frozenset({"grpc"})), is_replaced=True, names=("http", "grpc"))
    assert "0: http release_listener" not in events
    assert "0: http turn_newcomers_away" in events
    assert "0.1: http stop_accepting" in events
    assert "0: grpc release_listener" in events
    assert "0: grpc turn_newcomers_away" not in events


def test_the_total_covers_all_stages() -> None:
    assert TIMES.total_s == 55.1
