# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a server tells of its models and their instances."""

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from backends.api.errors import (
    InternalError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
    UnknownError,
    UnsupportedError,
)
from cluster.commands.client.connection import Server, model_path

INSTANCES: Final = "/v2/manta/instances"
EVENTS: Final = "/v2/manta/events"
READY: Final = "READY"
LIVE: Final = "live"

Row = dict[str, Any]


def index(server: Server) -> list[Row]:
    """Return the repository index, by name and version."""
    rows: list[Row] = server.post("/v2/repository/index", {}).json()
    return sorted(rows, key=lambda row: (row["name"], int(row.get("version") or 0)))


def instances(server: Server) -> list[Row] | None:
    """Return the instances; None where the server does not tell of them, as Triton.

    Raises:
        TritonError: It fails to.
    """
    try:
        rows: list[Row] = server.get(INSTANCES)
    except (NotFoundError, PermissionDeniedError):
        return None
    return rows


def told_instances(server: Server) -> list[Row] | None:
    """Return the instances; None, too, where the server cannot tell now, as in an upgrade."""
    try:
        return instances(server)
    except (InternalError, UnavailableError, UnknownError, UnsupportedError):
        return None


def kept_events(server: Server, since: int = 0) -> list[Row] | None:
    """Return the events after one, oldest first; None where the server keeps none, as Triton.

    While the server cannot tell, as in an upgrade, there are none.
    """
    try:
        rows: list[Row] = server.get(f"{EVENTS}?since={since}")
    except NotFoundError:
        return None
    except (InternalError, UnavailableError, UnsupportedError):
        if since:
            return []
        raise
    return rows


def require_model(rows: Sequence[Row], name: str) -> list[Row]:
    """Return a model's rows of the index.

    Raises:
        NotFoundError: It has none; names the nearest model.
    """
    found = [row for row in rows if row["name"] == name]
    if not found:
        near = difflib.get_close_matches(name, [row["name"] for row in rows], n=1)
        hint = f"Did you mean '{near[0]}'?" if near else "'manta ls' lists all."
        raise NotFoundError(f"the server has no model '{name}'. {hint}")
    return found


def described(server: Server, name: str, version: str = "", what: str = "") -> Row:
    """Return the metadata of a model that is served, or what else is below its path.

    Raises:
        NotFoundError: It is not served; says whether it is there, and why it is not served.
    """
    try:
        found: Row = server.get(model_path(name, version) + what)
    except NotFoundError:
        rows = require_model(index(server), name)
        why = "; ".join(filter(None, (row.get("reason", "") for row in rows)))
        state = rows[-1].get("state", "not loaded")
        which = f"version {version} of " if version else ""
        raise NotFoundError(
            f"{which}model '{name}' is not served: {why or state}. 'manta show {name}' says more"
        ) from None
    return found


def is_decoupled(config: Mapping[str, Any]) -> bool:
    """Whether a model may answer a request with any number of responses, by its config's JSON."""
    return bool(config.get("model_transaction_policy", {}).get("decoupled", False))


def counted(rows: Sequence[Row] | None, name: str, version: str) -> str:
    """Return how many instances of a version are live, of how many where some are not."""
    if rows is None:
        return ""
    states = Counter(
        row["state"] == LIVE
        for row in rows
        if (row["model"], str(row["version"])) == (name, version)
    )
    return f"{states[True]}/{states.total()}" if states[False] else str(states[True])
