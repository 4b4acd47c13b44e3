# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta top`` and ``events``."""

import json
from typing import Any

import pytest

from backends.api.errors import UnavailableError
from cluster.commands.client import watch
from cluster.commands.client.watch import Load, changes, events, loads, top
from tests.support.asked_server import asked, instance


def counts(
    name: str, executions: int, requests: int, ns: int = 0, failed: int = 0
) -> dict[str, Any]:
    return {
        "name": name,
        "version": "1",
        "execution_count": executions,
        "inference_count": 2 * requests,
        "inference_stats": {
            "success": {"count": requests, "ns": ns},
            "queue": {"count": requests, "ns": ns // 2},
            "fail": {"count": failed, "ns": 0},
        },
    }


def test_what_was_done_in_a_period_is_the_difference_and_the_busiest_is_first() -> None:
    before = [counts("a", 1, 10), counts("b", 5, 10, 10_000_000)]
    after = [counts("a", 1, 10, failed=4), counts("b", 10, 20, 30_000_000)]
    assert list(loads(before, after, 2.0)) == [
        Load("b", "1", 5.0, 0.0, 2.0, 1.0, 4.0),
        Load("a", "1", 0.0, 2.0, None, None, None),
    ]


def test_counters_that_begin_again_are_those_of_the_period() -> None:
    (found,) = loads([counts("a", 100, 100)], [counts("a", 2, 2, 2_000_000)], 1.0)
    assert (found.per_second, found.latency_ms) == (2.0, 1.0)


async def test_top_prints_a_table_each_period(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch.time, "sleep", lambda _: None)
    async with asked() as server:
        server.plane.counts = [[counts("simple", 0, 0)], [counts("simple", 1, 0)]]
        assert await server.run(top, "-n", "2") == 0
        lines = capsys.readouterr().out.splitlines()
        assert await server.run(top, "-n", "1", "--json") == 0
    assert [line.split()[0] for line in lines] == ["MODEL", "simple"] * 2
    assert lines[1].split()[:4] == ["simple", "1", "1", "0.0"]
    assert json.loads(capsys.readouterr().out)[0]["model"] == "simple"


def look(state: str, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"state": state, "reason": reason, **more}


@pytest.mark.parametrize(
    ("before", "after", "happened"),
    [
        (None, look("LOADING"), "LOADING"),
        (look("LOADING"), look("READY"), "LOADING -> READY"),
        (look("READY"), look("UNAVAILABLE", "no\nfile"), "READY -> UNAVAILABLE, no file"),
        (look("READY"), None, "is gone"),
        (look("live", pid=1, restarts=0), look("live", pid=2, restarts=1), "pid 2, restarts 1"),
        (look("waiting", "a"), look("waiting", "b"), "b"),
    ],
)
def test_a_change_says_what_has_become_of_it(
    before: dict[str, Any] | None, after: dict[str, Any] | None, happened: str
) -> None:
    first, second = ({"x": each} if each else {} for each in (before, after))
    assert list(changes(first, second)) == [("x", happened)]


def test_what_is_as_before_is_not_told() -> None:
    assert list(changes({"x": look("READY")}, {"x": look("READY")})) == []


def event(number: int, what: str, **more: Any) -> dict[str, Any]:
    row = dict.fromkeys(("model", "version", "instance", "message"), "")
    return {**row, "id": number, "time": 1_790_000_000.5 + number, "event": what, **more}


async def test_the_latest_events_are_printed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    async with asked() as server:
        server.plane.repository.happened = [
            event(1, "controller started"),
            event(2, "loading", model="m", version="1"),
            event(3, "instance lost", model="m", version="1", instance="m/1#0", message="died"),
        ]
        assert await server.run(events) == 0
        lines = capsys.readouterr().out.splitlines()
        assert await server.run(events, "-n", "1", "--json") == 0
        (row,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert await server.run(events, "-n", "0") == 0
        assert await server.run(events, "-n", "9") == 0
        assert len(capsys.readouterr().out.splitlines()) == 3
    assert [line.split("  ", 1)[1] for line in lines] == [
        "server  controller started",
        "m 1  loading",
        "m/1#0  instance lost  died",
    ]
    assert lines[0].startswith("2026-09-21 ")
    assert row == event(
        3, "instance lost", model="m", version="1", instance="m/1#0", message="died"
    )


async def test_events_that_come_are_followed_each_printed_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked() as server:
        repository = server.plane.repository
        repository.happened = [event(1, "loading", model="m")]
        coming = [[event(2, "ready", model="m")], [], [event(3, "scaled", model="m")]]

        def sleep(seconds: float) -> None:
            assert seconds == 3.0
            if not coming:
                raise KeyboardInterrupt
            assert repository.happened is not None
            repository.happened += coming.pop(0)

        monkeypatch.setattr(watch.time, "sleep", sleep)
        with pytest.raises(KeyboardInterrupt):
            await server.run(events, "--follow", "--interval", "3")
    happened = [line.split("  ")[2] for line in capsys.readouterr().out.splitlines()]
    assert happened == ["loading", "ready", "scaled"]


async def test_a_server_that_keeps_no_events_can_be_followed_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with asked() as server:
        server.plane.repository.happened = None
        assert await server.run(events) == 1
    assert "give --follow to see what comes" in capsys.readouterr().err


async def test_instances_of_which_nothing_is_told_for_a_while_are_not_gone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked() as server:
        repository = server.plane.repository
        repository.happened = None
        errors = [UnavailableError("an upgrade"), None]

        def sleep(seconds: float) -> None:
            if not errors:
                raise KeyboardInterrupt
            repository.untold = errors.pop(0)

        monkeypatch.setattr(watch.time, "sleep", sleep)
        with pytest.raises(KeyboardInterrupt):
            await server.run(events, "-f")
    assert capsys.readouterr().out == ""


async def test_at_a_server_that_keeps_no_events_changes_are_seen_by_asking(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked() as server:
        repository = server.plane.repository
        repository.happened = None
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            repository.rows = [{"name": "simple", "version": "1", "state": "READY"}]
            repository.there = [instance("simple", "1", 0, pid=9)]
            if len(slept) > 1:
                raise KeyboardInterrupt

        monkeypatch.setattr(watch.time, "sleep", sleep)
        with pytest.raises(KeyboardInterrupt):
            await server.run(events, "-f", "--interval", "3")
    lines = [line.split("  ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "instance simple/1#0  pid 9",
        "instance simple/2#0  is gone",
        "instance simple/2#1  is gone",
        "model absent  is gone",
        "model broken 1  is gone",
        "model simple 2  is gone",
    ]
    assert slept == [3.0, 3.0]
