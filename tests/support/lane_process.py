# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An instance or a router in a process of its own, for tests that kill it."""

import asyncio
import ctypes
import faulthandler
import os
import sys
from collections.abc import Callable
from typing import cast

import uvloop

from backends.api.model_config import ModelConfig
from backends.api.request import InferenceResponse
from deployments.contracts.routing_table import InstanceEndpoint
from deployments.instance.crash_page import CrashPage, own_log
from deployments.instance.work import ExecutedModel, UnaryWork
from deployments.lane.client import LaneClient
from deployments.lane.server import LaneServer, ServerRequest
from deployments.lane.server_lane import LaneHandler
from deployments.reactor.reactor import Reactor
from deployments.slabs.pool import SlabPool
from tests.support.lane_rig import SECRET, Handler, Sink, request_of


def answer_once(request: ServerRequest) -> None:
    """Echo, but leave requests named "stay" in flight."""
    if request.request.id != "stay":
        inputs = request.request.inputs
        request.respond(InferenceResponse("model", "1", "", inputs), final=True)
    else:
        kept.append(request)


kept: list[object] = []


def crash(request: ServerRequest) -> None:
    """Execute the request named "crash", which ends the process, and keep the others."""
    kept.append(request)
    if request.request.id == "crash":
        page.note([UnaryWork(ExecutedModel(ModelConfig("model"), 1, None), request, 0)])
        ctypes.string_at(0)


def serve(uds: str, answer: Callable[[ServerRequest], None] = answer_once) -> None:
    reactor = Reactor()
    server = LaneServer(
        cast("LaneHandler", Handler(answer)),
        reactor=reactor,
        secret=SECRET,
        slabs=SlabPool(),
        crash_place=page.place,
    )
    server.start(uds)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        reactor.turn()


async def submit(uds: str) -> None:
    endpoint = InstanceEndpoint("model/1#0", "", "node", uds, ("", 0))
    lane = await LaneClient(
        endpoint, same_node=True, secret=SECRET, slabs=SlabPool(), on_lost=lambda *_: None
    ).open()
    answered, waiting = Sink(), Sink()
    lane.submit(request_of(300_000), answered)
    await answered.ended
    kept.append(answered)
    lane.submit(request_of(300_000, id="stay"), waiting)
    await waiting.ended
    os._exit(1)


if __name__ == "__main__":
    path = "\0" + sys.argv[2]
    faulthandler.enable()
    page = CrashPage(own_log())
    if sys.argv[1] == "crash":
        serve(path, crash)
    if sys.argv[1] == "serve":
        serve(path)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(submit(path))
