# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of Ray actors whose errors are ours rather than Ray's."""

from collections.abc import Awaitable
from typing import TypeVar

from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError

from backends.api.errors import InternalError, TritonError

T = TypeVar("T")


async def call(reference: Awaitable[T]) -> T:
    """Await an actor call, with the actor's own error in place of Ray's wrapper.

    Raises:
        TritonError: As raised in the actor; any other exception of it is an `InternalError`.
        RayError: The actor is gone or cannot be reached.
    """
    try:
        return await reference
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, TritonError):
            raise cause from None
        raise InternalError(f"{type(cause).__name__}: {cause}") from error


def cause_of(error: BaseException) -> str:
    """Say on one line why a call failed."""
    if isinstance(error, TritonError):
        return error.as_string()
    if isinstance(error, ActorUnavailableError):
        return "its process ended or cannot be reached"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    # Ray reports a death in a dozen lines of identifiers; the cause comes last.
    return lines[-1] if isinstance(error, ActorDiedError) else lines[0]
