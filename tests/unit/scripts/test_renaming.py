# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A source with the names that modules have where they are installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.wheel import renaming
from scripts.wheel.renaming import UnrenamableError, modules, renamed, renamed_files, write_all
from tests.support.server import ROOT

OURS = frozenset(
    {"backends", "cluster", "deployments", "cluster.cli", "backends.api", "backends.api.errors"}
)


@pytest.mark.parametrize(
    ("source", "installed"),
    [
        ("from cluster.cli import main", "from manta.cluster.cli import main"),
        ("from cluster import __version__", "from manta.cluster import __version__"),
        ("if x: from backends import api", "if x: from manta.backends import api"),
        ("a = 'ä'; from backends import api", "a = 'ä'; from manta.backends import api"),
        ("import backends.api as b", "import manta.backends.api as b"),
        ("import backends", "import manta.backends as backends"),
        ("import os, cluster as c, sys", "import os, manta.cluster as c, sys"),
        (
            "import backends.api.errors",
            "import manta.backends.api.errors, manta.backends as backends",
        ),
        ("from .cluster import cli", "from .cluster import cli"),
        ("from clusters.cli import main", "from clusters.cli import main"),
        ("import os.cluster", "import os.cluster"),
    ],
)
def test_absolute_imports_have_the_new_names(source: str, installed: str) -> None:
    assert renamed(source, OURS) == installed


def test_installed_fork_server_of_a_shared_ray_knows_which_modules_are_mantas(
    tmp_path: Path,
) -> None:
    ours = modules(ROOT)
    for path in ("backends/compiled_form.py", "cluster/fork_server/imported.py"):
        place = tmp_path / "manta" / path
        place.parent.mkdir(parents=True)
        place.write_text(renamed((ROOT / path).read_text(), ours, path))
    # Without it the checkout's package would be found before these folders.
    (tmp_path / "manta/__init__.py").touch()
    code = "from manta.cluster.fork_server.imported import OWN; print(*sorted(OWN))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "manta manta__mypyc\n", done.stderr


def test_renamed_sources_find_each_other_and_call_what_they_import_as_before(
    tmp_path: Path,
) -> None:
    sources = {
        "backends/__init__.py": "",
        "backends/api/__init__.py": "",
        "backends/api/errors.py": "TEXT = 'found'\n",
        "cluster/__init__.py": "",
        "cluster/cli.py": "import backends.api.errors, os\nprint(backends.api.errors.TEXT)\n",
    }
    for path, text in sources.items():
        (tmp_path / "checkout" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "checkout" / path).write_text(text)
    for folder in ("backends", "cluster"):
        files = dict(renamed_files(tmp_path / "checkout", folder, OURS))
        write_all(files, tmp_path / "installed/manta" / folder)
    # Without it the checkout's package would be found before these folders.
    (tmp_path / "installed/manta/__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-m", "manta.cluster.cli"],
        cwd=tmp_path / "installed",
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "found\n", done.stderr


@pytest.mark.parametrize(
    ("source", "installed"),
    [
        ("x = 'cluster.cli'", "x = 'manta.cluster.cli'"),
        ('x = "cluster.cli:main"', 'x = "manta.cluster.cli:main"'),
        ('x = r"""backends.api"""', 'x = r"""manta.backends.api"""'),
        ("x = {'a': ('backends.api', 'b')}", "x = {'a': ('manta.backends.api', 'b')}"),
        ("x = 'python -m cluster.cli serve'", "x = 'python -m manta.cluster.cli serve'"),
        ('"""Run\nas python -m cluster.cli."""', '"""Run\nas python -m manta.cluster.cli."""'),
    ],
)
def test_strings_that_name_a_module_have_the_new_name(source: str, installed: str) -> None:
    assert renamed(source, OURS) == installed


@pytest.mark.parametrize(
    "source",
    [
        "x = 'cluster'",
        "x = SCOPES['cluster']",
        "x = b'cluster.cli'",
        "x = 'cluster.nodes'",
        "x = 'no-cluster.cli'",
        "x = 'manta.backends.api'",
        "x = 'backends/api'",
        "x = f'{cluster.cli}'",
        "x = f'{cluster} nodes'",
        "# from cluster.cli import main, 'backends.api'\n",
        '"""See `cluster.cli` and backends.api."""\n',
        "cluster.cli.main()",
        "raise ValueError() from cluster.cli",
    ],
)
def test_comments_docstrings_other_words_and_f_strings_stay(source: str) -> None:
    assert renamed(source, OURS) == source


@pytest.mark.parametrize(
    "source",
    [
        "x = f'cluster.cli.{y}'",
        "x = 'see backends.api.errors'",
        "x = 'backends.api.'",
        "find_spec('cluster')",
        "logging.getLogger('backends')",
        "from \\\n  cluster.cli import main",
    ],
)
def test_what_would_name_a_module_that_a_wheel_does_not_have_is_refused(source: str) -> None:
    with pytest.raises(UnrenamableError, match=r"^a\.py:1: "):
        renamed(source, OURS, "a.py")


def test_nothing_else_of_a_source_changes() -> None:
    source = (
        "x = 1\r\n\ty = 'ä\x0c\u2028'  # cluster.cli\n\n\nfrom   cluster.cli import (a,\n  b)\n"
    )
    source = source.replace("\r\n\t", "\n")
    assert renamed(source, OURS) == source.replace("cluster.cli import", "manta.cluster.cli import")


def test_every_source_of_a_checkout_can_be_renamed_and_imports_what_a_wheel_has() -> None:
    ours = modules(ROOT)
    assert {"cluster", "cluster.cli", "backends.registry", "deployments.ingress"} <= ours
    for folder in (*renaming.PACKAGES, renaming.AROUND, "tools/manta_tools"):
        for path, content in renamed_files(ROOT, folder, ours):
            if path.endswith(".py"):
                lines = content.decode().splitlines()
                assert not [each for each in lines if each.strip().startswith("from cluster")], path


def test_a_folder_holds_what_it_is_given_and_files_that_stay_are_not_written_again(
    tmp_path: Path,
) -> None:
    write_all({"a.py": b"1", "b/c.py": b"2", "b/d.py": b"3"}, tmp_path)
    before = (tmp_path / "a.py").stat().st_ino, (tmp_path / "a.py").stat().st_mtime_ns
    (tmp_path / "a.py").chmod(0o400)
    write_all({"a.py": b"1", "b/c.py": b"5"}, tmp_path)
    assert ((tmp_path / "a.py").stat().st_ino, (tmp_path / "a.py").stat().st_mtime_ns) == before
    assert (tmp_path / "b/c.py").read_bytes() == b"5"
    assert not (tmp_path / "b/d.py").exists()


def test_files_that_are_no_sources_are_copied_and_compiled_ones_left_out(tmp_path: Path) -> None:
    for path in ("cluster/a.py", "cluster/client.c", "cluster/__pycache__/a.pyc"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("import cluster\n")
    assert dict(renamed_files(tmp_path, "cluster", OURS)) == {
        "a.py": b"import manta.cluster as cluster\n",
        "client.c": b"import cluster\n",
    }
