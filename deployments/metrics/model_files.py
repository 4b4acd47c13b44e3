# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of where models come from: the repositories and the node's cache. Triton has none."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deployments.metrics.exposition import head, label_set
from deployments.model_files.statistics_file import read_statistics

_REACHABLE: Final = "manta_repository_reachable"
# Name, help text and field of `CacheStatistics`.
_CACHE_FAMILIES: Final = (
    (
        "manta_model_cache_hits_total",
        "Number of model files that fetches found in the node's cache",
        "hits",
    ),
    (
        "manta_model_cache_misses_total",
        "Number of model files that had to be downloaded to the node's cache",
        "misses",
    ),
    (
        "manta_model_cache_from_store_bytes_total",
        "Bytes that the node's cache got from stores",
        "from_store_bytes",
    ),
    (
        "manta_model_cache_from_peers_bytes_total",
        "Bytes that the node's cache got from other nodes",
        "from_peers_bytes",
    ),
    (
        "manta_model_cache_seconds_total",
        "Seconds that loads waited for model files which the node's cache did not have",
        "seconds",
    ),
    (
        "manta_model_cache_evictions_total",
        "Number of directories, files and cut-off downloads removed to make room in the node's "
        "cache",
        "evictions",
    ),
    (
        "manta_prefetched_bytes_total",
        "Bytes that the node's cache got before anything needed them",
        "prefetched_bytes",
    ),
)


def render_repositories(reachable: Mapping[str, bool]) -> bytes:
    """Return the lines that the metrics page has about the repositories.

    Args:
        reachable: By repository, without credentials: whether it can be listed.
    """
    if not reachable:
        return b""
    text = "Whether the model repository could be listed when it was last tried, 1 or 0"
    lines = [*head(_REACHABLE, "gauge", text)]
    lines.extend(
        f"{_REACHABLE}{label_set([('repository', path)])} {int(is_reachable)}"
        for path, is_reachable in reachable.items()
    )
    lines.append("")
    return "\n".join(lines).encode()


def render_model_cache(folder: Path, node: str) -> bytes:
    """Return the lines that the metrics page has about a node's cache; reads a small file.

    Args:
        folder: The cache's folder.
        node: The node; nothing is said of one that has fetched nothing there.
    """
    statistics = read_statistics(folder, node)
    if statistics is None:
        return b""
    labels = label_set([("node", node)])
    lines: list[str] = []
    for name, text, field in _CACHE_FAMILIES:
        lines += [*head(name, "counter", text), f"{name}{labels} {getattr(statistics, field)}"]
    lines.append("")
    return "\n".join(lines).encode()
