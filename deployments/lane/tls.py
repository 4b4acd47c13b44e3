# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""TLS of the lanes between nodes: none, with the files that Ray uses, or from the lane secret.

Ray reads ``RAY_USE_TLS``, ``RAY_TLS_SERVER_CERT``, ``RAY_TLS_SERVER_KEY`` and ``RAY_TLS_CA_CERT``
in each of its processes, which show each other the same certificate whichever side they are on.
Lanes do likewise: both ends show one, signed by the authority, and the connecting end compares the
address with it, as gRPC does.

Ray: python/ray/_private/grpc_utils.py @b7f4259
"""

import functools
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from backends.api.errors import InvalidArgumentError

_CERTIFICATE: Final = "RAY_TLS_SERVER_CERT"
_KEY: Final = "RAY_TLS_SERVER_KEY"
_AUTHORITY: Final = "RAY_TLS_CA_CERT"


@dataclass(frozen=True, slots=True)
class LaneTls:
    """The contexts of one process; None for clear text.

    Attributes:
        server: Of an instance's listener.
        client: Of a router.
    """

    server: ssl.SSLContext | None
    client: ssl.SSLContext | None


@functools.cache
def lane_tls(mode: str, secret: bytes) -> LaneTls:
    """Return the contexts of this process's lanes to and from other nodes.

    Args:
        mode: One of `deployments.settings.lane_settings.TLS_MODES`.
        secret: The cluster's lane secret.

    Raises:
        InvalidArgumentError: As `read_lane_tls`.
    """
    return _MAKERS[mode](secret) or LaneTls(None, None)


def derive_lane_tls(secret: bytes) -> LaneTls:
    """Make the contexts of a cluster whose processes know a secret."""
    # Few clusters need it, and it takes longer to import than all else here.
    from deployments.lane.derived_tls import derived_context  # noqa: PLC0415

    return LaneTls(
        derived_context(ssl.PROTOCOL_TLS_SERVER, secret),
        derived_context(ssl.PROTOCOL_TLS_CLIENT, secret),
    )


def read_lane_tls(environment: Mapping[str, str]) -> LaneTls | None:
    """Make the contexts that Ray's variables ask for; None when Ray does without TLS.

    Raises:
        InvalidArgumentError: A variable is missing, or a file cannot be used.
    """
    if environment.get("RAY_USE_TLS", "0").lower() not in {"1", "true"}:
        return None
    missing = [name for name in (_CERTIFICATE, _KEY, _AUTHORITY) if not environment.get(name)]
    if missing:
        raise InvalidArgumentError(f"RAY_USE_TLS is set and {missing[0]} is missing")
    return LaneTls(
        _context(ssl.PROTOCOL_TLS_SERVER, environment),
        _context(ssl.PROTOCOL_TLS_CLIENT, environment),
    )


def _context(protocol: int, environment: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    certificate, key, authority = (environment[n] for n in (_CERTIFICATE, _KEY, _AUTHORITY))
    try:
        # The pass phrase: a key that needs one must not stop the process at a prompt.
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:
        raise InvalidArgumentError(
            f"lanes cannot use {_CERTIFICATE} '{certificate}' with {_KEY} '{key}': {error}"
        ) from error
    try:
        context.load_verify_locations(authority)
    except OSError as error:
        raise InvalidArgumentError(
            f"lanes cannot use {_AUTHORITY} '{authority}': {error}"
        ) from error
    return context


_MAKERS: Final[Mapping[str, Callable[[bytes], LaneTls | None]]] = {
    "off": lambda _: None,
    # What the process was started with: Ray has read the same variables and files by now.
    "ray": lambda _: read_lane_tls(os.environ),
    "derived": derive_lane_tls,
}
