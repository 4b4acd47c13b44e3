# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which unit tests `make check` runs after a change."""

import subprocess
from pathlib import Path

import pytest

from scripts import reached_tests
from scripts.reached_tests import ROOT, base_of, changed_files, reached


def reach(*changed: str) -> set[str]:
    return set(reached(ROOT, changed))


def test_a_module_reaches_the_tests_that_import_it_over_others_too():
    found = reach("deployments/pool_queue/held_queue.py")
    assert any("/pool_queue/" in each for each in found)
    # Over the router and the support of tests.
    assert "tests/unit/deployments/routing/test_switch_histories.py" in found


def test_a_module_that_is_loaded_by_name_reaches_the_tests_of_its_room():
    assert "tests/unit/backends/fil/test_answers.py" in reach("backends/fil/backend.py")


def test_a_module_of_the_tools_reaches_their_tests_and_one_of_the_server_too():
    found = reach("tools/manta_tools/tune/policy.py")
    assert "tools/tests/tune/test_policy.py" in found
    assert not any(each.startswith("tests/unit/deployments/") for each in found)
    assert "tools/tests/perf/test_command.py" in reach("deployments/pool_queue/precise_timer.py")
    assert "tools/tests/perf/test_theory.py" in reach("tests/support/simulated_queue.py")


def test_a_module_of_the_tests_support_reaches_who_imports_it():
    found = reach("tests/support/recording.py")
    assert "tests/unit/backends/identity/test_backend.py" in found
    assert "tests/unit/cluster/server/test_claim.py" not in found


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("docs/chaos.md", "tests/unit/chaos/test_rules.py"),
        ("docs/faq.md", "tests/unit/docs/test_words.py"),
        ("configs/server.yaml", "tests/unit/cluster/options/test_parsing.py"),
        ("scripts/gpu_check.py", "tests/unit/scripts/test_gpu_check.py"),
    ],
)
def test_a_file_that_is_not_imported_reaches_the_tests_that_name_it(changed, test):
    assert test in reach(changed)


def test_a_change_that_reaches_very_many_runs_those_near_it():
    found = reach("backends/api/errors.py")
    assert "tests/unit/backends/api/test_errors.py" in found
    assert len(found) < len(list((ROOT / "tests/unit").rglob("test_*.py")))


@pytest.mark.parametrize("changed", sorted(reached_tests._EVERYTHING))
def test_how_tests_run_reaches_all(changed):
    assert reached(ROOT, [changed]) == ["tests/unit", "tools/tests"]


def test_how_the_tools_are_installed_reaches_all_their_tests():
    found = reach("tools/pyproject.toml")
    assert {
        each.relative_to(ROOT).as_posix() for each in (ROOT / "tools/tests").rglob("test_*.py")
    } <= found


def test_a_test_reaches_itself_and_one_that_is_gone_nothing():
    own = "tests/unit/scripts/test_reached_tests.py"
    assert reach(own) == {own}
    assert reach("tests/unit/scripts/test_that_was_" + "deleted.py") == set()


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


def test_the_change_is_commits_edits_and_unknown_files(tmp_path):
    git(tmp_path, "init", "--initial-branch=main")
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("")
        git(tmp_path, "add", name)
        git(tmp_path, "commit", "-m", name)
    assert changed_files(tmp_path, base_of(tmp_path)) == ["c"]
    (tmp_path / "a").write_text("edited")
    (tmp_path / "d").write_text("")
    assert changed_files(tmp_path, base_of(tmp_path)) == ["a", "d"]
    assert changed_files(tmp_path, base_of(tmp_path, "HEAD~1")) == ["a", "c", "d"]
    git(tmp_path, "branch", "upstream", "HEAD~2")
    git(tmp_path, "branch", "--set-upstream-to=upstream")
    assert changed_files(tmp_path, base_of(tmp_path)) == ["a", "b", "c", "d"]
