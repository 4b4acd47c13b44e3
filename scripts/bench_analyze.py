# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a search finds what measuring everything finds, and with how many measurements.

Each model of a repository is analysed with the brute search, which measures every configuration at
every load, and with the others. What a search chose is looked up among the brute search's
measurements, so both are compared under the same noise. A short measurement counts as the part of a
full one that its windows are. Usage: bench_analyze.py [--models simple]
[--searches quick] [--instances 3] [--batch 16] [--concurrency 64] [--window-ms 200]
"""

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from bench_servers import ROOT

# Of the brute search's best throughput, and of its measurements.
FOUND_BAR, COST_BAR = 0.95, 0.25

Rows = list[dict[str, str]]


def analyse(model: str, search: str, given: argparse.Namespace, folder: Path) -> tuple[Rows, float]:
    """Run one analysis and return its measurements that succeeded, and the seconds it took."""
    folder.mkdir()
    document = {
        "profile_models": [model],
        "model_repository": str(given.repository),
        "run_config_search_mode": search,
        "run_config_search_max_instance_count": given.instances,
        "run_config_search_max_model_batch_size": given.batch,
        "run_config_search_max_concurrency": given.concurrency,
        "num_configs_per_model": 1,
        "client_protocol": "http",
        "perf_analyzer_flags": {
            "measurement-interval": given.window_ms,
            "max-trials": 3,
            **({"shape": given.shape} if given.shape else {}),
        },
        "skip_summary_reports": True,
        "skip_detailed_reports": True,
        "checkpoint_directory": str(folder / "checkpoints"),
        "export_path": str(folder),
        "output_model_repository_path": str(folder / "best"),
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


def best_of(rows: Rows, setting: str = "") -> float:
    """Return the highest throughput of all configurations, or of one."""
    wanted = [row for row in rows if setting in ("", row["setting"])]
    return max((float(row["perf_throughput"]) for row in wanted), default=0.0)


def cost_of(rows: Rows) -> float:
    """Return how many full measurements all take."""
    return sum(float(row["budget"]) for row in rows)


def main() -> int:
    """Print a row for each model and search, and return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", type=Path, default=ROOT / "configs/models")
    parser.add_argument("--models", nargs="+", default=["simple"])
    parser.add_argument("--searches", nargs="+", default=["quick"])
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--window-ms", type=int, default=200)
    parser.add_argument("--shape", default="", help="of variable inputs, NAME:1,2")
    given = parser.parse_args()
    print("| model | search | measurements | of brute's | s | chosen | of brute's best |")
    print("|---|---|---|---|---|---|---|")
    is_met = True
    with tempfile.TemporaryDirectory() as name:
        for model in given.models:
            everything, took_s = analyse(model, "brute", given, Path(name, f"{model}-brute"))
            top = best_of(everything)
            print(f"| {model} | brute | {len(everything)} | 100 % | {took_s:.0f} |  | 100 % |")
            for search in given.searches:
                folder = Path(name, f"{model}-{search}")
                rows, took_s = analyse(model, search, given, folder)
                chosen = rows[0]["setting"]
                cost = cost_of(rows) / cost_of(everything)
                found = best_of(everything, chosen) / top
                is_met = is_met and cost <= COST_BAR and found >= FOUND_BAR
                print(
                    f"| {model} | {search} | {len(rows)} | {cost:.0%} | {took_s:.0f} | {chosen} | "
                    f"{found:.0%} |",
                    flush=True,
                )
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
