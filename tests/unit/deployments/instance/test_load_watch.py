# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A load that takes long says where it is."""

import sys
import threading
from pathlib import Path
from types import FrameType

import pytest

from deployments.instance.load_watch import LoadWatch, place_of

MODEL = """def initialize(look):
    x = 1
    return look()
"""


def frame_in_model(folder: Path) -> FrameType:
    path = folder / "1/model.py"
    names: dict[str, object] = {}
    exec(compile(MODEL, str(path), "exec"), names)
    return names["initialize"](sys._getframe)  # type: ignore[operator, no-any-return]


def test_the_place_is_the_innermost_line_of_the_model(tmp_path: Path) -> None:
    assert place_of(frame_in_model(tmp_path), str(tmp_path)) == "model.py:3 in initialize"


def test_without_a_line_of_the_model_it_is_the_innermost_of_all(tmp_path: Path) -> None:
    place = place_of(sys._getframe(), str(tmp_path))
    assert place.startswith(f"{__file__}:")


def test_it_is_said_after_10_s_and_every_30_s_until_the_load_ends(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return len(waited) > 3

    LoadWatch("m/1#0@1", str(tmp_path), wait).run()
    assert waited == [10, 30, 30, 30]
    texts = [record.getMessage().partition(": ")[0] for record in caplog.records]
    assert texts == [
        f"instance m/1#0@1 is still loading after {passed} s" for passed in (10, 40, 70)
    ]


def test_a_load_that_ends_in_time_says_nothing(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    with LoadWatch("m/1#0@1", str(tmp_path)):
        watch = next(t for t in threading.enumerate() if t.name == "manta-load-watch")
    watch.join(30)
    assert not watch.is_alive()
    assert not caplog.records
