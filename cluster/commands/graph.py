# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta graph``: the step graph of an ensemble, as JSON and as a Mermaid drawing.

It is made of what the config endpoint says, so it also draws the ensembles of a tritonserver.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from backends.config.step_conditions import PREFIX, parse_condition
from cluster.commands.client.command_line import argument, command, connect, print_json
from cluster.commands.client.models import described, is_decoupled

Config = Mapping[str, Any]


def graph_of(name: str, config_of: Callable[[str], Config]) -> dict[str, Any]:
    """Return a model's graph; the ensembles among its steps carry theirs.

    Args:
        name: Model; one that is no ensemble is its own only step.
        config_of: Returns a model's config in Triton's JSON.
    """
    config = config_of(name)
    steps = config.get("ensemble_scheduling", {}).get("step") or [_itself(config)]
    rows = []
    writers: dict[str, int] = {}
    for index, step in enumerate(steps):
        model = step["model_name"]
        part = config if model == name else config_of(model)
        row: dict[str, Any] = {
            "index": index,
            "model": model,
            "version": step.get("model_version", -1),
            "platform": part.get("platform") or part.get("backend", ""),
            "decoupled": is_decoupled(part),
            "inputs": dict(step["input_map"]),
            "outputs": dict(step["output_map"]),
        }
        given = config.get("parameters", {}).get(f"{PREFIX}{index}")
        if given is not None:
            row["condition"] = given["string_value"]
        if model != name and "ensemble_scheduling" in part:
            row["graph"] = graph_of(model, config_of)
        rows.append(row)
        writers.update(dict.fromkeys(step["output_map"].values(), index))
    return {
        "name": name,
        "decoupled": is_decoupled(config),
        "max_batch_size": config.get("max_batch_size", 0),
        "inputs": [_tensor(each) for each in config.get("input", ())],
        "outputs": [_tensor(each) for each in config.get("output", ())],
        "steps": rows,
        "edges": [
            {"tensor": tensor, "from": writers.get(tensor), "to": row["index"]}
            for row in rows
            for tensor in _reads(row)
        ]
        + [
            {"tensor": each["name"], "from": writers.get(each["name"]), "to": None}
            for each in config.get("output", ())
        ],
    }


def mermaid(graph: Mapping[str, Any]) -> str:
    """Return the drawing of a graph: steps are boxes, inputs and outputs rounded."""
    lines = ["flowchart LR"]
    for side in ("inputs", "outputs"):
        for index, tensor in enumerate(graph[side]):
            dims = ",".join(map(str, tensor["dims"]))
            label = _label(f"{tensor['name']}: {tensor['datatype']}[{dims}]")
            lines.append(f"    {side}{index}([{label}])")
    for step in graph["steps"]:
        note = " (decoupled)" if step["decoupled"] else ""
        if "condition" in step:
            note += f" (if {step['condition']})"
        label = _label(f"{step['model']}{note}")
        shape = f"[[{label}]]" if "graph" in step else f"[{label}]"
        lines.append(f"    step{step['index']}{shape}")
    places = {
        side: {each["name"]: f"{side}{index}" for index, each in enumerate(graph[side])}
        for side in ("inputs", "outputs")
    }
    for edge in graph["edges"]:
        tensor = edge["tensor"]
        start = places["inputs"].get(tensor) if edge["from"] is None else f"step{edge['from']}"
        end = places["outputs"][tensor] if edge["to"] is None else f"step{edge['to']}"
        lines.append(f"    {start} -->|{_label(tensor)}| {end}")
    return "\n".join(lines)


def _reads(row: Mapping[str, Any]) -> Iterable[str]:
    """Return the tensors a step waits for, each once."""
    reads = list(row["inputs"].values())
    if "condition" in row:
        condition = parse_condition(row["condition"])
        if condition.tensor:
            reads.append(condition.tensor)
    return dict.fromkeys(reads)


def _itself(config: Config) -> dict[str, Any]:
    return {
        "model_name": config["name"],
        "input_map": {each["name"]: each["name"] for each in config.get("input", ())},
        "output_map": {each["name"]: each["name"] for each in config.get("output", ())},
    }


def _tensor(tensor: Mapping[str, Any]) -> dict[str, Any]:
    datatype = tensor["data_type"].removeprefix("TYPE_")
    return {"name": tensor["name"], "datatype": datatype, "dims": tensor.get("dims", [])}


def _label(text: str) -> str:
    return '"' + text.replace('"', "#quot;") + '"'


@command(
    "graph",
    "Print the step graph of an ensemble, or of any model.",
    argument("model"),
    argument("--format", choices=("mermaid", "json"), default="mermaid"),
    argument("--json", dest="format", action="store_const", const="json", help="the same as json"),
    has_json=False,
)
def main(given: argparse.Namespace) -> None:
    """Run ``manta graph``."""
    server = connect(given)
    graph = graph_of(given.model, lambda name: described(server, name, what="/config"))
    if given.format == "json":
        print_json(graph)
    else:
        print(mermaid(graph))
