# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The guard of an ingress: makes rights of credentials, and remembers both.

Theory of operation. Credentials that were seen before cost a look through the headers, a SHA-256
and a look-up. What is remembered is bounded, never outlives its credential's expiry, and is dropped
as a whole when the policy, a file of keys or an issuer's keys change: that is a new revision. Bad
credentials are remembered for seconds only, apart from good ones, so that nobody's guesses push
good ones out.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final

from backends.api.errors import ResourceExhaustedError, UnauthenticatedError, UnavailableError
from deployments.access.audit import AuditLog
from deployments.access.contracts import Headers, Peer, Rights
from deployments.access.counters import AccessCounters
from deployments.access.key_checks import KeyChecks, at_once
from deployments.access.key_thread import KeyThread
from deployments.access.policy import AccessPolicy, Issuer
from deployments.access.policy_files import LoadedPolicy, load_policy
from deployments.access.refusals import Method, Reason, RefusedError, text_of
from deployments.access.rights import PolicyRights
from deployments.access.signing_keys import SigningKeys
from deployments.access.state import LookLimit, PolicyState
from deployments.security.caller import Caller

_MOST_KNOWN: Final = 4096
_MOST_BAD: Final = 1024
_BAD_FOR_S: Final = 5.0
_RETRY_AFTER_S: Final = 1.0
# What may be otherwise at once.
_PASSING: Final = frozenset((Reason.NO_SIGNING_KEYS, Reason.LIMITED))
# What may be otherwise soon, for reasons of which no new revision tells.
_BRIEF: Final = frozenset((Reason.NOT_YET_VALID, Reason.UNKNOWN_SIGNING_KEY))
_BRIEF_FOR_S: Final = 1.0


def make_guard(
    path: str,
    clock: Callable[[], float] = time.time,
    *,
    has_audit: bool = True,
    thread: KeyThread | None = None,
) -> "PolicyGuard":
    """Return the guard of a policy; `deployments.access.watch.PolicyWatch` keeps it up to date.

    Args:
        path: The policy file.
        clock: Wall clock, in seconds.
        has_audit: Whether to write the audit log that the policy asks for.
        thread: Where credentials are checked; `identify` may tell to wait then.

    Raises:
        InvalidArgumentError: One of its files cannot be read or is wrong; the message names it.
    """
    counters = AccessCounters()
    audit = AuditLog(clock, counters) if has_audit else None
    return PolicyGuard(load_policy(path), clock, counters, audit, thread)


def serving_guard(path: str) -> "PolicyGuard | None":
    """Return the guard of a process that serves: its loop waits for no check. None without a path.

    Raises:
        InvalidArgumentError: A file of the policy cannot be read or is wrong; the message names it.
    """
    if not path:
        return None
    return make_guard(path, thread=KeyThread())


