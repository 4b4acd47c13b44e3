# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Handlers of signals that a model sets; what they raise reaches the model's code and no other.

Python runs a handler between any two steps of the main thread, which also waits there, chooses what
to execute and answers. An alarm of a model's may go off when its request is answered.
"""

import functools
import logging
import signal
from typing import Any, Final

_log = logging.getLogger(__name__)


class ModelCode:
    """The model's code on the main thread; its callers note in ``is_running`` when it runs.

    They do so in a ``try`` that catches what the model raises, and without a call between the model
    and the note: there Python would run a handler.
    """

    def __init__(self) -> None:
        self.is_running = False


MODEL_CODE: Final = ModelCode()


class _Handler:
    """A model's handler, of which nothing is raised while the model does not run."""

    def __init__(self, handler: Any) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: Any) -> None:
        if MODEL_CODE.is_running:
            self.handler(number, frame)
            return
        try:
            self.handler(number, frame)
        except (Exception, KeyboardInterrupt):
            _log.exception("a handler of a signal failed while nothing was executed")


def guard_handlers() -> None:
    """Guard the handlers that are set from now on; ``signal.getsignal`` returns them as set."""
    set_handler, get_handler = signal.signal, signal.getsignal

    @functools.wraps(set_handler)
    def guarded(signalnum: int, handler: Any) -> Any:
        given = _Handler(handler) if callable(handler) else handler
        return _as_set(set_handler(signalnum, given))

    @functools.wraps(get_handler)
    def as_set(signalnum: int) -> Any:
        return _as_set(get_handler(signalnum))

    signal.signal, signal.getsignal = guarded, as_set


def _as_set(handler: Any) -> Any:
    return handler.handler if isinstance(handler, _Handler) else handler
