# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta explain``: why the instances of a model are where they are, or what they wait for."""

import argparse
import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from cluster.commands.client.command_line import run

_DESCRIPTION: Final = """Say why each instance of a model is where it is, or what it waits for and
what would unblock it. Asks the controller of the server that runs on a Ray cluster."""

_SHOWN_NODES: Final = 20

Row = Mapping[str, Any]


def rendered(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of an answer of the controller, for people."""
    for row in rows:
        version = f" version {row['version']}" if "version" in row else ""
        state = f" {row['state']}" if "state" in row else ""
        reason = f": {row['reason']}" if row["reason"] else ""
        yield f"{row['model']}{version}{state}{reason}"
        if not row["instances"]:
            yield "  no instance in service"
        for instance in row["instances"]:
            yield from _instance(instance)


def _instance(row: Row) -> Iterator[str]:
    needs = ", ".join(f"{name} {amount:g}" for name, amount in row["needs"].items()) or "nothing"
    priority = f", priority {row['priority']}" if row["priority"] else ""
    where = f" on {row['node']['name']} ({row['node']['id'][:8]})" if "node" in row else ""
    yield f"  {row['name']} is {row['state']}{where}, reserves {needs}{priority}"
    for bundle in row.get("bundles", ()):
        shown = ", ".join(f"{name} {amount:g}" for name, amount in bundle.items())
        yield f"    bundle: {shown}"
    for why in row.get("why", ()):
        yield f"    because {why}"
    if "waits_for" in row:
        yield f"    {row['waits_for']}"
    nodes = row.get("nodes", ())
    for node in nodes[:_SHOWN_NODES]:
        yield f"    node {node['name']} ({node['id'][:8]}): {node['verdict']}"
    if len(nodes) > _SHOWN_NODES:
        yield f"    and {len(nodes) - _SHOWN_NODES} more nodes, which --json shows"
    for step in row.get("unblock", ()):
        yield f"    to unblock: {step}"


def _ask(address: str, model: str) -> Sequence[Row]:
    # They import Ray, which takes seconds; help should not.
    from cluster.actors.connection import connected  # noqa: PLC0415
    from cluster.actors.controller_client import connect_controller  # noqa: PLC0415

    async def explained() -> Sequence[Row]:
        return await connect_controller().explain(model)

    with connected(address):
        return asyncio.run(explained())


def main(arguments: Sequence[str], ask: Callable[[str, str], Sequence[Row]] = _ask) -> int:
    """Run ``manta explain`` and return its exit code: 1 when there is no answer."""
    parser = argparse.ArgumentParser(
        prog="manta explain", description=_DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument("model")
    parser.add_argument(
        "--ray-address", default="auto", help="of the cluster; this machine's by default"
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")

    def explain(given: argparse.Namespace) -> None:
        rows = ask(given.ray_address, given.model)
        print(json.dumps(rows, indent=2) if given.json else "\n".join(rendered(rows)))

    return run(parser, arguments, explain)
