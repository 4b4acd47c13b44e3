# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Responses to callers that take them one by one, without holding up the engine.

A caller with a window, such as an ensemble, makes whoever responds wait until it takes the next
response. The engine's thread serves all requests, so for such a caller another thread waits.
"""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from backends.api.backend import ExecuteRequest
from backends.api.errors import TritonError
from backends.api.request import InferenceRequest, InferenceResponse

logger = logging.getLogger(__name__)


def paced(request: ExecuteRequest) -> ExecuteRequest:
    """Return a request that can be answered without waiting; itself if it never waits."""
    return _PacedRequest(request) if request.request.window else request


class _PacedRequest:
    """A request whose answers another thread gives; they are no more than the engine generates.

    Args:
        request: The request.
    """

    def __init__(self, request: ExecuteRequest) -> None:
        self._request = request
        self._waiting: SimpleQueue[tuple[Callable[[], None], bool]] = SimpleQueue()
        self._has_failed = False
        threading.Thread(target=self._send, name="llm-paced-responses", daemon=True).start()

    @property
    def request(self) -> InferenceRequest:
        return self._request.request

    @property
    def is_cancelled(self) -> bool:
        return self._has_failed or self._request.is_cancelled

    def respond(self, response: InferenceResponse | None, *, final: bool = True) -> None:
        self._waiting.put((lambda: self._request.respond(response, final=final), final))

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        self._waiting.put((lambda: self._request.fail(error, final=final), final))

    def reschedule(self) -> None:
        self._request.reschedule()

    def _send(self) -> None:
        is_last = False
        while not is_last:
            send, is_last = self._waiting.get()
            try:
                send()
            except TritonError:
                logger.exception("a response was refused")
                self._has_failed = True
                return
