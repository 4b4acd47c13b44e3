# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Rollouts as Prometheus text, from what the controller says of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from deployments.metrics.exposition import head, label_set

# Of an arm: name, type, text, the status's word and what that is multiplied by.
_OF_ARMS: Final = (
    ("weight", "gauge", "Share of requests that a version gets, 0 to 1", "weight", 0.01),
    (
        "requests_total",
        "counter",
        "Requests that a version of a rollout has answered",
        "requests",
        1,
    ),
    ("errors_total", "counter", "Requests that a version of a rollout has failed", "errors", 1),
    ("mirrored_total", "counter", "Requests sent to a version for comparison", "mirrored", 1),
    ("mirror_errors_total", "counter", "Mirrored requests that failed", "mirror_errors", 1),
    ("mismatches_total", "counter", "Mirrored requests with a different response", "mismatches", 1),
    ("mirror_dropped_total", "counter", "Requests that were not mirrored", "dropped", 1),
)
_QUANTILES: Final = (("0.5", "p50_us"), ("0.95", "p95_us"), ("0.99", "p99_us"))

Status = Mapping[str, Any]


def render_rollouts(statuses: Sequence[Status]) -> bytes:
    """Return the families; nothing when there is no rollout.

    They are those of the whole cluster: every ingress tells the same.
    """
    if not statuses:
        return b""
    lines: list[str] = []
    for name, kind, text, word, factor in _OF_ARMS:
        lines += head(f"manta_rollout_{name}", kind, text)
        lines += [
            f"manta_rollout_{name}{_labels(status, arm)} {arm[word] * factor:g}"
            for status, arm in _arms(statuses)
        ]
    name = "manta_rollout_latency_us"
    lines += head(
        name, "gauge", "Latency quantiles of a version since the rollout began, in microseconds"
    )
    for status, arm in _arms(statuses):
        for quantile, word in _QUANTILES:
            labels = _labels(status, arm, (("quantile", quantile),))
            if arm[word] is not None:
                lines.append(f"{name}{labels} {arm[word]:g}")
    lines += head("manta_rollout_phase", "gauge", "Phase of a rollout: 1 for the one it is in")
    for status in statuses:
        labels = label_set([("model", status["model"]), ("phase", status["phase"])])
        lines.append(f"manta_rollout_phase{labels} 1")
    lines += head("manta_rollout_decisions_total", "counter", "Decisions about a rollout")
    for status in statuses:
        labels = label_set([("model", status["model"])])
        lines.append(f"manta_rollout_decisions_total{labels} {status['decision_count']}")
    return "\n".join([*lines, ""]).encode()


def _arms(statuses: Sequence[Status]) -> Iterator[tuple[Status, Status]]:
    for status in statuses:
        for arm in status["arms"]:
            yield status, arm


def _labels(status: Status, arm: Status, more: Sequence[tuple[str, str]] = ()) -> str:
    labels = [("model", status["model"]), ("version", str(arm["version"])), ("arm", arm["name"])]
    return label_set([*labels, *more])
