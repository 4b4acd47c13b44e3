# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The way of a request between the parts of the data plane: the sink of its outcome, its handle.

An ingress codec calls `DataPlane.infer` with a `ResponseSink`; the data plane calls the sink on the
event loop. Callbacks, not awaitables, because a task per request costs 10 us of the 60 that a
request may take.
"""

from typing import Protocol, runtime_checkable

from backends.api.errors import TritonError
from backends.api.request import InferenceResponse


class ResponseSink(Protocol):
    """Receives the outcome of one request, on the event loop that submitted it.

    Exactly one terminal call is made: ``respond`` or ``fail`` with final=True. After a cancel the
    terminal call may be ``fail(RequestCancelledError)``. Only a decoupled model goes on after an
    error.
    """

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Take a response; None (only with final=True) closes a stream with no further response."""

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take an error; with final=True it ends the request."""


class Inflight(Protocol):
    """A request on its way."""

    def cancel(self) -> None:
        """Ask for the request to be dropped; its sink still gets its terminal call. Idempotent."""


@runtime_checkable
class Paced(Inflight, Protocol):
    """A request on its way whose model waits for its caller; see `InferenceRequest.window`."""

    def credit(self) -> None:
        """Ask for one response more."""
