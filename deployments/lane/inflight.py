# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request at the router's end of a lane."""

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from backends.api.errors import TritonError
from backends.api.request import InferenceRequest
from deployments.contracts.sinks import ResponseSink
from deployments.scheduling.request_terms import RequestTerms

if TYPE_CHECKING:
    from deployments.lane.pool_client import PoolClient


@mypyc_attr(allow_interpreted_subclasses=True)
class LaneInflight(RequestTerms):
    """A request on a lane; implements `deployments.contracts.sinks.Inflight`.

    Attributes:
        request: The request as it was submitted.
        sink: Its sink, which still expects one terminal call.
        lane: The lane that has it, or the last one that had it; None before it was sent.
        id: Its number on that lane.
        has_responded: Whether the sink has had a response, so that a retry would repeat it.
        cancelled: Whether it was cancelled.
    """

    __slots__ = ("cancelled", "has_responded", "id", "lane", "request", "sink")

    def __init__(self, request: InferenceRequest, sink: ResponseSink) -> None:
        self.request = request
        self.sink = sink
        self.lane: PoolClient | None = None
        self.id = 0
        self.has_responded = False
        self.cancelled = False

    def cancel(self) -> None:
        """Ask the instance to drop the request; its answer is still the terminal outcome."""
        if not self.cancelled:
            self.cancelled = True
            if self.lane is not None:
                self.lane.send_cancel(self)

    def credit(self) -> None:
        """Ask for one response more of a request with a window."""
        if self.lane is not None:
            self.lane.send_credit(self)

    def fail(self, error: TritonError) -> None:
        """Take the error that ends the request."""
        self.sink.fail(error)
