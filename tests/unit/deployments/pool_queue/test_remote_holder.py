# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A router follows the holder of another node by what that node's instances say."""

import asyncio
import contextlib
import logging

from deployments.lane.batches import Holder
from deployments.pool_queue.remote_holder import RemoteHolder
from deployments.settings.port_range import ANY_PORT
from tests.support.lane_rig import until
from tests.support.ticket_rig import CONFIG, EPOCH, Request, TicketRig, listening, unused_name


class Events:
    def __init__(self):
        self.heard = []

    def holder_changed(self, node_id):
        lane = self.remote.lane
        self.heard.append((node_id, 0 if lane is None else lane.epoch))


@contextlib.asynccontextmanager
async def following(rig):
    events = Events()
    remote = events.remote = RemoteHolder(
        "n", rig.options(), events.holder_changed, lambda _: True, None
    )
    try:
        yield remote, events.heard
    finally:
        await remote.close()


def test_the_lane_opens_when_an_instance_names_the_holder(run):
    async def main():
        async with TicketRig() as rig, following(rig) as (remote, heard):
            remote.told(Holder(0))
            remote.told(Holder(EPOCH, *rig.address))
            remote.told(Holder(EPOCH, *rig.address))
            await until(lambda: heard == [("n", EPOCH)])
            remote.lane.queue_of("model", 1, CONFIG).start(request := Request())
            await until(lambda: rig.queue.came)
            rig.queue.grant("a")
            await until(lambda: rig.router.parts)
            assert rig.router.parts[0][2] == [request]

    run(main)


def test_a_lane_that_breaks_is_opened_again(run):
    async def main():
        async with TicketRig() as rig, following(rig) as (remote, heard):
            remote.told(Holder(EPOCH, *rig.address))
            await until(lambda: heard)
            remote.lane.queue_of("model", 1, CONFIG).start(request := Request())
            for lane in list(rig.server.lanes):
                lane.connection.transport.abort()
            await until(lambda: heard == [("n", EPOCH), ("n", 0), ("n", EPOCH)])
            assert rig.router.back == [request]

    run(main)


def test_the_next_holder_is_followed_and_an_older_one_is_not(run):
    async def main():
        async with TicketRig() as rig, TicketRig() as other, following(rig) as (remote, heard):
            other.server.epoch = EPOCH + 1
            remote.told(Holder(EPOCH, *rig.address))
            await until(lambda: heard)
            remote.told(Holder(EPOCH + 1, *other.address))
            remote.told(Holder(EPOCH, *rig.address))
            await until(lambda: heard == [("n", EPOCH), ("n", 0), ("n", EPOCH + 1)])
            await until(lambda: not rig.server.lanes)

    run(main)


def test_a_holder_without_a_port_is_dialled_no_more_until_the_next_one_has_one(run, caplog):
    caplog.set_level(logging.INFO, "deployments.pool_queue")

    async def main():
        async with TicketRig() as rig, following(rig) as (remote, heard):
            remote.told(Holder(EPOCH - 2, rig.address[0], 0))
            await asyncio.sleep(0.01)
            assert not heard
            remote.told(Holder(EPOCH, *rig.address))
            await until(lambda: heard == [("n", EPOCH)])
            rig.server.epoch = EPOCH + 2
            remote.told(Holder(EPOCH + 1, rig.address[0], 0))
            await until(lambda: heard == [("n", EPOCH), ("n", 0)])
            await asyncio.sleep(0.1)
            assert "trying again" not in caplog.text
            remote.told(Holder(EPOCH + 2, *rig.address))
            await until(lambda: heard == [("n", EPOCH), ("n", 0), ("n", EPOCH + 2)])

    run(main)


def test_a_holder_that_cannot_be_reached_is_tried_until_the_next_one_is_named(run, caplog):
    caplog.set_level(logging.INFO, "deployments.pool_queue")

    async def main():
        async with TicketRig() as rig, following(rig) as (remote, heard):
            gone = TicketRig()
            gone.server.open(listening(unused_name()), EPOCH - 1)
            address = "127.0.0.1", gone.server.accept_remote(ANY_PORT.listen("127.0.0.1", 1))
            gone.server.close()
            remote.told(Holder(EPOCH - 1, *address))
            await until(lambda: caplog.text.count("trying again") >= 2)
            remote.told(Holder(EPOCH, *rig.address))
            await until(lambda: heard == [("n", EPOCH)])

    run(main)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_a_pause_says_whether_another_holder_has_ended_it(run):
    async def main():
        async with TicketRig() as rig, following(rig) as (remote, _):
            assert not await remote._wait(0.0)
            pausing = asyncio.create_task(remote._wait(1e9))
            await asyncio.sleep(0)
            remote.told(Holder(EPOCH, *rig.address))
            assert await pausing

    run(main)
