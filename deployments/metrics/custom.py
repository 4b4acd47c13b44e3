# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of models' own on the metrics page: those of all instances become one family. Pure.

Triton's instances share one registry. Here each has its own: counters and histograms add up; a
gauge is the sum of what instances added, or, once it is set, the value of who set it last.
"""

import itertools
import logging
import math
from collections.abc import Collection, Iterable

from backends.api.custom_metrics import CustomFamily, CustomMetric, MetricKind
from deployments.metrics.exposition import head, label_set

logger = logging.getLogger(__name__)

_ESCAPED_HELP = str.maketrans({"\\": "\\\\", "\n": "\\n"})

# Families that were left out, so that each is logged once.
_left_out: set[str] = set()


def render_custom(families: Iterable[CustomFamily], taken: Collection[str] = ()) -> list[str]:
    """Return lines of the metrics page: counters, then gauges, then histograms.

    Args:
        families: Of all instances.
        taken: Names of families that the page has already; models' own of these names are left
            out, like those whose kind differs from the first of their name.
    """
    merged: dict[str, CustomFamily] = {}
    rows: dict[str, dict[tuple[tuple[str, str], ...], CustomMetric]] = {}
    for family in families:
        first = merged.setdefault(family.name, family)
        if family.name in taken or first.kind is not family.kind:
            _leave_out(family)
            continue
        known = rows.setdefault(family.name, {})
        for metric in family.metrics:
            key = tuple(metric.labels)
            known[key] = _fold(family.kind, known[key], metric) if key in known else metric
    lines: list[str] = []
    for name in sorted(rows, key=lambda name: merged[name].kind):
        kind, description = merged[name].kind, merged[name].description
        lines += head(name, kind.name.lower(), description.translate(_ESCAPED_HELP))
        for metric in rows[name].values():
            lines.extend(_lines(name, kind, metric))
    return lines


def on_node(family: CustomFamily, node: str) -> CustomFamily:
    """Return a family with a label that says where it was counted; a model's own of it stays."""
    metrics = [
        CustomMetric(
            sorted({"node": node, **dict(each.labels)}.items()),
            each.value,
            each.set_ns,
            each.bounds,
            each.counts,
        )
        for each in family.metrics
    ]
    return CustomFamily(family.name, family.description, family.kind, metrics)


def _leave_out(family: CustomFamily) -> None:
    if family.name not in _left_out:
        _left_out.add(family.name)
        logger.warning(
            "metrics '%s' (%s) of a model are not shown: another family has this name",
            family.name,
            family.kind.name,
        )


def _fold(kind: MetricKind, one: CustomMetric, other: CustomMetric) -> CustomMetric:
    if kind is MetricKind.GAUGE and (one.set_ns or other.set_ns):
        return max(one, other, key=lambda metric: metric.set_ns)
    if one.bounds != other.bounds:
        # As in Triton, where the second family would have been given the first one's metric.
        return one
    counts = [ours + theirs for ours, theirs in zip(one.counts, other.counts, strict=True)]
    return CustomMetric(one.labels, one.value + other.value, 0, one.bounds, counts)


def _lines(name: str, kind: MetricKind, metric: CustomMetric) -> Iterable[str]:
    labels = label_set(metric.labels)
    if kind is not MetricKind.HISTOGRAM:
        yield f"{name}{labels} {_number(metric.value)}"
        return
    yield f"{name}_count{labels} {sum(metric.counts)}"
    yield f"{name}_sum{labels} {_number(metric.value)}"
    bounds = [*map(_number, metric.bounds), "+Inf"]
    for bound, total in zip(bounds, itertools.accumulate(metric.counts), strict=True):
        yield f"{name}_bucket{label_set([*metric.labels, ('le', bound)])} {total}"


def _number(value: float) -> str:
    if math.isnan(value):
        return "Nan"
    return f"{value:.16g}" if math.isfinite(value) else f"{'+' if value > 0 else '-'}Inf"
