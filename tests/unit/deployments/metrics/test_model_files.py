# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from deployments.metrics.model_files import render_model_cache, render_repositories
from deployments.model_files.counters import CacheStatistics
from deployments.model_files.layout import open_layout
from deployments.model_files.statistics_file import StatisticsFile


def test_repositories_are_one_or_zero() -> None:
    page = render_repositories({"s3://b/models": True, 'gs://"odd"': False}).decode()
    (family,) = text_string_to_metric_families(page)
    assert (family.name, family.type) == ("manta_repository_reachable", "gauge")
    assert {row.labels["repository"]: row.value for row in family.samples} == {
        "s3://b/models": 1,
        'gs://"odd"': 0,
    }


def test_without_repositories_there_is_no_family() -> None:
    assert render_repositories({}) == b""


def test_the_counters_of_a_nodes_cache_have_its_name(tmp_path: Path) -> None:
    seen = CacheStatistics(1, 2, downloaded_bytes=70, from_peers_bytes=30, seconds=1.5, evictions=4)
    seen = replace(seen, prefetched_bytes=50)
    StatisticsFile(open_layout(tmp_path), "n1", lambda: seen).close()
    families = list(text_string_to_metric_families(render_model_cache(tmp_path, "n1").decode()))
    assert all(each.type == "counter" and each.documentation for each in families)
    rows = [row for each in families for row in each.samples]
    assert all(row.labels == {"node": "n1"} for row in rows)
    assert {row.name.removeprefix("manta_model_cache_"): row.value for row in rows} == {
        "hits_total": 1,
        "misses_total": 2,
        "from_store_bytes_total": 40,
        "from_peers_bytes_total": 30,
        "seconds_total": 1.5,
        "evictions_total": 4,
        "manta_prefetched_bytes_total": 50,
    }


def test_a_node_that_fetched_nothing_has_no_rows(tmp_path: Path) -> None:
    assert render_model_cache(tmp_path / "none", "n1") == b""
    assert not (tmp_path / "none").exists()
