# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An engine gets as many requests as it computes at once; the rest are not given to it."""

import threading

import pytest

from backends.api.errors import InternalError, TritonError, UnavailableError
from backends.llm.api import LlmRequest, Usage
from backends.llm.metrics import LlmMetrics, MeasuredEngine
from tests.support.scripted_engine import ScriptedEngine

SLOTS = 4


class HeldEngine(ScriptedEngine):
    """Keeps what it is asked until the test ends it."""

    def __init__(self):
        super().__init__("x")
        self.sinks = []
        self.is_closed = False

    def submit(self, request, sink):
        if self.is_closed:
            raise UnavailableError("closed")
        self.sinks.append(sink)


class Ended:
    """A sink that nothing is expected of."""

    is_cancelled = False

    def deliver(self, deltas, usage):
        pass

    def fail(self, error: TritonError):
        raise error


def measured(engine: ScriptedEngine) -> MeasuredEngine:
    return MeasuredEngine(engine, LlmMetrics("m", "1"))


def submit(engine: MeasuredEngine, count: int, choices: int = 1) -> None:
    for _ in range(count):
        engine.submit(LlmRequest((1,), 5, choices=choices), Ended())


def has_slot(engine: MeasuredEngine) -> bool:
    """Whether `wait_for_slot` returns; one that waits is let go of at the end of the process."""
    waiting = threading.Thread(target=engine.wait_for_slot, daemon=True)
    waiting.start()
    waiting.join(0.05)
    return not waiting.is_alive()


def test_a_full_engine_has_a_slot_once_a_request_has_its_last_answer():
    held = HeldEngine()
    engine = measured(held)
    submit(engine, SLOTS - 1)
    assert has_slot(engine)
    submit(engine, 1)
    waiting = threading.Thread(target=engine.wait_for_slot)
    waiting.start()
    held.sinks[0].deliver([], None)
    waiting.join(0.05)
    assert waiting.is_alive()
    held.sinks[0].deliver([], Usage(1, 1, 0))
    waiting.join(10)
    assert not waiting.is_alive()


def test_a_request_that_fails_frees_its_slot_though_nobody_takes_the_error():
    held = HeldEngine()
    engine = measured(held)
    submit(engine, SLOTS)
    assert not has_slot(engine)
    with pytest.raises(InternalError):
        held.sinks[2].fail(InternalError("broken"))
    assert has_slot(engine)


def test_each_choice_takes_a_slot():
    held = HeldEngine()
    engine = measured(held)
    submit(engine, 1, choices=SLOTS)
    assert not has_slot(engine)
    held.sinks[0].deliver([], Usage(1, 1, 0))
    assert has_slot(engine)


def test_a_request_that_the_engine_refuses_takes_no_slot_and_a_closed_engine_holds_nobody():
    held = HeldEngine()
    engine = measured(held)
    submit(engine, SLOTS - 1)
    held.is_closed = True
    for _ in range(SLOTS):
        with pytest.raises(UnavailableError):
            submit(engine, 1)
    assert has_slot(engine)
    held.is_closed = False
    submit(engine, 1)
    assert not has_slot(engine)
    engine.close()
    assert has_slot(engine)
