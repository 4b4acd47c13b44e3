# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta ls``, ``ps`` and ``status``, against Manta's HTTP port."""

import json
from collections.abc import Callable

import pytest

from backends.api.errors import InternalError, TritonError, UnavailableError
from cluster.commands.client import watch
from cluster.commands.client.listing import ls, ps, status
from cluster.commands.client.show import main as show
from cluster.commands.client.watch import top
from tests.support.asked_server import asked

Output = pytest.CaptureFixture[str]


async def test_ls_lists_models_by_name_and_version(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(ls) == 0
    assert capsys.readouterr().out.splitlines() == [
        "MODEL   VERSION  STATE        INSTANCES  REASON",
        "absent  -        -            0          -",
        "broken  1        UNAVAILABLE  0          no file",
        "simple  1        READY        1          -",
        "simple  2        READY        1/2        -",
    ]


async def test_ls_lists_what_fits_a_pattern_as_json(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(ls, "br*", "x*", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "name": "broken",
            "version": "1",
            "state": "UNAVAILABLE",
            "instances": "0",
            "reason": "no\nfile",
        }
    ]


@pytest.mark.parametrize("command", [ls, ps])
async def test_a_name_that_no_model_has_is_said_behind_the_rows_of_others(
    command: Callable[..., int], capsys: Output
) -> None:
    async with asked() as server:
        assert await server.run(command, "simple", "simpel") == 1
        assert "simple" in capsys.readouterr().out
        assert await server.run(command, "simpel", "--json") == 1
        assert "has no model 'simpel'. Did you mean 'simple'?" in capsys.readouterr().err
        assert await server.run(command, "nothing*") == 0


async def test_a_model_without_instances_is_no_unknown_model(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(ps, "absent", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


async def test_a_server_that_does_not_tell_of_instances_is_listed_all_the_same(
    capsys: Output,
) -> None:
    async with asked() as server:
        server.plane.repository.there = None
        assert await server.run(ls, "simple") == 0
        assert "simple  1        READY  -" in capsys.readouterr().out
        assert await server.run(ps) == 1
    assert "does not tell of its instances" in capsys.readouterr().err


@pytest.mark.parametrize("error", [UnavailableError("an upgrade"), InternalError("a fault")])
async def test_what_cannot_be_told_of_instances_now_fails_ps_alone(
    error: TritonError, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch.time, "sleep", lambda _: None)
    async with asked() as server:
        server.plane.repository.untold = error
        server.plane.counts = [[]]
        assert await server.run(ls, "simple") == 0
        assert "simple  1        READY  -" in capsys.readouterr().out
        assert await server.run(status) == 0
        assert await server.run(show, "simple") == 0
        assert await server.run(top, "-n", "1") == 0
        assert await server.run(ps) == 1
    assert error.message in capsys.readouterr().err


async def test_ps_lists_instances_with_their_processes(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(ps) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["INSTANCE", "STATE", "PID", "NODE", "DEVICE", "RESTARTS", "REASON"]
    assert lines[1].split() == ["simple/1#0", "live", "7", "host-a", "CPU", "0", "-"]
    assert lines[3].split(maxsplit=6) == [
        *("simple/2#1", "waiting", "-", "-", "CPU", "0"),
        "waiting for a GPU",
    ]


async def test_ps_as_json_has_all_that_is_told(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(ps, "sim*", "--json") == 0
        assert json.loads(capsys.readouterr().out) == server.plane.repository.there
        assert await server.run(ps, "other*", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []


async def test_status_says_what_is_served_and_what_is_not(capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(status) == 0
        url = server.url
    text = capsys.readouterr().out
    assert f"server     http://{url} (--url)" in text
    assert "ready      yes" in text
    assert "models     2 READY, 1 UNAVAILABLE, 1 not loaded" in text
    assert "instances  2 host-a" in text
    assert "broken 1: UNAVAILABLE no file" in text


async def test_status_of_a_server_that_takes_no_requests_is_1(capsys: Output) -> None:
    async with asked() as server:
        server.plane.is_ready = False
        assert await server.run(status, "--json") == 1
        assert json.loads(capsys.readouterr().out)["ready"] is False
        server.plane.is_ready, server.plane.exiting = True, True
        assert await server.run(status, "--json") == 1
    assert json.loads(capsys.readouterr().out)["ready"] is False


async def test_status_without_a_server_is_one_line(capsys: Output) -> None:
    async with asked() as server:
        pass
    assert await server.run(status) == 1
    error = capsys.readouterr().err
    assert error.startswith(
        f"error: no server at {server.url} (connection refused). Is it running?"
    )
    assert error.count("\n") == 1
