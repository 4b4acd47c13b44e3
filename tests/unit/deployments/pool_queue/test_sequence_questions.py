# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Questions about sequences, each with its answer, whatever order the answers come in."""

import asyncio

from deployments.lane.connection import LaneConnection
from deployments.lane.frames import SEQUENCE, Frame
from deployments.lane.messages import encode
from deployments.pool_queue.messages import SequenceQuestion
from deployments.pool_queue.ticket_lane import TicketLane
from deployments.pool_queue.waiting_ticket import TicketLaneOptions
from tests.support.control_plane_fakes import in_virtual_time
from tests.support.lane_rig import SECRET
from tests.support.ticket_rig import Router

ASKED = ("model", 1, 7)


class Connection(LaneConnection):
    """Takes what is sent."""

    def __init__(self):
        self.is_lost = False
        self.numbers = []

    def send(self, kind, frame_id, message=b"", flags=0, tail_bytes=0):
        assert (kind, message) == (SEQUENCE, encode(SequenceQuestion(*ASKED)))
        self.numbers.append(frame_id)


def open_lane():
    lane = TicketLane(TicketLaneOptions(SECRET, Router()), is_local=True)
    connection = Connection()
    connection.control = lane._connection.control
    lane._connection = connection
    return lane


def answer(number, known):
    return [Frame(SEQUENCE, 0, number, memoryview(encode(known)), memoryview(b""))]


@in_virtual_time
async def test_each_question_gets_its_own_answer():
    lane = open_lane()
    first, second = (asyncio.create_task(lane.knows(*ASKED)) for _ in range(2))
    await asyncio.sleep(0)
    one, other = lane._connection.numbers
    lane.take_frames(answer(other, True))
    lane.take_frames(answer(other, False))  # once more is nothing
    lane.take_frames(answer(one, None))
    assert (await first, await second) == (None, True)


@in_virtual_time
async def test_an_answer_that_comes_too_late_is_nothing_and_its_question_unanswered():
    lane = open_lane()
    assert await lane.knows(*ASKED) is None
    lane.take_frames(answer(lane._connection.numbers[0], True))
    assert not lane._answers


@in_virtual_time
async def test_all_questions_end_with_the_lane():
    lane = open_lane()
    asked = [asyncio.create_task(lane.knows(*ASKED)) for _ in range(2)]
    await asyncio.sleep(0)
    lane.lost("gone")
    assert await asyncio.gather(*asked) == [None, None]
    lane._connection.is_lost = True
    assert await lane.knows(*ASKED) is None
    assert len(lane._connection.numbers) == 2


@in_virtual_time
async def test_a_number_that_a_request_or_a_question_has_is_given_to_no_other():
    lane = open_lane()
    lane.waiting[1] = None
    lane._answers[2] = None
    asked = asyncio.create_task(lane.knows(*ASKED))
    await asyncio.sleep(0)
    assert lane._connection.numbers == [3]
    asked.cancel()
