# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a route of the HTTP port is."""

import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from deployments.http.server.exchange import JSON, HttpExchange


@dataclass(frozen=True, slots=True)
class RoutedPath:
    """What the OpenAPI document has to know of a route.

    Attributes:
        pattern: Regular expression of the whole path.
        methods: Methods it answers.
        category: The API it belongs to, for restrictions.
    """

    pattern: str
    methods: tuple[str, ...]
    category: str


@dataclass(frozen=True, slots=True)
class Match:
    """What a path names.

    Attributes:
        name: Model name or shared-memory region, as in the path.
        version: Version number, as in the path.
        repository: Repository named in a repository path.
    """

    name: str = ""
    version: str = ""
    repository: str = ""


Handler = Callable[[HttpExchange, Match], Coroutine[Any, Any, None] | None]
# Pattern, handlers by method, restricted category.
Row = tuple[str, Mapping[bytes, Handler], str]


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the route table.

    Attributes:
        pattern: Matches the whole raw path; groups ``name``, ``version`` and ``repository``.
        method: The one allowed, or the first of several.
        handler: Answers it, at once or as a coroutine.
        error_type: Content type of errors raised and of 405.
        others: Handlers of further methods.
        category: The API it belongs to, for restrictions.
    """

    pattern: re.Pattern[str]
    method: bytes
    handler: Handler
    error_type: bytes = JSON
    others: Mapping[bytes, Handler] = field(default_factory=dict)
    category: str = ""

    def described(self) -> RoutedPath:
        """Return what the OpenAPI document has to know."""
        methods = tuple(method.decode() for method in (self.method, *self.others))
        return RoutedPath(self.pattern.pattern, methods, self.category)


def route_of(row: Row) -> Route:
    """Return the route of a row; its errors are JSON."""
    pattern, handlers, category = row
    (method, handler), *others = handlers.items()
    return Route(re.compile(pattern), method, handler, JSON, dict(others), category)
