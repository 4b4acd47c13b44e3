# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The settings a server starts with, out of its options."""

import time
from collections.abc import Mapping, Sequence

from cluster.options.starting import AUTO
from cluster.options.table import ServerOptions
from deployments.rate_limiter.arbiter import Limit
from deployments.settings.metrics_settings import MetricsSettings, read_metrics_config
from deployments.settings.server_settings import (
    TRITON_MODE,
    LogSettings,
    ServerSettings,
    TraceSettings,
)
from deployments.settings.wait_for_models import WaitForModels

_LEVELS = ("TIMESTAMPS", "TENSORS")
_KUBERNETES_DRAIN_DELAY_S = 5.0


def log_settings(options: ServerOptions) -> LogSettings:
    """Return the log settings that the options ask for."""
    return LogSettings(
        file=options.log_file,
        info=options.log_info,
        warning=options.log_warning,
        error=options.log_error,
        verbose_level=options.log_verbose,
        format=options.log_format,
    )


def metrics_settings(options: ServerOptions) -> MetricsSettings:
    """Return the settings of metrics that the options ask for."""
    return read_metrics_config(
        options.metrics_config,
        interval_ms=options.metrics_interval_ms,
        has_cpu=options.allow_cpu_metrics,
        has_gpu=options.allow_gpu_metrics,
    )


def settings_at_start(options: ServerOptions) -> ServerSettings:
    """Return all settings that the options ask for."""
    trace = _trace_settings(options)
    return ServerSettings(
        log=log_settings(options),
        trace=trace,
        trace_at_start=trace,
        started_s=time.time(),
        metrics=metrics_settings(options),
    )


def _trace_settings(options: ServerOptions) -> TraceSettings:
    given = {(mode, key): value for mode, key, value in options.trace_config}
    mode = given.get(("", "mode"), TRITON_MODE)
    levels = {
        value for prefix, key, value in options.trace_config if (prefix, key) == ("", "level")
    }
    return TraceSettings(
        level=tuple(level for level in _LEVELS if level in levels),
        rate=int(given.get(("", "rate"), "1000")),
        count=int(given.get(("", "count"), "-1")),
        log_frequency=int(given.get((TRITON_MODE, "log-frequency"), "0")),
        file=given.get((TRITON_MODE, "file"), ""),
        mode=mode,
        # All of them: there may be several resources.
        extra=tuple((key, value) for prefix, key, value in options.trace_config if prefix == mode)
        if mode != TRITON_MODE
        else (),
    )


def cache_settings(
    cache_config: Sequence[tuple[str, str, str]],
) -> tuple[str, dict[str, str]] | None:
    """Return the name and the settings of the response cache; None without one."""
    if not cache_config:
        return None
    return cache_config[0][0], {key: value for _, key, value in cache_config}


def resource_limits(options: ServerOptions) -> tuple[Limit, ...] | None:
    """Return the rate limiter's resources; None while it is off."""
    if options.rate_limit == "off":
        return None
    return tuple(Limit(*row) for row in options.rate_limit_resource)


def drain_delay_s(options: ServerOptions, environment: Mapping[str, str]) -> float:
    """Return how long an ingress that ends goes on accepting, in seconds."""
    if options.drain_delay_secs != "auto":
        return float(options.drain_delay_secs)
    return _KUBERNETES_DRAIN_DELAY_S if "KUBERNETES_SERVICE_HOST" in environment else 0.0


def models_waited_for(options: ServerOptions) -> WaitForModels:
    """Return what ``--wait-for-models`` means together with ``--exit-on-error``."""
    if options.wait_for_models != AUTO:
        return WaitForModels(options.wait_for_models)
    return WaitForModels.ALL if options.exit_on_error else WaitForModels.ATTEMPTED
