# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Pools of several instances: Manta, with one and with two ingresses, beside a real Triton.

The models sleep, so that the machine's cores do not matter and the scheduling does. Four kinds of
cases, each with its bar:

- batching: 10 ms a batch of whatever size; how large batches become and how many rows are served.
- mixed: 2 ms, every 20th request 200 ms, no batching; the p99 of the short ones.
- priority: two levels under overload; the p99 of the high one.
- bound: a burst of 200 requests against max_queue_size; how many are accepted.

Servers run for the whole time of a kind and are loaded in turn.
Usage: bench_pools.py [--rounds 5] [--only REGEX] [--ingresses 1 2] [--json FILE]
"""

import argparse
import contextlib
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench_cases import Case
from bench_load import Kind, burst, closed_loop, every_nth, kind
from bench_measure import load
from bench_models import write_sleeper
from bench_report import header, heading, verdict
from bench_servers import Target, manta, triton

BATCH = 8
SHORT_MS, LONG_MS, LONG_EVERY = 2, 200, 20
PRIORITY_MS, PRIORITY_BATCH, LOW_CLIENTS, HIGH_CLIENTS = 20, 4, 48, 4
BOUND_MS, BOUND_BATCH, BOUND_INSTANCES, BURST = 1000, 4, 4, 200

BATCHING = (
    f"max_batch_size: {BATCH} dynamic_batching {{ preferred_batch_size: [ {BATCH} ] "
    "max_queue_delay_microseconds: 20000 }"
)
PRIORITY = (
    f"max_batch_size: {PRIORITY_BATCH} "
    "dynamic_batching { priority_levels: 2 default_priority_level: 2 }"
)
BOUND = (
    f"max_batch_size: {BOUND_BATCH} "
    "dynamic_batching { default_queue_policy { max_queue_size: 16 } }"
)


def at_least(share: float) -> tuple[str, Callable[[float, float], bool]]:
    return f">= {share}", lambda triton, manta: manta >= share * triton


def at_most(share: float) -> tuple[str, Callable[[float, float], bool]]:
    return f"<= {share}", lambda triton, manta: manta <= share * triton


def within(distance: float) -> tuple[str, Callable[[float, float], bool]]:
    return f"within {distance:.0f}", lambda triton, manta: abs(manta - triton) <= distance


BARS = {
    "mean batch": at_least(0.95),
    "infer/s": at_least(1.0),
    "p99 ms of the short": at_most(1.1),
    "p99 ms of the high": at_most(1.1),
    "accepted": within(BOUND_BATCH),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A load on a model of a pool.

    Attributes:
        name: In the table.
        model: Served model.
        measure: Returns what was measured, by the names of BARS.
    """

    name: str
    model: str
    measure: Callable[[Target, Path], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Model:
    """A model that sleeps; without ``sleep_ms`` its input says how long."""

    name: str
    instances: int
    config: str
    sleep_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Cells that share servers."""

    models: tuple[Model, ...]
    cells: tuple[Cell, ...]


def _port(target: Target, protocol: str) -> int:
    return target.http if protocol == "http" else target.grpc


def _batching(model: str, protocol: str, clients: int) -> Cell:
    case = Case(f"batching, pool of {model[5:]}, {protocol} c={clients}", model, protocol, clients)

    def measure(target: Target, work: Path) -> dict[str, float]:
        before = target.counts(model)
        result = load(case, target, work)
        now = target.counts(model)
        if result is None:
            sys.exit(f"{case.name}: no result of {target.name}")
        return {
            "mean batch": (now.rows - before.rows) / (now.executions - before.executions),
            "infer/s": result.throughput,
        }

    return Cell(case.name, model, measure)


def _mixed(model: str, protocol: str, clients: int) -> Cell:
    rare = kind("long", model, [1], LONG_MS)
    usual = kind("short", model, [1], SHORT_MS)

    def measure(target: Target, _work: Path) -> dict[str, float]:
        choose = every_nth(LONG_EVERY, rare, usual)
        report = closed_loop(protocol, _port(target, protocol), [choose] * clients)
        return {
            "p99 ms of the short": report.percentile_ms("short", 0.99),
            "infer/s": report.throughput,
        }

    return Cell(f"mixed, pool of {model[5:]}, {protocol} c={clients}", model, measure)


def _priority(model: str, protocol: str) -> Cell:
    def always(chosen: Kind) -> Callable[[], Kind]:
        return lambda: chosen

    high = always(kind("high", model, [1, 1], PRIORITY_MS, 1))
    low = always(kind("low", model, [1, 1], PRIORITY_MS, 2))

    def measure(target: Target, _work: Path) -> dict[str, float]:
        clients = [high] * HIGH_CLIENTS + [low] * LOW_CLIENTS
        report = closed_loop(protocol, _port(target, protocol), clients)
        return {"p99 ms of the high": report.percentile_ms("high", 0.99)}

    return Cell(f"priority, pool of {model[8:]}, {protocol}", model, measure)


def _bound(target: Target, _work: Path) -> dict[str, float]:
    asked = kind("burst", "bound", [1, 1], BOUND_MS)
    return {"accepted": float(burst(target.http, asked, BURST))}


POOLS = (2, 4, 8)
PROTOCOLS = ("http", "grpc")
GROUPS = (
    Group(
        tuple(Model(f"batch{pool}", pool, BATCHING, 10) for pool in POOLS),
        tuple(
            _batching(f"batch{pool}", protocol, clients)
            for pool in POOLS
            for protocol in PROTOCOLS
            for clients in (8, 16, 32)
        ),
    ),
    Group(
        tuple(Model(f"mixed{pool}", pool, "max_batch_size: 0") for pool in POOLS),
        tuple(
            _mixed(f"mixed{pool}", protocol, clients)
            for pool in POOLS
            for protocol in PROTOCOLS
            for clients in (8, 16, 32)
        ),
    ),
    Group(
        tuple(Model(f"priority{pool}", pool, PRIORITY) for pool in (2, 4)),
        tuple(_priority(f"priority{pool}", protocol) for pool in (2, 4) for protocol in PROTOCOLS),
    ),
    Group(
        (Model("bound", BOUND_INSTANCES, BOUND),),
        (Cell(f"bound, pool of {BOUND_INSTANCES}, burst of {BURST}", "bound", _bound),),
    ),
)

# What was measured in all rounds, by server and name of BARS.
Found = dict[str, dict[str, list[float]]]


def _run_group(
    group: Group, cells: list[Cell], ingresses: list[int], rounds: int, work: Path
) -> list[tuple[str, Found]]:
    models = {cell.model for cell in cells}
    repository = work / cells[0].model
    for model in group.models:
        if model.name in models:
            write_sleeper(repository, model.name, model.instances, model.config, model.sleep_ms)
    rows: list[tuple[str, Found]] = []
    with contextlib.ExitStack() as stack:
        targets = [stack.enter_context(triton([repository], work))]
        for count in ingresses:
            flag = f"--ingress-per-node={count}"
            served = manta([repository], work, flag, name=f"manta {count}")
            targets.append(stack.enter_context(served))
        for cell in cells:
            found: Found = {target.name: {} for target in targets}
            for target in targets:  # a first run of each warms caches and is not counted
                cell.measure(target, work)
            for _ in range(rounds):
                for target in targets:
                    for what, value in cell.measure(target, work).items():
                        found[target.name].setdefault(what, []).append(value)
            rows.append((cell.name, found))
            print(cell.name, found, file=sys.stderr, flush=True)
    return rows


def _print(rows: list[tuple[str, Found]]) -> None:
    print(header(("case", "Manta's ingresses", "", "Triton", "Manta", "ratio", "bar")))
    for name, found in rows:
        for who in found:
            if who == "triton":
                continue
            for what, values in found[who].items():
                text, met = BARS[what]
                reference = statistics.median(found["triton"][what])
                ours = statistics.median(values)
                print(
                    f"| {name} | {who.split()[1]} | {what} | {reference:,.2f} | {ours:,.2f} | "
                    f"**{ours / reference:.2f}** | {verdict(text, met=met(reference, ours))} |"
                )


def main() -> None:
    """Run the comparison and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--ingresses", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows: list[tuple[str, Found]] = []
    with tempfile.TemporaryDirectory(prefix="manta-bench-") as folder:
        for group in GROUPS:
            cells = [cell for cell in group.cells if re.search(args.only, cell.name)]
            if cells:
                rows += _run_group(group, cells, args.ingresses, args.rounds, Path(folder))
    print(heading(args.rounds))
    _print(rows)
    if args.json:
        args.json.write_text(json.dumps(dict(rows), indent=1))


if __name__ == "__main__":
    main()
