# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Coverage floors: what a report of slipcover comes to by room, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.coverage_floors import (
    Reached,
    complaints,
    files_of,
    floors_for,
    main,
    room_of,
    rooms_of,
)


def row(lines: tuple[int, int], branches: tuple[int, int]) -> dict[str, Any]:
    """Return a file of a report: lines and branches, each covered and missing."""
    return {
        "summary": {
            "covered_lines": lines[0],
            "missing_lines": lines[1],
            "covered_branches": branches[0],
            "missing_branches": branches[1],
            "percent_covered": 0.0,
        }
    }


def report(**files: dict[str, Any]) -> dict[str, Any]:
    named = {name.replace("__", "/") + ".py": each for name, each in files.items()}
    return {"meta": {"branch_coverage": True}, "files": named}


@pytest.mark.parametrize(
    ("path", "room"),
    [
        ("cluster/actors/calls.py", "cluster/actors"),
        ("deployments/grpc/codec/request.py", "deployments/grpc"),
        ("deployments/ingress.py", "deployments/ingress.py"),
        ("tools/manta_tools/perf/load/closed.py", "tools/manta_tools/perf"),
    ],
)
def test_a_room_is_the_folder_below_its_package(path: str, room: str):
    assert room_of(path) == room


def test_lines_and_branches_of_a_rooms_files_are_counted_together():
    given = report(
        a__one__x=row((6, 1), (3, 0)), a__one__y=row((0, 8), (0, 2)), a__empty=row((0, 0), (0, 0))
    )
    rooms = rooms_of(files_of(given))
    assert rooms == {"a/one": Reached(9, 11)}
    assert rooms["a/one"].percent == 45.0


def test_a_report_without_branches_is_refused():
    with pytest.raises(ValueError, match="--branch"):
        files_of({"meta": {"branch_coverage": False}, "files": {}})


def test_a_room_below_its_floor_without_one_or_gone_is_wrong():
    rooms = {"a/low": Reached(79, 21), "a/new": Reached(1, 0), "a/held": Reached(80, 20)}
    wrong = complaints(rooms, {"a/low": 80, "a/held": 80, "a/gone": 50})
    assert [line.split(":")[0] for line in wrong] == ["a/low", "a/new", "a/gone"]


def test_a_floor_is_set_a_little_below_what_was_measured():
    assert floors_for({"a": Reached(905, 95), "b": Reached(0, 5)}) == {"a": 89, "b": 0}


def test_a_run_fails_below_a_floor_and_names_the_file_that_lacks_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    table, measured = tmp_path / "floors.toml", tmp_path / "report.json"
    measured.write_text(
        json.dumps(report(a__r__x=row((8, 2), (0, 0)), a__r__y=row((5, 5), (0, 0))))
    )
    assert main([str(measured), "--write", "--table", str(table)]) == 0
    measured.write_text(
        json.dumps(report(a__r__x=row((8, 2), (0, 0)), a__r__y=row((2, 8), (0, 0))))
    )
    assert main([str(measured), "--table", str(table)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert "a/r: 50.0 % is below its floor of 63 %" in printed
    assert printed[-2].startswith("    a/r/y.py: 20.0 %")
