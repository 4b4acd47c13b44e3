# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Plots of reports, and the configurations that detailed reports are about.

Triton: model_analyzer/model_analyzer/config/input/config_defaults.py, objects/config_plot.py
@63a0fec
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from manta_tools.analyze.options import values
from manta_tools.analyze.tags import TAGS

_KEYS: Final = ("title", "x_axis", "y_axis", "monotonic")
# Axes beside the metrics.
_COUNTS: Final = ("batch_size", "concurrency", "request_rate")


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot.

    Attributes:
        name: Its file's.
        title: Its heading.
        x_axis: A tag, or batch_size, concurrency, request_rate.
        y_axis: The same.
        monotonic: Whether points that fall are left out.
    """

    name: str
    title: str
    x_axis: str
    y_axis: str
    monotonic: bool = False


@dataclass(frozen=True, slots=True)
class ReportedConfig:
    """A configuration that gets a detailed report; without plots of its own the global ones."""

    name: str
    plots: tuple[Plot, ...] = ()


_P99: Final = "perf_latency_p99"
SUMMARY_PLOTS: Final = (
    Plot("throughput_v_latency", "Throughput vs. Latency", _P99, "perf_throughput", monotonic=True),
    Plot("gpu_mem_v_latency", "GPU Memory vs. Latency", _P99, "gpu_used_memory"),
    Plot("cpu_mem_v_latency", "CPU Memory vs. Latency", _P99, "cpu_used_ram"),
)
DETAILED_PLOTS: Final = (
    Plot("gpu_mem_v_latency", "GPU Memory vs. Latency", _P99, "gpu_used_memory"),
    Plot("gpu_util_v_latency", "GPU Utilization vs. Latency", _P99, "gpu_utilization"),
    Plot("cpu_mem_v_latency", "RAM Usage vs. Latency", _P99, "cpu_used_ram"),
    Plot("gpu_power_v_latency", "GPU Power vs. Latency", _P99, "gpu_power_usage"),
)


def read_plots(name: str, given: Any) -> tuple[Plot, ...]:
    """Read plots by name."""
    return tuple(_plot(f"{name}.{key}", key, each) for key, each in _items(name, given))


def read_configs(name: str, given: Any) -> tuple[ReportedConfig, ...]:
    """Read names with commas between, a list of them, or names with their plots."""
    if not isinstance(given, Mapping):
        return tuple(map(ReportedConfig, values.words(name, given)))
    found = []
    for config, node in _items(name, given):
        rows = values.mapping(f"{name}.{config}", {} if node is None else node)
        for key in rows:
            if key != "plots":
                raise values.unknown(f"key of '{name}.{config}'", key, ("plots",))
        found.append(
            ReportedConfig(config, read_plots(f"{name}.{config}.plots", rows.get("plots", {})))
        )
    return tuple(found)


def _items(name: str, given: Any) -> list[tuple[str, Any]]:
    if isinstance(given, list):
        return [pair for row in given for pair in values.mapping(name, row).items()]
    return list(values.mapping(name, given).items())


def _plot(where: str, name: str, node: Any) -> Plot:
    rows = values.mapping(where, node)
    for key in rows:
        if key not in _KEYS:
            raise values.unknown(f"key of '{where}'", key, _KEYS)
    missing = [key for key in ("x_axis", "y_axis") if key not in rows]
    if missing:
        raise values.refused(where, rows, f"its {' and '.join(missing)}")
    axes = {key: values.text(where, rows[key]) for key in ("x_axis", "y_axis")}
    for tag in axes.values():
        if tag not in TAGS and tag not in _COUNTS:
            raise values.unknown(f"the axis of '{where}'", tag, (*TAGS, *_COUNTS))
    return Plot(
        name,
        values.text(where, rows.get("title", name)),
        axes["x_axis"],
        axes["y_axis"],
        monotonic=values.flag(where, rows.get("monotonic", False)),
    )
