# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A candidate in a process of its own, for tests that kill it: says which event comes, by line."""

import asyncio
import sys

import uvloop

from deployments.pool_queue.election import Candidacy
from deployments.pool_queue.ticket_server import TicketServer
from deployments.pool_queue.waiting_ticket import TicketLaneOptions
from tests.support.lane_rig import SECRET
from tests.support.ticket_rig import Queues, Router


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def main(name: str) -> None:
    server = TicketServer(Queues(), secret=SECRET)
    options = TicketLaneOptions(SECRET, Router())
    Candidacy(
        name,
        server,
        options,
        lambda epoch: say(f"holder {epoch}"),
        lambda lane: say("lost" if lane is None else "connected"),
    ).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main("\0" + sys.argv[1]))
