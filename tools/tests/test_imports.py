# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which modules of the server the tools take: what another distribution relies on stays few."""

import ast
from collections.abc import Iterator
from pathlib import Path

import manta_tools

# Each is a promise of manta-serve to manta-tools.
OF_THE_SERVER = {
    "backends.api.bytes_tensor",
    "backends.api.datatypes",
    "backends.api.errors",
    "backends.api.model_config",
    "backends.config.autoscaling",
    "backends.config.pbtxt",
    "cluster",
    "cluster.commands.client.command_line",
    "cluster.commands.client.connection",
    "cluster.placement.demand",
    "cluster.placement.nodes",
    "cluster.repository.stores.location",
    "deployments.pool_queue.precise_timer",
}


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_tools_take_no_more_of_the_server_than_is_listed():
    files = Path(manta_tools.__file__).parent.rglob("*.py")
    found = {module for file in files for module in imported(file)}
    packages = {"backends", "cluster", "deployments"}
    assert {each for each in found if each.partition(".")[0] in packages} == OF_THE_SERVER