class PolicyGuard:
    """Implements `Guard`.

    Args:
        loaded: The policy.
        clock: Wall clock, in seconds.
        counters: What is counted.
        audit: The audit log; None if there never is one.
        thread: Where credentials are checked; None for where they are shown.

    Attributes:
        counters: The same.
        on_unknown_key: Called with an issuer when a token is signed with a key that is not among
            its keys; they may have changed.
    """

    def __init__(
        self,
        loaded: LoadedPolicy,
        clock: Callable[[], float],
        counters: AccessCounters | None = None,
        audit: AuditLog | None = None,
        thread: KeyThread | None = None,
    ) -> None:
        self.counters = counters or AccessCounters()
        self.on_unknown_key: Callable[[str], None] = _ignore
        self._clock = clock
        self._audit = audit
        self._limit = LookLimit()
        self._thread = thread
        self._checks = KeyChecks(at_once if thread is None else thread.run)
        # Those that do not come from files, by their source.
        self._fetched: dict[tuple[str, str], SigningKeys] = {}
        self._known: OrderedDict[tuple[str, Method, bytes], PolicyRights] = OrderedDict()
        self._bad: OrderedDict[tuple[Method, bytes], tuple[Reason, float]] = OrderedDict()
        # By protocol, and by caller and protocol.
        self._anonymous: dict[str, PolicyRights] = {}
        self._rights: dict[tuple[Caller, str], PolicyRights] = {}
        self._loaded = loaded
        self._state = self._make_state()

    @property
    def revision(self) -> int:
        """As `Guard.revision`."""
        return self._state.revision

    @property
    def credential_headers(self) -> frozenset[bytes]:
        """As `Guard.credential_headers`."""
        keys = self.policy.api_keys
        return frozenset(() if keys is None else (name.lower().encode() for name in keys.headers))

    @property
    def policy(self) -> AccessPolicy:
        """The policy that holds."""
        return self._loaded.policy

    @property
    def loaded(self) -> LoadedPolicy:
        """The policy that holds, with what it names."""
        return self._loaded

    @property
    def fetched_issuers(self) -> tuple[Issuer, ...]:
        """The issuers whose keys come from the network."""
        return tuple(each for each in self.policy.issuers if each.is_fetched)

    def take(self, loaded: LoadedPolicy) -> None:
        """Take another policy in place of the one that holds."""
        self._loaded = loaded
        self._state = self._make_state()

    def take_signing_keys(self, issuer: Issuer, keys: SigningKeys) -> None:
        """Take the keys of an issuer that were fetched."""
        known = self._fetched.get(issuer.source)
        if known is not None and known.digest == keys.digest:
            return
        self._fetched[issuer.source] = keys
        self._state = self._make_state()

    def _make_state(self) -> PolicyState:
        policy = self._loaded.policy
        wanted = {issuer.source for issuer in self.fetched_issuers}
        self._fetched = {source: keys for source, keys in self._fetched.items() if source in wanted}
        signing_keys: Mapping[str, SigningKeys] = {
            **self._loaded.signing_keys,
            **{issuer: keys for (issuer, _), keys in self._fetched.items()},
        }
        self.counters.revision += 1
        self._known.clear()
        self._bad.clear()
        self._rights.clear()
        self._anonymous.clear()
        if self._audit is not None:
            self._audit.apply(policy.audit)
        return PolicyState(
            self.counters.revision,
            policy,
            self._loaded.keys,
            signing_keys,
            self._limit,
            self._checks,
        )

    def identify(self, headers: Headers, peer: Peer) -> Rights:
        """As `Guard.identify`.

        Raises:
            UnauthenticatedError: The credentials are not valid; or there are none, and nobody
                without may do anything.
            UnavailableError: The keys of a token's issuer are not there yet.
            ResourceExhaustedError: Too many unknown keys were sent lately.
            PendingError: The credentials are being checked.
        """
        try:
            method, value = self._state.finder.find(headers, peer)
        except RefusedError as refused:
            raise self._refusal(refused.reason, refused.method) from None
        if method is Method.ANONYMOUS:
            return self._without(peer.protocol)
        digest = sha256(value).digest()
        found = self._known.get((peer.protocol, method, digest))
        if found is not None and self._clock() < found.expires_s:
            return found
        return self._look(method, value, digest, peer.protocol)

    def _without(self, protocol: str) -> PolicyRights:
        """Return the rights of who shows nothing."""
        found = self._anonymous.get(protocol)
        if found is None:
            caller = self._state.caller_of(Method.ANONYMOUS, b"", 0.0)
            found = self._anonymous[protocol] = self._rights_of(caller, protocol)
        if not found.has_any:
            raise self._refusal(Reason.MISSING, Method.ANONYMOUS)
        return found

    def _look(self, method: Method, value: bytes, digest: bytes, protocol: str) -> PolicyRights:
        """Find out about a credential that is not known, or no more."""
        now_s = self._clock()
        self._known.pop((protocol, method, digest), None)
        bad = self._bad.get((method, digest))
        if bad is not None:
            # The second bound is for a clock that was set back.
            if now_s < bad[1] <= now_s + _BAD_FOR_S:
                raise self._refusal(bad[0], method)
            del self._bad[method, digest]
        try:
            caller = self._state.caller_of(method, value, now_s)
        except RefusedError as refused:
            self._remember_bad(method, digest, refused.reason, now_s)
            if self._state.tokens.unknown_of and method is Method.JWT:
                self.on_unknown_key(self._state.tokens.unknown_of)
            raise self._refusal(refused.reason, method) from None
        rights = self._rights_of(caller, protocol)
        while len(self._known) >= _MOST_KNOWN:
            self._known.popitem(last=False)
        self._known[protocol, method, digest] = rights
        return rights

    def _rights_of(self, caller: Caller, protocol: str) -> PolicyRights:
        """Return the one object of a caller at a port: what ports keep is kept by it."""
        found = self._rights.get((caller, protocol))
        if found is None:
            if len(self._rights) >= _MOST_KNOWN:
                self._rights.clear()
            state = self._state
            found = PolicyRights(caller, state.revision, state.policy, protocol)
            self._rights[caller, protocol] = found
        return found

    def _remember_bad(self, method: Method, digest: bytes, reason: Reason, now_s: float) -> None:
        if reason in _PASSING:
            return
        while len(self._bad) >= _MOST_BAD:
            self._bad.popitem(last=False)
        for_s = _BRIEF_FOR_S if reason in _BRIEF else _BAD_FOR_S
        self._bad[method, digest] = (reason, now_s + for_s)

    def _refusal(
        self, reason: Reason, method: Method
    ) -> UnauthenticatedError | UnavailableError | ResourceExhaustedError:
        self.counters.refusals[method, reason] += 1
        text = text_of(reason)
        if reason is Reason.NO_SIGNING_KEYS:
            return UnavailableError(text, retry_after_s=_RETRY_AFTER_S)
        if reason is Reason.LIMITED:
            return ResourceExhaustedError(text, retry_after_s=_RETRY_AFTER_S)
        return UnauthenticatedError(text)

    def note(self, rights: Rights | None, peer: Peer, what: str, model: str, outcome: str) -> None:
        """As `Guard.note`."""
        if outcome == "denied":
            self.counters.denials[peer.protocol] += 1
        if self._audit is not None:
            caller = None if rights is None else rights.caller
            self._audit.note(caller, peer.protocol, what, model, outcome, self.revision)

    def close(self) -> None:
        """Check no further key and write what the audit log still has; waits for the disk."""
        if self._thread is not None:
            self._thread.close()
        if self._audit is not None:
            self._audit.close()


def _ignore(issuer: str) -> None:
    del issuer
