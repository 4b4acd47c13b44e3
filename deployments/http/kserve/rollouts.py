# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The routes of a model's rollout; Triton has none."""

from collections.abc import Callable
from typing import Any, Final

import orjson

from backends.api.errors import InvalidArgumentError
from deployments.contracts.control import RolloutAction
from deployments.data_plane.face import Plane
from deployments.http.codec.json_text import read
from deployments.http.server.exchange import HttpExchange
from deployments.http.server.first_use import unquoted
from deployments.http.server.routes import Handler, Match, Row

_ROLLOUT: Final = r"/v2/models/(?P<name>[^/]+)/rollout"
_CATEGORY: Final = "model-repository"
# The methods of the rollout itself; whatever else is done to it has a path.
_METHODS: Final = {
    b"GET": RolloutAction.GET,
    b"PUT": RolloutAction.SET,
    b"POST": RolloutAction.SET,
    b"DELETE": RolloutAction.END,
}
_PATHS: Final = (
    RolloutAction.PROMOTE,
    RolloutAction.PAUSE,
    RolloutAction.RESUME,
    RolloutAction.ROLLBACK,
)


class RolloutRoutes:
    """Answers the routes in `rows`.

    Args:
        plane: The data plane.
        read_body: Returns the body of a request, once it is known not to be too large.
    """

    def __init__(self, plane: Plane, read_body: Callable[[HttpExchange], bytes]) -> None:
        self._plane = plane
        self._read_body = read_body

    def rows(self) -> tuple[Row, ...]:
        """Return pattern, handlers by method and restricted category of each route."""
        whole = {method: self._handler(action) for method, action in _METHODS.items()}
        steps = [
            (f"{_ROLLOUT}/{action.value}", {b"POST": self._handler(action)}, _CATEGORY)
            for action in _PATHS
        ]
        return ((_ROLLOUT, whole, _CATEGORY), *steps)

    def _handler(self, action: RolloutAction) -> Handler:
        async def answer(exchange: HttpExchange, match: Match) -> None:
            name = unquoted(match.name) or match.name
            document: dict[str, Any] = {}
            if action is RolloutAction.SET:
                document = self._document(exchange, name)
            status = await self._plane.rollouts.rollout(name, action, document)
            exchange.reply_json(orjson.dumps(status))

        return answer

    def _document(self, exchange: HttpExchange, name: str) -> dict[str, Any]:
        body = self._read_body(exchange)
        document = read(body) if body else None
        if not isinstance(document, dict):
            raise InvalidArgumentError(
                f"the rollout of model '{name}' is no JSON object; send one that says which"
                " versions take requests, for example"
                ' {"kind": "split", "arms": [...]}'
            )
        return document
