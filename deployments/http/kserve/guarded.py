# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The gate of an HTTP port with an access policy: who may ask, by the head alone.

Theory of operation. The head of a request tells route and model; with them the guard's `Rights`
decide whether it may come in, before its body is received. What then answers is an application of
the caller's own, over its own view of the plane, which checks again whatever it looks up.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from backends.api.errors import PermissionDeniedError, TritonError, UnauthenticatedError
from deployments.access.contracts import Guard, Peer, Rights, Role
from deployments.data_plane.callers import good_for_s, roles_of
from deployments.data_plane.view_checks import outcome_of, require_any
from deployments.http.server.exchange import HttpExchange
from deployments.http.server.first_use import unquoted
from deployments.http.server.head import HttpHead
from deployments.http.server.host import Admission, HttpApplication
from deployments.http.server.routes import Match, Route
from deployments.security.restrictions import RestrictedRoutes, Restrictions

_REGIONS: Final = "shared-memory"
_NOT_LET_IN: Final = "the request was not let in"


@dataclass(frozen=True, slots=True)
class Need:
    """What a request needs.

    Attributes:
        what: The request, for the audit log.
        roles: Any of them; empty where no route would answer.
        names: What its model may be called; empty when it asks for none.
        category: Among Triton's restricted APIs.
    """

    what: str
    roles: tuple[Role, ...]
    names: tuple[str, ...] = ()
    category: str = ""


class HttpGate:
    """Implements `deployments.http.server.host.Gate`.

    Args:
        guard: Knows the callers.
        protocol: The port, as `Peer` has it.
        need_of: Returns what a request needs.
        application_of: Returns what answers a caller.
        restrictions: ``--http-restricted-api``, which come first.
        wall_s: The wall clock, in seconds.

    Attributes:
        protocol: The same.
    """

    def __init__(
        self,
        guard: Guard,
        protocol: str,
        need_of: Callable[[HttpHead], Need],
        application_of: Callable[[Rights], HttpApplication],
        restrictions: Restrictions = (),
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.protocol = protocol
        self._guard = guard
        self._need_of = need_of
        self._application_of = application_of
        self._restricted = RestrictedRoutes(restrictions)
        self._wall_s = wall_s

    @property
    def revision(self) -> int:
        """Of the policy."""
        return self._guard.revision

    def admit(self, head: HttpHead, peer: Peer, tick: int) -> Admission:
        """Let a request in; see `Gate`.

        Raises:
            UnauthenticatedError: There are no valid credentials, or none where some are needed.
            PermissionDeniedError: The caller lacks the role, or the header of a restricted API.
            PendingError: The credentials are being checked.
        """
        need = self._need_of(head)
        header = self._restricted.missing(need.category, head.headers)
        if header:
            raise PermissionDeniedError(f"This API is restricted, expecting header '{header}'")
        revision = self._guard.revision
        rights: Rights | None = None
        try:
            rights = self._guard.identify(head.headers, peer)
            if need.roles:
                require_any(rights, need.roles, need.names)
        except TritonError as error:
            self._note(rights, peer, need, error)
            raise
        kept_s = int(good_for_s(rights.caller.expires_s, self._wall_s()))
        return Admission(self._application_of(rights), revision, tick + kept_s)

    def _note(self, rights: Rights | None, peer: Peer, need: Need, error: TritonError) -> None:
        model = need.names[0] if need.names else ""
        self._guard.note(rights, peer, need.what, model, outcome_of(error))


class ClosedApplication:
    """What is behind a gate for whoever was not let in by it: nothing.

    No request gets here; if one ever does, it is refused.
    """

    def dispatch(self, exchange: HttpExchange) -> None:
        """Refuse a request."""
        exchange.fail(UnauthenticatedError(_NOT_LET_IN))

    def refuse(self, exchange: HttpExchange, body_bytes: int) -> str:
        """Refuse every large body."""
        del exchange, body_bytes
        return _NOT_LET_IN

    def allocate(self, size_bytes: int, align_at: int) -> memoryview | None:
        """Return nothing: there are no large bodies."""
        del size_bytes, align_at
        return None


def need_of_route(head: HttpHead, found: tuple[Route, Match] | None) -> Need:
    """Return what a request on the HTTP port needs.

    Args:
        head: Its request line and headers.
        found: Its route and what its path names; None when there is none.
    """
    method = head.method.decode("latin-1")
    if found is None:
        return Need(f"{method} unknown", ())
    route, match = found
    names: tuple[str, ...] = ()
    if match.name and route.category != _REGIONS:
        names = tuple(each for each in (match.name, unquoted(match.name)) if each)
    roles = roles_of(route.category, has_model=bool(names))
    return Need(f"{method} {route.category or 'health'}", roles, names, route.category)


def need_of_metrics(head: HttpHead) -> Need:
    """Return what a request on the metrics port needs, whatever its path."""
    return Need(f"{head.method.decode('latin-1')} metrics", (Role.METRICS,))
