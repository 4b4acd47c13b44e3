# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta show``: one model: versions, inputs, outputs, and a line that calls it."""

import argparse
import os
from collections.abc import Iterator, Mapping
from typing import Any

from backends.api.errors import NotFoundError, UnavailableError
from cluster.commands.client.address import parse_address
from cluster.commands.client.calls import Call, as_curl
from cluster.commands.client.command_line import (
    argument,
    command,
    connect,
    print_json,
    target_of,
)
from cluster.commands.client.connection import Server, model_path
from cluster.commands.client.contexts import Target
from cluster.commands.client.models import (
    counted,
    index,
    is_decoupled,
    require_model,
    told_instances,
)
from cluster.commands.client.tensors import example

# A request of a sequence that is one request long.
_SEQUENCE = {"sequence_id": 1, "sequence_start": True, "sequence_end": True}

Row = dict[str, Any]


@command("show", "Show a model: versions, inputs, outputs, and a call for curl.", argument("model"))
def main(given: argparse.Namespace) -> None:
    """Run ``manta show``."""
    server = connect(given)
    rows, there = require_model(index(server), given.model), told_instances(server)
    about, config = _described(server, given.model)
    versions = [
        {
            "version": row.get("version", ""),
            "state": row.get("state", "not loaded"),
            "instances": counted(there, given.model, row.get("version", "")),
            "reason": row.get("reason", ""),
        }
        for row in rows
    ]
    document: Row = {"name": given.model, "versions": versions}
    if about:
        document |= {
            "platform": about["platform"],
            "max_batch_size": config.get("max_batch_size", 0),
            "scheduling": _scheduling(config),
            "inputs": [
                {**each, "optional": _is_optional(each, config)} for each in about["inputs"]
            ],
            "outputs": about["outputs"],
            "curl": _curl(about, config, target_of(given)),
        }
    if given.json:
        print_json(document)
    else:
        print("\n".join(_lines(document)))


def _described(server: Server, name: str) -> tuple[Row, Row]:
    """Return metadata and config; empty while no version is served."""
    path = model_path(name)
    try:
        return server.get(path), server.get(f"{path}/config")
    except (NotFoundError, UnavailableError) as error:
        if isinstance(error, UnavailableError) and "model" not in error.message:
            raise
        return {}, {}


def _lines(document: Row) -> Iterator[str]:
    yield f"model      {document['name']}"
    for row in document["versions"]:
        many = "" if row["instances"] == "1" else "s"
        running = f", {row['instances']} instance{many}" if row["instances"] else ""
        yield f"version    {row['version'] or '-'}  {row['state']}{running}"
        for line in row["reason"].splitlines():
            yield f"           {line}"
    if "inputs" not in document:
        return
    yield f"platform   {document['platform']}, {document['scheduling']}"
    for kind in ("inputs", "outputs"):
        for row in document[kind]:
            shape = ",".join(map(str, row["shape"]))
            note = "  (optional)" if row.get("optional") else ""
            yield f"{kind[:-1]:<11}{row['name']}  {row['datatype']}[{shape}]{note}"
    yield ""
    yield document["curl"]


def _scheduling(config: Mapping[str, Any]) -> str:
    kinds = {
        "dynamic_batching": "dynamic batching",
        "sequence_batching": "sequences",
        "ensemble_scheduling": "ensemble",
    }
    found = [text for key, text in kinds.items() if key in config]
    found += ["decoupled"] if is_decoupled(config) else []
    most = config.get("max_batch_size", 0)
    return ", ".join([*found, f"batches up to {most}" if most else "no batch dimension"])


def _curl(about: Row, config: Row, target: Target) -> str:
    needed = [each for each in about["inputs"] if not _is_optional(each, config)]
    call = Call(
        about["name"],
        tensors=[example(each) for each in needed],
        parameters=_SEQUENCE if "sequence_batching" in config else {},
    )
    address = parse_address(target.url)
    return as_curl(call, address, target, os.environ, is_stream=is_decoupled(config))


def _is_optional(tensor: Row, config: Row) -> bool:
    rows: list[Row] = config.get("input", [])
    return any(each["name"] == tensor["name"] and each.get("optional") for each in rows)
