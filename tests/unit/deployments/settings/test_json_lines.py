# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Log lines as JSON objects."""

import json
import logging
from typing import Any

import pytest

from deployments.settings.json_lines import FIELDS, as_json, printed, said


def record(message: str = "a %s", **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("deployments.x", logging.WARNING, "/p/x.py", 7, message, ("b",), None)
    made.created, made.process = 1_764_324_733.25, 42
    made.__dict__.update(extra)
    return made


def test_a_record_has_time_level_logger_and_message() -> None:
    assert json.loads(as_json(record(), {})) == {
        "time": "2025-11-28T10:12:13.250000Z",
        "level": "warning",
        "logger": "deployments.x",
        "message": "a b",
        "process": 42,
        "source": "x.py:7",
    }


def test_fields_are_those_of_the_record_else_of_its_process() -> None:
    known = {"model": "m", "version": "1", "instance": "m/1#0"}
    row = json.loads(as_json(record(model="other", version=2, request_id="", tenant="t"), known))
    assert {name: row[name] for name in FIELDS if name in row} == {
        "model": "other",
        "version": "2",
        "instance": "m/1#0",
        "tenant": "t",
    }


def test_a_traceback_is_a_field() -> None:
    assert json.loads(as_json(record(), {}, "Traceback\n  x"))["traceback"] == "Traceback\n  x"


@pytest.mark.parametrize("text", ["x\n{}", "\x1b[2J", "\u2028\x85", "\udc80", "\0"])
def test_whatever_is_logged_is_one_line_of_ascii(text: str) -> None:
    rows: list[Any] = [as_json(record("%s" + text), {}), said(text, "info", 0)]
    for line in rows:
        assert line.isascii()
        assert line.isprintable()
        assert text in json.loads(line)["message"]


def test_a_printed_line_that_is_json_of_somebody_else_is_wrapped_too() -> None:
    row = json.loads(printed(b'{"loss": 1}', "stdout", "ns/m/1#0", 0))
    assert (row["message"], row["model"], row["instance"]) == ('{"loss": 1}', "ns/m", "ns/m/1#0")
