# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One request on its way through the stages that surround it.

Theory of operation. The stages of a request are one list (`deployments.data_plane.stages`, ADR 26).
Each begins in turn: it may change the call, refuse it by raising, and return an observer. The call
is the request's sink then, and tells the observers of each outcome. Of the end they are told once,
also when a later stage, the check or the router refuses: who comes first counts what is refused
behind it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from backends.api.errors import InternalError, TritonError
from backends.api.request import InferenceRequest
from deployments.contracts.sinks import Inflight, ResponseSink
from deployments.routing.served_model import Submit
from deployments.tracing.passing_sink import ObservedSink, Observer
from deployments.tracing.tracer import Arrival

Headers = Iterable[tuple[bytes, bytes]]


class Call(ObservedSink):
    """One request, and the sink it is sent on with.

    Attributes:
        model: The `ServedModel` that answers, or that of a double of the data plane; stages behind
            rollouts see the version that was chosen.
        request: The request.
        sink: Of the port; a stage that has to know when the port has had an outcome replaces it.
        headers: Of HTTP, or metadata of gRPC.
        tenant: Of the caller; empty for none.
        arrival: How the request came; None unless it may be traced.
        arm: The arm of a rollout that was chosen; empty for none.
    """

    __slots__ = ("arm", "arrival", "headers", "model", "request", "tenant")

    def __init__(
        self,
        model: Any,
        request: InferenceRequest,
        sink: ResponseSink,
        headers: Headers = (),
        tenant: str = "",
        arrival: Arrival | None = None,
    ) -> None:
        # Not by way of two constructors more: each request that a stage concerns has a call.
        self.sink = sink
        self.observers = []
        self.model = model
        self.request = request
        self.headers = headers
        self.tenant = tenant
        self.arrival = arrival
        self.arm = ""

    def start(self, stages: Sequence["Stage"], send: Submit) -> Inflight:
        """Pass the request through the stages and send it.

        Raises:
            TritonError: A stage has refused the request, or it could not be sent.
        """
        observers = self.observers
        try:
            for begin in stages:
                observer = begin(self)
                if observer is not None:
                    observers.append(observer)
            return send(self.model, self.request, self if observers else self.sink)
        except BaseException as cause:
            error = cause if isinstance(cause, TritonError) else InternalError(repr(cause))
            self.end(error, is_refusal=True)
            raise


# Begins a request: may change the call, raises TritonError to refuse it, and returns what is to be
# told of it, if anything.
Stage = Callable[[Call], Observer | None]
