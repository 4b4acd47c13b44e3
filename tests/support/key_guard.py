# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A guard of a few keys that live in the test."""

from collections.abc import Callable

from backends.api.errors import UnauthenticatedError
from deployments.access.contracts import Headers, Peer, PendingError, Rights, Role
from deployments.access.patterns import Patterns
from deployments.access.policy import AccessPolicy, Grant
from deployments.access.refusals import Method
from deployments.access.rights import PolicyRights
from deployments.security.caller import ANONYMOUS, Caller

EVERYTHING = tuple((role, "*") for role in Role)
UNKNOWN_CREDENTIALS = "the credentials are not valid"

Grants = tuple[tuple[Role, str], ...]


def _rights(caller: Caller, revision: int, grants: Grants) -> PolicyRights:
    """Return rights by grants of roles and patterns of models; nobody's by roles alone."""
    public = {role for role, _ in grants} if caller.method == Method.ANONYMOUS else ()
    nobody: frozenset[str] = frozenset()
    rules = tuple(
        Grant(Patterns(("*",)), nobody, nobody, frozenset((role,)), models=Patterns((pattern,)))
        for role, pattern in grants
    )
    policy = AccessPolicy(grants=rules, public=frozenset(public))
    return PolicyRights(caller, revision, policy, "http")


class KeyGuard:
    """Knows callers by ``Authorization: Bearer <key>``, by certificate or by user.

    Attributes:
        noted: Lines of the audit log: subject, what, model, outcome.
        asked: How often somebody was to be identified.
        is_broken: Whether that fails as it should not.
        checking: Who waits for credentials to be checked; None while they are known at once.
    """

    def __init__(self, public: Grants = ()) -> None:
        self.revision = 1
        self.credential_headers = frozenset((b"x-mine-too",))
        self.noted: list[tuple[str, str, str, str]] = []
        self.asked = 0
        self.is_broken = False
        self.checking: list[Callable[[], None]] | None = None
        self._public = public
        self._keys: dict[bytes, tuple[Caller, Grants]] = {}
        self._peers: dict[bytes | int, tuple[Caller, Grants]] = {}
        self._rights: dict[str, PolicyRights] = {}

    def grant(self, key: str, *grants: tuple[Role, str], **fields: object) -> None:
        caller = Caller(f"key of {key}", method="api-key", **fields)  # type: ignore[arg-type]
        self._keys[b"Bearer " + key.encode()] = (caller, grants)
        self._change()

    def grant_peer(self, shown: bytes | int, *grants: tuple[Role, str]) -> None:
        self._peers[shown] = (Caller("a peer", method="certificate"), grants)
        self._change()

    def forget_peers(self) -> None:
        self._peers.clear()
        self._change()

    def revoke(self, key: str) -> None:
        del self._keys[b"Bearer " + key.encode()]
        self._change()

    def _change(self) -> None:
        self.revision += 1
        self._rights.clear()

    def know(self) -> None:
        """Have all who wait ask again."""
        waiting, self.checking = self.checking or [], None
        for ask_again in waiting:
            ask_again()

    def identify(self, headers: Headers, peer: Peer) -> Rights:
        self.asked += 1
        if self.is_broken:
            raise RuntimeError("broken")
        if self.checking is not None:
            raise PendingError(self.checking.append)
        shown = next((value for name, value in headers if name.lower() == b"authorization"), None)
        for by_peer in (peer.certificate, peer.uid):
            if shown is None and by_peer in self._peers:
                return self._of(*self._peers[by_peer])
        if shown is None and self._public:
            return self._of(ANONYMOUS, self._public)
        if shown is None or shown not in self._keys:
            raise UnauthenticatedError(UNKNOWN_CREDENTIALS)
        caller, grants = self._keys[shown]
        if caller.expires_s <= 0:
            raise UnauthenticatedError(UNKNOWN_CREDENTIALS)
        return self._of(caller, grants)

    def _of(self, caller: Caller, grants: Grants) -> Rights:
        if caller.subject not in self._rights:
            self._rights[caller.subject] = _rights(caller, self.revision, grants)
        return self._rights[caller.subject]

    def note(self, rights: Rights | None, peer: Peer, what: str, model: str, outcome: str) -> None:
        subject = "nobody" if rights is None else rights.caller.subject
        self.noted.append((subject, what, model, outcome))


def rights_of(
    *grants: tuple[Role, str], tenant: str = "", method: str = Method.API_KEY
) -> PolicyRights:
    return _rights(Caller("somebody", tenant, method), 1, grants)
