# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How lines of Ray's workers are shown: on a terminal, in a pipe, as JSON, with those of Ray."""

import json
from typing import Any

import pytest

from cluster.options.parsing import from_mapping
from cluster.server.shown_lines import Manner, manner_of

LOGGED = b"I1128 10:12:13.123456 42 versions.py:171] \"successfully loaded 'a' in 0.8 s\""
WARNED = b'W1128 10:12:13.123456 42 versions.py:171] "no"'
OF_RAY = (
    b"[2026-11-28 10:12:13,123 W 4711 4712] core_worker.cc:12: slow",
    b"[2026-11-28 10:12:13,123 I 4711 4712] (gcs_server) gcs_server_io_context.cc:12: up",
    b"2026-11-28 10:12:13,123\tINFO worker.py:1879 -- Connecting",
    b"[2026-11-28 10:12:13,123 E 4711 4711] logging.cc:474: *** SIGABRT received at time=17 ***",
    b"[2026-11-28 10:12:13,123 E 4711 4711] logging.cc:474:     @     0x7f05  (unknown)",
)
NOT_OF_RAY = (
    b"[2026-11-28 10:12:13,123 E 4711 4712] core_worker.cc:12: broken",
    b"2026-11-28 10:12:13,123 INFO of a model",
    b"[2026-11-28 10:12:13,123 W] of a model",
)


@pytest.mark.parametrize("line", OF_RAY)
def test_lines_of_ray_below_errors_come_with_verbose_alone(line: bytes) -> None:
    assert Manner(hides_ray=True).shown(line, 2, b"") is None
    assert Manner().shown(line, 2, b"") == line


@pytest.mark.parametrize("line", NOT_OF_RAY)
def test_errors_of_ray_and_lines_of_models_come_always(line: bytes) -> None:
    assert Manner(hides_ray=True).shown(line, 2, b"") == line


def test_while_a_person_waits_lines_of_the_log_have_no_heading() -> None:
    manner = Manner(with_names=True, is_starting=True)
    assert manner.shown(LOGGED, 2, b"c") == b"         successfully loaded 'a' in 0.8 s"
    assert manner.shown(WARNED, 2, b"c") == b"c: " + WARNED
    manner.is_starting = False
    assert manner.shown(LOGGED, 2, b"c") == b"c: " + LOGGED


def shown(line: bytes, stream: int, name: bytes) -> Any:
    manner = Manner(is_json=True, clock_ns=lambda: 1_764_324_733_123_456_789)
    return json.loads(manner.shown(line, stream, name) or b"")


def test_what_a_model_prints_is_an_object_with_model_version_and_instance() -> None:
    assert shown(b"warm \xff", 1, b"digits/2#0") == {
        "time": "2025-11-28T10:12:13.123456Z",
        "level": "info",
        "logger": "stdout",
        "message": "warm \\xff",
        "model": "digits",
        "version": "2",
        "instance": "digits/2#0",
    }
    other = shown(b"x", 2, b"ModelController")
    assert (other["logger"], "model" in other) == ("stderr", False)


def test_lines_of_the_log_that_are_objects_stay_as_they_are() -> None:
    line = b'{"time":"2026-11-28T10:12:13.000000Z","message":"x"}'
    assert Manner(is_json=True).shown(line, 2, b"m/1#0") == line


@pytest.mark.parametrize(
    ("options", "is_terminal", "manner"),
    [
        ({}, True, Manner(with_names=True, hides_ray=True, is_starting=True)),
        ({}, False, Manner(hides_ray=True)),
        ({"verbose": True}, True, Manner(with_names=True)),
        ({"log_format": "json"}, False, Manner(is_json=True, hides_ray=True)),
    ],
)
def test_options_and_terminal_say_how(
    options: dict[str, Any], is_terminal: bool, manner: Manner
) -> None:
    given = from_mapping({"model_repository": "/m", **options})
    assert manner_of(given, is_terminal=is_terminal) == manner
