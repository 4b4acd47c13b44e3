# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""How `manta explain` shows an answer."""

import json
from typing import Any

import pytest

from backends.api.errors import NotFoundError
from cluster.commands.explain import main

LIVE: dict[str, Any] = {
    "name": "m/1#0@3",
    "state": "live",
    "priority": 0,
    "needs": {"CPU": 0.001},
    "node": {"id": "0123456789ab", "name": "host-a"},
    "why": ["strategy spread: of 2 live instances of the version 1 on the node"],
}
WAITING: dict[str, Any] = {
    "name": "m/1#1@3",
    "state": "waiting",
    "priority": 5,
    "needs": {},
    "bundles": [{"GPU": 8.0}],
    "bundle_strategy": "PACK",
    "waits_for": "instance m/1#1@3 is waiting for resources",
    "nodes": [{"id": f"{at:012d}", "name": f"host-{at}", "verdict": "no"} for at in range(22)],
    "unblock": ["add a node"],
}
ROW = {"model": "m", "version": 1, "state": "READY", "reason": "", "instances": [LIVE, WAITING]}


def test_people_read_lines(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[tuple[str, str]] = []

    def ask(address: str, model: str) -> list[dict[str, Any]]:
        asked.append((address, model))
        return [ROW]

    assert main(["m", "--ray-address", "a:1"], ask) == 0
    assert asked == [("a:1", "m")]
    lines = capsys.readouterr().out.splitlines()
    assert lines[:8] == [
        "m version 1 READY",
        "  m/1#0@3 is live on host-a (01234567), reserves CPU 0.001",
        "    because strategy spread: of 2 live instances of the version 1 on the node",
        "  m/1#1@3 is waiting, reserves nothing, priority 5",
        "    bundle: GPU 8",
        "    instance m/1#1@3 is waiting for resources",
        "    node host-0 (00000000): no",
        "    node host-1 (00000000): no",
    ]
    assert lines[-2:] == [
        "    and 2 more nodes, which --json shows",
        "    to unblock: add a node",
    ]


def test_programs_read_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["m", "--json"], lambda _address, _model: [ROW]) == 0
    assert json.loads(capsys.readouterr().out) == [ROW]


def test_a_model_without_instances_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"model": "m", "reason": "no config", "instances": []}
    assert main(["m"], lambda _address, _model: [row]) == 0
    assert capsys.readouterr().out == "m: no config\n  no instance in service\n"


def test_an_error_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    def ask(address: str, model: str) -> list[dict[str, Any]]:
        raise NotFoundError(f"model '{model}' is not known")

    assert main(["x"], ask) == 1
    assert capsys.readouterr().err == "error: model 'x' is not known\n"
