# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Manta and a real Triton side by side: one repository, one machine, interleaved runs.

Both servers run for the whole time and are loaded in turn, so that noise of the machine hits both.
Only the ratios of the medians mean something. All are to Triton's Python backend, also those of
Manta's ONNX models. Usage: bench.py [--rounds 5] [--only REGEX] [--json FILE]
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from itertools import groupby
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


def _write_data(cases: list[Case], work: Path) -> None:
    names = {name for case in cases for name in (case.model, case.on_manta)}
    write_repository(work / "models", names)
    write_onnx_repository(work / "onnx", names)
    # Integers would not be read as floats.
    ramp = [float(number % RAMP) for number in range(FLOATS)]
    data = {"data": [{"INPUT0": {"content": ramp, "shape": [FLOATS]}}]}
    (work / "ramp.json").write_text(json.dumps(data))


def _compare(cases: list[Case], work: Path, rounds: int, *, onnx_on_both: bool) -> list[Row]:
    """Measure cases of one setup."""
    setup = SETUPS[cases[0].setup]
    both = [work / "models", work / "onnx"]
    common = both if onnx_on_both or setup.reference == "manta" else both[:1]
    start = SERVERS[setup.reference]
    rows = []
    with (
        start(common, work, name=setup.reference, tls=setup.reference_tls) as reference,
        manta(both, work, name="manta-compared", tls=setup.manta_tls) as compared,
    ):
        targets = (reference, compared)
        for case in cases:
            for target in targets:
                warm_up(case, target, work)
            results: dict[str, list[Result | None]] = {target.name: [] for target in targets}
            for _ in range(rounds):
                for target in targets:
                    results[target.name].append(measure(case, target, work))
            rows.append(Row(case, results[reference.name], results[compared.name]))
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
    onnx_on_both = _has_onnx()
    cases = [
        case for case in all_cases(onnx_on_both=onnx_on_both) if re.search(args.only, case.name)
    ]
    rows = []
    with tempfile.TemporaryDirectory(prefix="manta-bench-") as folder:
        work = Path(folder)
        _write_data(cases, work)
        for _, group in groupby(cases, key=lambda case: case.setup):
            of_setup = list(group)
            try:
                rows += _compare(of_setup, work, args.rounds, onnx_on_both=onnx_on_both)
            except NotReadyError as error:
                print(error, file=sys.stderr, flush=True)
                rows += [Row(case, (), ()) for case in of_setup]
    print(heading(args.rounds))
    print(table(rows))
    if args.json:
        write_json(rows, args.json)


if __name__ == "__main__":
    main()
