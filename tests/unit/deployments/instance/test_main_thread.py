# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Calls that are handed to the thread that serves, and what becomes of them where none does."""

import asyncio
import signal
import threading
from queue import SimpleQueue

import pytest

from deployments.instance.main_thread import MainThread
from deployments.instance.rest import Rest

LONG_S = 60.0


def on_a_thread(action) -> threading.Thread:
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    return thread


def test_calls_run_on_the_thread_that_serves_one_after_the_other():
    main, seen = MainThread(), []
    ended = []

    def hand_over() -> None:
        for number in range(3):
            main.run(lambda number=number: seen.append((number, threading.current_thread())), "x")
        ended.append(main.end(LONG_S))

    # Offered with its first call, as Ray's loop is not begun before.
    main.offer()
    thread = on_a_thread(hand_over)
    main.serve()
    thread.join(LONG_S)
    assert seen == [(number, threading.current_thread()) for number in range(3)]
    assert ended == [True]


def test_without_an_offer_a_call_has_a_thread_of_its_own():
    main, seen = MainThread(), SimpleQueue()
    main.run(lambda: seen.put(threading.current_thread()), "of-its-own")
    thread = seen.get(timeout=LONG_S)
    assert (thread.name, thread.daemon) == ("of-its-own", True)
    main.let_alarms_end()
    assert not main.is_offered


def test_a_call_that_does_not_return_is_not_waited_for():
    main, gate, begun = MainThread(), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        gate.wait(LONG_S)

    main.offer()
    main.run(hang, "x")
    server = on_a_thread(main.serve)
    assert begun.wait(LONG_S)
    assert not main.end(0.0)
    gate.set()
    server.join(LONG_S)
    assert main.end(LONG_S)


@pytest.fixture
def _alarm():
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("_alarm")
def test_an_alarm_that_a_model_has_handled_ends_the_process_in_the_end():
    main = MainThread()
    main.offer()
    main.run(lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN), "x")
    main.let_alarms_end()
    on_a_thread(lambda: main.end(LONG_S))
    main.serve()
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


async def test_where_rays_loop_has_a_thread_it_rests_in_its_look_until_the_end():
    main = MainThread()
    main.offer()
    rest = Rest(nap_s=LONG_S, main=main)
    rest.begin(asyncio.get_running_loop(), after_s=0.0)
    while main.rest is None:  # noqa: ASYNC110 - set on this loop
        await asyncio.sleep(0)
    looking = on_a_thread(main.rest)
    while not rest.is_napping:  # noqa: ASYNC110 - the thread that naps can set no event
        await asyncio.sleep(0)
    rest.end()
    looking.join(LONG_S)
    assert not looking.is_alive()
    assert main.rest is None
