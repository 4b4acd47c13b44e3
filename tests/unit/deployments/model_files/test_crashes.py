# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A node's cache whose processes are killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from deployments.model_files.cache import NodeCache
from tests.support.examples import examples
from tests.support.file_sources import (
    PART,
    DirectorySource,
    content_of,
    listed,
    random_bytes,
    write,
)

ROOT = Path(__file__).parents[4]
# About as many as a load makes.
_STEPS = 130
# Downloads until the given offset is asked for, says so, and waits for its end.
_STUCK = """
import sys, threading
from pathlib import Path
from deployments.model_files.cache import NodeCache
from tests.support.file_sources import DirectorySource, listed

def before(path, offset):
    if (path, offset) == (sys.argv[3], int(sys.argv[4])):
        print("there", flush=True)
        threading.Event().wait()

model = Path(sys.argv[2])
NodeCache(Path(sys.argv[1])).ensure(listed(model), DirectorySource(model, before))
"""


def python(*arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )


def kill_in_download(root: Path, model: Path, path: str, offset: int) -> None:
    """Kill a process that waits for a part, with others of the file written."""
    with python("-c", _STUCK, str(root), str(model), path, str(offset)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        process.send_signal(signal.SIGKILL)


@pytest.mark.timeout(600)
def test_a_process_killed_at_any_step_leaves_nothing_partial(tmp_path: Path) -> None:
    stride = -(-_STEPS // examples(_STEPS))
    with python("-m", "tests.support.crashing_cache", str(tmp_path), str(stride)) as process:
        output, _ = process.communicate()
    assert process.returncode == 0
    assert int(output) > 50


def test_a_download_goes_on_after_its_process_was_killed(tmp_path: Path) -> None:
    root, model = tmp_path / "cache", tmp_path / "model"
    write(model, {"1/big": random_bytes(12 * PART)})
    # The last part is asked for once at least four others are there.
    kill_in_download(root, model, "1/big", 11 * PART)
    source = DirectorySource(model)
    with NodeCache(root) as cache:
        assert cache.find(listed(model)) is None
        assert content_of(cache.ensure(listed(model), source)) == content_of(model)
    assert 1 <= len(source.reads) <= 8


def test_another_process_goes_on_while_one_that_links_is_killed(tmp_path: Path) -> None:
    root, model = tmp_path / "cache", tmp_path / "model"
    names = [f"1/{number:03}" for number in range(40)]
    write(model, {name: name.encode() for name in names})
    kill_in_download(root, model, names[-1], 0)
    assert [tree.name for tree in (root / "trees").iterdir()] == []
    source = DirectorySource(model)
    with NodeCache(root) as cache:
        assert content_of(cache.ensure(listed(model), source)) == content_of(model)
        assert not list((root / "making").iterdir())
    assert 1 <= len(source.reads) <= 8
