# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What options ask for: a server, how loads on it are measured, and who measures them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cluster.repository.stores.location import parse_location
from manta_tools.analyze.measuring.load import Conditions
from manta_tools.analyze.measuring.measurer import Models, TrialMeasurer
from manta_tools.analyze.measuring.server import (
    Addresses,
    EmbeddedServer,
    RunningServer,
    Server,
)
from manta_tools.analyze.options.table import AnalyzeOptions

REMOTE: Final = "remote"
_MS_PER_S: Final = 1000
_FLAGS_OF_MODE: Final = frozenset(
    {"model-repository", "model-control-mode", "load-model", "ray-address"}
)


def measurer_of(
    options: AnalyzeOptions, models: Models, on_report: Callable[[str, str], None] | None = None
) -> TrialMeasurer:
    """Return who measures trials on this machine; no server is started yet.

    Args:
        options: The options, completed.
        models: What is known of the models.
        on_report: Takes what the load generator says of a model, and the model's name.
    """
    return TrialMeasurer(
        server_of(options),
        conditions_of(options),
        models,
        max_retries=options.client_max_retries,
        on_report=on_report,
    )


def repository_of(options: AnalyzeOptions) -> str:
    """Return the model repository as every folder knows it: an absolute path, or a URL.

    Raises:
        TritonError: It is a URL of no store that there is.
    """
    folder = folder_of(options)
    return options.model_repository if folder is None else str(folder)


def folder_of(options: AnalyzeOptions) -> Path | None:
    """Return the folder of the models; None where they lie in a store. Raises as that does."""
    location = parse_location(options.model_repository)
    return Path(location.path).resolve() if location.is_local else None


def server_of(options: AnalyzeOptions) -> Server:
    """Return the server that options ask for; it is not started."""
    if options.triton_launch_mode == REMOTE:
        return RunningServer(
            Addresses(
                options.triton_http_endpoint,
                options.triton_grpc_endpoint,
                options.triton_metrics_url.removeprefix("http://").removesuffix("/metrics"),
            )
        )
    # The gauges that are read change as often as they are read.
    flags: dict[str, Any] = {"metrics-interval-ms": options.monitoring_interval * _MS_PER_S}
    flags |= options.triton_server_flags
    environment: dict[str, Any] = dict(options.triton_server_environment)
    for model in options.profile_models:
        flags |= model.server_flags
        environment |= model.server_environment
    return EmbeddedServer(
        [repository_of(options)],
        [
            f"--{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in flags.items()
            if name.replace("_", "-") not in _FLAGS_OF_MODE
        ],
        {name: str(value) for name, value in environment.items()},
        Path(options.triton_output_path) if options.triton_output_path else None,
    )


def conditions_of(options: AnalyzeOptions) -> Conditions:
    """Return how options want loads to be measured."""
    usual = Conditions()
    return replace(
        usual,
        protocol="http" if options.client_protocol == "http" else "grpc",
        timeout_s=float(options.perf_analyzer_timeout),
        gpus=frozenset(options.gpus) - {"all"},
        interval_s=options.monitoring_interval,
        idle_s=float(options.duration_seconds),
        flags={
            "max-trials": max(3, options.perf_analyzer_max_auto_adjusts),
            **options.perf_analyzer_flags,
        },
        model_flags={each.name: each.perf_analyzer_flags for each in options.profile_models},
    )
