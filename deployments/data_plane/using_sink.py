# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The sink of a request that an instance serves out of clients' shared memory."""

from collections.abc import Collection

from backends.api.errors import TritonError
from backends.api.request import InferenceResponse
from deployments.contracts.sinks import ResponseSink
from deployments.shared_memory.uses import RegionUses
from deployments.tracing.record import TracedSink, TraceReport


class UsingSink:
    """Passes a request's outcomes on, and says when its regions are no longer used.

    Args:
        sink: Takes the outcomes.
        uses: Where the request was counted.
        names: The regions it uses.
    """

    __slots__ = ("_names", "_sink", "_uses")

    def __init__(self, sink: ResponseSink, uses: RegionUses, names: Collection[str]) -> None:
        self._sink = sink
        self._uses = uses
        self._names = names

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Pass a response on; before the last one the regions are given back."""
        if final:
            self._uses.end(self._names)
        self._sink.respond(response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Pass an error on; before the last one the regions are given back."""
        if final:
            self._uses.end(self._names)
        self._sink.fail(error, final=final)

    def traced(self, report: TraceReport) -> None:
        """Pass on what the instance says of a traced request."""
        if isinstance(self._sink, TracedSink):
            self._sink.traced(report)
