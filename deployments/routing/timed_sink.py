# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Measures how long a pool of one takes to answer: it says nothing of its load itself."""

import time

from backends.api.errors import TritonError
from backends.api.request import InferenceResponse
from deployments.lane.client import LaneClient
from deployments.lane.inflight import LaneInflight
from deployments.routing.node_view import NodeView
from deployments.tracing.passing_sink import PassingSink


class TimedSink(PassingSink):
    """Tells a view of the last response to a request, unless another lane has the request by then.

    With the terminal outcome the request gets its own sink back: what refers to itself, tensors
    included, is not freed before the garbage collector looks.

    Args:
        request: The request, whose sink this becomes.
        lane: Where it is sent.
        view: Of the instance's node.

    Attributes:
        sink: Where outcomes go.
    """

    __slots__ = ("_lane", "_request", "_start_ns", "_view")

    def __init__(self, request: LaneInflight, lane: LaneClient, view: NodeView) -> None:
        super().__init__(request.sink)
        self._request = request
        self._lane = lane
        self._view = view
        self._start_ns = time.monotonic_ns()

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Take a response."""
        if final and self._request.lane is self._lane:
            now_ns = time.monotonic_ns()
            self._view.waiting_count = max(1, self._lane.outstanding)
            self._view.answered(now_ns - self._start_ns, now_ns)
        if final:
            self._request.sink = self.sink
        self.sink.respond(response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take an error."""
        if final:
            self._request.sink = self.sink
        self.sink.fail(error, final=final)
