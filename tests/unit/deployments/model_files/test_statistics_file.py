# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from deployments.model_files.counters import CacheCounters, CacheStatistics
from deployments.model_files.layout import open_layout
from deployments.model_files.statistics_file import StatisticsFile, read_statistics


def test_what_is_written_last_is_read(tmp_path: Path) -> None:
    counters = CacheCounters()
    file = StatisticsFile(open_layout(tmp_path), "n1", counters.statistics)
    assert read_statistics(tmp_path, "n1") == CacheStatistics()
    counters.count(hits=3, seconds=0.25)
    file.write()
    assert read_statistics(tmp_path, "n1") == CacheStatistics(hits=3, seconds=0.25)
    assert [path.name for path in (tmp_path / "statistics" / "n1").iterdir()] == ["now.json"]
    file.close()


def test_nodes_that_share_a_folder_keep_their_own(tmp_path: Path) -> None:
    layout = open_layout(tmp_path)
    files = [
        StatisticsFile(layout, "n1", lambda: CacheStatistics(hits=1)),
        StatisticsFile(layout, "n2", lambda: CacheStatistics(hits=2)),
    ]
    seen = [read_statistics(tmp_path, node) for node in ("n1", "n2")]
    assert [each and each.hits for each in seen] == [1, 2]
    for file in files:
        file.close()


def test_what_ended_processes_have_left_is_removed(tmp_path: Path) -> None:
    layout = open_layout(tmp_path)
    StatisticsFile(layout, "gone", CacheStatistics).close()
    assert read_statistics(tmp_path, "gone") is not None
    StatisticsFile(layout, "n1", CacheStatistics).close()
    assert read_statistics(tmp_path, "gone") is None
    assert not list(layout.trash.iterdir())


def test_a_file_of_something_else_is_taken_for_none(tmp_path: Path) -> None:
    StatisticsFile(open_layout(tmp_path), "n1", CacheStatistics).close()
    path = tmp_path / "statistics" / "n1" / "now.json"
    for text in ("", "{", '{"hits": "many"}'):
        path.write_text(text)
        assert read_statistics(tmp_path, "n1") is None
