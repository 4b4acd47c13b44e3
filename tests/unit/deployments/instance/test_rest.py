# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The main thread of an instance naps between Ray's looks, and wakes for what matters."""

import _thread
import asyncio
import signal
import threading

import pytest

from deployments.instance import rest as rest_module
from deployments.instance.rest import Rest

LONG_S = 60.0


@pytest.fixture(autouse=True)
def handler():
    before = signal.getsignal(rest_module._SIGNAL)
    yield
    signal.signal(rest_module._SIGNAL, before)


def on_a_thread(action):
    thread = threading.Thread(target=action)
    thread.start()
    return thread


async def until(rest: Rest, *, napping: bool) -> None:
    # The main thread, which naps, could set no event.
    while rest.is_napping is not napping:  # noqa: ASYNC110
        await asyncio.sleep(0)


def resting(rest: Rest) -> list[str]:
    """Have a loop on another thread begin the rest and, once there is a nap, end it."""
    happened = []

    async def live() -> None:
        rest.begin(asyncio.get_running_loop(), after_s=0.0)
        await until(rest, napping=True)
        happened.append("napping")
        rest.end()

    thread = on_a_thread(lambda: asyncio.run(live()))
    while thread.is_alive():
        thread.join(0.001)
    return happened


def test_the_main_thread_naps_until_the_rest_is_ended():
    rest = Rest(nap_s=LONG_S)
    rest.prepare()
    assert resting(rest) == ["napping"]
    assert not rest.is_napping


def test_after_the_end_of_the_rest_there_is_no_nap():
    rest = Rest(nap_s=LONG_S)
    rest.prepare()
    rest.end()
    rest.end()
    _thread.interrupt_main(rest_module._SIGNAL)
    assert not rest.is_napping


def test_a_nap_is_over_by_itself_and_another_follows():
    rest = Rest(nap_s=0.001)
    rest.prepare()
    seen = []

    async def live() -> None:
        rest.begin(asyncio.get_running_loop(), after_s=0.0)
        for wanted in (True, False, True):
            await until(rest, napping=wanted)
            seen.append(wanted)
        rest.end()

    thread = on_a_thread(lambda: asyncio.run(live()))
    while thread.is_alive():
        thread.join(0.001)
    assert seen == [True, False, True]


def test_a_real_signal_is_handled_during_a_nap():
    rest = Rest(nap_s=LONG_S)
    rest.prepare()
    told = []

    def tell(_number, _frame):
        told.append(rest.is_napping)
        rest.end()

    async def live() -> None:
        rest.begin(asyncio.get_running_loop(), after_s=0.0)
        await until(rest, napping=True)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, tell)
    try:
        thread = on_a_thread(lambda: asyncio.run(live()))
        while thread.is_alive() or not told:
            thread.join(0.001)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert told == [True]


def test_on_another_thread_than_the_main_one_nothing_is_prepared():
    before = signal.getsignal(rest_module._SIGNAL)
    on_a_thread(Rest().prepare).join()
    assert signal.getsignal(rest_module._SIGNAL) is before
