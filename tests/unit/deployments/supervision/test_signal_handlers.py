# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Exceptions that interrupt who waits, and those of who waits itself."""

import threading
from pathlib import Path

import pytest

from deployments.supervision.signal_handlers import is_of_handler

THIS = f"supervision/{Path(__file__).name}"


def waits(interrupt) -> bool:
    try:
        interrupt()
    except Exception as error:
        return is_of_handler(error, THIS)
    return False


def test_what_other_code_raises_meanwhile_is_a_handlers_and_is_logged(caplog):
    # A handler in a file of its own, as a model's is.
    handler = compile("raise TimeoutError('too late')", "/models/m/1/model.py", "exec")
    assert waits(lambda: exec(handler))
    assert "TimeoutError: too late" in caplog.text


@pytest.mark.parametrize("fault", [lambda: 1 / 0, threading.Lock().release])
def test_what_the_waiting_module_raises_is_its_own(caplog, fault):
    assert not waits(fault)
    assert not caplog.records
