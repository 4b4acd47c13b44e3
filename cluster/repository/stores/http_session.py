# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests to services that have no client of fsspec's; they run on fsspec's event loop."""

import asyncio
import base64
import contextlib
import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import finalize

import aiohttp
from fsspec.asyn import get_loop, sync
from yarl import URL

from cluster.repository.stores.errors import StatusError, require_length

PARTIAL: Final = 206
_SUCCESS: Final = range(200, 300)
_CHUNK_BYTES: Final = 1 << 20
_MAX_DETAIL_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service has answered.

    Attributes:
        status: Of HTTP, a success.
        headers: Of the last answer, after redirects.
        body: Empty where it was written elsewhere.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    def json(self) -> Any:
        """Read the body.

        Raises:
            StatusError: It is no JSON.
        """
        try:
            return json.loads(self.body)
        except ValueError:
            raise StatusError(502, "the answer is no JSON") from None


class HttpSession:
    """Connections to one service; credentials go to its own host only. Used from several threads.

    Args:
        headers: Of each request, with credentials.
        ca_bundle: File of the CAs to trust; empty for the system's.
    """

    def __init__(self, headers: Mapping[str, str], ca_bundle: str) -> None:
        # What is packed for the way has another length, and other ranges, than the file.
        self._headers = {"Accept-Encoding": "identity", **headers}
        # Services repeat in refusals what they have been shown.
        self._hidden = tuple(_secrets_of(headers.get("Authorization", "")))
        self._ssl: ssl.SSLContext | bool = (
            ssl.create_default_context(cafile=ca_bundle) if ca_bundle else True
        )
        self._session: aiohttp.ClientSession | None = None

    def get(self, url: str, *, part: tuple[int, int] | None = None) -> Answer:
        """Ask.

        Args:
            url: Quoted already.
            part: First byte and the one after the last, of a file.

        Raises:
            StatusError: The answer is no success.
            OSError: There is none, or it was cut; as other errors of aiohttp.
        """
        answer: Answer = sync(get_loop(), self._get, url, part, None)
        return answer

    def save(self, url: str, target: BinaryIO, *, part: tuple[int, int]) -> Answer:
        """Ask for a part of a file, and write the answer to a local file if it is all of it.

        Args:
            url: Quoted already.
            target: Where to.
            part: As in `get`.

        Returns:
            With a body, if the service has sent the part only.

        Raises:
            StatusError: As `get`.
            OSError: As `get`, or ``target`` cannot be written.
        """
        answer: Answer = sync(get_loop(), self._get, url, part, target)
        return answer

    def close(self) -> None:
        """Close all connections; a later request opens them again."""
        session, self._session = self._session, None
        if session is not None:
            sync(get_loop(), session.close)

    async def _get(self, url: str, part: tuple[int, int] | None, target: BinaryIO | None) -> Answer:
        headers = {} if part is None else {"Range": f"bytes={part[0]}-{part[1] - 1}"}
        async with self._opened().get(
            URL(url, encoded=True), headers=headers, ssl=self._ssl, proxy=_proxy_of(url)
        ) as said:
            if said.status not in _SUCCESS:
                detail = said.headers.get("X-Error-Message") or _message(
                    await said.content.read(_MAX_DETAIL_BYTES)
                )
                for secret in self._hidden:
                    detail = detail.replace(secret, "***")
                raise StatusError(said.status, detail, said.headers.get("Retry-After", ""))
            if target is None or said.status == PARTIAL:
                return Answer(said.status, said.headers, await said.read())
            async for chunk in said.content.iter_chunked(_CHUNK_BYTES):
                target.write(chunk)
            return Answer(said.status, said.headers)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=30)
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                timeout=timeout,
                # Where one is sent may be signed as it is.
                requote_redirect_url=False,
                # That of a host in ~/.netrc would go beside the one that is given.
                trust_env=False,
            )
            # Sources of downloads are let go of without a word.
            finalize(self, _close_later, self._session).atexit = False
        return self._session


def _close_later(session: aiohttp.ClientSession) -> None:
    asyncio.run_coroutine_threadsafe(session.close(), get_loop())


def part_of(answer: Answer, begin: int, end: int) -> bytes:
    """Return a part of a file from the answer to a request for it.

    Raises:
        TruncatedError: It is shorter or longer.
    """
    body = answer.body if answer.status == PARTIAL else answer.body[begin:end]
    require_length(len(body), end - begin)
    return body


def _secrets_of(authorization: str) -> Iterator[str]:
    """Yield what of a header with credentials must be in no message."""
    scheme, _, shown = authorization.partition(" ")
    if shown:
        yield shown
    if shown and scheme.lower() == "basic":
        with contextlib.suppress(ValueError):
            password = base64.b64decode(shown).decode().partition(":")[2]
            yield from filter(None, (password,))


def _message(body: bytes) -> str:
    """Return what services put into JSON, else the text as it is."""
    try:
        said = json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
    found = said.get("message") or said.get("error") if isinstance(said, dict) else said
    return str(found)


def _proxy_of(url: str) -> str | None:
    at = urlsplit(url)
    return None if proxy_bypass(at.hostname or "") else getproxies().get(at.scheme)
