# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The gate of a server as one connection meets it: its answers are kept with the heads.

What a gate says of a head that clients repeat is kept with that head, which all connections of the
server share; so it costs a look-up of an attribute and two comparisons the next time. That is so
only of connections that say nothing of their peers themselves. One with a certificate, or of a user
of this machine, keeps what was said of its last head for itself alone.
"""

import logging

from backends.api.errors import InternalError, TritonError
from deployments.access.contracts import Peer, PendingError
from deployments.access.peers import is_nameless
from deployments.http.server.head import HttpHead
from deployments.http.server.host import Admission, Gate, HttpApplication

logger = logging.getLogger(__name__)


class Entrance:
    """Asks a gate about the requests of one connection.

    Args:
        gate: Of the server.
        peer: Of the connection.

    Attributes:
        application: What answers the request that was let in last; None before there is one.
    """

    __slots__ = ("_gate", "_is_nameless", "_last", "_last_head", "_peer", "application")

    def __init__(self, gate: Gate, peer: Peer) -> None:
        self._gate = gate
        self._peer = peer
        self._is_nameless = is_nameless(peer)
        self._last_head: HttpHead | None = None
        self._last: object = None
        self.application: HttpApplication | None = None

    def refusal(self, head: HttpHead, tick: int) -> TritonError | PendingError | None:
        """Return why a request may not come in; None when it may, and `application` answers it.

        Or return that its gate is finding that out.

        Args:
            head: Request line and headers.
            tick: Now, in sweeps of the server.
        """
        gate = self._gate
        if self._is_nameless:
            known = head.admission
        else:
            known = self._last if head is self._last_head else None
        if (
            isinstance(known, Admission)
            and known.revision == gate.revision
            and tick < known.until_tick
        ):
            self.application = known.application
            return None
        try:
            admission = gate.admit(head, self._peer, tick)
        except (TritonError, PendingError) as error:
            return error
        except Exception:
            logger.exception("failed to decide about %s %s", head.method, head.url)
            return InternalError("internal error; the server's log says more")
        if self._is_nameless:
            head.admission = admission
        else:
            self._last_head, self._last = head, admission
        self.application = admission.application
        return None
