# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A policy before the routes: some APIs need a header.

Triton: server/src/http_server.cc, restricted APIs @e1db8a6
"""

from typing import Protocol

from deployments.http.server.exchange import HttpExchange
from deployments.http.server.host import HttpApplication
from deployments.security.restrictions import RestrictedRoutes, Restrictions


class CategorisedApplication(HttpApplication, Protocol):
    """An application that knows which API a request belongs to."""

    def category(self, exchange: HttpExchange) -> str:
        """Return the API of a request; empty for none."""


class RestrictedApplication:
    """An application some of whose APIs need a header.

    Args:
        application: What answers a request that may pass.
        restrictions: ``--http-restricted-api``.
    """

    def __init__(self, application: CategorisedApplication, restrictions: Restrictions) -> None:
        self._application = application
        self._restricted = RestrictedRoutes(restrictions)
        self.refuse = application.refuse
        self.allocate = application.allocate

    def dispatch(self, exchange: HttpExchange) -> None:
        """Answer a complete request, unless it lacks the header its API asks for."""
        category = self._application.category(exchange)
        header = self._restricted.missing(category, exchange.head.headers)
        if header:
            exchange.fail_text(403, f"This API is restricted, expecting header '{header}'")
        else:
            self._application.dispatch(exchange)
