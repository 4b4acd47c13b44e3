# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The settings a server starts with, out of its options."""

import time
from collections.abc import Mapping, Sequence

from backends.config.placement import read_label_selector
from cluster.options.own import AUTO
from cluster.options.table import ServerOptions
from deployments.admission.rules import AdmissionDefaults
from deployments.rate_limiter.arbiter import Limit
from deployments.settings.connection_limits import ConnectionLimits
from deployments.settings.lane_settings import LaneSettings
from deployments.settings.metrics_settings import MetricsSettings, read_metrics_config
from deployments.settings.port_range import read_port_range
from deployments.settings.server_settings import (
    TRITON_MODE,
    LogSettings,
    ServerSettings,
    TraceSettings,
)
from deployments.settings.wait_for_models import WaitForModels

_LEVELS = ("TIMESTAMPS", "TENSORS")
_US_PER_MS = 1000.0
_KUBERNETES_DRAIN_DELAY_S = 5.0


def log_settings(options: ServerOptions) -> LogSettings:
    """Return the log settings that the options ask for."""
    return LogSettings(
        file=options.log_file,
        info=options.log_info,
        warning=options.log_warning,
        error=options.log_error,
        verbose_level=max(options.log_verbose, int(options.verbose)),
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


def lane_settings(options: ServerOptions) -> LaneSettings:
    """Return what processes have to know of lanes."""
    return LaneSettings(
        slab_threshold_bytes=options.lane_slab_threshold_bytes,
        heartbeat_timeout_s=options.instance_heartbeat_timeout_secs,
        ports=read_port_range(options.lane_port_range),
        tls=options.lane_tls,
    )


def ingress_label_selector(options: ServerOptions) -> Mapping[str, str]:
    """Return the conditions of nodes with an ingress; none for all nodes."""
    text = options.ingress_label_selector
    return read_label_selector(text) if text else {}


def admission_defaults(options: ServerOptions) -> AdmissionDefaults:
    """Return what gates have to know."""
    return AdmissionDefaults(
        is_on=options.admission == "adaptive",
        target_queue_us=round(options.admission_target_queue_ms * _US_PER_MS),
        burst_us=max(1, round(options.admission_burst_ms * _US_PER_MS)),
        max_requests=options.admission_max_requests,
    )


def http_connections(options: ServerOptions) -> ConnectionLimits:
    """Return the bounds of HTTP connections."""
    return ConnectionLimits(
        count=options.http_max_connections,
        per_peer=options.http_max_connections_per_peer,
        idle_s=options.http_idle_timeout_secs,
        read_s=options.http_read_timeout_secs,
        write_s=options.http_write_timeout_secs,
    )


def grpc_connections(options: ServerOptions) -> ConnectionLimits:
    """Return the bounds of gRPC connections."""
    return ConnectionLimits(
        count=options.grpc_max_connections,
        per_peer=options.grpc_max_connections_per_peer,
        stream_count=options.grpc_max_concurrent_streams,
        write_s=options.grpc_write_timeout_secs,
    )
