# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the records look like that processes of two releases hand each other, and what was recorded.

``python -m tests.support.wire_schemas`` records them in ``wire_schemas.json`` beside this file. It
refuses a change that a process of the recorded release could not read, unless the version of the
contract was raised in `deployments.contracts.protocols`.
"""

import dataclasses
import enum
import inspect
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from backends.api import custom_metrics, model_config, request
from cluster.actors import file_registry
from cluster.controller import durable_state, handover, ownership
from cluster.controller.controller import ModelController
from cluster.instances import node_files
from cluster.models import override
from cluster.options import table
from deployments.contracts import arm_report, load_report, routing_table
from deployments.contracts.protocols import PROTOCOLS
from deployments.instance import process_load, progress, spec
from deployments.instance.actor import ModelInstanceActor
from deployments.lane import batches, frames, messages
from deployments.metrics import counters
from deployments.model_files import contracts as model_files
from deployments.model_files import prefetch
from deployments.pool_queue import messages as pool_queue
from deployments.rate_limiter import arbiter
from deployments.rate_limiter import messages as rate_limiter
from deployments.routing import reports
from deployments.settings import lane_settings, metrics_settings, port_range, server_settings
from deployments.supervision import handover as ingress_handover
from deployments.tenants import leases

RECORDED: Final = Path(__file__).with_suffix(".json")

# By contract: the modules whose records it is made of.
MODULES: Final[Mapping[str, tuple[Any, ...]]] = {
    "lanes": (request, messages, batches, pool_queue, counters, custom_metrics),
    "routing table": (
        routing_table,
        load_report,
        arm_report,
        reports,
        server_settings,
        metrics_settings,
        leases,
    ),
    "controller": (ownership, handover, table, node_files, file_registry, prefetch),
    "instances": (
        spec,
        model_config,
        model_files,
        arbiter,
        progress,
        process_load,
        lane_settings,
        port_range,
    ),
    "ingress hand-over": (ingress_handover,),
    "rate limiter": (rate_limiter,),
    "durable state": (durable_state, override),
    "names of modules": (),
}
# By contract: the actor whose methods it has too.
ACTORS: Final[Mapping[str, type[Any]]] = {
    "controller": ModelController,
    "instances": ModelInstanceActor,
}
# What those modules keep to themselves.
OWN: Final = frozenset(
    {
        "Lifeline",
        "LaneLimits",
        "Bequest",
        "Inheritance",
        "RoutingTable",
        "_Member",
        "ExecutionTimes",
        "FileRegistry",
        "GenerationSpec",
    }
)

_ADVICE: Final = "raise 'newest' of the contract in deployments/contracts/protocols.py"

Schema = dict[str, Any]


def schemas() -> dict[str, Schema]:
    """Return the version and the records of each contract as they are now."""
    return {
        name: {
            "version": PROTOCOLS[name].newest,
            "records": {
                record.__name__: described(record)
                for module in modules
                for record in _records(module)
            }
            | _calls(name)
            | ({"frames": _frame_kinds()} if name == "lanes" else {}),
        }
        for name, modules in MODULES.items()
    }


def _frame_kinds() -> list[str]:
    numbers = {n: v for n, v in vars(frames).items() if n.isupper() and isinstance(v, int)}
    return [f"{name} = {value}" for name, value in sorted(numbers.items())]


def _calls(contract: str) -> dict[str, list[str]]:
    """Return the parameters of an actor's methods: others call them by position."""
    actor = ACTORS.get(contract)
    methods = inspect.getmembers(actor, inspect.iscoroutinefunction) if actor else []
    return {
        f"{name}()": [
            "array",
            *(
                f"{each.name}{'' if each.default is each.empty else ' = default'}"
                for each in inspect.signature(method).parameters.values()
            ),
        ]
        for name, method in methods
        if not name.startswith("_")
    }


def _records(module: Any) -> list[type[Any]]:
    found = [
        each
        for each in vars(module).values()
        if isinstance(each, type)
        and each.__module__ == module.__name__
        and each.__name__ not in OWN
        and (
            dataclasses.is_dataclass(each)
            or issubclass(each, msgspec.Struct)
            or (issubclass(each, enum.Enum))
        )
    ]
    return sorted(found, key=lambda record: record.__name__)


def described(record: type[Any]) -> list[str]:
    """Return the fields of a record, or the members of an enumeration, one line each."""
    if issubclass(record, enum.Enum):
        return [f"{member.name} = {member.value!r}" for member in record]
    if issubclass(record, msgspec.Struct):
        kind = "array" if record.__struct_config__.array_like else "map"
        rows = [
            f"{each.name}: {_type(record, each.name)}{'' if each.required else ' = default'}"
            for each in msgspec.structs.fields(record)
        ]
        return [kind, *rows]
    return [
        "map",
        *(
            f"{each.name}: {_type(record, each.name)}{'' if _is_required(each) else ' = default'}"
            for each in dataclasses.fields(record)
            if each.init and not each.name.startswith("_")
        ),
    ]


def _type(record: type[Any], name: str) -> str:
    for base in record.__mro__:
        annotations = inspect.get_annotations(base)
        if name in annotations:
            annotation = annotations[name]
            return annotation if isinstance(annotation, str) else _shown(annotation)
    raise AssertionError(f"{record.__name__}.{name} has no annotation")


def _shown(annotation: Any) -> str:
    is_plain = isinstance(annotation, type) and not hasattr(annotation, "__args__")
    return annotation.__name__ if is_plain else str(annotation)


def _is_required(field: "dataclasses.Field[Any]") -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def faults(recorded: Mapping[str, Schema], now: Mapping[str, Schema]) -> list[str]:
    """Return what has changed in a way that needs a version which was not raised."""
    found = []
    for name, contract in recorded.items():
        if name not in now or now[name]["version"] > contract["version"]:
            continue
        for record, rows in contract["records"].items():
            why = _why_unreadable(rows, now[name]["records"].get(record))
            if why:
                found.append(f"{name}: {record}: {why}")
    return found


def _why_unreadable(before: list[str], now: list[str] | None) -> str:
    """Say why a reader of one form cannot read the other; empty when it can."""
    if now is None:
        return "it is gone"
    if before and before[0] == "array":
        if now[: len(before)] != before:
            return "fields of an array have changed or moved; add new ones at the end"
    else:
        gone = [row for row in before if row not in now]
        if gone:
            return f"'{gone[0]}' is gone or has changed"
    added = [row for row in now if row not in before and not row.endswith(" = default")]
    return f"'{added[0]}' is new and has no default" if added else ""


def main() -> int:
    """Record the schemas; 1 when a version has to be raised first."""
    now = schemas()
    if RECORDED.exists():
        found = faults(json.loads(RECORDED.read_text()), now)
        if found:
            sys.stderr.write("\n".join([*found, _ADVICE, ""]))
            return 1
    RECORDED.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
