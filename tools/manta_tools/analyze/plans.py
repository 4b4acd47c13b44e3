# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``manta analyze plan``: instances and nodes for a load, from a checkpoint."""

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from manta_tools.analyze.checkpoints import Checkpoint
from manta_tools.analyze.measuring.metrics import CPU_PER_INFERENCE
from manta_tools.analyze.objectives import Bound
from manta_tools.analyze.planning import Demand, Level, Node, Plan, best_level, level_of, plan
from manta_tools.analyze.records import Measured, Setting
from manta_tools.analyze.results.groups import Noted, read_noted
from manta_tools.analyze.results.rows import Found, shown_setting
from manta_tools.analyze.space.variants import variant
from manta_tools.analyze.tags import P99

_MS_PER_S: Final = 1000.0
_DESCRIPTION: Final = """Say how many instances and nodes of one kind a load needs, from what
'manta analyze' has measured. An instance takes the CPU time, the memory and the GPUs that it took
when it was measured."""


def main(arguments: Sequence[str]) -> int:
    """Print a plan and return 0.

    Raises:
        InvalidArgumentError: Nothing that was measured serves the load.
    """
    given = _parser().parse_args(arguments)
    with Checkpoint.newest(Path(given.checkpoint_directory)) as kept:
        levels = list(levels_of(read_noted(kept), given.model))
    limits = (Bound(P99, "max", given.latency_budget),) if given.latency_budget else ()
    level = best_level(Demand(given.model, given.rate, limits, {}), levels)
    demand = Demand(given.model, given.rate, limits, needs_of(level, given.gpus_per_instance))
    offers = {"CPU": given.node_cpus, "memory_mb": given.node_memory, "GPU": given.node_gpus}
    node = Node(offers, given.price_per_node_hour, given.max_nodes)
    print("\n".join(_text(plan([demand], levels, node, lost_nodes=given.lost_nodes))))
    return 0


def levels_of(noted: Noted, model: str) -> Iterator[Level]:
    """Yield what was measured of a model, alone."""
    for found in noted.found:
        if found.models == (model,):
            for measured in found.measured:
                # What was measured shortly tells better from worse, and no capacity.
                if not measured.error and measured.trial.budget >= 1.0:
                    yield level_of(
                        measured, model, _instances(found, measured), _source(found, measured)
                    )


def needs_of(level: Level, gpus: float) -> dict[str, float]:
    """Return what one instance takes of a node at a level: what was measured of it."""
    cores = level.metrics.get(CPU_PER_INFERENCE, 0.0) * level.throughput / _MS_PER_S
    needs = {"CPU": cores, "memory_mb": level.metrics.get("cpu_used_ram", 0.0)}
    return {name: amount / level.instances for name, amount in needs.items()} | {"GPU": gpus}


def _instances(found: Found, measured: Measured) -> int:
    """Return the instances of a model, or of an ensemble's models together."""
    (model,) = found.models
    settings = {each.model: each for each in measured.trial.candidate.settings}
    return max(
        1,
        sum(
            max(1, group.count)
            for name in found.composing.get(model) or (model,)
            for group in variant(
                found.configs[name], settings.get(name, Setting(name))
            ).instance_group
        ),
    )


def _source(found: Found, measured: Measured) -> str:
    name = found.names.names(measured.trial.candidate)[found.models[0]]
    load = measured.trial.loads[0]
    kind = load.kind.replace("_", " ")
    return f"{name} ({shown_setting(measured)}) at {kind} {load.level:g}"


def _text(made: Plan) -> Iterator[str]:
    for share in made.shares:
        level = share.level
        yield f"{share.demand.model}: {share.instances} instances for {share.demand.rate:g} infer/s"
        yield (
            f"  measured: {level.source}: {level.throughput:.1f} infer/s of {level.instances} "
            f"instances, p99 {level.metrics.get(P99, 0.0):.3f} ms"
        )
        needs = ", ".join(f"{name} {amount:.3g}" for name, amount in share.demand.needs.items())
        yield f"  an instance takes: {needs}"
        headroom = made.headroom.get(share.demand.model, 0.0)
        yield f"  utilisation {share.utilisation:.0%}, headroom {headroom:.0%}"
    yield f"nodes: {made.node_count}, {made.spares} of them for nodes that are lost"
    if made.price_per_hour:
        yield (
            f"price: {made.price_per_hour:.2f} an hour, {made.price_per_month:.2f} a month, "
            f"{made.cost_per_million:.4f} for a million inferences"
        )
    for each in made.assumptions:
        yield f"assumed: {each}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="manta analyze plan", description=_DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument("model")
    parser.add_argument("--rate", type=float, required=True, help="inferences a second")
    parser.add_argument("--latency-budget", type=float, default=0.0, help="of p99, milliseconds")
    parser.add_argument(
        "--node-cpus", type=float, default=float(os.cpu_count() or 1), help="cores of a node"
    )
    parser.add_argument(
        "--node-memory", type=float, default=_memory_mb(), help="memory of a node, megabytes"
    )
    parser.add_argument("--node-gpus", type=float, default=0.0, help="GPUs of a node")
    parser.add_argument(
        "--gpus-per-instance", type=float, default=0.0, help="GPUs that an instance takes"
    )
    parser.add_argument("--price-per-node-hour", type=float, default=0.0)
    parser.add_argument("--lost-nodes", type=int, default=0, help="nodes that may be lost")
    parser.add_argument("--max-nodes", type=int, default=0, help="nodes there may be; 0 for any")
    parser.add_argument("--checkpoint-directory", default="checkpoints")
    return parser


def _memory_mb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e6
