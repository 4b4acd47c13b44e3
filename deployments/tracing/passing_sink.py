# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The sink of a request that passes its outcomes on; others look at them on their way."""

from mypy_extensions import mypyc_attr

from backends.api.errors import TritonError
from backends.api.request import InferenceResponse
from deployments.contracts.sinks import ResponseSink
from deployments.tracing.record import TracedSink, TraceReport


@mypyc_attr(allow_interpreted_subclasses=True)
class PassingSink:
    """Passes all outcomes on.

    Args:
        sink: Takes the outcomes.

    Attributes:
        sink: The same.
    """

    __slots__ = ("sink",)

    def __init__(self, sink: ResponseSink) -> None:
        self.sink = sink

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Pass a response on."""
        self.sink.respond(response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Pass an error on."""
        self.sink.fail(error, final=final)

    def traced(self, report: TraceReport) -> None:
        """Pass on what the instance says of a traced request."""
        if isinstance(self.sink, TracedSink):
            self.sink.traced(report)
