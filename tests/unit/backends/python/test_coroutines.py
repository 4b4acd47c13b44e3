# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The loop of a model with ``async def execute``, and what goes on there between executions."""

import asyncio
import contextlib
import threading

import numpy as np
import pytest

from backends.api.request import tensor_as_numpy
from backends.python.coroutines import CoroutineRunner
from tests.support.models import load
from tests.support.python_probe import model_context
from tests.support.recording import execute, recorded

SOURCE = """
import asyncio, sys, threading

def one(n):
    return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", np.array([[n, n]], np.int32))])]

class TritonPythonModel:
    def initialize(self, args):
        self.done = threading.Event()
        self.ended = []
        self.places = []

    async def execute(self, requests):
        self.places.append((asyncio.get_running_loop(), threading.current_thread()))
        {}
        return one(7)

    async def later(self, *, exits=False):
        for _ in range(3):
            await asyncio.sleep(0.001)
        if exits:
            sys.exit(3)
        self.done.set()

    async def for_ever(self):
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(type(sys.exception()).__name__)
"""


@pytest.fixture
def loaded(tmp_path):
    made = []

    def make(body: str):
        made.append(load(model_context(tmp_path, SOURCE.format(body))))
        return made[-1]

    yield make
    for each in made:
        each.close()


def ask(instance) -> object:
    request = recorded({"INPUT0": np.zeros((1, 2), np.int32)})
    execute(instance, request)
    (answer,) = request.answers
    return (
        answer.message if hasattr(answer, "message") else tensor_as_numpy(answer.outputs[0])[0, 0]
    )


def test_a_task_goes_on_when_its_request_is_answered(loaded):
    instance = loaded("self.task = asyncio.create_task(self.later())")
    assert ask(instance) == 7
    assert instance._model.done.wait(30)


def test_other_threads_reach_the_loop_between_requests(loaded):
    instance = loaded("pass")
    ask(instance)
    model = instance._model
    loop, _ = model.places[0]
    loop.call_soon_threadsafe(model.done.set)
    assert model.done.wait(30)


def test_all_executions_are_on_one_loop_and_one_thread_which_is_no_other(loaded):
    instance = loaded("pass")
    ask(instance)
    ask(instance)
    first, second = instance._model.places
    assert first == second
    assert first[1] is not threading.current_thread()


def test_what_a_coroutine_raises_is_told_with_the_models_frames_only(loaded, tmp_path):
    instance = loaded("await self.broken()")
    message = ask(instance)
    assert "AttributeError: 'TritonPythonModel' object has no attribute 'broken'" in message
    assert message.endswith("/model.py(17): execute\n")
    assert message.count("  /") == 1


def test_an_exit_is_an_error_of_its_request_and_the_next_is_served(loaded):
    instance = loaded("len(self.places) > 1 or sys.exit(3)")
    with pytest.raises(SystemExit):
        ask(instance)
    assert ask(instance) == 7


def test_a_task_that_exits_ends_nothing_else(loaded, caplog):
    instance = loaded(
        "if len(self.places) == 1:\n"
        "            await asyncio.wait([asyncio.create_task(self.later(exits=True))])\n"
        "        else:\n"
        "            self.task = asyncio.create_task(self.later())"
    )
    assert ask(instance) == 7
    assert "a task of the model ended with SystemExit" in caplog.text
    assert ask(instance) == 7
    assert instance._model.done.wait(30)


def test_a_loop_that_the_model_stops_goes_on(loaded):
    instance = loaded("asyncio.get_running_loop().stop()")
    assert (ask(instance), ask(instance)) == (7, 7)


def test_an_unload_cancels_what_still_runs(loaded):
    instance = loaded(
        "self.task = asyncio.create_task(self.for_ever())\n        await asyncio.sleep(0)"
    )
    ask(instance)
    instance.close()
    assert instance._model.ended == ["CancelledError"]


def test_a_wait_of_a_coroutine_is_a_pause_of_the_executing_thread():
    seen, wakes = [], []

    @contextlib.contextmanager
    def pause():
        seen.append(("paused", threading.current_thread()))
        wakes[-1]()
        yield
        seen.append(("resumed", threading.current_thread()))

    async def waits() -> int:
        loop, woken = asyncio.get_running_loop(), asyncio.Event()
        wakes.append(lambda: loop.call_soon_threadsafe(woken.set))
        await woken.wait()
        seen.append(("went on", None))
        return 5

    runner = CoroutineRunner(pause)
    me = threading.current_thread()
    pauses = [("paused", me), ("resumed", me), ("went on", None)]
    assert runner.run(waits()) == 5
    assert seen == pauses
    # Neither between executions nor in one that waits for nothing.
    runner.run(asyncio.sleep(0))
    assert seen == pauses
    assert runner.run(waits()) == 5
    assert seen == 2 * pauses
    runner.close()
