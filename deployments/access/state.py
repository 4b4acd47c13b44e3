# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One revision of the policy, and who credentials stand for by it. Pure."""

from collections.abc import Mapping
from typing import Final

from deployments.access.certificates import caller_of_certificate
from deployments.access.credentials import CredentialFinder
from deployments.access.key_checks import KeyChecks
from deployments.access.keys import KeyRing
from deployments.access.policy import AccessPolicy, Identity, StoredKey
from deployments.access.refusals import Method, Reason, RefusedError
from deployments.access.signing_keys import SigningKeys
from deployments.access.tokens import TokenChecker
from deployments.security.caller import Caller

# Longest key that somebody has chosen.
_CHOSEN_LIMIT: Final = 256


class LookLimit:
    """A token bucket of looks at unknown credentials that cost tens of milliseconds each.

    Args:
        per_s: How many a second.
        burst: How many at once.
    """

    __slots__ = ("_at_s", "_burst", "_left", "_per_s")

    def __init__(self, per_s: float = 4.0, burst: float = 16.0) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = burst
        self._at_s = 0.0

    def take(self, count: int, now_s: float) -> bool:
        """Whether so many looks may be had now; takes them if so."""
        # A clock that was set back fills nothing.
        gained = max(0.0, now_s - self._at_s) * self._per_s
        self._left = min(self._burst, self._left + gained)
        self._at_s = now_s
        if self._left < min(count, self._burst):
            return False
        self._left -= count
        return True


class PolicyState:
    """Makes callers of credentials by one revision of the policy.

    Args:
        revision: Its number.
        policy: The policy.
        keys: All API keys.
        signing_keys: Of issuers whose keys are there.
        limit: Bounds what unknown credentials cost.
        checks: Checks them against chosen keys.
    """

    def __init__(
        self,
        revision: int,
        policy: AccessPolicy,
        keys: KeyRing,
        signing_keys: Mapping[str, SigningKeys],
        limit: LookLimit,
        checks: KeyChecks,
    ) -> None:
        self.revision = revision
        self.policy = policy
        self.keys = keys
        self.signing_keys = signing_keys
        self.finder = CredentialFinder(policy)
        self.tokens = TokenChecker(policy.issuers, signing_keys)
        self._limit = limit
        self._checks = checks

    def caller_of(self, method: Method, value: bytes, now_s: float) -> Caller:
        """Return whom a credential stands for.

        Args:
            method: Of which kind it is.
            value: The credential.
            now_s: Wall clock.

        Raises:
            RefusedError: It is not valid.
            PendingError: That is being found out.
        """
        if method is Method.API_KEY:
            return self._of_key(value, now_s)
        if method is Method.JWT:
            return self.tokens.check(value, now_s)
        if method is Method.CERTIFICATE:
            return caller_of_certificate(value, self.policy.certificates, now_s)
        if method is Method.UNIX_SOCKET:
            return self._of_user(value)
        return _caller(self.policy.anonymous, Method.ANONYMOUS)

    def _of_key(self, value: bytes, now_s: float) -> Caller:
        key = self.keys.find_made(value) or self._chosen(value, now_s)
        if key is None:
            raise RefusedError(Reason.UNKNOWN, Method.API_KEY)
        if key.is_revoked:
            raise RefusedError(Reason.REVOKED, Method.API_KEY)
        if now_s >= key.expires_s:
            raise RefusedError(Reason.EXPIRED, Method.API_KEY)
        identity = key.identity
        return Caller(
            identity.subject, identity.tenant, Method.API_KEY, identity.groups, key.expires_s
        )

    def _chosen(self, value: bytes, now_s: float) -> StoredKey | None:
        count = len(self.keys.chosen)
        if not count or len(value) > _CHOSEN_LIMIT:
            return None
        return self._checks.find(self.keys, value, lambda: self._limit.take(count, now_s))

    def _of_user(self, value: bytes) -> Caller:
        uid, gid = map(int, value.split(b":"))
        for rule in self.policy.unix_peers:
            if rule.uid in (-1, uid) and rule.gid in (-1, gid):
                return _caller(rule.identity, Method.UNIX_SOCKET, f"uid:{uid}")
        raise RefusedError(Reason.UNKNOWN, Method.UNIX_SOCKET)


def _caller(identity: Identity, method: Method, subject: str = "") -> Caller:
    return Caller(identity.subject or subject, identity.tenant, method, identity.groups)
