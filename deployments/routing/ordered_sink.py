# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Responses in the order of the requests, for models with ``preserve_ordering``.

Instances run side by side, so what they answer is put in order where a client's requests come
together: in its router.

Triton: core/src/dynamic_batch_scheduler.cc FinalizeResponses @73aad7c, which keeps one order for
all clients of a model; no client sees more of it than the order of its own requests.
"""

import logging
from typing import Final

from backends.api.errors import TritonError
from backends.api.model_config import ModelConfig
from backends.api.request import InferenceResponse
from deployments.contracts.sinks import ResponseSink
from deployments.scheduling.completion import CompletionQueue, keeps_order
from deployments.tracing.passing_sink import PassingSink

_log = logging.getLogger(__name__)

# Tenants whose orders are kept though nothing of them is under way.
_MAX_IDLE: Final = 64

_Outcome = InferenceResponse | TritonError | None


class OrderedSink(PassingSink):
    """Hands a request's outcomes on when those of all earlier requests have been."""

    __slots__ = ("_order",)

    def __init__(self, order: "Order", sink: ResponseSink) -> None:
        super().__init__(sink)
        self._order = order
        order.accept(self)

    def respond(self, response: InferenceResponse | None, *, final: bool) -> None:
        """Take a response."""
        self._hand_on(response, final=final)

    def fail(self, error: TritonError, *, final: bool = True) -> None:
        """Take an error."""
        self._hand_on(error, final=final)

    def _hand_on(self, outcome: _Outcome, *, final: bool) -> None:
        for released in self._order.add(self, outcome, final=final):
            try:
                released[0].deliver(released[1], final=released[2])
            except Exception:
                # One client's trouble must not cost others their outcomes.
                _log.exception("a sink raised")

    def deliver(self, outcome: _Outcome, *, final: bool) -> None:
        """Pass an outcome on now."""
        if isinstance(outcome, TritonError):
            self.sink.fail(outcome, final=final)
        else:
            self.sink.respond(outcome, final=final)


Order = CompletionQueue[OrderedSink, _Outcome]


class Orders:
    """The order of each tenant's requests: no tenant waits for another's."""

    __slots__ = ("_by_tenant", "_without")

    def __init__(self) -> None:
        self._without: Order = CompletionQueue()
        self._by_tenant: dict[str, Order] = {}

    def of(self, tenant: str) -> Order:
        """Return the order in which the next request of a tenant, or of none, is to be put."""
        if not tenant:
            return self._without
        order = self._by_tenant.get(tenant)
        if order is None:
            if len(self._by_tenant) >= _MAX_IDLE:
                self._by_tenant = {name: each for name, each in self._by_tenant.items() if each}
            order = self._by_tenant[tenant] = CompletionQueue()
        return order


def order_of(config: ModelConfig) -> Orders | None:
    """Return new orders for a model that wants them, else None."""
    return Orders() if keeps_order(config) else None
