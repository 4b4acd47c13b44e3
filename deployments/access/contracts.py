# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the ports of an ingress ask about callers; pure data and protocols.

Theory of operation. A transport shows a guard the head of a request and its connection's peer,
before the body, and gets a `Caller` or a refusal. What the caller may do are its `Rights`, of one
revision of the policy. Routes never ask: they are given a view of the data plane that does
(`deployments.data_plane.view`, ADR 17).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from deployments.security.caller import Caller

Headers = Iterable[tuple[bytes, bytes]]


class Role(StrEnum):
    """What a grant allows; the words of the policy file."""

    INFER = "infer"
    METADATA = "metadata"
    CONTROL = "control"
    SETTINGS = "settings"
    STATISTICS = "statistics"
    SHARED_MEMORY = "shared-memory"
    HEALTH = "health"
    METRICS = "metrics"


# The role that a route or RPC needs, by its category among Triton's restricted APIs.
ROLE_OF_CATEGORY: Final[Mapping[str, Role]] = {
    "": Role.HEALTH,
    "health": Role.HEALTH,
    "metadata": Role.METADATA,
    "model-config": Role.METADATA,
    "inference": Role.INFER,
    "model-repository": Role.CONTROL,
    "statistics": Role.STATISTICS,
    "trace": Role.SETTINGS,
    "logging": Role.SETTINGS,
    "shared-memory": Role.SHARED_MEMORY,
}


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of a connection, as far as the connection itself shows it.

    Attributes:
        protocol: The port that was asked: ``http``, ``grpc`` or ``metrics``.
        certificate: The verified client certificate, DER; empty without mutual TLS.
        uid: User of the process at the other end of a Unix socket; -1 on any other connection.
        gid: Its group; -1 likewise.
        is_encrypted: Whether the connection is TLS.
    """

    protocol: str
    certificate: bytes = b""
    uid: int = -1
    gid: int = -1
    is_encrypted: bool = False


class PendingError(Exception):
    """Whether credentials are valid is being found out, which takes a moment.

    Args:
        when_known: Takes what is to be called on the loop once that is known: who asks again in
            that call learns it, unless the policy has changed meanwhile.

    Attributes:
        when_known: The same.
    """

    def __init__(self, when_known: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("the credentials are being checked")
        self.when_known = when_known


class Rights(Protocol):
    """What one caller may do by one revision of the policy; decisions are remembered.

    Attributes:
        caller: Who it is.
        revision: Of the policy; grows with each policy that is taken.
    """

    caller: Caller
    revision: int

    def may(self, role: Role, model: str = "") -> bool:
        """Whether the role is granted for a model; with an empty name, for any model at all."""

    def check(self, role: Role, model: str = "") -> None:
        """Do nothing if `may`.

        Raises:
            PermissionDeniedError: It may not; the text is the same whether there is such a model.
        """


class Guard(Protocol):
    """Makes callers of credentials; one for all ports of an ingress."""

    @property
    def revision(self) -> int:
        """Of the policy; what is kept of an older one is to be asked again."""

    @property
    def credential_headers(self) -> frozenset[bytes]:
        """Names, in lower case, of the headers that carry credentials; no model sees them."""

    def identify(self, headers: Headers, peer: Peer) -> Rights:
        """Return the rights of who sends a request with these headers.

        Cheap for credentials that were seen before.

        Raises:
            UnauthenticatedError: There are no valid credentials; the text tells nothing about
                which part was wrong beyond what the client needs to mend it.
            PendingError: That takes a moment, and says when to ask again.
        """

    def note(self, rights: Rights | None, peer: Peer, what: str, model: str, outcome: str) -> None:
        """Write a line of the audit log, if there is one and it wants such lines.

        Args:
            rights: Of who asked; None when nobody knows.
            peer: Its connection.
            what: Route or RPC, for example ``ModelInfer`` or ``POST infer``.
            model: The model that was asked for; empty for none.
            outcome: ``allowed``, ``denied``, ``unauthenticated``, or a TRITONSERVER code.
        """
