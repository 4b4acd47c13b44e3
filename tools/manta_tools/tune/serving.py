# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The served model, over HTTP."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

from backends.api.errors import InternalError, UnavailableError

_TIMEOUT_S: Final = 10.0
# Loads last as long as loading does.
_LOAD_TIMEOUT_S: Final = 600.0


class ServedModel:
    """A model of a server.

    Args:
        name: The model.
        url: The server's HTTP port, ``host:port`` or a URL.
        metrics_url: Its metrics page, likewise.
        headers: Headers of every request.
    """

    def __init__(
        self, name: str, url: str, metrics_url: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        quoted = urllib.parse.quote(name, safe="")
        base = _with_scheme(url).rstrip("/")
        self._model = f"{base}/v2/models/{quoted}"
        self._load = f"{base}/v2/repository/models/{quoted}/load"
        self._metrics = _with_scheme(metrics_url)
        self._headers = dict(headers or {})

    def config(self) -> dict[str, Any]:
        """Return its config; raises as all of these do."""
        return dict(json.loads(self._ask(f"{self._model}/config")))

    def statistics(self) -> dict[str, Any]:
        """Return the answer of the statistics extension."""
        return dict(json.loads(self._ask(f"{self._model}/stats")))

    def metrics(self) -> str:
        """Return the metrics page."""
        return self._ask(self._metrics)

    def load(self, config: Mapping[str, Any]) -> None:
        """Load it with another config; returns when it is served so.

        Raises:
            UnavailableError: The server cannot be reached.
            InternalError: It refuses.
        """
        body = json.dumps({"parameters": {"config": json.dumps(config)}}).encode()
        self._ask(self._load, body, _LOAD_TIMEOUT_S)

    def _ask(self, url: str, body: bytes | None = None, timeout_s: float = _TIMEOUT_S) -> str:
        # The scheme is one of two that _with_scheme lets pass.
        request = urllib.request.Request(url, body, self._headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace").strip()
            raise InternalError(f"{url} answers {error.code}: {said or error.reason}") from None
        except OSError as error:
            raise UnavailableError(f"{url} cannot be reached: {error}") from None


def _with_scheme(url: str) -> str:
    return url if url.startswith(("http://", "https://")) else f"http://{url}"
