# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta genai-perf process-export-files``: one report of runs that measured at the same time.

Triton: perf_analyzer/genai-perf/genai_perf/subcommand/process_export_files.py,
profile_data_parser/merged_profile_parser.py @263c5f6
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from backends.api.errors import InvalidArgumentError
from manta_tools.perf.genai.endpoints import ENDPOINTS, TensorNames
from manta_tools.perf.genai.export import Row
from manta_tools.perf.genai.metrics import SYSTEM_METRICS, Statistics
from manta_tools.perf.genai.parsing import Parser
from manta_tools.perf.genai.reporting import Reading, report
from manta_tools.perf.genai.tokenizing import read_tokenizer

_SUFFIX: Final = "_genai_perf.json"
# Of the runs together; the others are those of all requests.
_ADDED: Final = tuple(name for name in SYSTEM_METRICS if name != "request_count")


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """What is merged, and where to."""

    directory: Path = Path("aggregated")
    artifact_dir: Path = Path("artifacts")
    profile_export_file: str = "profile_export.json"


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """The two files of one run.

    Attributes:
        export: All requests, in perf_analyzer's schema.
        metrics: Its metrics and options.
    """

    export: Mapping[str, Any]
    metrics: Mapping[str, Any]

    @property
    def rows(self) -> Sequence[Row]:
        """Its requests."""
        rows: Sequence[Row] = self.export["experiments"][0]["requests"]
        return rows


def parse_merge(argv: Sequence[str]) -> MergeOptions:
    """Read the arguments after ``process-export-files``.

    Raises:
        UsageError: An option is unknown, or lacks its value.
    """
    return MergeOptions(**vars(_parser().parse_args(argv)))


def merge_usage() -> str:
    """Render the help."""
    return _parser().format_help().rstrip()


def merge(options: MergeOptions) -> str:
    """Write the files of all runs together, and return what is printed.

    Raises:
        InvalidArgumentError: There is no run, files are none of a run's, or runs differ in what
            they asked.
        UnavailableError: No answer has a text.
    """
    runs = _runs(options.directory)
    config = runs[0].metrics["input_config"]
    directory = options.artifact_dir / Path(config["output"]["artifact_directory"]).name
    directory.mkdir(parents=True, exist_ok=True)
    rows = [row for run in runs for row in run.rows]
    experiment = {**runs[0].export["experiments"][0], "requests": rows}
    export = directory / options.profile_export_file
    export.write_bytes(orjson.dumps({**runs[0].export, "experiments": [experiment]}))
    text = report(rows, _reading(config), config, export, _added(runs))
    return f"{text}\nFiles of {len(runs)} runs are in {directory}"


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="manta genai-perf process-export-files")
    default = MergeOptions()
    parser.add_argument(
        *("-d", "--input-directory"),
        dest="directory",
        type=Path,
        default=default.directory,
        help=f"Where each run has a folder. Default {default.directory}.",
    )
    parser.add_argument(
        "--artifact-dir",
        type=Path,
        default=default.artifact_dir,
        help=f"Where the folder of the files is made. Default {default.artifact_dir}.",
    )
    parser.add_argument(
        "--profile-export-file",
        default=default.profile_export_file,
        help=f"Name of the file of all requests. Default {default.profile_export_file}.",
    )
    return parser


def _runs(directory: Path) -> list[ExportedRun]:
    """Read all runs, in the order of their folders' names."""
    found = [_run(path) for path in sorted(directory.glob(f"*/*{_SUFFIX}"))]
    if not found:
        raise InvalidArgumentError(
            f"-d {directory} has no run; expected folders with a profile_export.json and a "
            f"profile_export{_SUFFIX} each"
        )
    asked = {str(run.metrics["input_config"]["endpoint"]) for run in found}
    if len(asked) > 1:
        raise InvalidArgumentError(
            f"-d {directory}: the runs differ in the endpoint that they asked; merge those of one"
        )
    return found


def _run(metrics: Path) -> ExportedRun:
    export = metrics.with_name(f"{metrics.name.removesuffix(_SUFFIX)}.json")
    try:
        run = ExportedRun(orjson.loads(export.read_bytes()), orjson.loads(metrics.read_bytes()))
        is_run = isinstance(run.rows, list) and "endpoint" in run.metrics["input_config"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise InvalidArgumentError(f"{export} and {metrics} cannot be read: {error}") from None
    if not is_run:
        raise InvalidArgumentError(f"{export} and {metrics} are none of a run's files")
    return run


def _added(runs: Sequence[ExportedRun]) -> dict[str, Statistics]:
    """Return the rates of the whole, which ran on several machines at the same time."""
    return {
        name: {
            "unit": SYSTEM_METRICS[name][0],
            "avg": sum(run.metrics[name]["avg"] for run in runs),
        }
        for name in _ADDED
        if all(name in run.metrics for run in runs)
    }


def _reading(config: Mapping[str, Any]) -> Reading:
    asked = config["endpoint"]
    kind = asked["backend"] if asked["type"] == "kserve" else asked["type"]
    names = TensorNames()
    return Reading(
        ENDPOINTS[kind],
        TensorNames(
            asked.get("text_input_name", names.text_input),
            asked.get("text_output_name", names.text_output),
        ),
        read_tokenizer(config["tokenizer"]["name"]),
        asked["streaming"],
        config["tokenizer"].get("ignores_server", False),
        config["input"].get("goodput") or {},
    )
