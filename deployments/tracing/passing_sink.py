# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Sinks that pass a request's outcomes on; others look at them on their way."""

import logging
from typing import Final

from mypy_extensions import mypyc_attr

from backends.api.errors import TritonError
from backends.api.request import InferenceResponse
from deployments.contracts.sinks import ResponseSink
from deployments.tracing.record import TracedSink, TraceReport

_log: Final = logging.getLogger(__name__)


@mypyc_attr(allow_interpreted_subclasses=True)
class PassingSink:
    """Passes all outcomes on.

    Attributes:
        sink: Takes the outcomes.
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


@mypyc_attr(allow_interpreted_subclasses=True)
class Observer:
    """Observes one request, on the event loop that has sent it."""

    __slots__ = ()

    def responded(self, response: InferenceResponse, *, final: bool) -> None:
        """Take a response, which may be changed; with ``final`` the end follows."""

    def failed(self, error: TritonError) -> None:
        """Take an error that does not end the request."""

    def ended(self, error: TritonError | None, *, is_refusal: bool) -> None:
        """Take the end; called once for each request, whatever becomes of it.

        Args:
            error: What the request ends with; None when it was answered.
            is_refusal: Whether the request was refused and not sent: its sink hears nothing.
        """


@mypyc_attr(allow_interpreted_subclasses=True)
class ObservedSink(PassingSink):
    """Tells observers of each outcome, the last of them first, then passes the outcome on.

    Attributes:
        observers: Who is told; empty once they were told of the end.
    """

    __slots__ = ("observers",)

    def __init__(self, sink: ResponseSink, observers: list[Observer]) -> None:
        super().__init__(sink)
        self.observers = observers

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Pass a response on."""
        if response is not None:
            for observer in reversed(self.observers):
                observer.responded(response, final=final)
        if final:
            self.end(None)
        self.sink.respond(response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Pass an error on."""
        if final:
            self.end(error)
        else:
            for observer in reversed(self.observers):
                observer.failed(error)
        self.sink.fail(error, final=final)

    def end(self, error: TritonError | None, *, is_refusal: bool = False) -> None:
        """Tell the observers of the end, once; one that raises keeps no other from hearing it."""
        observers, self.observers = self.observers, []
        for observer in reversed(observers):
            try:
                observer.ended(error, is_refusal=is_refusal)
            except Exception:
                _log.exception("an observer of a request's end raised")
