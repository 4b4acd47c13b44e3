# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI 3.1 document of the HTTP port, made of its routes.

Paths, methods and categories come from the route table; what a route takes and gives is looked up
in `openapi_operations` by its shortest path.
"""

import re
from collections.abc import Iterable
from itertools import product
from typing import Any, Final

from deployments.http.openapi.operations import OPERATIONS, Operation
from deployments.http.openapi.schemas import PARAMETERS, SCHEMAS
from deployments.http.server.routes import RoutedPath

_OPTIONAL: Final = re.compile(r"\(\?:((?:[^()]|\([^()]*\))*)\)\?")
_NAMED: Final = re.compile(r"\(\?P<([a-z]+)>[^()]*\)")


def templates(pattern: str) -> list[str]:
    """Return the path templates a route's pattern stands for, the shortest first.

    ``/a(?:/b/(?P<name>[^/]+))?`` is ``/a`` and ``/a/b/{name}``.
    """
    pieces = _OPTIONAL.split(pattern)
    # Every second piece is optional.
    choices = [(piece,) if index % 2 == 0 else ("", piece) for index, piece in enumerate(pieces)]
    found = {
        _NAMED.sub(r"{\1}", "".join(chosen)).replace("\\.", ".") for chosen in product(*choices)
    }
    return sorted(found, key=len)


def make_document(routes: Iterable[RoutedPath], version: str) -> dict[str, Any]:
    """Return the document.

    Args:
        routes: Every route of the port.
        version: The release whose protocol is served.

    Raises:
        KeyError: A route has no description in `openapi_operations`.
    """
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        shortest, *longer = templates(route.pattern)
        for method in route.methods:
            operation = OPERATIONS[shortest, method]
            for template in (shortest, *longer):
                # The first route that matches a path answers it.
                item = paths.setdefault(template, {})
                item.setdefault(
                    method.lower(), _operation(operation, template, method, route.category)
                )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Manta",
            "summary": "KServe v2 inference protocol with Triton's extensions",
            "version": version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "parameters": PARAMETERS,
            "responses": {"Error": _error_response(), "OpenAIError": _openai_error_response()},
        },
    }


def _operation(operation: Operation, template: str, method: str, category: str) -> dict[str, Any]:
    names = re.findall(r"\{([a-z]+)\}", template)
    words = re.findall(r"[A-Za-z0-9]+", template)
    error = {"$ref": f"#/components/responses/{operation.error}"}
    described: dict[str, Any] = {
        "operationId": "_".join((method.lower(), *words)),
        "summary": operation.summary,
        "tags": [category or "server"],
        "responses": {
            "200": {"description": "Done", "content": _contents(operation.answers)},
            **{str(status): error for status in (*operation.errors, 403)},
        },
    }
    if names or operation.headers:
        described["parameters"] = [
            {"$ref": f"#/components/parameters/{name}"} for name in (*names, *operation.headers)
        ]
    if operation.takes:
        described["requestBody"] = {
            "required": operation.needs_body,
            "content": _contents(operation.takes),
        }
    return described


def _contents(types: dict[str, str]) -> dict[str, Any]:
    return {
        content: {"schema": {"$ref": f"#/components/schemas/{schema}"}} if schema else {}
        for content, schema in types.items()
    }


def _error_response() -> dict[str, Any]:
    # The text is JSON either way; Triton's content type tells how far a request got.
    return {
        "description": "What is wrong, in 'error'; health checks may answer without a body",
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Error"}},
            "text/plain": {"schema": {"type": "string"}},
        },
    }


def _openai_error_response() -> dict[str, Any]:
    return {
        "description": "What is wrong, as OpenAI's clients read it",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/OpenAIError"}}},
    }
