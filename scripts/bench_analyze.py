# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a search finds what measuring everything finds, and with how many measurements.

Each model of a repository is analysed with the brute search, which measures every configuration at
every load, and with the others. What each of them chose is measured again, in turn, so that luck
and what else the machine did have no part in the comparison. A short measurement counts as the part
of a full one that its windows are. Usage: bench_analyze.py [--models simple] [--searches quick]
[--instances 5] [--batch 128] [--concurrency 64] [--window-ms 200] [--rounds 3]
"""

import argparse
import csv
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from bench_servers import ROOT

# Of the brute search's best throughput, and of its measurements.
FOUND_BAR, COST_BAR = 0.95, 0.25

COUNT = "instance_group.count"
DEFAULT = "as in the repository"
# Windows of a measurement that decides are so many times as long.
DECIDES = 5

Rows = list[dict[str, str]]


def analyse(
    model: str, given: argparse.Namespace, folder: Path, window_ms: int, more: dict[str, Any]
) -> tuple[Rows, float]:
    """Run one analysis and return its measurements that succeeded, and the seconds it took."""
    folder.mkdir()
    document = {
        "profile_models": [model],
        "model_repository": str(given.repository),
        "num_configs_per_model": 1,
        "client_protocol": "http",
        "perf_analyzer_flags": {
            "measurement-interval": window_ms,
            "max-trials": 3,
            **({"shape": given.shape} if given.shape else {}),
        },
        "skip_summary_reports": True,
        "skip_detailed_reports": True,
        "checkpoint_directory": str(folder / "checkpoints"),
        "export_path": str(folder),
        "output_model_repository_path": str(folder / "best"),
        **more,
    }
    path = folder / "analysis.yaml"
    path.write_text(yaml.safe_dump(document))
    begun = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "cluster", "analyze", "profile", f"-f={path}"],
        cwd=ROOT,
        check=True,
        stdout=sys.stderr,
    )
    with (folder / "results" / "metrics-all.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if not row["error"]]
    return rows, time.monotonic() - begun


def search(model: str, mode: str, given: argparse.Namespace, folder: Path) -> tuple[Rows, float]:
    """Run one search."""
    space = {
        "run_config_search_mode": mode,
        "run_config_search_max_instance_count": given.instances,
        "run_config_search_max_model_batch_size": given.batch,
        "run_config_search_max_concurrency": given.concurrency,
    }
    return analyse(model, given, folder, given.window_ms, space)


def fixed(setting: str) -> dict[str, Any]:
    """Return the options of a model that has these fields, as the column of results shows them."""
    if setting == DEFAULT:
        return {}
    fields = dict(part.split("=") for part in setting.split(", "))
    return {
        "model_config_parameters": {
            "max_batch_size": [int(fields["max_batch_size"])],
            "dynamic_batching": [{}],
            "instance_group": [[{"kind": "KIND_CPU", "count": [int(fields[COUNT])]}]],
        }
    }


def again(
    model: str, settings: Sequence[str], given: argparse.Namespace, root: Path
) -> dict[str, float]:
    """Return the throughput of each configuration, the median of rounds that have each of them."""
    found: dict[str, list[float]] = {setting: [] for setting in settings}
    for number in range(given.rounds):
        for index, setting in enumerate(found):
            folder = root / f"{model}-again-{number}-{index}"
            asked = {
                "run_config_search_disable": True,
                "profile_models": {
                    model: {"parameters": {"concurrency": [given.concurrency]}} | fixed(setting)
                },
            }
            rows, _ = analyse(model, given, folder, DECIDES * given.window_ms, asked)
            own = [row for row in rows if (row["setting"] == DEFAULT) == (setting == DEFAULT)]
            found[setting] += [float(row["perf_throughput"]) for row in own]
    return {setting: statistics.median(each) for setting, each in found.items()}


def cost_of(rows: Rows) -> float:
    """Return how many full measurements all take."""
    return sum(float(row["budget"]) for row in rows)


def compare(model: str, given: argparse.Namespace, root: Path) -> bool:
    """Print the rows of a model, and return whether all searches keep the bars."""
    everything, took_s = search(model, "brute", given, root / f"{model}-brute")
    top = everything[0]["setting"]
    print(f"| {model} | brute | {len(everything)} | 100 % | {took_s:.0f} | {top} | 100 % |")
    chosen = {}
    for mode in given.searches:
        rows, took_s = search(model, mode, given, root / f"{model}-{mode}")
        chosen[mode] = rows, took_s
    settings = dict.fromkeys([top, *(rows[0]["setting"] for rows, _ in chosen.values())])
    throughputs = again(model, list(settings), given, root)
    is_met = True
    for mode, (rows, took_s) in chosen.items():
        setting = rows[0]["setting"]
        cost = cost_of(rows) / cost_of(everything)
        found = throughputs[setting] / throughputs[top]
        is_met = is_met and cost <= COST_BAR and found >= FOUND_BAR
        print(
            f"| {model} | {mode} | {len(rows)} | {cost:.0%} | {took_s:.0f} | {setting} | "
            f"{found:.0%} |",
            flush=True,
        )
    return is_met


def main() -> int:
    """Print a row for each model and search, and return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", type=Path, default=ROOT / "configs/models")
    parser.add_argument("--models", nargs="+", default=["simple"])
    parser.add_argument("--searches", nargs="+", default=["quick"])
    parser.add_argument("--instances", type=int, default=5)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--window-ms", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", default="", help="of variable inputs, NAME:1,2")
    given = parser.parse_args()
    print("| model | search | measurements | of brute's | s | chosen | of brute's best |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        met = [compare(model, given, Path(name)) for model in given.models]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
