# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Methods of an actor that parts of it answer: Ray finds an actor's methods in its class."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def passed_to(
    part: str, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method of an actor that calls one of a part."""

    @wraps(method)
    async def pass_on(actor: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await method(getattr(actor, part), *args, **kwargs)

    return pass_on
