# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How the embedded server is started, watched and stopped; in its place is a tiny program."""

import asyncio
import os
import signal

import pytest

from backends.api.errors import InternalError, UnavailableError
from manta_tools.analyze.measuring.server import EmbeddedServer

READY = """
import json, os, signal, sys
print(sys.argv[1:], os.environ.get("COLOUR"), flush=True)
print([name for name in os.environ if name.startswith("RAY_")], flush=True)
told = {"http": "h:1", "grpc": "g:2", "metrics": "m:3", "pid": os.getpid()}
print("E1123 19:02:44.262332 5572 lifecycle.py:337] \\"what went wrong\\"", flush=True)
print("MANTA_READY " + json.dumps(told), flush=True)
signal.pause()
"""


async def died(server, pid):
    os.kill(pid, signal.SIGKILL)
    while not server.has_died:  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0)


async def test_it_is_told_its_repositories_flags_and_environment(tmp_path):
    log = tmp_path / "log"
    server = EmbeddedServer(["models"], ["--x=1"], {"COLOUR": "red"}, log, READY)
    addresses = await server.start()
    assert (addresses.http, addresses.grpc, addresses.metrics) == ("h:1", "g:2", "m:3")
    assert await server.start() == addresses
    await server.stop()
    printed = log.read_text()
    for expected in ("serve", "--model-repository=models", "explicit", "--x=1", "red"):
        assert expected in printed.splitlines()[0]


async def test_one_that_is_started_in_a_cluster_joins_it_not(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    log = tmp_path / "log"
    server = EmbeddedServer(["models"], log=log, program=READY)
    await server.start()
    await server.stop()
    command, variables = log.read_text().splitlines()[:2]
    assert "'--ray-address='" in command
    assert variables == "['RAY_worker_niceness']"


async def test_one_that_has_died_is_started_again():
    server = EmbeddedServer(["models"], program=READY)
    try:
        first = await server.start()
        await died(server, first.pid)
        second = await server.start()
        assert second.pid != first.pid
        assert not server.has_died
    finally:
        await server.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(second.pid, 0)


@pytest.mark.slow
async def test_the_last_error_of_its_log_is_why():
    server = EmbeddedServer(["models"], program=READY)
    try:
        await server.start()
        assert await server.why() == "what went wrong"
        server.forget()
        assert await server.why() == ""
    finally:
        await server.stop()


async def test_one_that_does_not_start_says_why():
    server = EmbeddedServer(["models"], program="print('no room for me')")
    with pytest.raises(UnavailableError, match="ended at its start: no room for me"):
        await server.start()


async def test_endpoints_that_are_off_are_refused():
    program = READY.replace('"grpc": "g:2", ', "")
    server = EmbeddedServer(["models"], program=program)
    with pytest.raises(InternalError, match="told no 'grpc'"):
        await server.start()
