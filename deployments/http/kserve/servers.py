# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The servers of the HTTP and the metrics port, composed."""

import asyncio
from collections.abc import Callable
from typing import Final

from deployments.access.contracts import Rights
from deployments.data_plane.callers import Access, PerCaller, Views, hidden_headers
from deployments.data_plane.face import Plane
from deployments.http.codec.input_limits import DEFAULT_MAX_INPUT_BYTES
from deployments.http.kserve.application import HttpIngress
from deployments.http.kserve.compression import Compression
from deployments.http.kserve.guarded import (
    ClosedApplication,
    HttpGate,
    need_of_metrics,
    need_of_route,
)
from deployments.http.kserve.metrics import MetricsApplication
from deployments.http.kserve.restricted import RestrictedApplication
from deployments.http.server.host import HttpLimits
from deployments.http.server.server import DEFAULT_BUDGET_BYTES, HttpServer
from deployments.security.restrictions import Restrictions
from deployments.security.tls import TlsFiles
from deployments.supervision.memory_budget import MemoryBudget

# There are many callers, and each asks for a few models.
_PATHS_OF_CALLER: Final = 512


def make_http_server(
    plane: Plane,
    *,
    max_input_bytes: int = DEFAULT_MAX_INPUT_BYTES,
    restrictions: Restrictions = (),
    header_forward_pattern: str = "",
    tls: TlsFiles | None = None,
    limits: HttpLimits | None = None,
    budget: MemoryBudget | None = None,
    access: Access | None = None,
) -> HttpServer:
    """Return the server of the HTTP port, not yet listening.

    Args:
        plane: The data plane.
        max_input_bytes: ``--http-max-input-size``.
        restrictions: ``--http-restricted-api``.
        header_forward_pattern: ``--http-header-forward-pattern``.
        tls: Set to serve TLS.
        limits: What peers may ask.
        budget: What bodies and answers take memory from, shared with the other servers of the
            process.
        access: Who may ask; None without an access policy.

    Raises:
        InvalidArgumentError: The pattern is no regular expression.
    """
    budget = budget or MemoryBudget(DEFAULT_BUDGET_BYTES)
    compression = Compression(budget, max_input_bytes)
    ingress = HttpIngress(plane, max_input_bytes, header_forward_pattern, compression)
    if access is None:
        application = RestrictedApplication(ingress, restrictions) if restrictions else ingress
        return HttpServer(application, limits, tls=tls, tracer=plane.tracer, budget=budget)
    views = Views(plane, access, "http")
    guard = access.guard
    # Also of callers whose applications are kept no more.
    tasks: set[asyncio.Task[None]] = set()

    def make(rights: Rights) -> HttpIngress:
        return HttpIngress(
            views.of(rights),
            max_input_bytes,
            header_forward_pattern,
            compression,
            hidden=hidden_headers(guard),
            tasks=tasks,
            path_limit=_PATHS_OF_CALLER,
        )

    gate = HttpGate(
        guard,
        "http",
        lambda head: need_of_route(head, ingress.found(head)),
        PerCaller(guard, make).of,
        restrictions,
    )
    closed = ClosedApplication()
    return HttpServer(closed, limits, tls=tls, tracer=plane.tracer, budget=budget, gate=gate)


def make_metrics_server(
    plane: Plane,
    *,
    budget: MemoryBudget,
    render_model_cache: Callable[[], bytes] = bytes,
    tls: TlsFiles | None = None,
    access: Access | None = None,
) -> HttpServer:
    """Return the server of the metrics port, not yet listening.

    Args:
        plane: The data plane.
        budget: What the process's servers take memory from; the page tells of it too.
        render_model_cache: Returns what the page tells of the node's model cache; may block.
        tls: Set to serve TLS.
        access: Who may ask; None without an access policy.
    """
    application = MetricsApplication(plane, budget, render_model_cache)
    if access is None:
        return HttpServer(application, tls=tls, budget=budget)
    gate = HttpGate(access.guard, "metrics", need_of_metrics, lambda _: application)
    return HttpServer(ClosedApplication(), tls=tls, budget=budget, gate=gate)
