# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Asks a model whether it is ready; the model's answer may be slow, wrong or never come.

The model is asked on a thread of its own, beside the one that executes: it may be asked while it
computes. At most one question is under way. Whoever asks meanwhile shares its answer, and when more
wait for it than are likely to be alive still, the answer is no.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

_log = logging.getLogger(__name__)

# Probes come once a second or so, each waiting for some seconds, from a few ingresses.
MAX_WAITING: Final = 64


class Readiness:
    """The readiness of one instance, as its model sees it.

    Args:
        name: The model, for the log.
        is_ready: Asks the model.
    """

    def __init__(self, name: str, is_ready: Callable[[], bool]) -> None:
        self._name = name
        self._is_ready = is_ready
        self._lock = threading.Lock()
        # Who waits for the question under way; without one there is no question.
        self._waiting: list[Future[bool]] = []
        # Whether the last question failed, which is logged once.
        self._has_failed = False

    def ask(self) -> "Future[bool]":
        """Return whether the model is ready, later; from any thread. An error counts as no."""
        answer: Future[bool] = Future()
        with self._lock:
            is_first = not self._waiting
            is_refused = len(self._waiting) >= MAX_WAITING
            if not is_refused:
                self._waiting.append(answer)
        if is_refused:
            answer.set_result(False)
        elif is_first:
            self._start()
        return answer

    def _start(self) -> None:
        try:
            threading.Thread(target=self._ask, name="manta-readiness", daemon=True).start()
        except RuntimeError as error:
            self._fail(error)

    def _ask(self) -> None:
        try:
            is_ready = bool(self._is_ready())
        except BaseException as error:
            # Also SystemExit: whatever the model does, whoever asked gets an answer.
            self._fail(error)
        else:
            self._has_failed = False
            self._answer(is_ready)

    def _fail(self, error: BaseException) -> None:
        if not self._has_failed:
            _log.warning("model '%s' is not ready: is_ready failed", self._name, exc_info=error)
        self._has_failed = True
        self._answer(False)

    def _answer(self, is_ready: bool) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for answer in waiting:
            if answer.set_running_or_notify_cancel():
                answer.set_result(is_ready)
