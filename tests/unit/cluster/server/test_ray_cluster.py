# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What an embedded Ray's processes are told, and how a driver finds its controller."""

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from backends import compiled_form
from cluster.server.ray_cluster import Controller, prepare


@pytest.mark.parametrize("form", ["0", "0123456789abcdef0123"])
def test_processes_that_start_later_run_the_form_of_the_server(form, monkeypatch):
    monkeypatch.setattr(compiled_form, "choice", lambda: form)
    environment: dict[str, str] = {}
    prepare(environment)
    assert environment["MANTA_COMPILED"] == form


def test_form_that_is_demanded_is_demanded_of_all_processes(monkeypatch):
    monkeypatch.setattr(compiled_form, "choice", lambda: "0123456789abcdef0123")
    environment = {"MANTA_COMPILED": "1"}
    prepare(environment)
    assert environment["MANTA_COMPILED"] == "1"


def test_niceness_that_is_given_stays():
    environment = {"RAY_worker_niceness": "5"}
    prepare(environment)
    assert environment["RAY_worker_niceness"] == "5"
    prepare(given_none := {})
    assert given_none["RAY_worker_niceness"] == "0"


def test_a_driver_beats_to_the_controller_that_an_upgrade_has_put_in_the_place_of_its_own():
    def actor(name: str) -> Any:
        return SimpleNamespace(
            heartbeat=SimpleNamespace(remote=lambda token: heard.append((name, token)))
        )

    heard: list[tuple[str, str]] = []
    found = [actor("new"), None]
    controller = Controller(actor("old"), "mine", lambda: found.pop(0))
    controller.heartbeat()
    # While it restarts there may be none.
    controller.heartbeat()
    assert heard == [("new", "mine"), ("new", "mine")]


def test_what_idle_workers_import_beforehand_is_there():
    prepare(environment := {})
    for module in environment["RAY_preload_python_modules"].split(","):
        assert importlib.util.find_spec(module) is not None
