# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Requests for a model that is loaded by its first use: they wait, then their route begins anew."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from urllib.parse import quote, unquote

from backends.api.errors import NotFoundError, TritonError, UnavailableError
from deployments.data_plane.face import Plane
from deployments.http.server.exchange import HttpExchange
from deployments.http.server.routes import Match


def first_use_of(plane: Plane, match: Match, error: TritonError) -> Awaitable[None] | None:
    """Return what loads the model of a request that met an error; None where that is no remedy.

    Args:
        plane: The data plane.
        match: What the request's path names.
        error: What its route raised.
    """
    if not match.name or not isinstance(error, NotFoundError | UnavailableError):
        return None
    return plane.first_use(match.name) or plane.first_use(unquoted(match.name))


async def after_first_use(
    first_use: Awaitable[None],
    exchange: HttpExchange,
    handle: Callable[[], Coroutine[Any, Any, None] | None],
) -> None:
    """Answer a request once its model is loaded, unless its peer has gone.

    Raises:
        TritonError: The load failed, or the request itself.
    """
    await first_use
    if not exchange.is_answered:
        later = handle()
        if later is not None:
            await later


def unquoted(name: str) -> str:
    """Return the model name a client has quoted, or nothing if the name is not quoted.

    Triton takes names as they are in the path, which its own Python client quotes. Only a name that
    is exactly what quoting makes is taken for one.
    """
    if "%" not in name:
        return ""
    plain = unquote(name)
    return plain if quote(plain, safe="") == name or quote(plain) == name else ""
