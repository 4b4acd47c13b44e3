# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request that is received while its gate finds out whether it may come in.

Its body comes meanwhile, within the memory budget: otherwise the connection would have to stop in
the middle of what was read, and the time is short. Who is let in then is answered like who was let
in at the head.
"""

import logging

from deployments.http.server.exchange import HttpExchange
from deployments.http.server.host import HttpApplication

logger = logging.getLogger(__name__)


class PendingEntry:
    """Implements `HttpApplication` for one request, until the one that answers is known."""

    __slots__ = ("_application", "_has_come")

    def __init__(self) -> None:
        self._application: HttpApplication | None = None
        self._has_come = False

    def dispatch(self, exchange: HttpExchange) -> None:
        """Keep a complete request, or pass it on."""
        self._has_come = True
        if self._application is not None:
            _pass_on(self._application, exchange)

    def refuse(self, exchange: HttpExchange, body_bytes: int) -> str:
        """Take a body; who answers looks at the size of a complete one, too."""
        del exchange, body_bytes
        return ""

    def allocate(self, size_bytes: int, align_at: int) -> memoryview | None:
        """Have it received into ordinary memory."""
        del size_bytes, align_at
        return None

    def admit(self, exchange: HttpExchange, application: HttpApplication) -> None:
        """Let the request in, to an application."""
        self._application = application
        if self._has_come:
            _pass_on(application, exchange)


def _pass_on(application: HttpApplication, exchange: HttpExchange) -> None:
    try:
        application.dispatch(exchange)
    except Exception:
        logger.exception("failed to answer %s %s", exchange.head.method, exchange.head.url)
        exchange.fail_text(500, "internal error; the server's log says more")
