# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which of a request's credentials counts. Pure.

The first that is there of: a header with an API key, ``Authorization: Bearer`` with a key or a
token, the client certificate, the user of the Unix socket. It decides alone: a bad one is refused
and not made up for by a good one of a later kind. Kinds that the policy does not take are as if
they were not there.
"""

from typing import Final

from deployments.access.contracts import Headers, Peer
from deployments.access.keys import KEY_LIMIT
from deployments.access.policy import AccessPolicy
from deployments.access.refusals import Method, Reason, RefusedError
from deployments.access.tokens import TOKEN_LIMIT_BYTES

_AUTHORIZATION: Final = b"authorization"
_BEARER: Final = b"bearer"
NOTHING: Final = (Method.ANONYMOUS, b"")


class CredentialFinder:
    """Finds the credential of a request.

    Args:
        policy: Says which kinds are taken.
    """

    __slots__ = ("_headers", "_prefix", "_takes_certificates", "_takes_tokens", "_takes_unix")

    def __init__(self, policy: AccessPolicy) -> None:
        keys = policy.api_keys
        self._prefix = b"" if keys is None else keys.bearer_prefix.encode()
        self._takes_tokens = bool(policy.issuers)
        self._takes_certificates = bool(policy.certificates)
        self._takes_unix = bool(policy.unix_peers)
        names = () if keys is None else tuple(name.encode() for name in keys.headers)
        # Of each header that counts: its order.
        self._headers: dict[bytes, int] = dict.fromkeys(names, 0)
        if self._prefix or self._takes_tokens:
            self._headers[_AUTHORIZATION] = 1

    def find(self, headers: Headers, peer: Peer) -> tuple[Method, bytes]:
        """Return the kind and the bytes of the credential that counts.

        Raises:
            RefusedError: There are several of the kind, or it is no credential.
        """
        key: bytes | None = None
        authorization: bytes | None = None
        known = self._headers
        for name, value in headers:
            order = known.get(name.lower())
            if order is None:
                continue
            if order:
                if authorization is not None and authorization != value:
                    raise RefusedError(Reason.AMBIGUOUS, Method.JWT)
                authorization = value
            else:
                if key is not None and key != value:
                    raise RefusedError(Reason.AMBIGUOUS, Method.API_KEY)
                key = value
        if key is not None:
            return Method.API_KEY, _bounded(key.strip(), KEY_LIMIT, Method.API_KEY)
        if authorization is not None:
            return self._bearer(authorization)
        return self._of_peer(peer)

    def _bearer(self, value: bytes) -> tuple[Method, bytes]:
        scheme, _, rest = value.strip().partition(b" ")
        text = rest.strip()
        is_key = bool(self._prefix) and (text.startswith(self._prefix) or not self._takes_tokens)
        method = Method.API_KEY if is_key else Method.JWT
        if scheme.lower() != _BEARER:
            raise RefusedError(Reason.MALFORMED, method)
        return method, _bounded(text, KEY_LIMIT if is_key else TOKEN_LIMIT_BYTES, method)

    def _of_peer(self, peer: Peer) -> tuple[Method, bytes]:
        if self._takes_certificates and peer.certificate:
            return Method.CERTIFICATE, peer.certificate
        if self._takes_unix and peer.uid >= 0:
            return Method.UNIX_SOCKET, b"%d:%d" % (peer.uid, peer.gid)
        return NOTHING


def _bounded(value: bytes, limit: int, method: Method) -> bytes:
    if not value:
        raise RefusedError(Reason.MALFORMED, method)
    if len(value) > limit:
        raise RefusedError(Reason.TOO_LARGE, method)
    return value
