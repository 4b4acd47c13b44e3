# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An instance notes what it executes where its routers find it when it has crashed."""

import asyncio
import os
from pathlib import Path

from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.crash_page import CrashPage
from deployments.lane.client import LaneClient
from deployments.lane.server import LaneServer
from deployments.slabs.pool import SlabPool
from tests.support.lane_requests import PLAIN, ScriptedModel, running
from tests.support.lane_rig import SECRET, Sink, request_of


class _Handler:
    def __init__(self, executor) -> None:
        self.received = executor.received

    def cancelled(self, request) -> None:
        pass


def _memfd_count() -> int:
    links = (each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
    return sum(str(each).startswith("/memfd:") for each in links)


async def test_the_request_that_is_executed_is_noted_and_the_one_behind_it_is_not(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    log.write_text("Fatal Python error: Segmentation fault\n")
    model, slabs, page = ScriptedModel(held=True), SlabPool(), CrashPage(str(log))
    async with running(PLAIN, model) as executor:
        executor.executor.crash_page = page
        server = LaneServer(
            _Handler(executor.executor),
            reactor=executor.reactor,
            secret=SECRET,
            slabs=slabs,
            crash_place=page.place,
        )
        uds = f"\0manta-page-{os.getpid()}"
        server.start(uds)
        lane = await LaneClient(
            InstanceEndpoint("m/1#0", "", "node", uds, ("", 0)),
            same_node=True,
            secret=SECRET,
            slabs=slabs,
            on_lost=lambda *_: None,
        ).open()
        assert lane.crash is None
        sinks = [Sink(), Sink()]
        first = lane.submit(request_of(4, 4), sinks[0])
        assert await asyncio.to_thread(model.entered.wait, 30)
        lane.submit(request_of(4, 4), sinks[1])
        with_page = _memfd_count()
        lane.close()
        crash = lane.crash
        assert crash is not None
        assert crash.executing == {first.id}
        # Not when the collector finds the lane.
        assert _memfd_count() == with_page - 1
        model.gate.set()
        await asyncio.wrap_future(executor.reactor.submit(server.close))
    slabs.close()
