# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The releases that tests of upgrades make of this one, by changing lines of it."""

from pathlib import Path

from tests.support.releases import CodeFolder, broken, evolved


def test_the_lines_that_tests_of_upgrades_change_are_there(tmp_path: Path) -> None:
    code = CodeFolder(tmp_path, "9.9")
    broken(evolved(code))
    changed = [path for path in tmp_path.rglob("*.py") if "shade: str" in path.read_text()]
    assert {path.name for path in changed} == {
        "routing_table.py",
        "spec.py",
        "messages.py",
        "durable_state.py",
    }
    assert (
        "os._exit(1)\n        become_plain("
        in (tmp_path / "deployments/instance/actor.py").read_text()
    )
