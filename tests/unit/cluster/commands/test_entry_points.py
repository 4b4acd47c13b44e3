# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Commands of other distributions, in processes that see only those that a test has made."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import ROOT
from tests.support.tools_distribution import declared_commands, write_metadata

# Without site-packages: what this environment has installed is not there.
COMMAND = "import sys; from cluster.cli import main; sys.exit(main(sys.argv[1:]))"
SHOWN = "print(*sys.modules)"
LOADED = f"import sys, cluster.cli; {SHOWN}"


def manta(*arguments: str, path: tuple[Path, ...] = (), code: str = COMMAND):
    path_code = f"import sys; sys.path[:0] = {[str(each) for each in (ROOT, *path)]}; {code}"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", path_code, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a distribution's modules and metadata."""
    (tmp_path / "other_tool.py").write_text(
        "def main(arguments):\n    print(arguments)\n    return 7"
    )
    return write_metadata(tmp_path, {"other": "other_tool:main"}, name="other-tool")


@pytest.mark.parametrize("command", sorted(declared_commands()))
def test_a_command_of_the_tools_says_what_to_install_where_they_are_missing(command):
    done = manta(command, "--help")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: 'manta {command}' is a command of manta-tools, which is not installed; "
        "pip install manta-tools\n"
    )


def test_help_says_which_commands_have_to_be_installed(tmp_path):
    bare = manta("--help").stdout.splitlines()
    whole = manta("--help", path=(write_metadata(tmp_path, declared_commands()),))
    assert whole.returncode == 0
    assert "pip install" not in whole.stdout
    added = "  (pip install manta-tools)"
    assert [each.removesuffix(added) for each in bare] == whole.stdout.splitlines()
    assert {each.split()[0] for each in bare if each.endswith(added)} == set(declared_commands())


def test_a_command_of_any_distribution_is_run(place):
    done = manta("other", "a", "--b", path=(place,))
    assert (done.returncode, done.stdout, done.stderr) == (7, "['a', '--b']\n", "")


def test_a_command_that_nobody_has_is_answered_with_the_nearest(place):
    done = manta("othr", path=(place,))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: there is no command 'othr'. Did you mean 'other'? 'manta --help' lists all.\n"
    )


def test_a_command_that_is_asked_for_imports_neither_ray_nor_numpy():
    code = f"import cluster.cli, sys; cluster.cli.main(['ls', '--url=127.0.0.1:1']); {SHOWN}"
    loaded = set(manta(code=code).stdout.split())
    assert "cluster.commands.client.listing" in loaded
    assert not {"ray", "numpy", "importlib.metadata", "yaml", "google.protobuf"} & loaded


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("gone_tool:main", "ModuleNotFoundError: No module named 'gone_tool'"),
        ("other_tool:gone", "AttributeError: module 'other_tool' has no attribute 'gone'"),
        ("broken_tool:main", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_stale_entry_point_costs_its_own_command_alone(place, tmp_path, where, reason):
    (place / "broken_tool.py").write_text("1 / 0")
    stale = write_metadata(tmp_path / "stale", {"perf": where, "serve": where}, version="0.0.1")
    done = manta("perf", path=(place, stale))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: 'manta perf' of manta-tools 0.0.1 cannot be imported: {reason}\n"
    # The server's own commands are never another distribution's.
    assert manta("--version", path=(place, stale)).returncode == 0
    assert manta("--help", path=(place, stale)).returncode == 0
    served = manta("serve", "--model-repository=/m", "--print-options", path=(place, stale))
    assert (served.returncode, served.stderr) == (0, "")


def test_the_command_imports_no_tools_until_one_is_asked_for():
    loaded = set(manta(code=LOADED).stdout.split())
    assert "cluster.cli" in loaded
    assert not {"importlib.metadata", "manta_tools", "cluster.commands"} & loaded
