# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How a request came, for its trace."""

from deployments.http.server.exchange import HttpExchange
from deployments.tracing.tracer import HTTP, Arrival, Tracer


def arrival_of(exchange: HttpExchange, tracer: Tracer) -> Arrival | None:
    """Return how a request comes that is there now; None while tracing is off."""
    if not tracer.is_on:
        return None
    now_ns = tracer.clock_ns()
    return Arrival(HTTP, exchange.began_ns or now_ns, now_ns, exchange.head.headers)
