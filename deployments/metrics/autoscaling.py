# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How many instances versions that autoscale shall have, and have, as Prometheus text."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from backends.api.model_identifier import name_of, namespace_of
from deployments.metrics.exposition import head, label_set


class ScaledVersion(NamedTuple):
    """One version that autoscales.

    Attributes:
        key: Key of its model.
        version: Version number.
        desired: The instances it shall have.
        current: The live ones that take requests.
    """

    key: str
    version: int
    desired: int
    current: int


_FAMILIES: Final = (
    (
        "manta_autoscaling_desired_instances",
        "Desired number of instances of a model version",
        "desired",
    ),
    (
        "manta_autoscaling_instances",
        "Instances of a model version that take requests",
        "current",
    ),
)


def render_autoscaling(versions: Sequence[ScaledVersion]) -> bytes:
    """Return the gauges; nothing when no version autoscales.

    They are those of the whole cluster: every ingress tells the same.
    """
    if not versions:
        return b""
    lines: list[str] = []
    for name, text, field_name in _FAMILIES:
        lines += head(name, "gauge", text)
        lines += [
            f"{name}{_labels(each.key, each.version)} {getattr(each, field_name)}"
            for each in versions
        ]
    return "\n".join([*lines, ""]).encode()


def _labels(key: str, version: int) -> str:
    labels = [("model", name_of(key)), ("version", str(version))]
    if namespace_of(key):
        labels.insert(1, ("namespace", namespace_of(key)))
    return label_set(labels)
