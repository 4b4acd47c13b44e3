# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The CSV files of results, and the tables that are printed."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from manta_tools.analyze.options.table import AnalyzeOptions
from manta_tools.analyze.results.rows import (
    Found,
    Row,
    columns_of,
    gpu_rows,
    idle_rows,
    inference_rows,
    is_on_cpus,
    without_unused_gpus,
)
from manta_tools.analyze.results.tables import Table, as_csv, as_text, read_csv, table

# All columns and all metrics by their tags; reports are made of it.
ALL_MEASUREMENTS: Final = "metrics-all.csv"
_FOLDER: Final = "results"


def write_results(
    found: Sequence[Found],
    idle_gpus: Mapping[str, Mapping[str, float]],
    options: AnalyzeOptions,
    say: Callable[[str], None],
) -> None:
    """Print the tables and write them as CSV files; one without rows is left out.

    GPUs are told of where a configuration may use them, unless options want them always.
    """
    rows = [row for each in found for row in inference_rows(each)]
    of_gpus = [
        row
        for each in found
        for row in gpu_rows(each)
        if options.always_report_gpu_metrics or not is_on_cpus(row)
    ]
    succeeded = _reported([row for row in rows if not row.get("error")], options)
    shown = (
        (
            options.filename_server_only,
            table("Server Only", options.server_output_fields, idle_rows(idle_gpus)),
        ),
        (
            options.filename_model_inference,
            table("Models (Inference)", options.inference_output_fields, succeeded),
        ),
        (
            options.filename_model_gpu,
            table("Models (GPU Metrics)", options.gpu_output_fields, of_gpus),
        ),
    )
    folder = Path(options.export_path, _FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    for name, each in shown:
        if each.rows:
            for missing in each.missing:
                say(f"warning: column '{missing}' of '{each.title}' has no data")
            say(as_text(each))
            (folder / name).write_text(as_csv(each))
            say(f"{each.title} written to {folder / name}")
    whole = Table("All", columns_of(rows), tuple(rows))
    (folder / ALL_MEASUREMENTS).write_text(as_csv(whole, has_tags=True))


def read_all(options: AnalyzeOptions, models: Sequence[str]) -> list[Row]:
    """Return the rows of models from the file with all measurements.

    Those on CPUs are without metrics of GPUs, unless options want them always.
    """
    text = Path(options.export_path, _FOLDER, ALL_MEASUREMENTS).read_text()
    rows = [row for row in read_csv(text) if row["model_name"] in models]
    return _reported(rows, options)


def _reported(rows: list[Row], options: AnalyzeOptions) -> list[Row]:
    return rows if options.always_report_gpu_metrics else without_unused_gpus(rows)
