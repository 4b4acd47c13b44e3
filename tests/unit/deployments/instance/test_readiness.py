# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Asking a model whether it is ready, whatever the model makes of the question."""

import sys
import threading

import pytest

from deployments.instance import readiness
from deployments.instance.readiness import MAX_WAITING, Readiness


class Model:
    """Answers when let; counts how often it is asked at once."""

    def __init__(self, answer=lambda: True) -> None:
        self.answer = answer
        self.asked = 0
        self.gate = threading.Event()
        self.entered = threading.Semaphore(0)

    def is_ready(self) -> bool:
        self.asked += 1
        self.entered.release()
        assert self.gate.wait(30)
        return self.answer()


@pytest.mark.parametrize("is_ready", [True, False])
def test_the_models_answer_is_passed_on(is_ready):
    assert Readiness("m", lambda: is_ready).ask().result(30) is is_ready


@pytest.mark.parametrize("failure", [lambda: 1 / 0, lambda: sys.exit(1)], ids=["error", "exit"])
def test_a_model_that_raises_is_not_ready_and_may_be_asked_again(failure, caplog):
    model = Model(failure)
    model.gate.set()
    asked = Readiness("m", model.is_ready)
    assert asked.ask().result(30) is False
    assert asked.ask().result(30) is False
    # Told once, not with every probe.
    assert caplog.text.count("model 'm' is not ready: is_ready failed") == 1
    model.answer = lambda: True
    assert asked.ask().result(30) is True


def test_one_question_at_a_time_whoever_asks():
    model = Model()
    asked = Readiness("m", model.is_ready)
    answers = [asked.ask() for _ in range(10)]
    assert model.entered.acquire(timeout=30)
    answers += [asked.ask() for _ in range(10)]
    model.gate.set()
    assert [answer.result(30) for answer in answers] == [True] * 20
    assert model.asked == 1


def test_a_model_that_hangs_is_not_ready_once_many_wait():
    model = Model()
    asked = Readiness("m", model.is_ready)
    waiting = [asked.ask() for _ in range(MAX_WAITING)]
    assert asked.ask().result(0) is False
    assert not any(answer.done() for answer in waiting)
    waiting[0].cancel()
    model.gate.set()
    assert [answer.result(30) for answer in waiting[1:]] == [True] * (MAX_WAITING - 1)
    assert model.asked == 1


def test_without_memory_for_a_thread_the_model_is_not_ready(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(readiness.threading, "Thread", refuse)
    assert Readiness("m", lambda: True).ask().result(0) is False
