# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which traces go to which files."""

import json
from pathlib import Path
from typing import Any

import pytest

from deployments.settings.server_settings import TraceSettings
from deployments.tracing.record import TracedModel
from deployments.tracing.sampling import Sampler
from deployments.tracing.tracer import Trace
from deployments.tracing.writer import TraceFileWriter


async def write(folder: Path, times: int, **settings: Any) -> dict[str, list[int]]:
    """Write so many traces and return the ids in each file."""
    file = str(folder / "t.json")
    sampler = Sampler(TraceSettings(("TIMESTAMPS",), rate=1, file=file, **settings))
    writer = TraceFileWriter(0)
    for number in range(1, times + 1):
        assert sampler.sample()
        writer.write(Trace(sampler, 0, True, False, [TracedModel(number, "m", 1)], []))
    await writer.close()
    return contents(folder)


def contents(folder: Path) -> dict[str, list[int]]:
    files = sorted(folder.iterdir())
    return {each.name: [row["id"] for row in json.loads(each.read_text())] for each in files}


async def test_all_traces_go_to_one_file(tmp_path: Path):
    assert await write(tmp_path, 3) == {"t.json": [1, 2, 3]}


async def test_with_a_log_frequency_files_have_indices(tmp_path: Path):
    files = {"t.json.0": [1, 2], "t.json.1": [3, 4], "t.json.2": [5]}
    assert await write(tmp_path, 5, log_frequency=2) == files


async def test_a_count_that_is_used_up_makes_a_file_with_an_index(tmp_path: Path):
    assert await write(tmp_path, 3, count=3) == {"t.json.0": [1, 2, 3]}


async def test_a_count_that_is_not_used_up_goes_to_the_file(tmp_path: Path):
    assert await write(tmp_path, 2, count=3) == {"t.json": [1, 2]}


async def test_a_log_frequency_and_a_count_make_full_files_and_a_rest(tmp_path: Path):
    files = {"t.json.0": [1, 2], "t.json.1": [3]}
    assert await write(tmp_path, 3, count=3, log_frequency=2) == files


async def test_a_file_that_cannot_be_written_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    await write_one(tmp_path / "absent" / "t.json")
    assert "failed creating trace file" in caplog.text
    assert contents(tmp_path) == {}


async def write_one(path: Path) -> None:
    sampler = Sampler(TraceSettings(("TIMESTAMPS",), rate=1, file=str(path)))
    writer = TraceFileWriter(0)
    writer.write(Trace(sampler, 0, True, False, [TracedModel(1, "m", 1)], []))
    await writer.close()
