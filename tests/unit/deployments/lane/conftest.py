# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import asyncio

import pytest
import uvloop

from deployments.lane.hosts import AsyncioHost
from tests.unit.deployments.lane import rig
from tests.unit.deployments.lane.loop_reactor import LoopReactorHost


HOMES = {
    "asyncio": (asyncio.new_event_loop, AsyncioHost),
    "uvloop": (uvloop.new_event_loop, AsyncioHost),
    "reactor": (uvloop.new_event_loop, LoopReactorHost),
}


@pytest.fixture(params=HOMES)
def run(request, monkeypatch):
    """Runs a coroutine function on each kind of loop, within 30 s.

    For "reactor" the server's end lives on a reactor that the same loop turns.
    """
    loop_factory, host = HOMES[request.param]
    monkeypatch.setattr(rig, "make_host", host)

    def run_on(main):
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(asyncio.wait_for(main(), 30))

    return run_on
