# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What servers of tests took to start."""

import json
from pathlib import Path

import pytest

from tests.support import start_times
from tests.support.start_times import StartClock, main


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache/times.jsonl"
    monkeypatch.setattr(start_times, "FILE", path)
    return path


def started(*lines: str) -> None:
    clock = StartClock()
    for line in lines:
        clock.saw(line)
    clock.told_to_end()
    clock.ended()


def test_a_server_is_kept_with_what_it_came_to(file):
    started("Started\n", "1 model ready after 2.0 s\n", "MANTA_READY {}\n")
    started()
    first, second = map(json.loads, file.read_text().splitlines())
    assert first["module"] == "tests/unit/test_start_times.py"
    assert 0 <= first["first_line_s"] <= first["ready_s"]
    assert first["models"] == 1
    assert first["end_s"] >= 0
    assert (second["first_line_s"], second["ready_s"], second["models"]) == (None, None, 0)


def test_a_server_that_is_told_to_end_twice_is_counted_once(file):
    clock = StartClock()
    for _ in range(2):
        clock.told_to_end()
        clock.ended()
    assert len(file.read_text().splitlines()) == 1


@pytest.mark.parametrize(("most", "status"), [("2", 0), ("1", 1)])
def test_more_starts_than_allowed_fail(file, capsys, monkeypatch, most, status):
    started("MANTA_READY {}\n")
    started("MANTA_READY {}\n")
    monkeypatch.setattr("sys.argv", ["start_times", "--most", most])
    assert main() == status
    printed = capsys.readouterr().out
    assert printed.splitlines()[2].split()[:2] == ["all", "2"]
    assert ("at most 1 are allowed" in printed) == bool(status)
