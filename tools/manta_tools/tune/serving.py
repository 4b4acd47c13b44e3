# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The served model, over HTTP."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from cluster.commands.client.connection import LONG_TIMEOUT_S, Server, model_path


class ServedModel:
    """A model of a server.

    Args:
        name: The model.
        server: The server.
        metrics: Its metrics page, as a server whose one path is empty.

    Every method raises TritonError where the server refuses or cannot be reached.
    """

    def __init__(self, name: str, server: Server, metrics: Server) -> None:
        self.name = name
        self._server, self._metrics = server, metrics

    def config(self) -> dict[str, Any]:
        """Return its config."""
        return dict(self._server.get(f"{model_path(self.name)}/config"))

    def statistics(self) -> dict[str, Any]:
        """Return the answer of the statistics extension."""
        return dict(self._server.get(f"{model_path(self.name)}/stats"))

    def metrics(self) -> str:
        """Return the metrics page."""
        return self._metrics.ask("GET", "").body.decode()

    def load(self, config: Mapping[str, Any]) -> None:
        """Load it with another config; returns when it is served so."""
        path = f"/v2/repository/models/{quote(self.name, safe='')}/load"
        self._server.post(path, {"parameters": {"config": json.dumps(config)}}, LONG_TIMEOUT_S)
