# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Handlers of a model's, while it runs and while it does not."""

import os
import signal
import sys

import pytest

from backends.api.backend import ExecuteBatch, ModelInstance
from deployments.instance.model_execution import close_model, run_model
from deployments.instance.model_signals import MODEL_CODE, guard_handlers

NUMBER = signal.SIGUSR1


@pytest.fixture(autouse=True)
def _guarded(monkeypatch):
    handler = signal.getsignal(NUMBER)
    set_handler = signal.signal
    for name in ("signal", "getsignal"):
        monkeypatch.setattr(signal, name, getattr(signal, name))
    guard_handlers()
    yield
    set_handler(NUMBER, handler)


def fails(*_):
    raise TimeoutError("too late")


def interrupts(*_):
    raise KeyboardInterrupt


def ends(*_):
    sys.exit(3)


class Model(ModelInstance):
    """A model that is interrupted whenever it runs."""

    caught = 0

    def execute(self, batch: ExecuteBatch) -> None:
        for _ in range(2):
            try:
                os.kill(os.getpid(), NUMBER)
            except TimeoutError:
                self.caught += 1
        os.kill(os.getpid(), NUMBER)

    def close(self) -> None:
        os.kill(os.getpid(), NUMBER)


@pytest.mark.parametrize("handler", [fails, interrupts])
def test_what_a_handler_raises_while_the_model_does_not_run_is_logged(caplog, handler):
    signal.signal(NUMBER, handler)
    os.kill(os.getpid(), NUMBER)
    assert "while nothing was executed" in caplog.text


def test_what_a_handler_raises_while_the_model_runs_the_model_can_catch_and_is_its_failure(caplog):
    signal.signal(NUMBER, fails)
    model = Model()
    error = run_model(model, ExecuteBatch([]), "m")
    assert model.caught == 2
    assert "TimeoutError: too late" in error.message
    assert not MODEL_CODE.is_running
    assert "while nothing was executed" not in caplog.text


def test_what_a_handler_raises_while_the_model_closes_ends_its_close(caplog):
    signal.signal(NUMBER, fails)
    close_model(Model(), "m")
    assert "model 'm' failed to close" in caplog.text
    assert not MODEL_CODE.is_running


def test_a_handler_can_end_the_process():
    signal.signal(NUMBER, ends)
    with pytest.raises(SystemExit):
        os.kill(os.getpid(), NUMBER)


def test_a_model_finds_the_handlers_that_it_has_set():
    before = signal.getsignal(NUMBER)
    assert signal.signal(NUMBER, fails) == before
    assert signal.getsignal(NUMBER) is fails
    assert signal.signal(NUMBER, signal.SIG_IGN) is fails
    assert signal.getsignal(NUMBER) is signal.SIG_IGN
