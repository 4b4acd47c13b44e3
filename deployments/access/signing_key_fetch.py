# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Fetches the public keys of an issuer over HTTP; on a thread, bounded in time and bytes.

Addresses come from the policy file or from the issuer's OpenID configuration, never from a token.
Redirections are not followed.
"""

import json
import time
import urllib.error
import urllib.request
from email.message import Message
from http.client import HTTPException
from typing import IO, Final
from urllib.parse import urlsplit

from backends.api.errors import InvalidArgumentError, UnavailableError
from deployments.access.policy import Issuer
from deployments.access.signing_keys import SET_LIMIT_BYTES, SigningKeys, read_signing_keys

_TIMEOUT_S: Final = 5.0
_WHOLE_TIMEOUT_S: Final = 10.0
_CHUNK_BYTES: Final = 65_536
_DISCOVERY: Final = "/.well-known/openid-configuration"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> None:
        del req, fp, code, msg, headers, newurl


def fetch_signing_keys(issuer: Issuer) -> SigningKeys:
    """Fetch an issuer's keys; blocks for at most some 10 s, or twice that with discovery.

    Raises:
        UnavailableError: They cannot be had.
        InvalidArgumentError: What comes is no JWK set.
    """
    url = issuer.jwks_url or _discovered_url(issuer.issuer)
    return read_signing_keys(_get(url), f"issuer '{issuer.issuer}'")


def _discovered_url(issuer: str) -> str:
    content = _get(issuer.rstrip("/") + _DISCOVERY)
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict) or read.get("issuer") != issuer:
        raise InvalidArgumentError(
            f"the OpenID configuration of issuer '{issuer}' is wrong: expected an object whose "
            "'issuer' is that"
        )
    url = read.get("jwks_uri")
    schemes = ("https",) if urlsplit(issuer).scheme == "https" else ("https", "http")
    if not isinstance(url, str) or not url.startswith(tuple(f"{each}://" for each in schemes)):
        raise InvalidArgumentError(
            f"the OpenID configuration of issuer '{issuer}' is wrong: expected an address "
            f"{' or '.join(schemes)} as 'jwks_uri'"
        )
    return url


def _get(url: str) -> bytes:
    opener = urllib.request.build_opener(_NoRedirects)
    ends_s = time.monotonic() + _WHOLE_TIMEOUT_S
    content = b""
    try:
        with opener.open(url, timeout=_TIMEOUT_S) as response:
            while chunk := response.read1(_CHUNK_BYTES):
                content += chunk
                if len(content) > SET_LIMIT_BYTES or time.monotonic() > ends_s:
                    raise UnavailableError(
                        f"'{_shown(url)}' sends more than {SET_LIMIT_BYTES} bytes, or for more than"
                        f" {_WHOLE_TIMEOUT_S:g} s"
                    )
    except urllib.error.HTTPError as error:
        error.close()
        raise UnavailableError(f"'{_shown(url)}' answers {error.code}") from None
    except (OSError, ValueError, HTTPException) as error:
        raise UnavailableError(f"'{_shown(url)}' cannot be had: {error}") from None
    return content


def _shown(url: str) -> str:
    """Return a URL without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{parts.path}"
