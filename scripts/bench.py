# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Manta and a real Triton side by side: one repository, one machine, interleaved runs.

Both servers of a model run for the whole time and are loaded in turn, so that noise of the machine
hits both.
Only the ratios of the medians mean something. All are to Triton's Python backend, also those of
Manta's ONNX models. Usage: bench.py [--rounds 5] [--only REGEX] [--json FILE]
"""

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_cases import FLOATS, SETUPS, Case, all_cases
from bench_load import RAMP
from bench_measure import Result, measure, median, warm_up
from bench_models import write_onnx_repository, write_repository
from bench_report import Row, heading, table, write_json
from bench_servers import ROOT, SERVERS, NotReadyError, manta


def _has_onnx() -> bool:
    """Return whether the reference has Triton's backend of ONNX Runtime."""
    setup = ROOT / "scripts/setup_reference.sh"
    found = subprocess.run([setup], check=True, capture_output=True, text=True).stdout.strip()
    return Path(found, "backends/onnxruntime").exists()


def _write_data(folder: Path) -> None:
    # Integers would not be read as floats.
    ramp = [float(number % RAMP) for number in range(FLOATS)]
    data = {"data": [{"INPUT0": {"content": ramp, "shape": [FLOATS]}}]}
    (folder / "ramp.json").write_text(json.dumps(data))


def _repositories(folder: Path, name: str, model: str) -> list[Path]:
    """Write the repositories of a server that serves one model."""
    plain, onnx = folder / f"{name}-models", folder / f"{name}-onnx"
    write_repository(plain, {model})
    write_onnx_repository(onnx, {model})
    return [each for each in (plain, onnx) if any(each.iterdir())]


def _compare(cases: list[Case], work: Path, rounds: int) -> list[Row]:
    """Measure cases of one setup and one model."""
    setup = SETUPS[cases[0].setup]
    # Manta is the reference, too, where there is no other.
    name = f"{setup.reference}-reference"
    with tempfile.TemporaryDirectory(dir=work) as folder, contextlib.ExitStack() as stack:
        targets = []
        for start, who, tls in (
            (SERVERS[setup.reference], name, setup.reference_tls),
            (manta, "manta", setup.manta_tls),
        ):
            repositories = _repositories(Path(folder), who, cases[0].model_on(who))
            targets.append(stack.enter_context(start(repositories, work, name=who, tls=tls)))
        rows = []
        for case in cases:
            for target in targets:
                warm_up(case, target, work)
            results: dict[str, list[Result | None]] = {target.name: [] for target in targets}
            for _ in range(rounds):
                for target in targets:
                    results[target.name].append(measure(case, target, work))
            rows.append(Row(case, results[name], results["manta"]))
            found = (median(each) for each in results.values())
            print(f"{case.name}:", *found, sep="\n  ", file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Run the comparison and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="regular expression of the cases' names")
    parser.add_argument("--json", type=Path, help="file for all figures")
    args = parser.parse_args()
    found_cases = all_cases(onnx_on_both=_has_onnx())
    cases = [case for case in found_cases if re.search(args.only, case.name)]
    # An idle model takes CPU time, too: a server has no other than the one that is asked.
    groups: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.setup, case.model, case.on_manta), []).append(case)
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="manta-bench-") as folder:
        work = Path(folder)
        _write_data(work)
        for group in groups.values():
            try:
                found = _compare(group, work, args.rounds)
            except NotReadyError as error:
                print(error, file=sys.stderr, flush=True)
                found = [Row(case, (), ()) for case in group]
            rows.update((row.case.name, row) for row in found)
    ordered = [rows[case.name] for case in cases]
    print(heading(args.rounds))
    print(table(ordered))
    if args.json:
        write_json(ordered, args.json)


if __name__ == "__main__":
    main()
