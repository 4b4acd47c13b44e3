# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Questions about sequences, each with its answer, whatever order the answers come in."""

import asyncio

from deployments.lane.frames import SEQUENCE, Frame
from deployments.lane.messages import encode
from deployments.pool_queue.messages import SequenceQuestion
from deployments.pool_queue.sequence_questions import SequenceQuestions
from tests.support.control_plane_fakes import in_virtual_time

ASKED = SequenceQuestion("model", 1, 7)


class Lane:
    def __init__(self):
        self.is_open = True
        self.numbers = []

    def send(self, kind, number, message):
        assert (kind, message) == (SEQUENCE, encode(ASKED))
        self.numbers.append(number)


def answer(number, known):
    return Frame(SEQUENCE, 0, number, memoryview(encode(known)), memoryview(b""))


@in_virtual_time
async def test_each_question_gets_its_own_answer():
    lane = Lane()
    questions = SequenceQuestions(lane)
    first, second = (asyncio.create_task(questions.ask(ASKED)) for _ in range(2))
    await asyncio.sleep(0)
    one, other = lane.numbers
    questions.answered(answer(other, True))
    questions.answered(answer(other, False))  # once more is nothing
    questions.answered(answer(one, None))
    assert (await first, await second) == (None, True)


@in_virtual_time
async def test_an_answer_that_comes_too_late_is_nothing_and_its_question_unanswered():
    lane = Lane()
    questions = SequenceQuestions(lane)
    assert await questions.ask(ASKED) is None
    questions.answered(answer(lane.numbers[0], True))
    assert not questions._open


@in_virtual_time
async def test_all_questions_end_with_the_lane():
    lane = Lane()
    questions = SequenceQuestions(lane)
    asked = [asyncio.create_task(questions.ask(ASKED)) for _ in range(2)]
    await asyncio.sleep(0)
    questions.lost()
    questions.lost()
    assert await asyncio.gather(*asked) == [None, None]
    lane.is_open = False
    assert await questions.ask(ASKED) is None
    assert len(lane.numbers) == 2
