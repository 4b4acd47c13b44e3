# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Claims about log lines."""

import builtins
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deployments.settings import log_lines
from deployments.settings.log_lines import set_known_fields, set_up_logging
from deployments.settings.server_settings import LogSettings

NAMES = ("asyncio", "backends", "cluster", "deployments", "manta")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    before = [(logging.getLogger(name).level, logging.getLogger(name).propagate) for name in NAMES]
    yield
    for handler in log_lines._installed:
        handler.close()
        for name in NAMES:
            logging.getLogger(name).removeHandler(handler)
    log_lines._installed.clear()
    for name, (level, propagate) in zip(NAMES, before, strict=True):
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).propagate = propagate


def lines(settings: LogSettings, path: Path) -> list[str]:
    set_up_logging(settings)
    logger = logging.getLogger("deployments.test")
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logger.log(level, "a %s\nb", "word")
    return path.read_text().splitlines() if path.exists() else []


def test_default_line_has_severity_time_process_place_and_escaped_text(tmp_path: Path) -> None:
    path = tmp_path / "log"
    line = lines(LogSettings(file=str(path)), path)[0]
    assert re.fullmatch(
        r'I\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ test_log_lines\.py:\d+\] "a word\\nb"', line
    )


def test_iso_line_begins_with_the_date(tmp_path: Path) -> None:
    path = tmp_path / "log"
    line = lines(LogSettings(file=str(path), format="ISO8601"), path)[-1]
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ E \d+ test_log_lines\.py:\d+\] ", line)


@pytest.mark.parametrize(
    ("settings", "letters"),
    [
        ({}, "IWE"),
        ({"info": False}, "WE"),
        ({"warning": False}, "IE"),
        ({"error": False, "info": False}, "W"),
        ({"verbose_level": 1}, "IIWE"),
    ],
)
def test_each_severity_is_switched_by_itself(
    settings: dict[str, int], letters: str, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    got = lines(LogSettings(file=str(path), **settings), path)  # type: ignore[arg-type]
    assert "".join(line[0] for line in got) == letters


def test_a_later_call_replaces_an_earlier_one(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    lines(LogSettings(file=str(first)), first)
    assert len(lines(LogSettings(file=str(second)), second)) == 3
    assert len(first.read_text().splitlines()) == 3


def test_traceback_follows_its_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    set_up_logging(LogSettings(file=str(path)))
    try:
        int("boom")
    except ValueError:
        logging.getLogger("deployments.test").exception("it failed")
    first, *rest = path.read_text().splitlines()
    assert first.endswith('] "it failed"')
    assert rest[-1].startswith("ValueError: ")


def test_json_lines_know_what_their_process_is(tmp_path: Path) -> None:
    path = tmp_path / "log"
    set_known_fields({"model": "m"})
    try:
        line = lines(LogSettings(file=str(path), format="json"), path)[-1]
    finally:
        set_known_fields({})
    row = json.loads(line)
    assert (row["level"], row["message"], row["model"]) == ("error", "a word\nb", "m")


@pytest.mark.parametrize("style", ["default", "json"])
def test_a_print_that_writes_tuples_changes_no_traceback(
    style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = builtins.print

    def of_serve(*objects: object, file: Any = None, **others: Any) -> None:
        own(objects, file=file, **others)

    monkeypatch.setattr(builtins, "print", of_serve)
    path = tmp_path / "log"
    set_up_logging(LogSettings(file=str(path), format=style))
    logging.getLogger("deployments.test").error("it failed", exc_info=ValueError("x"))
    text = path.read_text()
    assert "ValueError: x" in text
    assert "('" not in text


HOSTILE = (
    'x\nE1124 00:00:00.000000 1 forged.py:1] "forged"',
    "x\r\nGET /forged",
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m\x85\x7f",
    "\u2028\u2029\u202e\u200f\ufeff",
    "\udc80 a byte that is no text",
    "\0",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_client_sends_stays_one_line_that_moves_no_terminal(
    text: str, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    set_up_logging(LogSettings(file=str(path)))
    logging.getLogger("deployments.test").warning("model '%s' is unknown", text)
    content = path.read_bytes().decode()
    assert content.endswith("\n")
    assert content[:-1].isprintable()


@pytest.mark.parametrize("text", HOSTILE)
def test_no_line_of_a_traceback_passes_for_a_line_of_the_log(text: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    set_up_logging(LogSettings(file=str(path)))
    error = ValueError(text)
    logging.getLogger("deployments.test").error("it failed", exc_info=error)
    content = path.read_bytes().decode()
    assert all(line.isprintable() for line in content.split("\n"))
    assert len(re.findall(r"^E\d{4} ", content, re.MULTILINE)) == 1


def test_a_peer_that_goes_fills_no_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    set_up_logging(LogSettings(file=str(path)))
    logger = logging.getLogger("asyncio")
    for _ in range(1000):
        logger.warning("socket.send() raised exception.")
    logger.warning("something else")
    assert len(path.read_text().splitlines()) == 1
