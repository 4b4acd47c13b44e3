# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import json

import pytest

from manta_tools.perf.genai.answers import Memory, Transcript, read_openai
from manta_tools.perf.genai.conversations import ChatTurn, Conversations

MS = 1_000_000


def said(text):
    return {"role": "user", "content": text}


def answered(text):
    return {"role": "assistant", "content": text}


def chunk(text):
    return json.dumps({"choices": [{"delta": {"content": text}}]}).encode()


def turn(index, text, delay_ms=0):
    return ChatTurn(index, {"model": "m", "messages": [said(text)], "max_tokens": index}, delay_ms)


def conversations(*sessions, limit_bytes=1 << 20):
    memory = Memory(limit_bytes, lambda: None)
    return Conversations(sessions, json.dumps, read_openai, lambda: Transcript(memory))


def sent(request):
    return json.loads(request.payload)


def test_a_turn_carries_what_was_said_and_answered_before():
    source = conversations([turn(0, "one", 30), turn(1, "two"), turn(2, "three")])
    first = source.next(0)
    assert sent(first) == {"model": "m", "messages": [said("one")], "max_tokens": 0}
    for text in ("", "I ", "see"):
        first.contents.append(chunk(text))
    assert source.wait_ns(first) == 30 * MS
    second = source.next(0)
    assert sent(second)["messages"] == [said("one"), answered("I see"), said("two")]
    assert second.data == (0, 1)
    second.contents.append(chunk("yes"))
    assert source.wait_ns(second) == 0
    third = source.next(0)
    assert sent(third)["messages"][-2:] == [answered("yes"), said("three")]
    assert source.wait_ns(third) is None


def test_reasoning_is_no_part_of_the_history():
    source = conversations([turn(0, "one"), turn(1, "two")])
    first = source.next(0)
    first.contents.append(b'{"choices": [{"delta": {"reasoning_content": "hm"}}]}')
    first.contents.append(chunk("yes"))
    source.wait_ns(first)
    assert sent(source.next(0))["messages"][1] == answered("yes")


def test_each_slot_has_a_session_of_its_own():
    source = conversations([turn(0, "a"), turn(1, "b")], [turn(2, "c"), turn(3, "d")])
    first, other = source.next(0), source.next(1)
    first.contents.append(chunk("x"))
    assert source.wait_ns(first) == 0
    assert sent(source.next(0))["messages"] == [said("a"), answered("x"), said("b")]
    other.contents.append(chunk("y"))
    assert source.wait_ns(other) == 0
    assert sent(source.next(1))["messages"] == [said("c"), answered("y"), said("d")]


@pytest.mark.parametrize("answer", [b"no json", b'{"choices": [7]}', None])
def test_a_turn_without_an_answer_ends_its_session(answer):
    source = conversations([turn(0, "a"), turn(1, "b")], [turn(2, "c")])
    first = source.next(0)
    if answer is None:
        first.error = "out of memory"
    else:
        first.contents.append(answer)
    assert source.wait_ns(first) == 0
    assert first.error
    follower = source.next(0)
    assert sent(follower)["messages"] == [said("c")]
    assert source.wait_ns(follower) is None


def test_an_answer_that_was_not_kept_ends_its_session():
    source = conversations([turn(0, "a"), turn(1, "b")], limit_bytes=3)
    first = source.next(0)
    first.contents.append(chunk("x"))
    assert source.wait_ns(first) is None
