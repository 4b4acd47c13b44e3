# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta ls``, ``manta ps`` and ``manta status``: what is there, and how it is."""

import argparse
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase

from backends.api.errors import InvalidArgumentError, UnavailableError, UnsupportedError
from cluster.commands.client.command_line import (
    argument,
    command,
    connect,
    print_json,
    print_table,
    target_of,
)
from cluster.commands.client.connection import Server
from cluster.commands.client.models import (
    LIVE,
    READY,
    Row,
    counted,
    index,
    instances,
    require_model,
    told_instances,
)


@command(
    "ls",
    "List the models of a server, with their versions and states.",
    argument("pattern", nargs="*", default=[], help="names, with * and ?; all if none is given"),
)
def ls(given: argparse.Namespace) -> None:
    """Run ``manta ls``."""
    server = connect(given)
    found, there = index(server), told_instances(server)
    rows = [
        {
            "name": row["name"],
            "version": row.get("version", ""),
            "state": row.get("state", ""),
            "instances": counted(there, row["name"], row.get("version", "")),
            "reason": row.get("reason", ""),
        }
        for row in found
        if _is_wanted(row["name"], given.pattern)
    ]
    if given.json:
        print_json(rows)
    else:
        titles = ("MODEL", "VERSION", "STATE", "INSTANCES", "REASON")
        print_table(titles, [list(row.values()) for row in rows])
    _require(server, given.pattern, rows, "name")


@command(
    "ps",
    "List the instances of models: processes, nodes, devices, restarts.",
    argument("pattern", nargs="*", default=[], help="models, with * and ?; all if none is given"),
)
def ps(given: argparse.Namespace) -> None:
    """Run ``manta ps``."""
    server = connect(given)
    rows = instances(server)
    if rows is None:
        raise UnsupportedError(
            f"{server.address.shown} does not tell of its instances: it is no Manta, or the access"
            " policy does not grant the role 'metadata'"
        )
    rows = [row for row in rows if _is_wanted(row["model"], given.pattern)]
    if given.json:
        print_json(rows)
    else:
        titles = ("INSTANCE", "STATE", "PID", "NODE", "DEVICE", "RESTARTS", "REASON")
        keys = ("name", "state", "pid", "node", "device", "restarts", "reason")
        print_table(titles, [[_shown(row[key]) for key in keys] for row in rows])
    _require(server, given.pattern, rows, "model")


@command("status", "Say which server is asked, whether it is ready, and what it serves.")
def status(given: argparse.Namespace) -> int:
    """Run ``manta status``; 1 if the server takes no requests."""
    server = connect(given)
    # Raises where nobody listens, or where the caller may not ask.
    is_ready = _is_ready(server)
    about = server.get("/v2")
    rows, there = index(server), told_instances(server)
    states = Counter(row.get("state") or "not loaded" for row in rows)
    nodes = Counter(row["node"] for row in there or () if row["state"] == LIVE)
    document = {
        "url": server.address.base if not server.address.socket else server.address.shown,
        "source": target_of(given).source,
        "name": about["name"],
        "version": about["version"],
        "ready": is_ready,
        "models": dict(sorted(states.items())),
        "instances": None if there is None else dict(sorted(nodes.items())),
        "failed": [row for row in rows if row.get("state", READY) != READY],
    }
    if given.json:
        print_json(document)
        return 0 if is_ready else 1
    print(f"server     {document['url']} ({document['source']})")
    print(f"name       {about['name']}, protocol of Triton {about['version']}")
    print(f"ready      {'yes' if is_ready else 'no'}")
    print(f"models     {_counts(states) or 'none'}")
    if there is not None:
        print(f"instances  {_counts(nodes) or 'none'}")
    for row in document["failed"]:
        reason = " ".join(row.get("reason", "").split())
        print(
            f"           {row['name']} {row.get('version', '')}: {row['state']} {reason}".rstrip()
        )
    return 0 if is_ready else 1


def _is_ready(server: Server) -> bool:
    try:
        server.ask("GET", "/v2/health/ready")
    except InvalidArgumentError:
        return False
    except UnavailableError as error:
        # It says so itself while it ends.
        if "exiting" not in error.message:
            raise
        return False
    return True


def _counts(counts: "Counter[str]") -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _is_wanted(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, each) for each in patterns)


def _require(server: Server, patterns: Sequence[str], rows: Sequence[Row], key: str) -> None:
    """Raise NotFoundError for a name that no model has; a pattern may fit none."""
    shown = {row[key] for row in rows}
    missing = [each for each in patterns if each not in shown and not set(each) & set("*?[")]
    there = index(server) if missing else []
    for name in missing:
        require_model(there, name)


def _shown(value: object) -> str:
    return "" if value is None else str(value)
