# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How an instance's process ends: the reason is told, and the exit code asks for a restart."""

import asyncio
import queue
from concurrent.futures import Future

import pytest

from backends.api.errors import InternalError
from deployments.instance import ending
from deployments.instance.ending import Ending


class Process:
    """A process that does not end; ``ended`` keeps what it was to do, in order."""

    def __init__(self, *, closes: bool = True) -> None:
        self.ended: queue.Queue[object] = queue.Queue()
        self._closes = closes

    def close_lanes(self) -> Future[None]:
        self.ended.put("lanes")
        closed: Future[None] = Future()
        if self._closes:
            closed.set_result(None)
        return closed

    def ending(self) -> Ending:
        return Ending("m/1#0@1", self.close_lanes, self.ended.put, last_word_s=0.0)

    async def next(self) -> object:
        return await asyncio.to_thread(self.ended.get, timeout=30)


def raise_key_error() -> None:
    raise KeyError(7)


def error() -> BaseException:
    with pytest.raises(KeyError) as caught:
        raise_key_error()
    return caught.value


async def test_a_fault_closes_the_lanes_and_exits_with_a_code_after_the_reason_was_told(caplog):
    process = Process()
    end = process.ending()
    waiting = asyncio.create_task(end.wait())
    await asyncio.sleep(0)
    end.die("execution thread died", error())
    with pytest.raises(InternalError, match=r"^execution thread died: KeyError: 7$"):
        await waiting
    assert [await process.next(), await process.next()] == ["lanes", 1]
    assert "instance m/1#0@1 ends its process: execution thread died: KeyError: 7" in caplog.text
    assert "Traceback" in caplog.text


async def test_the_first_fault_is_the_reason():
    process = Process()
    end = process.ending()
    waiting = asyncio.create_task(end.wait())
    await asyncio.sleep(0)
    end.die("first")
    end.die("second")
    with pytest.raises(InternalError, match=r"^first$"):
        await waiting
    assert [await process.next(), await process.next()] == ["lanes", 1]
    assert process.ended.empty()


async def test_who_waits_after_the_fault_is_answered_by_the_end_of_the_process_only():
    process = Process()
    end = process.ending()
    end.die("execution thread died")
    waiting = asyncio.create_task(end.wait())
    assert [await process.next(), await process.next()] == ["lanes", 1]
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(InternalError, match=r"^execution thread died$"):
        end.check()


async def test_lanes_that_do_not_close_do_not_keep_the_process(monkeypatch):
    monkeypatch.setattr(ending, "_LANES_TIMEOUT_S", 0.0)
    process = Process(closes=False)
    process.ending().die("execution thread died")
    assert [await process.next(), await process.next()] == ["lanes", 1]


async def test_without_memory_for_a_thread_the_process_ends_at_once(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ending.threading, "Thread", refuse)
    process = Process()
    process.ending().die("execution thread died")
    assert process.ended.get_nowait() == 1


async def test_an_end_that_was_asked_for_has_no_reason():
    end = Process().ending()
    waiting = asyncio.create_task(end.wait())
    end.finish()
    await waiting
    await end.wait()
    end.check()
