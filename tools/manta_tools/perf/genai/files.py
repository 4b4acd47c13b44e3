# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The files ``*_genai_perf.json`` and ``*_genai_perf.csv``, named and laid out as genai-perf's.

Triton: perf_analyzer/genai-perf/genai_perf/export_data/json_exporter.py, csv_exporter.py @263c5f6
"""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from manta_tools.perf.genai import console
from manta_tools.perf.genai.endpoints import Endpoint
from manta_tools.perf.genai.metrics import Statistics, Summary
from manta_tools.perf.genai.options import GenaiOptions

_COLUMNS: Final = (
    "avg",
    "min",
    "max",
    "p99",
    "p95",
    "p90",
    "p75",
    "p50",
    "p25",
    "p10",
    "p5",
    "p1",
    "std",
)


def path_of(export: Path, suffix: str) -> Path:
    """Return the path of a file beside the one of all requests."""
    return export.with_name(f"{export.stem}_genai_perf.{suffix}")


def csv_report(statistics: Mapping[str, Statistics], *, is_streaming: bool) -> str:
    """Return the CSV: a table of metrics of requests, and one of those of the run."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["Metric", *_COLUMNS])
    writer.writerows(console.rows(statistics, _COLUMNS, is_streaming=is_streaming))
    writer.writerow([])
    writer.writerow(["Metric", "Value"])
    writer.writerows(console.system_rows(statistics))
    return text.getvalue()


def json_report(summary: Summary, config: Mapping[str, Any], counting: Mapping[str, Any]) -> str:
    """Return the JSON.

    Args:
        summary: The metrics.
        config: The run's options, as `input_config` has them.
        counting: Who counted the tokens.
    """
    found: dict[str, Any] = {**summary.statistics, "input_config": config, "token_counts": counting}
    if summary.sessions:
        found["sessions"] = summary.sessions
    return json.dumps(found, indent=2)


def input_config(options: GenaiOptions, endpoint: Endpoint, directory: Path) -> dict[str, Any]:
    """Return the options in the sections of genai-perf's configuration."""
    found: dict[str, Any] = {"subcommand": "profile"}
    for key, name in _KEYS.items():
        _put(found, key, getattr(options, name))
    given = {name: getattr(options, name) for name in _LOADS if getattr(options, name)}
    _put(found, "perf_analyzer.stimulus", given or {"concurrency": 1})
    _put(found, "input.goodput", dict(options.goodput))
    extra = {name: value for group in options.extra_inputs for name, value in group}
    _put(found, "input.extra", extra)
    _put(found, "endpoint.service_kind", endpoint.service_kind)
    _put(found, "output.artifact_directory", str(directory))
    return found


def _put(target: dict[str, Any], dotted: str, value: Any) -> None:
    *sections, key = dotted.split(".")
    for section in sections:
        target = target.setdefault(section, {})
    target[key] = list(value) if isinstance(value, tuple) else value


_LOADS: Final = ("concurrency", "request_rate", "fixed_schedule", "session_concurrency")
# Where the options stand that are there as they are.
_KEYS: Final = {
    "model_names": "models",
    "verbose": "verbose",
    "endpoint.model_selection_strategy": "model_selection_strategy",
    "endpoint.backend": "backend",
    "endpoint.custom": "endpoint",
    "endpoint.type": "endpoint_type",
    "endpoint.streaming": "streaming",
    "endpoint.url": "url",
    "endpoint.text_input_name": "text_input_name",
    "endpoint.text_output_name": "text_output_name",
    "endpoint.stream_name": "stream_name",
    "endpoint.sampling_parameters_name": "sampling_parameters_name",
    "perf_analyzer.stability_percentage": "stability_percentage",
    "perf_analyzer.warmup_request_count": "warmup_request_count",
    "perf_analyzer.measurement.interval": "measurement_interval",
    "perf_analyzer.measurement.request_count": "request_count",
    "input.file": "input_file",
    "input.header": "header",
    "input.num_dataset_entries": "num_dataset_entries",
    "input.random_seed": "random_seed",
    "input.synthetic_tokens.mean": "synthetic_input_tokens_mean",
    "input.synthetic_tokens.stddev": "synthetic_input_tokens_stddev",
    "input.output_tokens.mean": "output_tokens_mean",
    "input.output_tokens.stddev": "output_tokens_stddev",
    "input.output_tokens.deterministic": "output_tokens_mean_deterministic",
    "input.prefix_prompt.num": "num_prefix_prompts",
    "input.prefix_prompt.length": "prefix_prompt_length",
    "input.sessions.num": "num_sessions",
    "input.sessions.turns.mean": "session_turns_mean",
    "input.sessions.turns.stddev": "session_turns_stddev",
    "input.sessions.turn_delay.mean": "session_turn_delay_mean",
    "input.sessions.turn_delay.stddev": "session_turn_delay_stddev",
    "input.sessions.turn_delay.ratio": "session_delay_ratio",
    "output.profile_export_file": "profile_export_file",
    "tokenizer.name": "tokenizer",
    "tokenizer.ignores_server": "no_server_tokens",
}
